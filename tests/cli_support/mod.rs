//! What the screens are drawn from.
#![allow(dead_code, missing_debug_implementations)]

use publication_operator::api::ClusterPublication;
use publication_operator::cli::plan::assemble::Seen;
use publication_protocol::admission::Finding;
use publication_protocol::canonical::{Canonical, Digest};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::review;
use publication_protocol::facade::FacadeSeen;
use publication_protocol::generation::{GenerationIdentity, TableFact};
use publication_protocol::identity::{
    Action, CorrelationToken, FenceToken, Invocation, Names, Random, RootId, RowExpectation, ServerUuid,
    TableUuid, operation_id, plan_digest,
};
use publication_protocol::intent::Intent;
use publication_protocol::inventory::{ClusterRow, Inventory, Member};
use publication_protocol::limits::Deadlines;
use publication_protocol::phase::Phase;
use publication_protocol::ports::{AuthorityRead, Health, MemberAnswer, MembersAnswer, ReadFailure};
use publication_protocol::queue::{Binding, Receipt};
use publication_protocol::record::{Dispatch, Owner, Payload, Record, SCHEMA_VERSION, VersionedRow};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const TARGET: &str = "orders";
pub const CANDIDATE: &str = "orders__pub_20261130";

pub fn manifest() -> Value {
    json!({
        "apiVersion": "clickhouse.dpone.dev/v1alpha1",
        "kind": "ClusterPublication",
        "metadata": {"name": "orders-20261130", "namespace": "shop"},
        "spec": {
            "clusterRef": {"name": "analytics", "namespace": "platform"},
            "database": "shop",
            "target": TARGET,
            "candidate": CANDIDATE,
            "rows": {"exact": 5},
        },
    })
}

pub fn object() -> ClusterPublication {
    serde_json::from_value(manifest()).unwrap()
}

fn random(seed: u64) -> Random {
    Random(*Canonical::new("screens").number(seed).digest().bytes())
}

fn server(n: u32) -> ServerUuid {
    ServerUuid::parse(&format!("00000000-0000-0000-0000-{n:012}")).unwrap()
}

fn generation(n: u64) -> GenerationIdentity {
    GenerationIdentity {
        uuid: TableUuid::parse(&format!("{n:08}-1111-2222-3333-{n:012}")).unwrap(),
        engine_digest: Digest::of_bytes(b"engine"),
        schema_digest: Digest::of_bytes(b"schema"),
        zookeeper_name: "default".into(),
        zookeeper_path: format!("/clickhouse/tables/{n}"),
    }
}

fn fact(n: u64, at: u32) -> TableFact {
    TableFact::Generation { identity: generation(n), replica_name: format!("r{at}"), path_macros: vec![] }
}

pub fn names() -> Names {
    Names::new("main", "shop", TARGET, CANDIDATE).unwrap()
}

/// Two healthy members, with or without a target.
pub fn answer(target: bool) -> MembersAnswer {
    let member = |at: u32| MemberAnswer {
        server_uuid: server(at),
        server_version: "26.9.1.1".into(),
        view: (1..=2)
            .map(|n| ClusterRow {
                shard: 1,
                replica: n,
                host: format!("ch-{n}.ch"),
                port: 9000,
                is_local: n == at,
                internal_replication: Some(true),
            })
            .collect(),
        database_engine: Some("Atomic".into()),
        tables: BTreeMap::from([
            (TARGET.to_owned(), if target { fact(1, at) } else { TableFact::Absent }),
            (CANDIDATE.to_owned(), fact(2, at)),
        ]),
        health: Some(Health {
            active_replicas: 2,
            total_replicas: 2,
            log_max_index: 4,
            log_pointer: 5,
            ..Health::default()
        }),
        count: Some(5),
    };
    MembersAnswer { members: vec![member(1), member(2)], failures: vec![] }
}

pub fn intent() -> Intent {
    let rows = RowExpectation::Exact(5);
    let plan = plan_digest(CANDIDATE, rows);
    let root = RootId::draw(&random(1));
    let owner = Owner {
        kube_uid: "kube".into(),
        namespace: "shop".into(),
        name: "orders-20261130".into(),
        uid: "uid".into(),
        created_ms: 2_000,
    };
    Intent {
        operation: operation_id("kube", "shop", &Invocation::Object("uid".into()), plan, root, &names()),
        root,
        names: names(),
        rows,
        plan,
        owner,
        declared_internal_replication: false,
        accepted_dependents: BTreeSet::new(),
        deadlines: Deadlines { statement_timeout_ms: 180_000 },
        deleted: false,
        deadline_passed: false,
        suspended: false,
        behind: None,
        witnessed: None,
        changed: false,
    }
}

/// What lies in the slot.
pub enum Slots {
    Never,
    /// Another operation, completed, under an older candidate.
    Over,
    /// Another operation, completed, under this very candidate.
    Spent,
    /// Another operation.
    Held(Phase),
    /// This one.
    Own(Phase),
}

