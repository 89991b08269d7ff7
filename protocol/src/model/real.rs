//! Real values of the protocol for the model's small numbers: members, generations, names, intents.

use crate::admission;
use crate::authority::Now;
use crate::canonical::{Canonical, Digest};
use crate::generation::{GenerationIdentity, TableFact};
use crate::identity::{
    Invocation, Names, Random, RootId, RowExpectation, ServerUuid, TableUuid, operation_id, plan_digest,
};
use crate::intent::Intent;
use crate::inventory::{ClusterRow, Inventory, Member};
use crate::limits::Deadlines;
use crate::ports::Health;
use crate::preflight::{Grant, Limits, MemberFacts, PreflightAnswer, PreflightAsk, ReplicaSet, TableUse};
use crate::record::Owner;
use crate::sqltext::{Ddl, Statement, TableName};
use std::collections::BTreeSet;

pub(crate) const TARGET: &str = "t";
/// The predecessor of the first operation.
pub(crate) const OLD: u8 = 1;
/// Added to a generation's number: the same table, printed differently (J-5).
pub(crate) const REPRINTED: u8 = 16;
const DEADLINES: Deadlines = Deadlines { statement_timeout_ms: 180_000 };
const START_MS: u64 = 1_000;

/// What operation `op` (0, 1, …) is to publish.
pub(crate) fn desired(op: u8) -> u8 {
    op + 2
}

pub(crate) fn candidate(op: u8) -> String {
    format!("{TARGET}__pub_{}", op + 1)
}

/// Two instants only: everything happens at once, or after every wait of the protocol.
pub(crate) fn now(late: bool) -> Now {
    let ms = START_MS + if late { 2 * DEADLINES.visibility_wait_ms() } else { 0 };
    Now { boot_ms: ms, wall_ms: 1_700_000_000_000 + ms }
}

/// The first instant at which a permit is too old.
pub(crate) fn later(begun: Now) -> Now {
    let ms = crate::limits::DISPATCH_PERMIT_MS_MAX + 1;
    Now { boot_ms: begun.boot_ms + ms, wall_ms: begun.wall_ms + ms }
}

pub(crate) fn random(worker: u8, nonce: u8, version: u64) -> Random {
    let seed = Canonical::new("model-random").number(worker.into()).number(nonce.into()).number(version);
    Random(*seed.digest().bytes())
}

pub(crate) fn server(at: usize) -> Option<ServerUuid> {
    ServerUuid::parse(&format!("00000000-0000-0000-0000-{:012}", at + 1))
}

fn view(members: usize, local: usize) -> Vec<ClusterRow> {
    (0..members)
        .map(|n| ClusterRow {
            shard: 1,
            replica: n as u32 + 1,
            host: host(n),
            port: 9000,
            is_local: n == local,
            internal_replication: Some(true),
        })
        .collect()
}

/// The members that the facade is bound to.
pub(crate) fn inventory(members: usize) -> Option<Inventory> {
    let member = |n: usize| {
        Some(Member { shard: 1, replica: n as u32 + 1, host: host(n), port: 9000, server_uuid: server(n)? })
    };
    let members = (0..members).map(member).collect::<Option<_>>()?;
    Some(Inventory { cluster: "c".into(), members })
}

pub(crate) fn host(at: usize) -> String {
    format!("h{}", at + 1)
}

pub(crate) fn label(at: usize) -> String {
    format!("{}:9000", host(at))
}

pub(crate) fn generation(n: u8) -> Option<GenerationIdentity> {
    if n >= REPRINTED {
        let engine_digest = Digest::of_bytes(b"engine, printed differently");
        return Some(GenerationIdentity { engine_digest, ..generation(n - REPRINTED)? });
    }
    Some(GenerationIdentity {
        uuid: TableUuid::parse(&format!("11111111-0000-0000-0000-{n:012}"))?,
        engine_digest: Digest::of_bytes(b"engine"),
        schema_digest: Digest::of_bytes(b"schema"),
        zookeeper_name: "default".into(),
        zookeeper_path: format!("/clickhouse/tables/{n}"),
    })
}

/// The small number of an identity, however it is printed.
pub(crate) fn number(identity: &GenerationIdentity) -> u8 {
    (1..REPRINTED).find(|n| generation(*n).is_some_and(|g| g.same_table(identity))).unwrap_or(0)
}

/// The generation, however it is printed.
pub(crate) fn plain(n: u8) -> u8 {
    n % REPRINTED
}

