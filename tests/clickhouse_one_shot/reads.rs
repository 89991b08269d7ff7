//! B-2: reads are whole, bounded, and passed on only where nobody was reached.

use super::clickhouse_support::{Script, Server, answer, connection, spec};
use super::{LOST, clock, token};
use publication_operator::clickhouse::{
    Authority, Connection, ConnectionError, ConnectionSpec, DistributedDdl, Endpoint, MemberCatalog,
};
use publication_protocol::ports::{Catalog, ControlTable, Ddl, MembersAsk, ReadFailure, Scope};
use std::sync::Arc;
use std::time::{Duration, Instant};

// proves: B-2
#[tokio::test]
async fn a_read_says_that_it_wants_all_or_nothing() {
    let server = Server::start(Script::KeepAlive(answer("500 X", "", LOST))).await;
    Authority::new(connection(server.port)).read_all("k").await;
    let sent = server.received();
    for setting in [
        "skip_unavailable_shards=0",
        "use_hedged_requests=0",
        "connections_with_failover_max_tries=1",
        "max_execution_time=1",
        "result_overflow_mode=throw",
        "timeout_overflow_mode=throw",
        "use_query_cache=0",
        "wait_end_of_query=1",
    ] {
        assert!(sent.contains(setting), "{setting} in {sent}");
    }
}

// proves: B-2
#[tokio::test]
async fn reads_are_bounded() {
    let truncated = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc".to_vec();
    for (script, expected) in [
        (Script::Hang, ReadFailure::Unavailable),
        (Script::Deaf, ReadFailure::Unavailable),
        (Script::Swallow, ReadFailure::Unavailable),
        (Script::Answer(truncated), ReadFailure::Unavailable),
        (Script::KeepAlive(answer("307 X", "Location: /\r\n", "")), ReadFailure::Unavailable),
        (Script::KeepAlive(answer("200 OK", "", "garbage")), ReadFailure::Unavailable),
        (Script::KeepAlive(answer("200 OK", "", "")), ReadFailure::Unavailable),
        (Script::KeepAlive(answer("500 X", "", LOST)), ReadFailure::KeeperUnavailable),
    ] {
        let server = Server::start(script.clone()).await;
        let started = Instant::now();
        let read = Authority::new(connection(server.port)).read_all("k").await;
        assert_eq!(read.failures, [(format!("127.0.0.1:{}", server.port), expected)], "{script:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{script:?}");
        assert_eq!(server.counts().0, 1, "{script:?}");
    }
}

// proves: D-3, B-2
#[tokio::test]
async fn only_endpoints_without_connection_or_keeper_are_passed_over() {
    let dead = Server::start(Script::Close).await;
    let keeperless = Server::start(Script::KeepAlive(answer("500 X", "", LOST))).await;
    let denied = Server::start(Script::KeepAlive(answer(
        "403 X",
        "",
        "Code: 497. DB::Exception: u: Not enough privileges. (ACCESS_DENIED)\n",
    )))
    .await;
    let never = Server::start(Script::Hang).await;
    let mut spec = spec(&format!("http://127.0.0.1:{}", dead.port));
    for port in [keeperless.port, denied.port, never.port] {
        spec.endpoints.push(Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap());
    }
    let connection = Arc::new(Connection::new(spec).unwrap());
    let ddl = DistributedDdl::new(Arc::clone(&connection), clock());
    assert_eq!(ddl.scan("main", &[]).await, Ok(vec![]));
    assert_eq!(ddl.scans(), 0);
    assert_eq!(ddl.scan("main", &[token()]).await, Err(ReadFailure::AccessDenied));
    assert_eq!((ddl.scans(), never.counts().0), (3, 0));
    let ask = MembersAsk {
        scope: Scope::Cluster,
        cluster: "main".into(),
        database: "d".into(),
        names: vec![],
        health_of: None,
        count_of: None,
    };
    let answer = MemberCatalog::new(connection).members(&ask).await;
    let failures: Vec<_> = answer.failures.iter().map(|(_, failure)| *failure).collect();
    assert!(answer.members.is_empty());
    use ReadFailure::{AccessDenied, KeeperUnavailable, Unavailable};
    assert_eq!(failures, [Unavailable, KeeperUnavailable, AccessDenied, Unavailable]);
}

#[test]
fn endpoints_are_scheme_host_and_port() {
    for (url, label) in [
        ("http://clickhouse-0.ch:8123", "clickhouse-0.ch:8123"),
        ("https://clickhouse-0.ch:8443/", "clickhouse-0.ch:8443"),
        ("https://clickhouse-0.ch", "clickhouse-0.ch:443"),
        ("http://[::1]:8123", "[::1]:8123"),
    ] {
        assert_eq!(Endpoint::parse(url).unwrap().label(), label);
    }
    for url in [
        "",
        "ftp://h:1",
        "http://u:p@h:1",
        "http://h:1/x",
        "http://h:1?a=b",
        "http://h:1#f",
        "h:1",
        "http://",
    ] {
        assert!(Endpoint::parse(url).is_none(), "{url}");
    }
}

#[test]
fn a_connection_needs_distinct_endpoints() {
    let spec = spec("http://h:1");
    let none = ConnectionSpec { endpoints: vec![], ..spec.clone() };
    assert_eq!(Connection::new(none).unwrap_err(), ConnectionError::NoEndpoints);
    let twice =
        ConnectionSpec { endpoints: vec![spec.endpoints[0].clone(), spec.endpoints[0].clone()], ..spec };
    assert_eq!(Connection::new(twice).unwrap_err(), ConnectionError::DuplicateEndpoint);
}