fn read(slots: &Slots) -> AuthorityRead {
    let row = match slots {
        Slots::Never => None,
        Slots::Over => Some(record(Phase::Completed, "orders__pub_20261129", false)),
        Slots::Spent => Some(record(Phase::Completed, CANDIDATE, false)),
        Slots::Held(phase) => Some(record(*phase, "orders__pub_20261129", false)),
        Slots::Own(phase) => Some(record(*phase, CANDIDATE, true)),
    };
    let row = row.map(|record| VersionedRow { row: record.encode(), version: 12 });
    let facade = |n| (server(n), FacadeSeen::of("publication", intent().root, &inventory()));
    AuthorityRead {
        rows: vec![(server(1), row.clone()), (server(2), row)],
        facades: vec![facade(1), facade(2)],
        failures: vec![],
    }
}

fn inventory() -> Inventory {
    let members = (1..=2).map(|n| Member {
        shard: 1,
        replica: n,
        host: format!("ch-{n}.ch"),
        port: 9000,
        server_uuid: server(n),
    });
    Inventory { cluster: "main".into(), members: members.collect() }
}

fn record(phase: Phase, candidate: &str, own: bool) -> Record {
    let intent = intent();
    let inventory = inventory();
    let operation = if own { intent.operation } else { Digest::of_bytes(b"another") };
    let actions = match phase {
        Phase::Dispatching | Phase::InProgress | Phase::Committed => vec![Action::Publish],
        Phase::RetireDispatching | Phase::RetirePending => vec![Action::Publish, Action::Retire],
        _ => vec![Action::Publish, Action::Retire, Action::Drop],
    };
    let retired = "orders__retired_0000000000000001".to_owned();
    let dispatches = (1_u64..).zip(&actions).map(|(epoch, action)| Dispatch {
        epoch,
        action: *action,
        token: CorrelationToken::draw(operation, *action, epoch, &random(epoch)),
        from: if *action == Action::Drop { retired.clone() } else { candidate.to_owned() },
        to: match action {
            Action::Publish => Some(TARGET.to_owned()),
            Action::Retire => Some(retired.clone()),
            _ => None,
        },
        at_ms: 1,
        entry: None,
        receipt: None,
        cleared: false,
        hosts: None,
    });
    Record {
        operation,
        fence: FenceToken::draw(&random(9)),
        phase,
        epoch: actions.len() as u64,
        payload: Payload {
            schema: SCHEMA_VERSION,
            owner: Owner {
                name: if own { "orders-20261130" } else { "orders-20261129" }.into(),
                created_ms: 1_000,
                ..intent.owner
            },
            root: intent.root,
            names: Names::new("main", "shop", TARGET, candidate).unwrap(),
            rows: intent.rows,
            row_count: 5,
            plan_digest: intent.plan,
            inventory_digest: inventory.digest(),
            inventory,
            predecessor: Some(generation(if own { 1 } else { 8 })),
            desired: generation(if own { 1 } else { 9 }),
            dispatches: dispatches.collect(),
            fenced: vec![],
            recent: vec![],
            verdicts: vec![],
            prepared_ms: 1,
            updated_ms: 1,
            error: None,
            receipt: None,
        },
    }
}

/// As `plan` would have read it.
pub fn seen(slots: &Slots, answer: MembersAnswer) -> Seen {
    let (intent, read) = (intent(), read(slots));
    let review = review(&intent, &read, None, &answer, None);
    Seen {
        publication: "shop/orders-20261130".into(),
        tables: Some(["shop".into(), TARGET.into(), CANDIDATE.into()]),
        cluster: Some("platform/analytics (main)".into()),
        names: Some(names()),
        rows: Some(intent.rows),
        operation: matches!(slots, Slots::Own(_)).then(|| intent.operation.to_string()),
        read: Some(read),
        answer: Some(answer),
        review: Some(review),
        ..Seen::default()
    }
}

/// The second member is down.
pub fn unanswered() -> Seen {
    let silent = || vec![("ch-2.ch:8443".to_owned(), ReadFailure::Unavailable)];
    let (intent, mut read) = (intent(), read(&Slots::Never));
    read.rows.truncate(1);
    read.failures = silent();
    let through =
        MembersAnswer { members: vec![], failures: vec![("ch-1.ch:8443".into(), ReadFailure::Unavailable)] };
    let mut each = answer(true);
    each.members.truncate(1);
    each.failures = silent();
    let review = review(&intent, &read, None, &through, None);
    let whole = seen(&Slots::Never, answer(true));
    Seen { read: Some(read), answer: Some(through), each: Some(each), review: Some(review), ..whole }
}

pub fn root_finding() -> Finding {
    Finding::wait(
        ErrorCode::AuthorityUnavailable,
        "B-5",
        "PublicationCluster analytics has not been probed yet",
    )
}

fn replica(n: u32, state: &str, statement: Value, code: Value, message: Value) -> Value {
    let mut replica = json!({"replica": n, "host": format!("ch-{n}.ch"), "port": 9000, "state": state});
    for (field, value) in [("statement", statement), ("exceptionCode", code), ("message", message)] {
        if !value.is_null() {
            replica[field] = value;
        }
    }
    replica
}

