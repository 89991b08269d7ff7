//! J: the evidence that a verdict must name: the record without timestamps, every member's identities under every name
//! of the operation, and what the queue says. No volatile health, so that it holds still while a person decides.

use crate::canonical::{Canonical, Digest};
use crate::generation::TableFact;
use crate::identity::CorrelationToken;
use crate::inventory::ClusterRow;
use crate::ports::{MemberAnswer, MembersAnswer};
use crate::queue::{HostResult, QueueRow, host_result};
use crate::record::{Record, Slot, VersionedRow};
use std::collections::{BTreeMap, BTreeSet};

/// What a scan must ask for: open dispatches; on a final slot the dispatches that fence a name.
pub fn tokens(record: &Record) -> Vec<CorrelationToken> {
    if record.phase.is_final() {
        record.fences().into_iter().map(|fence| fence.token).collect()
    } else {
        record.open_tokens()
    }
}

/// What the queue says, order and volatile columns apart. `None` = it could not be read.
pub fn queue_digest(rows: Option<&[QueueRow]>) -> Digest {
    let digest = Canonical::new("queue-evidence/v1");
    let Some(rows) = rows else { return digest.text("unreadable").digest() };
    let ordered: BTreeSet<&QueueRow> = rows.iter().collect();
    ordered
        .into_iter()
        .fold(digest.number(rows.len() as u64), |digest, row| {
            let result = host_result(row.status.as_deref(), row.exception_code, row.exception_text);
            digest
                .text(&row.token)
                .text(&row.entry)
                .text(&row.cluster)
                .text(&row.query)
                .maybe(row.host.as_deref())
                .number(row.port.unwrap_or(0).into())
                .text(&result_text(result))
        })
        .digest()
}

fn result_text(result: HostResult) -> String {
    match result {
        HostResult::InProgress => "in progress".into(),
        HostResult::TerminalSuccess => "success".into(),
        HostResult::TerminalFailure(code) => format!("failure {code}"),
        HostResult::Unknown => "unknown".into(),
    }
}

/// The evidence digest (J-1).
pub fn digest(slot: &Slot, queue: Digest, answer: &MembersAnswer) -> Digest {
    let record = &slot.record;
    let mut digest = record_digest(slot).bytes(queue.bytes());
    // By identity, never by order; a server that answers twice counts twice.
    let mut answers: Vec<&MemberAnswer> = answer.members.iter().collect();
    answers.sort();
    digest = digest.number(answers.len() as u64);
    for member in answers {
        digest = place(digest, member);
        for name in record.all_names() {
            digest = digest.text(&name).text(&fact_text(&member.tables, &name));
        }
    }
    digest.number(answer.failures.len() as u64).digest()
}

/// J-4, where no slot is named: the binding row and every member's own view of the cluster.
pub fn cluster_digest(binding: &VersionedRow, answer: &MembersAnswer) -> Digest {
    let start =
        Canonical::new("cluster-evidence/v1").number(binding.version).text(&binding.row.payload_sha256);
    let ordered: BTreeSet<&MemberAnswer> = answer.members.iter().collect();
    ordered.into_iter().fold(start, place).number(answer.failures.len() as u64).digest()
}

/// Who answered, and what it takes for the cluster; the order of its rows apart.
fn place(digest: Canonical, member: &MemberAnswer) -> Canonical {
    let ordered: BTreeSet<&ClusterRow> = member.view.iter().collect();
    let start = digest.text(member.server_uuid.as_str()).number(member.view.len() as u64);
    ordered.into_iter().fold(start, |digest, row| {
        digest.text(&format!("{}/{}/{}:{}/{}", row.shard, row.replica, row.host, row.port, row.is_local))
    })
}

fn fact_text(tables: &BTreeMap<String, TableFact>, name: &str) -> String {
    match tables.get(name) {
        // Not the same as absent: a member that did not say is no evidence (B-2).
        None => "unsaid".into(),
        Some(TableFact::Absent) => "absent".into(),
        Some(TableFact::Generation { identity, .. }) => identity.digest().to_string(),
        Some(TableFact::Other(other)) => format!("{other:?}"),
    }
}

fn record_digest(slot: &Slot) -> Canonical {
    let (record, p) = (&slot.record, &slot.record.payload);
    let mut digest = Canonical::new("evidence/v1")
        .number(slot.version)
        .text(&record.operation.to_string())
        .text(&record.fence.to_string())
        .text(record.phase.as_str())
        .number(record.epoch)
        .bytes(p.inventory_digest.bytes())
        .maybe(p.predecessor.as_ref().map(|g| g.digest().to_string()).as_deref())
        .bytes(p.desired.digest().bytes())
        .number(p.dispatches.len() as u64);
    for dispatch in &p.dispatches {
        digest = digest
            .number(dispatch.epoch)
            .text(dispatch.token.as_str())
            .text(&dispatch.from)
            .maybe(dispatch.to.as_deref())
            .maybe(dispatch.entry.as_ref().map(|b| format!("{} {}", b.entry, b.query_digest)).as_deref())
            .maybe(dispatch.receipt.as_ref().map(|r| format!("{:?} {:?}", r.codes, r.folded)).as_deref());
    }
    for fence in record.fences() {
        digest = digest.text(&fence.name).number(fence.epoch).text(fence.token.as_str());
    }
    digest
}
