//! Builders: small numbers stand for servers and generations.

use publication_protocol::authority::Now;
use publication_protocol::canonical::{Canonical, Digest};
use publication_protocol::generation::{GenerationIdentity, TableFact};
use publication_protocol::identity::{
    Action, CorrelationToken, FenceToken, Invocation, Names, Random, RootId, RowExpectation, ServerUuid,
    TableUuid, operation_id, plan_digest,
};
use publication_protocol::intent::Intent;
use publication_protocol::inventory::{ClusterRow, Inventory, Member};
use publication_protocol::limits::Deadlines;
use publication_protocol::phase::Phase;
use publication_protocol::ports::{Health, MemberAnswer, MembersAnswer};
use publication_protocol::queue::{Binding, ExceptionText, QueueRow, Receipt};
use publication_protocol::record::{Dispatch, Owner, Payload, Record, SCHEMA_VERSION};
use publication_protocol::sqltext::{Ddl, Statement, TableName};
use std::collections::{BTreeMap, BTreeSet};

/// The predecessor.
pub const OLD: u64 = 1;
/// The new generation.
pub const NEW: u64 = 2;
/// A generation that nobody knows.
pub const ALIEN: u64 = 9;
pub const TARGET: &str = "t";
pub const CANDIDATE: &str = "t__pub_1";

pub fn random(seed: u64) -> Random {
    Random(*Canonical::new("test-random").number(seed).digest().bytes())
}

pub fn server(n: u32) -> ServerUuid {
    ServerUuid::parse(&format!("00000000-0000-0000-0000-{n:012}")).expect("a UUID")
}

pub fn member(n: u32) -> Member {
    Member { shard: 1, replica: n, host: format!("h{n}"), port: 9000, server_uuid: server(n) }
}

pub fn inventory(members: u32) -> Inventory {
    Inventory { cluster: "c".into(), members: (1..=members).map(member).collect() }
}

pub fn view(members: u32, local: u32) -> Vec<ClusterRow> {
    (1..=members)
        .map(|n| ClusterRow {
            shard: 1,
            replica: n,
            host: format!("h{n}"),
            port: 9000,
            is_local: n == local,
            internal_replication: Some(true),
        })
        .collect()
}

/// Added to a generation's number: the same table, printed differently (J-5).
pub const REPRINTED: u64 = 100;

pub fn generation(n: u64) -> GenerationIdentity {
    if n >= REPRINTED {
        let engine_digest = Digest::of_bytes(b"engine, printed differently");
        return GenerationIdentity { engine_digest, ..generation(n - REPRINTED) };
    }
    GenerationIdentity {
        uuid: TableUuid::parse(&format!("11111111-0000-0000-0000-{n:012}")).expect("a UUID"),
        engine_digest: Digest::of_bytes(b"engine"),
        schema_digest: Digest::of_bytes(b"schema"),
        zookeeper_name: "default".into(),
        zookeeper_path: format!("/clickhouse/tables/{n}"),
    }
}

/// A generation as member `at` shows it.
pub fn fact(n: u64, at: u32) -> TableFact {
    TableFact::Generation {
        identity: generation(n),
        replica_name: format!("r{at}"),
        path_macros: vec!["{shard}".into()],
    }
}

pub fn names() -> Names {
    Names::new("c", "db", TARGET, CANDIDATE).expect("good names")
}

pub fn root() -> RootId {
    RootId::draw(&random(77))
}

pub fn owner() -> Owner {
    Owner {
        kube_uid: "kube-1".into(),
        namespace: "ns".into(),
        name: "pub".into(),
        uid: "uid-1".into(),
        created_ms: 1_000,
    }
}

pub const DEADLINES: Deadlines = Deadlines { statement_timeout_ms: 180_000 };

/// The intent of the object with this UID.
pub fn intent_of(uid: &str, names: Names) -> Intent {
    let rows = RowExpectation::Exact(10);
    let plan = plan_digest(&names.candidate, rows);
    let invocation = Invocation::Object(uid.into());
    Intent {
        operation: operation_id("kube-1", "ns", &invocation, plan, root(), &names),
        root: root(),
        names,
        rows,
        plan,
        owner: Owner { uid: uid.into(), ..owner() },
        declared_internal_replication: false,
        accepted_dependents: BTreeSet::new(),
        deadlines: DEADLINES,
        deleted: false,
        deadline_passed: false,
        suspended: false,
        behind: None,
        witnessed: None,
        changed: false,
    }
}

pub fn intent() -> Intent {
    intent_of("uid-1", names())
}

/// PREPARED by [`intent`], with or without a predecessor.
pub fn prepared(members: u32, predecessor: bool) -> Record {
    let intent = intent();
    Record {
        operation: intent.operation,
        fence: FenceToken::draw(&random(5)),
        phase: Phase::Prepared,
        epoch: 0,
        payload: Payload {
            schema: SCHEMA_VERSION,
            owner: intent.owner,
            root: intent.root,
            names: intent.names,
            rows: intent.rows,
            row_count: 10,
            plan_digest: intent.plan,
            inventory_digest: inventory(members).digest(),
            inventory: inventory(members),
            predecessor: predecessor.then(|| generation(OLD)),
            desired: generation(NEW),
            dispatches: Vec::new(),
            fenced: Vec::new(),
            recent: Vec::new(),
            verdicts: Vec::new(),
            prepared_ms: 1,
            updated_ms: 1,
            error: None,
            receipt: None,
        },
    }
}

