//! The facade's creation, its probe, and compare-and-swap.

use super::{CONTROL, Live, clock, one, random, row, token};
use publication_e2e::cluster::CLUSTER;
use publication_operator::clickhouse::probe::{Facade, ServerProbe, probe};
use publication_operator::clickhouse::{Authority, BootstrapOutcome, Connection, DistributedDdl};
use publication_protocol::authority::{Mutation, MutationOutcome, Predicate};
use publication_protocol::facade::{FacadeSeen, FacadeTable};
use publication_protocol::identity::{Action, RootId, ServerUuid};
use publication_protocol::inventory::{Inventory, MemberView};
use publication_protocol::ports::{ControlTable, Ddl, ReadFailure};
use publication_protocol::queue::{HostResult, QueueView, Sought, host_result, view};
use publication_protocol::record::RawRow;
use publication_protocol::sqltext::{Ddl as Kind, Statement, TableName};
use std::sync::Arc;

pub fn update(row: &RawRow, version: u64, from: &RawRow) -> Mutation {
    let expected = Predicate {
        version,
        operation_id: from.operation_id.clone(),
        fence_token: from.fence_token.clone(),
        phase: from.phase.clone(),
    };
    Mutation::Update { row: row.clone(), expected }
}

// proves: B-4, B-5, B-6
pub async fn bootstrap_and_probe(live: &Live) {
    let connection = live.connection();
    let root = RootId::draw(&random(7));
    let servers = live.servers();
    let before = probes(&connection).await;
    assert_eq!(before.iter().map(|p| p.server_uuid.clone()).collect::<Vec<_>>(), servers);
    for (member, probe) in live.cluster.members.iter().zip(&before) {
        assert_eq!(probe.tcp_port, member.spec.tcp_port);
        assert_eq!(probe.control_database_engine.as_deref(), Some("Atomic"));
        assert!(probe.ddl_entry_format_version.unwrap() >= 2);
        assert!(probe.facades.is_empty());
        assert_eq!(probe.view.len(), 2);
    }
    // The slot cannot be read before the facade is there, and that is said as such.
    let authority = Authority::new(Arc::clone(&connection));
    let read = authority.read_all("facade").await;
    assert!(read.failures.iter().all(|(_, failure)| *failure == ReadFailure::NoTable), "{read:?}");
    assert_eq!(read.failures.len(), 2);

    let ddl = DistributedDdl::new(Arc::clone(&connection), clock());
    let token = token(1, Action::Bootstrap);
    assert_eq!(ddl.bootstrap(&servers[0], root, &token).await, BootstrapOutcome::Answered(None));
    let rows = ddl.scan(CLUSTER, std::slice::from_ref(&token)).await.unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for found in &rows {
        let result = host_result(found.status.as_deref(), found.exception_code, found.exception_text);
        assert_eq!(result, HostResult::TerminalSuccess, "{found:?}");
        assert!(!found.query.contains("--") && !found.query.contains("/*"));
    }
    let table = TableName { database: CONTROL.into(), table: "publication_authority".into() };
    let statement = Statement { ddl: Kind::CreateIfNotExists { table }, cluster: CLUSTER.into() };
    let inventory = inventory(&before);
    let sought = Sought { token: &token, statement: &statement, bound: None, inventory: &inventory };
    assert!(matches!(view(&rows, sought), QueueView::Terminal { receipt, .. } if receipt.is_success()));
    // A harmless repetition with the same root.
    let again = self::token(2, Action::Bootstrap);
    assert_eq!(ddl.bootstrap(&servers[1], root, &again).await, BootstrapOutcome::Answered(None));
    assert_eq!(ddl.scans(), 1);
    for probe in probes(&connection).await {
        assert_eq!(probe.facades, [Facade::expected(CONTROL, root)]);
        assert_eq!(probe.facades[0].keeper_root, Some(format!("/publication/{root}")));
    }
}

