//! C-4: whatever a server or a network does, one mutation is one connection and one request, and its answer is
//! called what it is.

#![allow(clippy::unwrap_used, clippy::panic)]

mod clickhouse_support;

use clickhouse_support::{PASSWORD, Script, Server, USER, answer, connection, server_uuid, spec};
use publication_operator::clickhouse::{
    Authority, BootstrapOutcome, Clock, Connection, ConnectionError, ConnectionSpec, DistributedDdl,
    Endpoint, TlsMaterial,
};
use publication_protocol::authority::{Mutation, MutationOutcome, Now, Predicate};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, CorrelationToken, Random, RootId};
use publication_protocol::ports::{Catalog, ControlTable, Ddl, MembersAsk, ReadFailure, Scope};
use publication_protocol::record::RawRow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use MutationOutcome::{Acknowledged, Conflict, Refused, Unknown};

const SECRET_VALUE: &str = "value-that-must-not-be-shown";

fn row() -> RawRow {
    RawRow {
        target_key: "k".into(),
        operation_id: "o".into(),
        fence_token: "f".into(),
        phase: "PREPARED".into(),
        dispatch_epoch: 0,
        payload: format!("{{\"a\":\"{SECRET_VALUE}\"}}"),
        payload_sha256: Digest::of_bytes(b"").to_string(),
    }
}

fn insert() -> Mutation {
    Mutation::Insert(row())
}

fn update() -> Mutation {
    let row = row();
    let expected = Predicate {
        version: 1,
        operation_id: row.operation_id.clone(),
        fence_token: row.fence_token.clone(),
        phase: row.phase.clone(),
    };
    Mutation::Update { row, expected }
}

async fn mutate(script: Script, mutation: &Mutation) -> (MutationOutcome, u32, (u32, u32)) {
    let server = Server::start(script).await;
    let answer = Authority::new(connection(server.port)).mutate(&server_uuid(), mutation).await;
    // A late second request would come on this turn of the wheel, or never.
    tokio::time::sleep(Duration::from_millis(50)).await;
    (answer.outcome, answer.transport_calls, server.counts())
}

const NODE_EXISTS: &str =
    "Code: 999. DB::Exception: Transaction failed (Node exists): Op #0, path: /x. (KEEPER)\n";
const BAD_VERSION: &str =
    "Code: 999. DB::Exception: Transaction failed (Bad version): Op #0, path: /x. (KEEPER)\n";
const LOST: &str = "Code: 999. DB::Exception: Coordination error: Connection loss. (KEEPER_EXCEPTION)\n";
const SYNTAX: &str = "Code: 62. DB::Exception: Syntax error. (SYNTAX_ERROR)\n";

