//! D-2, C-12: a dispatch permit is spent right before the first byte, on its own kind of statement, or given back.

#![allow(clippy::unwrap_used, clippy::panic)]

mod clickhouse_support;

use clickhouse_support::{Script, Server, answer, connection, intent, server_uuid};
use publication_operator::clickhouse::{Clock, DistributedDdl};
use publication_protocol::authority::{DispatchPermit, Mutation, MutationAnswer, MutationOutcome, Now};
use publication_protocol::driver::{Call, Driver, Input, Memory, Tick};
use publication_protocol::facade::FacadeSeen;
use publication_protocol::generation::{Replication, TableFact, TableRow, table_fact};
use publication_protocol::identity::{Names, Random, RootId, ServerUuid};
use publication_protocol::inventory::{ClusterRow, Inventory, Member};
use publication_protocol::limits::DISPATCH_PERMIT_MS_MAX;
use publication_protocol::ports::{
    AuthorityRead, Ddl, Health, MemberAnswer, MembersAnswer, Order, SendOutcome,
};
use publication_protocol::preflight::{
    Grant, Limits, MemberFacts, PreflightAnswer, PreflightAsk, ReplicaSet,
};
use publication_protocol::record::{RawRow, VersionedRow};
use publication_protocol::sqltext::{Ddl as Kind, Statement, TableName};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BEGUN_MS: u64 = 1_000;

fn servers() -> [ServerUuid; 2] {
    [server_uuid(), ServerUuid::parse("00000000-0000-0000-0000-000000000002").unwrap()]
}

fn names() -> Names {
    Names::new("main", "shop", "orders", "orders__pub_1").unwrap()
}

fn generation(seed: u8, replica: usize) -> TableFact {
    let uuid = format!("00000000-0000-0000-0000-0000000000{seed:02}");
    let path = format!("/clickhouse/tables/{uuid}/01");
    table_fact(&TableRow {
        engine: "ReplicatedMergeTree".into(),
        engine_full: format!("ReplicatedMergeTree('{path}', '{{replica}}') ORDER BY id"),
        create_query: "CREATE TABLE shop.t (`id` UInt64) ENGINE = X".into(),
        keys: ["id".into(), "id".into(), String::new(), String::new()],
        replication: Some(Replication {
            zookeeper_name: "default".into(),
            zookeeper_path: path,
            replica_name: format!("r{replica}"),
        }),
        uuid,
    })
}

/// A healthy cluster of two, with target and candidate in place.
fn members() -> MembersAnswer {
    let row = |replica: u32, is_local| ClusterRow {
        shard: 1,
        replica,
        host: format!("h{replica}"),
        port: 9000,
        is_local,
        internal_replication: Some(true),
    };
    let member = |(at, server): (usize, ServerUuid)| MemberAnswer {
        server_uuid: server,
        server_version: "24.8.4.1".into(),
        view: vec![row(1, at == 0), row(2, at == 1)],
        database_engine: Some("Atomic".into()),
        tables: BTreeMap::from([
            ("orders".to_owned(), generation(11, at + 1)),
            ("orders__pub_1".to_owned(), generation(12, at + 1)),
        ]),
        health: Some(Health { active_replicas: 2, total_replicas: 2, log_pointer: 1, ..Health::default() }),
        count: Some(10),
    };
    MembersAnswer { members: servers().into_iter().enumerate().map(member).collect(), failures: vec![] }
}

fn inventory() -> Inventory {
    let member = |(at, server_uuid): (u32, ServerUuid)| Member {
        shard: 1,
        replica: at,
        host: format!("h{at}"),
        port: 9000,
        server_uuid,
    };
    Inventory { cluster: "main".into(), members: (1..).zip(servers()).map(member).collect() }
}

/// Nothing in the way.
fn preflight(ask: &PreflightAsk) -> PreflightAnswer {
    let table = |database: &str, table: &str| TableName { database: database.into(), table: table.into() };
    let everything = Grant {
        grantee: "publisher".into(),
        own: true,
        access: "ALL".into(),
        database: None,
        table: None,
        column: None,
        revoked: false,
        wildcard: false,
    };
    let member = |(at, server_uuid): (usize, ServerUuid)| MemberFacts {
        server_uuid,
        server_version: "24.8.4.1".into(),
        definitions: vec![],
        configured: vec![],
        tables: vec![],
        policies: vec![],
        grants: vec![everything.clone()],
        same_path: vec![table(&ask.database, &ask.candidate)],
        replicas: [&ask.target, &ask.candidate]
            .map(|name| ReplicaSet {
                table: name.clone(),
                own: format!("r{}", at + 1),
                total: 2,
                names: vec!["r1".into(), "r2".into()],
            })
            .to_vec(),
        limits: Limits::default(),
    };
    PreflightAnswer {
        members: servers().into_iter().enumerate().map(member).collect(),
        failures: vec![],
        facade: table("publication", "publication_authority"),
        backlog: vec![],
    }
}