/// An object with a status as the operator writes it.
pub fn status_of(name: &str) -> ClusterPublication {
    let at = "2026-11-30T12:00:00Z";
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at});
    let none = || Value::Null;
    let digest = Digest::of_bytes(b"evidence").to_string();
    let status = match name {
        "unseen" => Value::Null,
        "waiting" => json!({
            "startTime": at,
            "error": {"code": "AUTHORITY_CONFLICT",
                "message": "the slot is held by shop/orders-20261129 (operation 0123456789ab, IN_PROGRESS) (C-8)"},
            "conditions": [condition("SlotAcquired", "False", "Waiting", "the slot is held by shop/orders-20261129")],
        }),
        "running" => json!({
            "startTime": at, "dispatchTime": at, "phase": "InProgress", "classification": "PartialInProgress",
            "operationId": digest, "evidenceDigest": digest, "replicasCommitted": "1/2",
            "publication": {"entry": "query-0000000007", "result": "InProgress"},
            "replicas": [replica(1, "Committed", json!("TerminalSuccess"), none(), none()),
                replica(2, "Pending", json!("InProgress"), none(), none())],
            "conditions": [condition("Dispatched", "True", "Dispatched", "one statement was sent")],
        }),
        "stuck" => {
            let line = "waits behind query-0000000006 (created over 1 h ago; replica 2 Active): see what holds that entry up";
            let message = format!(
                "query-0000000007 does not progress; it is waited for, never sent again; waits for ch-2.ch:9000 (replica 2) {line} (F)"
            );
            json!({
                "startTime": at, "dispatchTime": at, "phase": "InProgress", "classification": "PartialInProgress",
                "cause": "OlderEntry", "operationId": digest, "evidenceDigest": digest, "replicasCommitted": "1/2",
                "publication": {"entry": "query-0000000007", "result": "InProgress"},
                "replicas": [replica(1, "Committed", json!("TerminalSuccess"), none(), none()),
                    replica(2, "Pending", json!("InProgress"), none(), json!(line))],
                "conditions": [condition("Dispatched", "True", "Dispatched", "one statement was sent"),
                    condition("Ready", "False", "OlderEntry", &message),
                    condition("Reconciling", "True", "OlderEntry", &message)],
            })
        }
        "blocked" => json!({
            "outcome": "Blocked", "startTime": at, "dispatchTime": at, "phase": "InProgress",
            "classification": "PartialTerminal", "operationId": digest, "evidenceDigest": digest,
            "replicasCommitted": "1/2", "publication": {"entry": "query-0000000007", "result": "TerminalFailure"},
            "replicas": [replica(1, "Committed", json!("TerminalSuccess"), none(), none()),
                replica(2, "Pending", json!("TerminalFailure"), json!(57), none())],
            "error": {"code": "PARTIAL_TERMINAL",
                "message": "ch-1.ch:9000 (replica 1) Committed (code 0), ch-2.ch:9000 (replica 2) Pending (code 57) (F)"},
            "conditions": [condition("ReplicasCommitted", "False", "PartialTerminal", "ch-1.ch:9000 (replica 1) Committed, ch-2.ch:9000 (replica 2) Pending"),
                condition("Stalled", "True", "PartialTerminal", "")],
        }),
        "succeeded" => json!({
            "outcome": "Succeeded", "startTime": at, "dispatchTime": at, "completionTime": at, "phase": "Completed",
            "classification": "Cleanup", "operationId": digest, "replicasCommitted": "2/2",
            "publication": {"entry": "query-0000000007", "result": "TerminalSuccess"},
            "cleanup": {"entry": "query-0000000009", "result": "TerminalSuccess"},
            "replicas": [replica(1, "Cleaned", json!("TerminalSuccess"), none(), none()),
                replica(2, "Cleaned", json!("TerminalSuccess"), none(), none())],
            "conditions": [condition("Ready", "True", "Published", ""),
                condition("Succeeded", "True", "Published", "proved on every replica")],
        }),
        // Of an operator with more codes and causes than this one.
        "newer" => json!({
            "outcome": "Blocked", "phase": "Unheard", "classification": "OutcomeUnknown", "cause": "Unheard",
            "replicas": [replica(1, "Unknown", none(), none(), json!("orders: Foreign"))],
            "error": {"code": "UNHEARD_OF", "message": "something new"},
        }),
        other => unreachable!("{other}"),
    };
    let mut object = manifest();
    if !status.is_null() {
        object["status"] = status;
    }
    serde_json::from_value(object).unwrap()
}

/// COMPLETED, with every entry bound and every result stored.
pub fn completed() -> Record {
    let mut record = record(Phase::Completed, CANDIDATE, true);
    record.payload.predecessor = Some(generation(8));
    let members = &record.payload.inventory.members;
    let codes: BTreeMap<_, _> = members.iter().map(|m| (m.server_uuid.clone(), 0)).collect();
    for dispatch in &mut record.payload.dispatches {
        dispatch.entry = Some(Binding {
            entry: format!("query-{:010}", 40 + dispatch.epoch),
            query_digest: Digest::of_bytes(b"q"),
        });
        dispatch.receipt = Some(Receipt::of(codes.clone()));
    }
    record
}