// proves: C-4, C-5
#[tokio::test]
async fn answers_of_one_mutation() {
    let location = "Location: /elsewhere\r\n";
    let header = "X-ClickHouse-Exception-Code: 999\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    let truncated = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc";
    let truncated_error = format!("HTTP/1.1 500 X\r\nContent-Length: 900\r\n{header}\r\n{NODE_EXISTS}");
    let twice = [answer("200 OK", "", ""), answer("200 OK", "", "")].concat();
    let continued = [b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), answer("200 OK", "", "")].concat();
    for (name, script, inserting, updating) in [
        ("success", Script::Answer(answer("200 OK", "", "")), Acknowledged, Acknowledged),
        (
            "success on a kept connection",
            Script::KeepAlive(answer("200 OK", "", "")),
            Acknowledged,
            Acknowledged,
        ),
        (
            "success before the body was read",
            Script::AnswerEarly(answer("200 OK", "", "")),
            Acknowledged,
            Acknowledged,
        ),
        ("success answered twice", Script::Answer(twice), Acknowledged, Acknowledged),
        ("success after 100", Script::Answer(continued), Acknowledged, Acknowledged),
        ("answer lost", Script::Swallow, Unknown, Unknown),
        ("closed at once", Script::Close, Unknown, Unknown),
        ("truncated body", Script::Answer(truncated.into()), Unknown, Unknown),
        ("truncated chunk", Script::Answer(chunked.into()), Unknown, Unknown),
        ("truncated error", Script::Answer(truncated_error.into_bytes()), Unknown, Unknown),
        ("truncated head", Script::Answer(b"HTTP/1.1 200 O".to_vec()), Unknown, Unknown),
        ("not HTTP", Script::Answer(b"hello\r\n\r\n".to_vec()), Unknown, Unknown),
        ("redirect 307", Script::KeepAlive(answer("307 Temporary Redirect", location, "")), Unknown, Unknown),
        ("redirect 308", Script::KeepAlive(answer("308 Permanent Redirect", location, "")), Unknown, Unknown),
        ("redirect 302", Script::KeepAlive(answer("302 Found", location, "")), Unknown, Unknown),
        (
            "503",
            Script::KeepAlive(answer("503 Service Unavailable", "Retry-After: 0\r\n", "")),
            Unknown,
            Unknown,
        ),
        (
            "429",
            Script::KeepAlive(answer("429 Too Many Requests", "Retry-After: 0\r\n", "")),
            Unknown,
            Unknown,
        ),
        ("204", Script::KeepAlive(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()), Unknown, Unknown),
        ("a proxy's page", Script::KeepAlive(answer("502 Bad Gateway", "", "<html>")), Unknown, Unknown),
        ("200 with a page", Script::KeepAlive(answer("200 OK", "", "<html>")), Unknown, Unknown),
        ("200 with an exception code", Script::KeepAlive(answer("200 OK", header, "")), Unknown, Unknown),
        (
            "200 with a conflict inside",
            Script::KeepAlive(answer("200 OK", "", NODE_EXISTS)),
            Conflict,
            Unknown,
        ),
        (
            "200 with a lost Keeper inside",
            Script::KeepAlive(answer("200 OK", header, LOST)),
            Unknown,
            Unknown,
        ),
        ("conflict of an INSERT", Script::KeepAlive(answer("500 X", header, NODE_EXISTS)), Conflict, Unknown),
        ("conflict of an UPDATE", Script::KeepAlive(answer("500 X", header, BAD_VERSION)), Unknown, Conflict),
        ("lost Keeper", Script::KeepAlive(answer("500 X", header, LOST)), Unknown, Unknown),
        ("refused", Script::KeepAlive(answer("400 X", "", SYNTAX)), Refused, Refused),
        (
            "only a code",
            Script::KeepAlive(answer("400 X", "X-ClickHouse-Exception-Code: 62\r\n", "")),
            Unknown,
            Unknown,
        ),
    ] {
        for (mutation, expected) in [(insert(), inserting), (update(), updating)] {
            let (outcome, calls, (connections, requests)) = mutate(script.clone(), &mutation).await;
            assert_eq!((outcome, calls, connections), (expected, 1, 1), "{name}");
            // A connection that is closed at once may never have been written to.
            assert!(
                requests == 1 || (matches!(script, Script::Close) && requests == 0),
                "{name}: {requests}"
            );
        }
    }
}

// proves: C-4, C-5
#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for (script, requests) in [(Script::Hang, 1), (Script::Deaf, 0), (Script::Endless, 1)] {
        let started = Instant::now();
        let (outcome, calls, counts) = mutate(script.clone(), &insert()).await;
        assert_eq!((outcome, calls, counts), (Unknown, 1, (1, requests)), "{script:?}");
        assert!(started.elapsed() < Duration::from_secs(4));
    }
}

fn clock() -> Clock {
    Arc::new(|| Now { boot_ms: 0, wall_ms: 0 })
}

fn token() -> CorrelationToken {
    CorrelationToken::draw(Digest::of_bytes(b"o"), Action::Bootstrap, 0, &Random([3; 32]))
}

async fn bootstrap(port: u16) -> BootstrapOutcome {
    let ddl = DistributedDdl::new(connection(port), clock());
    ddl.bootstrap(&server_uuid(), RootId::draw(&Random([1; 32])), &token()).await
}

