//! The screens of `inspect` and `adjudicate`, from constructed evidence.
#![allow(clippy::unwrap_used, clippy::panic)]

use publication_operator::api::{Decision, LocalClusterRef, PublicationVerdictSpec};
use publication_operator::cli::adjudicate::{binding_shown, question};
use publication_operator::cli::inspect::{report, screen};
use publication_operator::cli::output::{Format, render};
use publication_protocol::canonical::Digest;
use publication_protocol::facade::FacadeBinding;
use publication_protocol::generation::{GenerationIdentity, NotAGeneration, TableFact};
use publication_protocol::identity::{
    Action, CorrelationToken, FenceToken, Names, Random, RootId, RowExpectation, ServerUuid, TableUuid,
};
use publication_protocol::inventory::{ClusterRow, Inventory, Member};
use publication_protocol::phase::Phase;
use publication_protocol::ports::{MemberAnswer, MembersAnswer, ReadFailure};
use publication_protocol::queue::{Binding, ExceptionText, QueueRow, Receipt};
use publication_protocol::record::{
    Dispatch, Ending, Fence, Owner, Payload, Recent, Record, SCHEMA_VERSION, Slot, VerdictNote, VersionedRow,
};
use publication_protocol::verdict::Afresh;
use std::collections::BTreeMap;

const CANDIDATE: &str = "orders__pub_20261130";

fn server(n: u32) -> ServerUuid {
    ServerUuid::parse(&format!("00000000-0000-0000-0000-{n:012}")).unwrap()
}

fn inventory() -> Inventory {
    let member =
        |n| Member { shard: 1, replica: n, host: format!("ch-{n}"), port: 9000, server_uuid: server(n) };
    Inventory { cluster: "main".into(), members: vec![member(1), member(2)] }
}

fn generation(n: u64, printed: &[u8]) -> GenerationIdentity {
    GenerationIdentity {
        uuid: TableUuid::parse(&format!("11111111-0000-0000-0000-{n:012}")).unwrap(),
        engine_digest: Digest::of_bytes(printed),
        schema_digest: Digest::of_bytes(b"schema"),
        zookeeper_name: "default".into(),
        zookeeper_path: format!("/clickhouse/tables/{n}"),
    }
}

fn table(identity: GenerationIdentity) -> TableFact {
    TableFact::Generation { identity, replica_name: "r".into(), path_macros: vec![] }
}

fn operation(n: u8) -> Digest {
    Digest::of_bytes(&[n])
}

fn dispatch(epoch: u64, action: Action, from: &str, to: Option<&str>) -> Dispatch {
    Dispatch {
        epoch,
        action,
        token: CorrelationToken::draw(operation(1), action, epoch, &Random([7; 32])),
        from: from.into(),
        to: to.map(Into::into),
        at_ms: 2,
        entry: None,
        receipt: None,
        cleared: false,
        hosts: None,
    }
}

/// The EXCHANGE failed on replica 2.
fn partial() -> Record {
    let inventory = inventory();
    let mut publish = dispatch(1, Action::Publish, CANDIDATE, Some("orders"));
    publish.entry = Some(Binding { entry: "query-0000000042".into(), query_digest: operation(9) });
    publish.receipt = Some(Receipt::of(BTreeMap::from([(server(1), 0), (server(2), 48)])));
    Record {
        operation: operation(1),
        fence: FenceToken::draw(&Random([5; 32])),
        phase: Phase::InProgress,
        epoch: 1,
        payload: Payload {
            schema: SCHEMA_VERSION,
            owner: Owner {
                kube_uid: "4b1c5a52-0000-0000-0000-000000000000".into(),
                namespace: "shop".into(),
                name: "orders-20261130".into(),
                uid: "6f0d2c11-0000-0000-0000-000000000000".into(),
                created_ms: 1,
            },
            root: RootId::draw(&Random([3; 32])),
            names: Names::new("main", "shop", "orders", CANDIDATE).unwrap(),
            rows: RowExpectation::Exact(5),
            row_count: 5,
            plan_digest: operation(8),
            inventory_digest: inventory.digest(),
            inventory,
            predecessor: Some(generation(1, b"engine")),
            desired: generation(2, b"engine"),
            dispatches: vec![publish],
            fenced: vec![],
            recent: vec![],
            verdicts: vec![],
            prepared_ms: 1,
            updated_ms: 2,
            error: None,
            receipt: None,
        },
    }
}

fn answer(at: u32, tables: &[(&str, TableFact)]) -> MemberAnswer {
    let row = |n: u32| ClusterRow {
        shard: 1,
        replica: n,
        host: format!("ch-{n}"),
        port: 9000,
        is_local: n == at,
        internal_replication: Some(true),
    };
    MemberAnswer {
        server_uuid: server(at),
        server_version: "26.9".into(),
        view: vec![row(1), row(2)],
        database_engine: Some("Atomic".into()),
        tables: tables.iter().map(|(name, fact)| ((*name).to_owned(), fact.clone())).collect(),
        health: None,
        count: None,
    }
}

fn afresh(record: Record, members: Vec<MemberAnswer>, rows: Vec<QueueRow>) -> Afresh {
    Afresh {
        slot: Slot { record, version: 17 },
        rows: Some(rows),
        members: MembersAnswer { members, failures: vec![] },
        inventory: Ok(inventory()),
        running: None,
        deadlines_past: false,
    }
}