pub(crate) fn fact(n: Option<u8>, at: usize) -> TableFact {
    match n.and_then(generation) {
        Some(identity) => TableFact::Generation {
            identity,
            replica_name: format!("r{}", at + 1),
            path_macros: vec!["{shard}".into()],
        },
        None => TableFact::Absent,
    }
}

pub(crate) fn healthy(members: usize) -> Health {
    let n = members as u64;
    let health = Health {
        active_replicas: n,
        total_replicas: n,
        log_max_index: 4,
        log_pointer: 5,
        ..Health::default()
    };
    debug_assert!(admission::unhealthy(&health, n).is_none());
    health
}

/// One member's answer, without tables.
pub(crate) fn answer(members: usize, at: usize) -> Option<crate::ports::MemberAnswer> {
    Some(crate::ports::MemberAnswer {
        server_uuid: server(at)?,
        server_version: "25.8".into(),
        view: view(members, at),
        database_engine: Some("Atomic".into()),
        tables: std::collections::BTreeMap::new(),
        health: None,
        count: None,
    })
}

pub(crate) fn root() -> RootId {
    RootId::draw(&random(255, 0, 0))
}

/// Operation `op` as its object asks for it; the objects are created in the order of the operations.
pub(crate) fn intent(op: u8) -> Option<Intent> {
    let names = Names::new("c", "db", TARGET, &candidate(op)).ok()?;
    let rows = RowExpectation::Exact(10);
    let plan = plan_digest(&names.candidate, rows);
    let uid = format!("uid-{op}");
    Some(Intent {
        operation: operation_id("kube-1", "ns", &Invocation::Object(uid.clone()), plan, root(), &names),
        root: root(),
        names,
        rows,
        plan,
        owner: Owner {
            kube_uid: "kube-1".into(),
            namespace: "ns".into(),
            name: format!("pub-{op}"),
            uid,
            created_ms: 1_000 + u64::from(op),
        },
        declared_internal_replication: false,
        accepted_dependents: BTreeSet::new(),
        deadlines: DEADLINES,
        deleted: false,
        deadline_passed: false,
        suspended: false,
        behind: None,
        witnessed: None,
        changed: false,
    })
}

fn quote_table(name: &TableName) -> String {
    format!("`{}`.`{}`", name.database, name.table)
}

/// A statement as a server stores it.
pub(crate) fn render(statement: &Statement) -> String {
    let text = match &statement.ddl {
        Ddl::Exchange { target, candidate } => {
            format!("EXCHANGE TABLES {} AND {}", quote_table(target), quote_table(candidate))
        }
        Ddl::Rename { from, to } => format!("RENAME TABLE {} TO {}", quote_table(from), quote_table(to)),
        Ddl::DropIfExists { table } => format!("DROP TABLE IF EXISTS {}", quote_table(table)),
        Ddl::CreateIfNotExists { table } => format!("CREATE TABLE IF NOT EXISTS {}", quote_table(table)),
    };
    format!("{text} ON CLUSTER `{}`", statement.cluster)
}

/// Nothing stands in the way of any operation; that is for other tests.
pub(crate) fn unobstructed(ask: &PreflightAsk, members: usize, target: bool) -> PreflightAnswer {
    let table = |database: &str, table: &str| TableName { database: database.into(), table: table.into() };
    let mut names = vec![ask.candidate.clone()];
    if target {
        names.push(ask.target.clone());
    }
    let facts = |at: usize| {
        Some(MemberFacts {
            server_uuid: server(at)?,
            server_version: "25.8".into(),
            definitions: vec![],
            configured: vec![],
            tables: names
                .iter()
                .map(|name| TableUse { name: name.clone(), bytes: 1_000, loading_dependents: vec![] })
                .collect(),
            policies: vec![],
            grants: vec![Grant {
                grantee: "publisher".into(),
                own: true,
                access: "ALL".into(),
                database: None,
                table: None,
                column: None,
                revoked: false,
                wildcard: false,
            }],
            same_path: vec![table("db", &ask.candidate)],
            replicas: names
                .iter()
                .map(|name| ReplicaSet {
                    table: name.clone(),
                    own: format!("r{}", at + 1),
                    total: members as u64,
                    names: (0..members).map(|n| format!("r{}", n + 1)).collect(),
                })
                .collect(),
            limits: Limits { drop_bytes_max: 50_000, checks_loading: true, checks_references: false },
        })
    };
    PreflightAnswer {
        members: (0..members).filter_map(facts).collect(),
        failures: vec![],
        facade: table("publication", "publication_authority"),
        backlog: vec![],
    }
}