/// Runs the driver over a table of one row until it wants to send.
fn permit() -> (DispatchPermit, Order) {
    let root = RootId::draw(&Random([9; 32]));
    let mut driver = Driver::new(intent(names(), root, 1_000), Memory::default());
    let mut stored: Option<VersionedRow> = None;
    let mut input = Input::Begin;
    for step in 0..32 {
        let tick = Tick {
            now: Now { boot_ms: BEGUN_MS, wall_ms: BEGUN_MS },
            random: Random([step; 32]),
            stopping: false,
        };
        input = match driver.next(input, &tick) {
            Call::ReadSlot(_) => Input::Slot(AuthorityRead {
                facades: servers()
                    .map(|server| (server, FacadeSeen::of("publication", root, &inventory())))
                    .to_vec(),
                rows: servers().map(|server| (server, stored.clone())).to_vec(),
                failures: vec![],
            }),
            Call::Members(_) => Input::Members(members()),
            Call::Preflight(ask) => Input::Preflight(preflight(&ask)),
            Call::Mutate(_, mutation) => {
                stored = Some(apply(stored, mutation));
                Input::Mutated(MutationAnswer { outcome: MutationOutcome::Acknowledged, transport_calls: 1 })
            }
            Call::ReadExact(server, _) => Input::Exact(Some((server, stored.clone()))),
            Call::Witness(..) => Input::Witnessed(true),
            Call::Send(permit, order) => return (permit, order),
            other => panic!("not on the way to a dispatch: {other:?}"),
        };
    }
    panic!("no dispatch")
}

fn apply(stored: Option<VersionedRow>, mutation: Mutation) -> VersionedRow {
    let next = |row: RawRow, version| VersionedRow { row, version };
    match mutation {
        Mutation::Insert(row) => next(row, 0),
        Mutation::Update { row, .. } => next(row, stored.unwrap().version + 1),
    }
}

/// Shows `first` on the first look, `later` on every further one.
fn clock(first: u64, later: u64) -> Clock {
    let looks = AtomicU64::new(0);
    Arc::new(move || {
        let ms = if looks.fetch_add(1, Ordering::SeqCst) == 0 { first } else { later };
        Now { boot_ms: ms, wall_ms: ms }
    })
}

const LATE_MS: u64 = BEGUN_MS + DISPATCH_PERMIT_MS_MAX + 1;

async fn send(port: u16, clock: Clock, order: Option<Order>) -> SendOutcome {
    let (permit, own) = permit();
    assert_eq!(permit.server(), &server_uuid());
    DistributedDdl::new(connection(port), clock).send(permit, &order.unwrap_or(own)).await
}

// proves: D-2, C-6, K19
#[tokio::test]
async fn a_permit_in_time_sends_one_statement() {
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", "h1\t9000\t0\t\t1\t0\n"))).await;
    let outcome = send(server.port, clock(BEGUN_MS, BEGUN_MS), None).await;
    assert!(matches!(outcome, SendOutcome::Answered), "{outcome:?}");
    assert_eq!(server.counts(), (1, 1));
    let sent = server.received();
    assert!(
        sent.ends_with("EXCHANGE TABLES `shop`.`orders` AND `shop`.`orders__pub_1` ON CLUSTER `main`"),
        "{sent}"
    );
    // An exception is an answer as well: the queue tells what it was worth (D-3).
    let denied = "Code: 497. DB::Exception: u: Not enough privileges. (ACCESS_DENIED)\n";
    for (script, answered) in [
        (Script::KeepAlive(answer("403 X", "", denied)), true),
        (Script::KeepAlive(answer("503 X", "Retry-After: 0\r\n", "")), false),
        (Script::KeepAlive(answer("307 X", "Location: /\r\n", "")), false),
        (Script::Swallow, false),
        (Script::Hang, false),
    ] {
        let server = Server::start(script.clone()).await;
        let outcome = send(server.port, clock(BEGUN_MS, BEGUN_MS), None).await;
        assert!(
            matches!((&outcome, answered), (SendOutcome::Answered, true) | (SendOutcome::Unknown, false)),
            "{script:?}: {outcome:?}"
        );
        assert_eq!(server.counts(), (1, 1), "{script:?}");
    }
}

// proves: C-12, K28
#[tokio::test]
async fn a_late_permit_comes_back_with_nothing_written() {
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", ""))).await;
    let outcome = send(server.port, clock(LATE_MS, LATE_MS), None).await;
    assert!(matches!(outcome, SendOutcome::NotSent(_)), "{outcome:?}");
    assert_eq!(server.counts(), (0, 0));
    // Stopped between the decision and the write: a connection, and not a byte.
    let outcome = send(server.port, clock(BEGUN_MS, LATE_MS), None).await;
    assert!(matches!(outcome, SendOutcome::NotSent(_)), "{outcome:?}");
    assert_eq!((server.counts(), server.received().as_str()), ((1, 0), ""));
    // A clock that went back proves nothing either.
    let outcome = send(server.port, clock(0, 0), None).await;
    assert!(matches!(outcome, SendOutcome::NotSent(_)), "{outcome:?}");
}

// proves: C-12
#[tokio::test]
async fn a_permit_comes_back_when_nobody_listens() {
    let port = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let outcome = send(port, clock(BEGUN_MS, BEGUN_MS), None).await;
    assert!(matches!(outcome, SendOutcome::NotSent(_)), "{outcome:?}");
}

// proves: C-6
#[tokio::test]
async fn a_permit_sends_no_other_kind_of_statement() {
    let server = Server::start(Script::KeepAlive(answer("200 OK", "", ""))).await;
    let table = TableName { database: "shop".into(), table: "orders".into() };
    for ddl in [Kind::DropIfExists { table: table.clone() }, Kind::CreateIfNotExists { table }] {
        let order = Order { statement: Statement { ddl, cluster: "main".into() } };
        let outcome = send(server.port, clock(BEGUN_MS, BEGUN_MS), Some(order)).await;
        assert!(matches!(outcome, SendOutcome::NotSent(_)), "{outcome:?}");
    }
    assert_eq!(server.counts(), (0, 0));
}
