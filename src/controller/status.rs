//! Status of a ClusterPublication: a pure projection of (old, report, now). It decides nothing.

use super::conditions::{Conditions, cut};
use super::stuck;
use crate::api::{
    ClusterPublicationStatus, ConditionType, ErrorStatus, GenerationStatus, MESSAGE_BYTES_MAX, Outcome,
    ReplicaStatus, StatementResult, StatementStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use publication_protocol::admission::Finding;
use publication_protocol::classify::{Classification, QueueSummary};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Held, Report};
use publication_protocol::generation::GenerationIdentity;
use publication_protocol::identity::{Action, RootId};
use publication_protocol::phase::Phase;
use publication_protocol::queue::{HostResult, QueueView};
use publication_protocol::record::{Dispatch, Record, Slot};
use publication_protocol::replica::MemberState;

/// What a pass, or a refusal before it, says.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) generation: Option<i64>,
    /// Somebody asked for the object's deletion.
    pub(super) deleted: bool,
    pub(super) operation: Option<String>,
    pub(super) root: Option<RootId>,
    pub(super) report: &'a Report,
}

/// The whole new status.
pub(super) fn project(
    old: &ClusterPublicationStatus,
    facts: &Facts<'_>,
    now: &Time,
) -> ClusterPublicationStatus {
    let report = facts.report;
    let outcome = outcome(report.end);
    let mut new = ClusterPublicationStatus {
        observed_generation: facts.generation,
        outcome,
        operation_id: facts.operation.clone().or_else(|| old.operation_id.clone()),
        facade_root: facts.root.map(|r| r.to_string()).or_else(|| old.facade_root.clone()),
        start_time: old.start_time.clone().or_else(|| Some(first_seen(report, now))),
        completion_time: match outcome {
            Some(Outcome::Succeeded | Outcome::Failed) => {
                old.completion_time.clone().or_else(|| Some(now.clone()))
            }
            Some(Outcome::Blocked) | None => None,
        },
        error: report.findings.first().map(error),
        ..old.clone()
    };
    match &report.slot {
        Some(slot) => of_slot(&mut new, slot, report),
        // The witness outlives a slot that another operation took (F-2).
        None => new.classification = report.class.map(|c| c.as_str().to_owned()),
    }
    new.cause = stuck::cause(report).map(str::to_owned);
    new.conditions = conditions(old, &new, facts, now);
    new
}

/// A first pass can end with everything done: it began no later than its record.
fn first_seen(report: &Report, now: &Time) -> Time {
    let prepared = report.slot.as_ref().map(|slot| time(slot.record.payload.prepared_ms));
    prepared.filter(|prepared| prepared < now).unwrap_or_else(|| now.clone())
}

/// C-14: what the status shows before the first dispatching CAS.
pub(super) fn witness(
    old: &ClusterPublicationStatus,
    facts: (Option<i64>, &str, RootId, u64),
    now: &Time,
) -> ClusterPublicationStatus {
    let (generation, operation, root, version) = facts;
    let mut conditions = Conditions::new(&old.conditions, generation, now.clone());
    conditions.set(ConditionType::Admitted, true, "Admitted", "every rule of admission holds");
    conditions.set(
        ConditionType::CandidateConverged,
        true,
        "Converged",
        "complete and healthy on every member",
    );
    conditions.set(ConditionType::SlotAcquired, true, "Prepared", "this operation holds the target's slot");
    conditions.set(ConditionType::Ready, false, "Progressing", "");
    conditions.set(ConditionType::Reconciling, true, "Progressing", "publishing");
    ClusterPublicationStatus {
        observed_generation: generation,
        outcome: None,
        phase: Some(camel(Phase::Prepared)),
        operation_id: Some(operation.to_owned()),
        facade_root: Some(root.to_string()),
        authority_version: i64::try_from(version).ok(),
        start_time: old.start_time.clone().or_else(|| Some(now.clone())),
        error: None,
        conditions: conditions.finish(),
        ..old.clone()
    }
}

