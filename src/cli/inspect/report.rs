//! What `inspect` says, as data. Tokens and fences stay between record and queue: they are shown by digest, or not.

use publication_protocol::admission::label;
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::identity::Action;
use publication_protocol::inventory::Member;
use publication_protocol::ports::MemberAnswer;
use publication_protocol::queue::{HostResult, QueueView};
use publication_protocol::record::{Dispatch, Record};
use publication_protocol::replica::{MemberState, observe};
use publication_protocol::verdict::Afresh;
use serde::Serialize;
use std::collections::BTreeMap;

/// One slot.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Namespace and name of the PublicationCluster.
    pub cluster: String,
    /// Database.
    pub database: String,
    /// Target.
    pub target: String,
    /// None: nothing was ever published there.
    pub slot: Option<Slot>,
}

/// The record, and what was found with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// Phase.
    pub phase: String,
    /// Operation that holds the slot.
    pub operation: String,
    /// `_version` of the row.
    pub version: u64,
    /// Dispatches so far.
    pub epoch: u64,
    /// Namespace, name and UID of the object that asked for it.
    pub owner: String,
    /// UID of that object's Kubernetes cluster.
    pub kubernetes_cluster: String,
    /// Candidate's name.
    pub candidate: String,
    /// UUID of the table that was there before.
    pub predecessor: Option<String>,
    /// UUID of the table to publish.
    pub desired: String,
    /// Every dispatch.
    pub dispatches: Vec<Sent>,
    /// Names that a late statement might still move.
    pub fences: Vec<Fenced>,
    /// Every bound member, and servers that are none.
    pub members: Vec<Seen>,
    /// Digest of the bound inventory.
    pub inventory_digest: String,
    /// How the cluster differs from the bound inventory.
    pub drift: Option<String>,
    /// Digest of the inventory as it is now, for Rebound.
    pub inventory_now: Option<String>,
    /// Verdicts that took effect.
    pub verdicts: Vec<String>,
    /// The last operations, oldest first.
    pub recent: Vec<Recent>,
    /// J-1: what a verdict must name.
    pub evidence_digest: String,
}

/// A dispatch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    /// Its epoch.
    pub epoch: u64,
    /// publish, retire or drop.
    pub action: String,
    /// The name that it moves or drops.
    pub from: String,
    /// The name that it gives.
    pub to: Option<String>,
    /// Entry in the queue.
    pub entry: Option<String>,
    /// What is known of it, and from where.
    pub result: String,
    /// By member.
    pub hosts: BTreeMap<String, String>,
}

/// A fence.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fenced {
    /// The name.
    pub name: String,
    /// Operation of the dispatch that is not accounted for.
    pub operation: String,
    /// Its epoch.
    pub epoch: u64,
    /// Rows of its entry in the queue: entry, host, status.
    pub queue: Vec<String>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// How it is named.
    pub member: String,
    /// State, or why it has none.
    pub state: String,
    /// What each name is there.
    pub tables: BTreeMap<String, String>,
}

/// An earlier operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    /// The operation.
    pub operation: String,
    /// Candidate's name.
    pub candidate: String,
    /// How it ended.
    pub ending: String,
    /// `_version` of its last record.
    pub version: u64,
}

/// The report of what was read.
pub fn of(cluster: String, database: &str, target: &str, seen: Option<&Afresh>) -> Report {
    Report { cluster, database: database.to_owned(), target: target.to_owned(), slot: seen.map(slot) }
}

fn slot(seen: &Afresh) -> Slot {
    let record = &seen.slot.record;
    let p = &record.payload;
    let (states, drift) = observe(record, &seen.members);
    let recent = p.recent.iter().map(|r| Recent {
        operation: r.operation.to_string(),
        candidate: r.candidate.clone(),
        ending: format!("{:?}", r.ending),
        version: r.final_version,
    });
    Slot {
        phase: record.phase.to_string(),
        operation: record.operation.to_string(),
        version: seen.slot.version,
        epoch: record.epoch,
        owner: format!("{}/{} ({})", p.owner.namespace, p.owner.name, p.owner.uid),
        kubernetes_cluster: p.owner.kube_uid.clone(),
        candidate: p.names.candidate.clone(),
        predecessor: p.predecessor.as_ref().map(|g| g.uuid.to_string()),
        desired: p.desired.uuid.to_string(),
        dispatches: p.dispatches.iter().map(|d| sent(record, d, seen)).collect(),
        fences: fences(seen),
        members: members(seen, &states),
        inventory_digest: p.inventory_digest.to_string(),
        drift: drift.map(|d| d.0),
        inventory_now: seen.inventory.as_ref().ok().map(|i| i.digest().to_string()),
        verdicts: p.verdicts.iter().map(|v| format!("{} ({})", v.decision, v.uid)).collect(),
        recent: recent.collect(),
        evidence_digest: seen.digest().to_string(),
    }
}

