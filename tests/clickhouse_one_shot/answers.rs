//! C-4, C-5: what becomes of a mutation and of a distributed statement.

use super::clickhouse_support::{Script, Server, answer, connection, server_uuid};
use super::{LOST, bootstrap, insert, token};
use publication_operator::clickhouse::{Authority, BootstrapOutcome};
use publication_protocol::authority::{Mutation, MutationOutcome, Predicate};
use publication_protocol::ports::ControlTable;
use std::time::{Duration, Instant};

use MutationOutcome::{Acknowledged, Conflict, Refused, Unknown};

fn update() -> Mutation {
    let Mutation::Insert(row) = insert() else { unreachable!() };
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
const SYNTAX: &str = "Code: 62. DB::Exception: Syntax error. (SYNTAX_ERROR)\n";

// proves: C-4, C-5, O06
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

// proves: C-4, C-5, O06
#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    for (script, requests) in [(Script::Hang, 1), (Script::Deaf, 0), (Script::Endless, 1)] {
        let started = Instant::now();
        let (outcome, calls, counts) = mutate(script.clone(), &insert()).await;
        assert_eq!((outcome, calls, counts), (Unknown, 1, (1, requests)), "{script:?}");
        assert!(started.elapsed() < Duration::from_secs(4));
    }
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