// proves: C-4, C-12
#[tokio::test]
async fn not_sent_is_said_only_when_no_byte_was_written() {
    let port = {
        // Bound once and given back: nobody listens there.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    assert_eq!(bootstrap(port).await, BootstrapOutcome::NotSent);
    let mutated = Authority::new(connection(port)).mutate(&server_uuid(), &insert()).await;
    assert_eq!((mutated.outcome, mutated.transport_calls), (Unknown, 1));

    for script in [Script::Swallow, Script::Hang, Script::Answer(b"HTTP/1.1 200".to_vec())] {
        let server = Server::start(script.clone()).await;
        assert_eq!(bootstrap(server.port).await, BootstrapOutcome::Unknown, "{script:?}");
        assert_eq!(server.counts(), (1, 1));
    }
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", "h\t9000\t0\t\t0\t0\n"))).await;
    assert_eq!(bootstrap(server.port).await, BootstrapOutcome::Answered(None));
    let late = "Code: 159. DB::Exception: Watching task is executing longer. (TIMEOUT_EXCEEDED)\n";
    let server = Server::start(Script::KeepAlive(answer("408 X", "", late))).await;
    assert_eq!(bootstrap(server.port).await, BootstrapOutcome::Answered(Some(159)));
    assert_eq!(server.counts(), (1, 1));
}

// proves: C-4, D-2
#[tokio::test]
async fn settings_travel_with_the_statement() {
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", ""))).await;
    let authority = Authority::new(connection(server.port));
    authority.mutate(&server_uuid(), &insert()).await;
    let first = server.received();
    for setting in [
        "wait_end_of_query=1",
        "keeper_map_strict_mode=1",
        "insert_keeper_max_retries=0",
        "keeper_max_retries=0",
        "async_insert=0",
        "query_id=chpub1-cas-",
    ] {
        assert!(first.contains(setting), "{setting} in {first}");
    }
    assert!(!first.to_lowercase().contains("expect:"));
    authority.mutate(&server_uuid(), &insert()).await;
    let ids: Vec<_> =
        server.received().split("query_id=").skip(1).map(|rest| rest[..43].to_owned()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1], "every mutation has an id of its own");

    let server = Server::start(Script::KeepAlive(answer("200 OK", "", ""))).await;
    bootstrap(server.port).await;
    let sent = server.received();
    let token = token();
    let comment = format!("log_comment={}", token.as_str().replace(':', "%3A"));
    for setting in [
        comment.as_str(),
        "skip_unavailable_shards=0",
        "distributed_ddl_output_mode=throw",
        "distributed_ddl_task_timeout=1",
        &format!("query_id={}", token.query_id()),
    ] {
        assert!(sent.contains(setting), "{setting} in {sent}");
    }
}

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
    let answer = publication_operator::clickhouse::MemberCatalog::new(connection).members(&ask).await;
    let failures: Vec<_> = answer.failures.iter().map(|(_, failure)| *failure).collect();
    assert!(answer.members.is_empty());
    use ReadFailure::{AccessDenied, KeeperUnavailable, Unavailable};
    assert_eq!(failures, [Unavailable, KeeperUnavailable, AccessDenied, Unavailable]);
}

// proves: C-4
#[tokio::test]
async fn nothing_secret_is_in_what_can_be_shown() {
    let mutation = insert();
    let server = Server::start(Script::KeepAlive(answer("500 X", "", LOST))).await;
    let spec = spec(&format!("http://127.0.0.1:{}", server.port));
    let connection = Arc::new(Connection::new(spec.clone()).unwrap());
    let authority = Authority::new(Arc::clone(&connection));
    let ddl = DistributedDdl::new(Arc::clone(&connection), clock());
    let answer = authority.mutate(&server_uuid(), &mutation).await;
    let read = authority.read_all("k").await;
    let bad_ca = TlsMaterial { ca_pem: Some(b"not-a-certificate".to_vec()), client: None };
    let error = Connection::new(ConnectionSpec { tls: bad_ca, ..spec.clone() }).unwrap_err();
    let user = Connection::new(ConnectionSpec { user: "a:b\n".into(), ..spec.clone() }).unwrap_err();
    assert_eq!(user, ConnectionError::Credentials);
    let shown = format!(
        "{spec:?} {connection:?} {authority:?} {ddl:?} {answer:?} {read:?} {error:?} {error} {user:?} {user}"
    );
    for secret in
        [PASSWORD, USER, "http://", "INSERT", "SELECT", SECRET_VALUE, "Connection loss", "not-a-cert"]
    {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    // The label is what a person may see of an endpoint.
    assert!(shown.contains(&format!("127.0.0.1:{}", server.port)));
}

#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// proves: C-4
#[tokio::test]
async fn nothing_secret_is_logged_at_any_level() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log works");
    let quoting = format!("Code: 27. DB::Exception: Cannot parse input: '{SECRET_VALUE}'. (CANNOT_PARSE)\n");
    for script in [
        Script::KeepAlive(answer("500 X", "", &quoting)),
        Script::KeepAlive(answer("200 OK", "", &quoting)),
        Script::Swallow,
        Script::Close,
    ] {
        let server = Server::start(script).await;
        let authority = Authority::new(connection(server.port));
        authority.mutate(&server_uuid(), &insert()).await;
        authority.read_all("k").await;
        bootstrap(server.port).await;
    }
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("the log works"));
    for secret in [PASSWORD, USER, "INSERT", "SELECT", "CREATE TABLE", SECRET_VALUE, "Cannot parse"] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
    }
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