fn sent(record: &Record, dispatch: &Dispatch, seen: &Afresh) -> Sent {
    let name = |server: &publication_protocol::identity::ServerUuid| {
        record.payload.inventory.by_uuid(server).map_or_else(|| server.to_string(), Member::name)
    };
    let view = seen.rows.as_deref().map(|rows| record.queue_view(dispatch, rows));
    let codes = |codes: &BTreeMap<_, u32>| {
        codes.iter().map(|(server, code)| (name(server), ended(*code))).collect::<BTreeMap<_, _>>()
    };
    let (result, hosts) = match (&dispatch.receipt, view) {
        (Some(receipt), _) => {
            let kind = if receipt.is_success() { "success" } else { "failure" };
            let kind = if receipt.folded.is_some() { "terminal, digest only" } else { kind };
            (format!("receipt stored: {kind}"), codes(&receipt.codes))
        }
        (None, _) if record.phase.is_final() => ("never accounted for".to_owned(), BTreeMap::new()),
        (None, None) => ("the queue cannot be read".to_owned(), BTreeMap::new()),
        (None, Some(QueueView::Terminal { receipt, .. })) => {
            ("queue: terminal".to_owned(), codes(&receipt.codes))
        }
        (None, Some(QueueView::InProgress { hosts, .. })) => {
            let hosts = hosts.iter().map(|(server, result)| (name(server), word(*result))).collect();
            ("queue: in progress".to_owned(), hosts)
        }
        (None, Some(QueueView::Unknown(doubt))) => (format!("queue: unknown ({doubt:?})"), BTreeMap::new()),
    };
    Sent {
        epoch: dispatch.epoch,
        action: action(dispatch.action).to_owned(),
        from: dispatch.from.clone(),
        to: dispatch.to.clone(),
        entry: dispatch.entry.as_ref().map(|b| b.entry.clone()),
        result,
        hosts,
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::Bootstrap => "bootstrap",
        Action::Publish => "publish",
        Action::Retire => "retire",
        Action::Drop => "drop",
    }
}

fn ended(code: u32) -> String {
    if code == 0 { "done".to_owned() } else { format!("failed with code {code}") }
}

fn word(result: HostResult) -> String {
    match result {
        HostResult::InProgress => "unfinished".to_owned(),
        HostResult::TerminalSuccess => ended(0),
        HostResult::TerminalFailure(code) => ended(code),
        HostResult::Unknown => "unknown".to_owned(),
    }
}

fn fences(seen: &Afresh) -> Vec<Fenced> {
    let rows = seen.rows.as_deref().unwrap_or_default();
    let record = &seen.slot.record;
    let fence = |fence: publication_protocol::record::Fence| {
        let own = rows.iter().filter(|row| row.token == fence.token.as_str());
        let queue = own.map(|row| {
            let host = row.host.as_deref().unwrap_or("?");
            let known = row.port.and_then(|port| record.payload.inventory.by_endpoint(host, port));
            let host = known.map_or_else(|| host.to_owned(), Member::name);
            format!("{} on {host}: {}", row.entry, row.status.as_deref().unwrap_or("no status"))
        });
        Fenced {
            name: fence.name.clone(),
            operation: fence.operation.short(),
            epoch: fence.epoch,
            queue: queue.collect(),
        }
    };
    // Before the end every open epoch would be one: that is what `dispatches` shows.
    let fences = if record.phase.is_final() { record.fences() } else { record.payload.fenced.clone() };
    fences.into_iter().map(fence).collect()
}

fn members(
    seen: &Afresh,
    states: &BTreeMap<publication_protocol::identity::ServerUuid, MemberState>,
) -> Vec<Seen> {
    let record = &seen.slot.record;
    let inventory = &record.payload.inventory;
    let mut all: Vec<Seen> = inventory
        .members
        .iter()
        .map(|member| {
            let answer = seen.members.members.iter().find(|a| a.server_uuid == member.server_uuid);
            Seen {
                member: label(member),
                state: match states.get(&member.server_uuid).unwrap_or(&MemberState::Unobserved) {
                    // F: of an operation that is over the tables need not tell anything any more.
                    seen if record.phase.is_final() && *seen != MemberState::Unobserved => {
                        "answers".to_owned()
                    }
                    seen => state(seen),
                },
                tables: answer.map(|a| tables(record, a)).unwrap_or_default(),
            }
        })
        .collect();
    let strangers = seen.members.members.iter().filter(|a| inventory.by_uuid(&a.server_uuid).is_none());
    all.extend(strangers.map(|answer| Seen {
        member: format!("server {}", answer.server_uuid),
        state: "not a bound member".to_owned(),
        tables: tables(record, answer),
    }));
    all
}

fn state(state: &MemberState) -> String {
    match state {
        MemberState::Unknown(mismatch) => format!("Unknown ({}: {:?})", mismatch.name, mismatch.found),
        other => other.as_str().to_owned(),
    }
}

fn tables(record: &Record, answer: &MemberAnswer) -> BTreeMap<String, String> {
    record
        .all_names()
        .into_iter()
        .map(|name| (name.clone(), what(record, answer.tables.get(&name))))
        .collect()
}

fn what(record: &Record, fact: Option<&TableFact>) -> String {
    let (old, desired) = (record.payload.predecessor.as_ref(), &record.payload.desired);
    match fact {
        None => "not said".to_owned(),
        Some(TableFact::Absent) => "absent".to_owned(),
        Some(TableFact::Other(NotAGeneration::Engine(engine))) => format!("a {engine}"),
        Some(TableFact::Other(_)) => "no replicated table".to_owned(),
        Some(TableFact::Generation { identity, .. }) => {
            let known = [(Some(desired), "desired"), (old, "predecessor")];
            let found = known.into_iter().find(|(k, _)| k.is_some_and(|k| k.same_table(identity)));
            match found {
                Some((known, word)) if known == Some(identity) => word.to_owned(),
                Some((_, word)) => format!("{word}, printed differently"),
                None => format!("another table ({})", identity.uuid),
            }
        }
    }
}