pub async fn probes(connection: &Connection) -> Vec<ServerProbe> {
    probe(connection).await.into_iter().map(|p| p.answer.unwrap()).collect()
}

pub fn inventory(probes: &[ServerProbe]) -> Inventory {
    let views: Vec<_> = probes
        .iter()
        .map(|p| MemberView { server_uuid: p.server_uuid.clone(), rows: p.view.clone() })
        .collect();
    Inventory::agree(CLUSTER, &views, false).unwrap()
}

// proves: C-1, C-2, C-3, C-5, S06
pub async fn compare_and_swap(live: &Live) {
    let authority = Authority::new(live.connection());
    let servers = live.servers();
    let payload = "{\"a\":\"it's \\\\ `q` ? {x:y} \\u0000 таблица\"}";
    let first = row("key", "PREPARED", 0, payload);
    let absent = authority.read_all("key").await;
    assert_eq!(absent.rows, servers.iter().map(|s| (s.clone(), None)).collect::<Vec<_>>());
    // B-5: read in the same answer, whose facade it is.
    let root = Some(RootId::draw(&random(7)));
    let facade = FacadeTable { database: CONTROL.into(), root, schema_matches: true };
    for (_, seen) in &absent.facades {
        assert_eq!(*seen, FacadeSeen { table: Some(facade.clone()), binding: None });
    }
    assert_eq!(absent.facades.len(), 2);
    let insert = Mutation::Insert(first.clone());
    assert_eq!(authority.mutate(&servers[0], &insert).await, one(MutationOutcome::Acknowledged));
    // C-2: an existing key is a conflict, on whichever member.
    assert_eq!(authority.mutate(&servers[0], &insert).await, one(MutationOutcome::Conflict));
    assert_eq!(authority.mutate(&servers[1], &insert).await, one(MutationOutcome::Conflict));
    let read = authority.read_all("key").await;
    assert!(read.failures.is_empty());
    for (_, found) in &read.rows {
        let found = found.as_ref().unwrap();
        assert_eq!((found.version, &found.row), (0, &first));
    }
    let second = row("key", "DISPATCHING", 1, &format!("{payload}{}", "x".repeat(65_000)));
    let swap = update(&second, 0, &first);
    assert_eq!(authority.mutate(&servers[1], &swap).await, one(MutationOutcome::Acknowledged));
    let (server, found) = authority.read_exact(&servers[1], "key").await.unwrap();
    let found = found.unwrap();
    assert_eq!((server, found.version, found.row), (servers[1].clone(), 1, second.clone()));
    // C-3: a stale predicate is acknowledged and does nothing.
    assert_eq!(authority.mutate(&servers[1], &swap).await, one(MutationOutcome::Acknowledged));
    let (_, found) = authority.read_exact(&servers[1], "key").await.unwrap();
    assert_eq!(found.unwrap().version, 1);
    race(&authority, &servers, &second).await;
}

/// Many writers, one version: at most one conflict-free winner, and never an unknown outcome.
async fn race(authority: &Authority, servers: &[ServerUuid], from: &RawRow) {
    let rows: Vec<_> = (0..8).map(|n| row("key", "IN_PROGRESS", 1, &format!("{{\"n\":{n}}}"))).collect();
    let swaps: Vec<_> = rows.iter().map(|row| update(row, 1, from)).collect();
    let servers = servers.iter().cycle();
    let sent = swaps.iter().zip(servers).map(|(swap, server)| authority.mutate(server, swap));
    let answers = futures::future::join_all(sent).await;
    for answer in &answers {
        assert_eq!(answer.transport_calls, 1);
        assert!(matches!(answer.outcome, MutationOutcome::Acknowledged | MutationOutcome::Conflict));
    }
    let conflicts = answers.iter().filter(|a| a.outcome == MutationOutcome::Conflict).count();
    eprintln!("race: {conflicts} conflicts of {}", answers.len());
    let read = authority.read_all("key").await;
    assert!(read.rows.iter().any(|(_, found)| found.as_ref().unwrap().version == 2), "{read:?}");
}