fn screen_of(seen: Option<&Afresh>) -> String {
    screen::table(&report::of("platform/analytics".into(), "shop", "orders", seen))
}

fn old() -> TableFact {
    table(generation(1, b"engine"))
}

fn new() -> TableFact {
    table(generation(2, b"engine"))
}

fn partial_terminal() -> Afresh {
    let members = vec![
        answer(1, &[("orders", new()), (CANDIDATE, old())]),
        answer(2, &[("orders", old()), (CANDIDATE, new())]),
    ];
    afresh(partial(), members, vec![])
}

#[test]
fn a_partial_publication() {
    insta::assert_snapshot!(screen_of(Some(&partial_terminal())));
}

#[test]
fn the_same_as_json_and_yaml() {
    let report = report::of("platform/analytics".into(), "shop", "orders", Some(&partial_terminal()));
    insta::assert_snapshot!(render(&report, Format::Json, screen::table).unwrap());
    insta::assert_snapshot!(render(&report, Format::Yaml, screen::table).unwrap());
}

#[test]
fn an_empty_slot() {
    insta::assert_snapshot!(screen_of(None));
}

fn row(record: &Record, host: &str, status: &str) -> QueueRow {
    QueueRow {
        entry: "query-0000000042".into(),
        token: record.payload.dispatches[0].token.as_str().into(),
        cluster: "main".into(),
        query: format!("EXCHANGE TABLES shop.orders AND shop.{CANDIDATE} ON CLUSTER main"),
        host: Some(host.into()),
        port: Some(9000),
        status: Some(status.into()),
        exception_code: (status == "Finished").then_some(0),
        exception_text: if status == "Finished" { ExceptionText::Empty } else { ExceptionText::Null },
    }
}

/// In flight; one member does not answer, and the other one has strange tables.
#[test]
fn doubtful_members() {
    let mut record = partial();
    record.payload.dispatches[0].receipt = None;
    record.payload.dispatches[0].entry = None;
    let rows = vec![row(&record, "ch-1", "Finished"), row(&record, "ch-2", "Inactive")];
    let view = TableFact::Other(NotAGeneration::Engine("View".into()));
    let members = vec![answer(1, &[("orders", table(generation(2, b"printed"))), (CANDIDATE, view)])];
    let mut seen = afresh(record, members, rows);
    seen.members.failures.push(("ch-2:8443".into(), ReadFailure::Unavailable));
    seen.inventory =
        Err(publication_protocol::admission::read_failure("ch-2:8443", ReadFailure::Unavailable));
    insta::assert_snapshot!(screen_of(Some(&seen)));
}

/// Abandoned with a fence, after an earlier operation.
#[test]
fn a_fenced_slot() {
    let mut record = partial();
    record.phase = Phase::Abandoned;
    record.payload.dispatches[0].receipt = None;
    record.payload.dispatches[0].entry = None;
    let inherited = dispatch(1, Action::Retire, "orders__pub_20261129", None).token;
    record.payload.fenced.push(Fence {
        name: "orders__pub_20261129".into(),
        operation: operation(2),
        epoch: 2,
        token: inherited,
    });
    record.payload.recent.push(Recent {
        operation: operation(2),
        candidate: "orders__pub_20261129".into(),
        ending: Ending::Completed,
        desired: operation(3),
        kube_uid: "k".into(),
        created_ms: 1,
        final_version: 11,
        receipt: None,
    });
    record.payload.verdicts.push(VerdictNote {
        uid: "0d0d0d0d-0000-0000-0000-000000000000".into(),
        decision: "NotApplied".into(),
        evidence: operation(4),
        at_ms: 1,
    });
    let rows = vec![row(&record, "ch-1", "Active")];
    let members = [1, 2].map(|at| answer(at, &[("orders", old()), (CANDIDATE, TableFact::Absent)]));
    insta::assert_snapshot!(screen_of(Some(&afresh(record, members.to_vec(), rows))));
}

#[test]
fn questions() {
    let spec = |decision, name: Option<&str>| PublicationVerdictSpec {
        cluster_ref: LocalClusterRef { name: "analytics".into() },
        database: Some("shop".into()),
        target: Some("orders".into()),
        operation_id: Some(operation(1).to_string()),
        decision,
        name: name.map(Into::into),
        inventory_digest: None,
        evidence_digest: operation(4).to_string(),
        reason: "a test".into(),
    };
    let all: String = [
        (Decision::Committed, None),
        (Decision::NotApplied, None),
        (Decision::NameCleared, Some(CANDIDATE)),
        (Decision::Rebound, None),
        (Decision::Rebaselined, None),
    ]
    .map(|(decision, name)| question(&spec(decision, name)))
    .concat();
    insta::assert_snapshot!(all);
}

/// A member more than the facade is bound to.
#[test]
fn rebound_without_a_slot() {
    let (now, mut before) = (inventory(), inventory());
    before.members.truncate(1);
    let binding = VersionedRow { row: FacadeBinding::of(&before).encode(), version: 4 };
    insta::assert_snapshot!(binding_shown("platform/analytics", &binding, &now));
}

/// Tokens and fences stay between record and queue.
#[test]
fn no_token_is_shown() {
    let seen = partial_terminal();
    let report = report::of("platform/analytics".into(), "shop", "orders", Some(&seen));
    let json = render(&report, Format::Json, screen::table).unwrap();
    let record = &seen.slot.record;
    assert!(!json.contains(record.payload.dispatches[0].token.as_str()));
    assert!(!json.contains(&record.fence.to_string()));
}