/// Adds a dispatch of the next epoch.
pub fn dispatched(mut record: Record, phase: Phase, action: Action, from: &str, to: Option<&str>) -> Record {
    record.phase = phase;
    record.epoch += 1;
    let token = CorrelationToken::draw(record.operation, action, record.epoch, &random(100 + record.epoch));
    record.payload.dispatches.push(Dispatch {
        epoch: record.epoch,
        action,
        token,
        from: from.into(),
        to: to.map(Into::into),
        at_ms: 2,
        entry: None,
        receipt: None,
        cleared: false,
        hosts: None,
    });
    record
}

pub const RETIRED: &str = "t__retired_0000000000000001";

/// A consistent record in any phase: one publication, then as many cleanup dispatches as the phase needs;
/// every dispatch but the last has its receipt.
pub fn record_in(phase: Phase, members: u32) -> Record {
    let publish =
        || dispatched(prepared(members, true), Phase::Dispatching, Action::Publish, CANDIDATE, Some(TARGET));
    let retire = || dispatched(account(publish()), phase, Action::Retire, CANDIDATE, Some(RETIRED));
    let mut record = match phase {
        Phase::Prepared | Phase::Released => prepared(members, true),
        Phase::Dispatching | Phase::InProgress => publish(),
        Phase::Committed | Phase::Abandoned => account(publish()),
        Phase::RetireDispatching | Phase::RetirePending => retire(),
        Phase::DropDispatching | Phase::DropPending => {
            dispatched(account(retire()), phase, Action::Drop, RETIRED, None)
        }
        Phase::Completed => account(dispatched(account(retire()), phase, Action::Drop, RETIRED, None)),
    };
    record.phase = phase;
    record
}

/// Stores a receipt of success for the last dispatch.
pub fn account(mut record: Record) -> Record {
    let members: Vec<ServerUuid> =
        record.payload.inventory.members.iter().map(|m| m.server_uuid.clone()).collect();
    let last = record.payload.dispatches.last_mut().expect("a dispatch");
    last.entry = Some(Binding { entry: entry_name(last.epoch), query_digest: Digest::of_bytes(b"q") });
    last.receipt = Some(Receipt::of(members.into_iter().map(|s| (s, 0)).collect()));
    record
}

pub fn entry_name(n: u64) -> String {
    format!("query-{n:010}")
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

fn quote_table(name: &TableName) -> String {
    format!("{}.{}", quote(&name.database), quote(&name.table))
}

/// A statement as a server stores it.
pub fn render(statement: &Statement) -> String {
    let text = match &statement.ddl {
        Ddl::Exchange { target, candidate } => {
            format!("EXCHANGE TABLES {} AND {}", quote_table(target), quote_table(candidate))
        }
        Ddl::Rename { from, to } => format!("RENAME TABLE {} TO {}", quote_table(from), quote_table(to)),
        Ddl::DropIfExists { table } => format!("DROP TABLE IF EXISTS {}", quote_table(table)),
        Ddl::CreateIfNotExists { table } => format!("CREATE TABLE IF NOT EXISTS {}", quote_table(table)),
    };
    format!("{text} ON CLUSTER {}", quote(&statement.cluster))
}

/// The queue's row of one dispatch on one member: finished with a code, or not finished.
pub fn queue_row(record: &Record, dispatch: &Dispatch, at: u32, code: Option<u32>) -> QueueRow {
    QueueRow {
        entry: entry_name(dispatch.epoch),
        token: dispatch.token.as_str().to_owned(),
        cluster: "c".into(),
        query: render(&record.statement(dispatch)),
        host: Some(format!("h{at}")),
        port: Some(9000),
        status: Some(if code.is_some() { "Finished" } else { "Active" }.into()),
        exception_code: code.map(i64::from),
        exception_text: match code {
            None => ExceptionText::Null,
            Some(0) => ExceptionText::Empty,
            Some(_) => ExceptionText::Some,
        },
    }
}

pub fn healthy(members: u32) -> Health {
    let n = u64::from(members);
    Health { active_replicas: n, total_replicas: n, log_max_index: 4, log_pointer: 5, ..Health::default() }
}

/// Member `at` with these generations under these names; every other name is absent.
pub fn answer(members: u32, at: u32, tables: &[(&str, Option<u64>)]) -> MemberAnswer {
    let tables: BTreeMap<String, TableFact> = tables
        .iter()
        .map(|(name, n)| ((*name).to_owned(), n.map_or(TableFact::Absent, |n| fact(n, at))))
        .collect();
    MemberAnswer {
        server_uuid: server(at),
        server_version: "25.8".into(),
        view: view(members, at),
        database_engine: Some("Atomic".into()),
        tables,
        health: Some(healthy(members)),
        count: Some(10),
    }
}

/// Everybody healthy, before a publication over an existing target.
pub fn admissible(members: u32) -> MembersAnswer {
    let tables = [(TARGET, Some(OLD)), (CANDIDATE, Some(NEW))];
    MembersAnswer {
        members: (1..=members).map(|at| answer(members, at, &tables)).collect(),
        failures: vec![],
    }
}

pub fn now(ms: u64) -> Now {
    Now { boot_ms: ms, wall_ms: 1_700_000_000_000 + ms }
}