fn outcome(end: End) -> Option<Outcome> {
    match end {
        End::Succeeded => Some(Outcome::Succeeded),
        End::Failed => Some(Outcome::Failed),
        End::Stalled | End::Halted => Some(Outcome::Blocked),
        End::Waiting | End::Gone => None,
    }
}

fn error(finding: &Finding) -> ErrorStatus {
    let message = format!("{} ({})", finding.message, finding.rule);
    ErrorStatus { code: finding.code.as_str().to_owned(), message: cut(&message, MESSAGE_BYTES_MAX) }
}

fn of_slot(new: &mut ClusterPublicationStatus, slot: &Slot, report: &Report) {
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
    let cleanup = payload.dispatches.iter().rfind(|d| d.action != Action::Publish);
    new.cleanup = cleanup.and_then(|d| statement(d, report));
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
    let status = StatementStatus {
        entry: dispatch.entry.as_ref().map(|b| b.entry.clone()),
        query_digest: dispatch.entry.as_ref().map(|b| b.query_digest.to_string()),
        result: result.map(|r| r.as_str().to_owned()),
    };
    (status != StatementStatus::default()).then_some(status)
}

fn replicas(record: &Record, report: &Report) -> Vec<ReplicaStatus> {
    let last = record.last_dispatch();
    record
        .payload
        .inventory
        .members
        .iter()
        .map(|member| {
            let state = report.states.get(&member.server_uuid).unwrap_or(&MemberState::Unobserved);
            let result =
                last.and_then(|dispatch| match (&dispatch.receipt, report.queues.get(&dispatch.epoch)) {
                    (Some(receipt), _) => {
                        receipt.codes.get(&member.server_uuid).map(|code| host_result(*code))
                    }
                    (None, Some(QueueView::InProgress { hosts, .. })) => {
                        hosts.get(&member.server_uuid).copied()
                    }
                    (None, _) => None,
                });
            ReplicaStatus {
                replica: member.replica.into(),
                host: member.host.clone(),
                port: member.port.into(),
                state: state.as_str().to_owned(),
                statement: result.map(|r| result_word(r).as_str().to_owned()),
                exception_code: match result {
                    Some(HostResult::TerminalFailure(code)) => i32::try_from(code).ok(),
                    _ => None,
                },
                message: message(state).or_else(|| stuck::line(report, &member.server_uuid)),
            }
        })
        .collect()
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

fn conditions(
    old: &ClusterPublicationStatus,
    new: &ClusterPublicationStatus,
    facts: &Facts<'_>,
    now: &Time,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let report = facts.report;
    let mut c = Conditions::new(&old.conditions, new.observed_generation, now.clone());
    let first = report.findings.first();
    let held = report.held.as_ref().map(held).or_else(|| stuck::reason(report));
    let (reason, text) = match (first, &held) {
        (Some(finding), _) => (finding.code.reason(), finding.message.as_str()),
        (None, Some((reason, text))) => (*reason, text.as_str()),
        (None, None) => ("Progressing", ""),
    };
    admission(&mut c, report, reason, text);
    let record = report.slot.as_ref().map(|s| &s.record);
    match record {
        Some(record) => dispatch(&mut c, record, report),
        None => {
            for kind in
                [ConditionType::Dispatched, ConditionType::ReplicasCommitted, ConditionType::CleanedUp]
            {
                c.keep(kind);
            }
        }
    }
    let succeeded = report.end == End::Succeeded;
    match new.outcome {
        Some(Outcome::Succeeded) if first.is_some_and(|f| f.code == ErrorCode::IdentityDrift) => {
            c.set(ConditionType::Succeeded, true, reason, text);
        }
        Some(Outcome::Succeeded) => {
            c.set(ConditionType::Succeeded, true, "Published", "proved on every replica");
        }
        Some(Outcome::Failed | Outcome::Blocked) => c.set(ConditionType::Succeeded, false, reason, text),
        None => {}
    }
    c.set(ConditionType::Ready, succeeded, if succeeded { "Published" } else { reason }, text);
    match new.outcome {
        None => c.set(ConditionType::Reconciling, true, reason, text),
        Some(Outcome::Failed | Outcome::Blocked) => c.set(ConditionType::Stalled, true, reason, text),
        Some(Outcome::Succeeded) => {}
    }
    if facts.deleted && new.outcome == Some(Outcome::Blocked) {
        let why = format!("deleted, but unresolved: {text}");
        c.set(ConditionType::DeletionBlocked, true, reason, &why);
    }
    c.finish()
}

fn admission(c: &mut Conditions<'_>, report: &Report, reason: &str, text: &str) {
    let holds = report.slot.as_ref().is_some_and(|s| s.record.phase != Phase::Released);
    if report.converged {
        c.set(ConditionType::CandidateConverged, true, "Converged", "complete and healthy on every member");
    } else if report.slot.is_none() && report.end != End::Succeeded {
        c.set(ConditionType::CandidateConverged, false, reason, text);
    } else {
        c.keep(ConditionType::CandidateConverged);
    }
    if holds {
        c.admitted(&report.warnings);
        c.set(ConditionType::SlotAcquired, true, "Acquired", "this operation holds the target's slot");
    } else if report.end == End::Succeeded {
        c.keep(ConditionType::Admitted);
        c.keep(ConditionType::SlotAcquired);
    } else {
        c.set(ConditionType::Admitted, false, reason, text);
        let waits = report.findings.first().is_some_and(|f| f.code == ErrorCode::AuthorityConflict);
        c.set(ConditionType::SlotAcquired, false, if waits { "Waiting" } else { reason }, text);
    }
}

fn dispatch(c: &mut Conditions<'_>, record: &Record, report: &Report) {
    let dispatched = record.epoch > 0 && record.phase != Phase::Released;
    if !dispatched {
        return;
    }
    c.set(ConditionType::Dispatched, true, "Dispatched", "the publishing statement was sent once");
    if report.states.is_empty() {
        c.keep(ConditionType::ReplicasCommitted);
    } else {
        let all = report.states.values().all(MemberState::is_published);
        let outcomes: Vec<String> = record
            .payload
            .inventory
            .members
            .iter()
            .map(|m| {
                let state = report.states.get(&m.server_uuid).unwrap_or(&MemberState::Unobserved);
                format!("{} {}", m.name(), state.as_str())
            })
            .collect();
        let reason = if all { "Committed" } else { report.class.map_or("Unknown", |c| c.as_str()) };
        c.set(ConditionType::ReplicasCommitted, all, reason, &outcomes.join(", "));
    }
    let completed = record.phase == Phase::Completed;
    let why = report.class.and_then(Classification::cause).unwrap_or("Pending");
    c.set(ConditionType::CleanedUp, completed, if completed { "Completed" } else { why }, "");
}

fn held(held: &Held) -> (&'static str, String) {
    match held {
        Held::Suspended => {
            ("Suspended", "the PublicationCluster is suspended; nothing new is dispatched".to_owned())
        }
        Held::Stopping => ("Stopping", "the operator is stopping; nothing new is dispatched".to_owned()),
        Held::Behind(older) => ("Waiting", format!("{older} was there first and goes first")),
    }
}

/// The record's phase as users read it.
pub(super) fn camel(phase: Phase) -> String {
    phase
        .as_str()
        .split('_')
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{first}{}", rest.to_lowercase())
        })
        .collect()
}

fn time(ms: u64) -> Time {
    let second = i64::try_from(ms / 1000).unwrap_or(0);
    Time(
        k8s_openapi::jiff::Timestamp::from_second(second).unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    )
}
