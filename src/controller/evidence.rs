//! Status of what lies in the record and on the members: generations, statements, replicas.

use super::conditions::cut;
use super::status::{camel, time};
use super::stuck;
use crate::api::{
    ClusterPublicationStatus, GenerationStatus, MESSAGE_BYTES_MAX, ReplicaStatementStatus, ReplicaStatus,
    StatementResult, StatementStatus,
};
use publication_protocol::classify::QueueSummary;
use publication_protocol::driver::Report;
use publication_protocol::generation::GenerationIdentity;
use publication_protocol::identity::{Action, ServerUuid};
use publication_protocol::inventory::Member;
use publication_protocol::queue::{HostResult, QueueView};
use publication_protocol::record::{Dispatch, Record, Slot};
use publication_protocol::replica::MemberState;

/// What the slot says.
pub(super) fn of_slot(new: &mut ClusterPublicationStatus, slot: &Slot, report: &Report) {
    let record = &slot.record;
    let payload = &record.payload;
    new.phase = Some(camel(record.phase));
    new.classification = report.class.map(|c| c.as_str().to_owned());
    new.authority_version = i64::try_from(slot.version).ok();
    new.dispatch_epoch = i64::try_from(record.epoch).ok();
    new.inventory_digest = Some(payload.inventory_digest.to_string());
    new.predecessor = payload.predecessor.as_ref().map(generation);
    new.desired = Some(generation(&payload.desired));
    let publication = payload.dispatches.first();
    new.publication = publication.and_then(|d| statement(d, report));
    new.dispatch_time = publication.map(|d| time(d.at_ms));
    new.cleanup = last_cleanup(record).and_then(|d| statement(d, report));
    if let Some(evidence) = &report.evidence {
        new.evidence_digest = Some(evidence.to_string());
    }
    if !report.states.is_empty() {
        new.replicas = replicas(record, report);
        let published = report.states.values().filter(|s| s.is_published()).count();
        new.replicas_committed = Some(format!("{published}/{}", report.states.len()));
    }
}

fn generation(identity: &GenerationIdentity) -> GenerationStatus {
    GenerationStatus { uuid: identity.uuid.to_string(), digest: identity.digest().to_string() }
}

/// None when there is nothing to say: an empty object over one that had fields is applied as null, which the API refuses.
fn statement(dispatch: &Dispatch, report: &Report) -> Option<StatementStatus> {
    let seen = report.queues.get(&dispatch.epoch);
    let summary = match (&dispatch.receipt, seen) {
        (Some(receipt), _) => Some(QueueSummary::of_receipt(receipt)),
        (None, seen) => seen.map(QueueSummary::of_view),
    };
    let result = summary.map(|summary| match summary {
        QueueSummary::InProgress => StatementResult::InProgress,
        QueueSummary::TerminalSuccess => StatementResult::TerminalSuccess,
        QueueSummary::TerminalFailure => StatementResult::TerminalFailure,
        QueueSummary::NothingDispatched | QueueSummary::Unknown(_) => StatementResult::Unknown,
    });
    let bound = StatementStatus {
        action: None,
        entry: dispatch.entry.as_ref().map(|b| b.entry.clone()),
        query_digest: dispatch.entry.as_ref().map(|b| b.query_digest.to_string()),
        result: result.map(|r| r.as_str().to_owned()),
    };
    let known = bound != StatementStatus::default();
    known.then(|| StatementStatus { action: Some(action(dispatch).to_owned()), ..bound })
}

/// The publishing statement's result stays with each replica whatever is sent later; the cleanup has a place of its own.
fn replicas(record: &Record, report: &Report) -> Vec<ReplicaStatus> {
    let publication = record.payload.dispatches.first();
    let cleanup = last_cleanup(record);
    let one = |member: &Member| {
        let server = &member.server_uuid;
        let state = report.states.get(server).unwrap_or(&MemberState::Unobserved);
        let published = publication.and_then(|dispatch| result_on(dispatch, server, report));
        let cleaned = cleanup.and_then(|dispatch| {
            let result = result_on(dispatch, server, report)?;
            Some(ReplicaStatementStatus {
                action: action(dispatch).to_owned(),
                result: result_word(result).as_str().to_owned(),
                exception_code: code(result),
            })
        });
        ReplicaStatus {
            replica: member.replica.into(),
            host: member.host.clone(),
            port: member.port.into(),
            state: state.as_str().to_owned(),
            statement: published.map(|r| result_word(r).as_str().to_owned()),
            exception_code: published.and_then(code),
            cleanup: cleaned,
            message: message(state).or_else(|| stuck::line(report, server)),
        }
    };
    record.payload.inventory.members.iter().map(one).collect()
}

fn last_cleanup(record: &Record) -> Option<&Dispatch> {
    record.payload.dispatches.iter().rfind(|d| d.action != Action::Publish)
}

/// The stored receipt, else what the queue shows.
fn result_on(dispatch: &Dispatch, server: &ServerUuid, report: &Report) -> Option<HostResult> {
    match (&dispatch.receipt, report.queues.get(&dispatch.epoch)) {
        (Some(receipt), _) | (None, Some(QueueView::Terminal { receipt, .. })) => {
            receipt.codes.get(server).map(|code| host_result(*code))
        }
        (None, Some(QueueView::InProgress { hosts, .. })) => hosts.get(server).copied(),
        (None, _) => None,
    }
}

fn code(result: HostResult) -> Option<i32> {
    match result {
        HostResult::TerminalFailure(code) => i32::try_from(code).ok(),
        HostResult::InProgress | HostResult::TerminalSuccess | HostResult::Unknown => None,
    }
}

fn action(dispatch: &Dispatch) -> &'static str {
    match dispatch.action {
        Action::Bootstrap => "Bootstrap",
        Action::Publish => "Publish",
        Action::Retire => "Retire",
        Action::Drop => "Drop",
    }
}

fn host_result(code: u32) -> HostResult {
    if code == 0 { HostResult::TerminalSuccess } else { HostResult::TerminalFailure(code) }
}

fn result_word(result: HostResult) -> StatementResult {
    match result {
        HostResult::InProgress => StatementResult::InProgress,
        HostResult::TerminalSuccess => StatementResult::TerminalSuccess,
        HostResult::TerminalFailure(_) => StatementResult::TerminalFailure,
        HostResult::Unknown => StatementResult::Unknown,
    }
}

fn message(state: &MemberState) -> Option<String> {
    match state {
        MemberState::Unknown(m) => Some(cut(&format!("{}: {:?}", m.name, m.found), MESSAGE_BYTES_MAX)),
        MemberState::Unobserved => Some("does not answer".to_owned()),
        _ => None,
    }
}
