//! Conditions of a ClusterPublication: which stage it has reached, and what stands against the one it is at. A reason
//! is told by the condition that it concerns and by Ready; stages behind it are Unknown, for nobody has looked at them.

use super::conditions::Conditions;
use super::findings::told;
use super::status::Facts;
use super::stuck;
use crate::api::{ClusterPublicationStatus, ConditionType, Outcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Held};
use publication_protocol::phase::Phase;
use publication_protocol::record::Record;
use publication_protocol::replica::MemberState;

/// Longest text of a condition that joins several findings, in bytes.
const TEXT_BYTES_MAX: usize = 1000;

/// Reason of `SlotAcquired` while it is not known whether a slot is left to release.
pub(super) const RELEASE_PENDING: &str = "ReleasePending";

/// What happens after a dispatch.
const AFTERWARDS: [ConditionType; 3] =
    [ConditionType::Dispatched, ConditionType::ReplicasCommitted, ConditionType::CleanedUp];

/// The condition that a reason concerns before a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Admitted,
    Converged,
    Slot,
    /// None of them: what was waited for stays as it was told.
    Deadline,
}

impl Gate {
    fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::CandidateNotConverged | ErrorCode::RowCountMismatch => Self::Converged,
            ErrorCode::AuthorityConflict | ErrorCode::CasConflict | ErrorCode::CasOutcomeUnknown => {
                Self::Slot
            }
            ErrorCode::AdmissionDeadline => Self::Deadline,
            _ => Self::Admitted,
        }
    }
}

/// What is said of this pass, once.
struct Said {
    gate: Option<Gate>,
    reason: &'static str,
    text: String,
}

/// All conditions.
pub(super) fn conditions(
    old: &ClusterPublicationStatus,
    new: &ClusterPublicationStatus,
    facts: &Facts<'_>,
    now: &Time,
) -> Vec<Condition> {
    let mut c = Conditions::new(&old.conditions, new.observed_generation, now.clone());
    let said = said(facts);
    let record = facts.report.slot.as_ref().map(|s| &s.record);
    match record.filter(|record| record.phase != Phase::Released) {
        Some(record) => holding(&mut c, record, facts),
        None if facts.report.end == End::Succeeded => listed(&mut c),
        // The record could not be read: nothing new is known of what was dispatched.
        None if holds(old) && record.is_none() => {
            for kind in
                [ConditionType::Admitted, ConditionType::CandidateConverged, ConditionType::SlotAcquired]
            {
                c.keep(kind);
            }
            AFTERWARDS.into_iter().for_each(|kind| c.keep(kind));
        }
        None => {
            before(&mut c, facts, &said);
            AFTERWARDS.into_iter().for_each(|kind| c.not_reached(kind));
        }
    }
    summary(&mut c, new, facts, &said);
    c.finish()
}

/// C-14: what is known when the witness is written.
pub(super) fn witnessed(old: &[Condition], generation: Option<i64>, now: &Time) -> Vec<Condition> {
    let mut c = Conditions::new(old, generation, now.clone());
    c.admitted(&[]);
    converged(&mut c);
    acquired(&mut c, Phase::Prepared);
    AFTERWARDS.into_iter().for_each(|kind| c.not_reached(kind));
    c.set(ConditionType::Ready, false, "Progressing", "");
    c.set(ConditionType::Reconciling, true, "Progressing", "publishing");
    c.finish()
}

fn said(facts: &Facts<'_>) -> Said {
    let report = facts.report;
    if let Some((code, text)) = told(&report.findings, TEXT_BYTES_MAX) {
        return Said { gate: Some(Gate::of(code)), reason: code.reason(), text };
    }
    if let (None, Some((reason, text))) = (&report.held, stuck::reason(report)) {
        return Said { gate: None, reason, text };
    }
    let (reason, text) = match &report.held {
        Some(Held::Suspended) => {
            ("Suspended", "the PublicationCluster is suspended; nothing new is dispatched".to_owned())
        }
        Some(Held::Stopping) => {
            ("Stopping", "the operator is stopping; nothing new is dispatched".to_owned())
        }
        Some(Held::Behind(older)) => ("Waiting", format!("{older} was there first and goes first")),
        None => ("Progressing", String::new()),
    };
    Said { gate: report.held.as_ref().map(|_| Gate::Slot), reason, text }
}

/// The status shows a witness, and no release after it: the slot is this operation's, dispatched or about to be.
pub(super) fn holds(old: &ClusterPublicationStatus) -> bool {
    old.authority_version.is_some() && old.phase.as_deref() != Some("Released")
}

fn converged(c: &mut Conditions<'_>) {
    c.set(ConditionType::CandidateConverged, true, "Converged", "complete and healthy on every member");
}

fn acquired(c: &mut Conditions<'_>, phase: Phase) {
    let (reason, text) = if phase.is_final() {
        ("Ended", "this operation held the target's slot until its end")
    } else {
        ("Acquired", "this operation holds the target's slot")
    };
    c.set(ConditionType::SlotAcquired, true, reason, text);
}

/// Nothing was dispatched, and the slot is not this operation's.
fn before(c: &mut Conditions<'_>, facts: &Facts<'_>, said: &Said) {
    use ConditionType::{Admitted, CandidateConverged, SlotAcquired};
    let (reason, text) = (said.reason, said.text.as_str());
    match said.gate {
        Some(Gate::Admitted) => {
            c.set(Admitted, false, reason, text);
            if facts.report.converged {
                converged(c);
            } else {
                c.not_reached(CandidateConverged);
            }
            c.not_reached(SlotAcquired);
        }
        Some(Gate::Converged) => {
            c.set(Admitted, false, "Waiting", "waits for CandidateConverged");
            c.set(CandidateConverged, false, reason, text);
            c.not_reached(SlotAcquired);
        }
        Some(Gate::Slot) => {
            c.not_reached(Admitted);
            // Another operation came first; that takes nobody's place in the queue.
            if facts.report.converged {
                converged(c);
            } else {
                c.keep_true(CandidateConverged);
            }
            let waits = facts.report.findings.first().is_some_and(|f| f.code == ErrorCode::AuthorityConflict);
            c.set(SlotAcquired, false, if waits { "Waiting" } else { reason }, text);
        }
        Some(Gate::Deadline) => {
            c.keep_or_not_reached(Admitted);
            c.keep_or_not_reached(CandidateConverged);
            if facts.release_pending {
                c.unknown(SlotAcquired, RELEASE_PENDING, "nothing was dispatched; a slot that was only prepared is released as soon as the record can be read");
            } else {
                c.set(SlotAcquired, false, "Released", "nothing was dispatched, and no slot is held");
            }
        }
        None => {
            c.keep_or_not_reached(Admitted);
            c.keep_or_not_reached(CandidateConverged);
            c.not_reached(SlotAcquired);
        }
    }
}

/// The slot is this operation's, or was until its end.
fn holding(c: &mut Conditions<'_>, record: &Record, facts: &Facts<'_>) {
    let report = facts.report;
    c.admitted(&report.warnings);
    converged(c);
    acquired(c, record.phase);
    if record.epoch == 0 {
        AFTERWARDS.into_iter().for_each(|kind| c.not_reached(kind));
        return;
    }
    c.set(ConditionType::Dispatched, true, "Dispatched", "the publishing statement was sent once");
    let (completed, outcomes) = (record.phase == Phase::Completed, outcomes(record, facts));
    let published = !report.states.is_empty() && report.states.values().all(MemberState::is_published);
    if completed || published {
        let proved = "proved on every replica before the record was completed".to_owned();
        let text = if outcomes.is_empty() { proved } else { outcomes };
        c.set(ConditionType::ReplicasCommitted, true, "Committed", &text);
    } else if outcomes.is_empty() {
        c.keep_or_not_reached(ConditionType::ReplicasCommitted);
    } else {
        let reason = report.class.map_or("Unknown", Classification::as_str);
        c.set(ConditionType::ReplicasCommitted, false, reason, &outcomes);
    }
    cleaned_up(c, record, facts);
}

fn cleaned_up(c: &mut Conditions<'_>, record: &Record, facts: &Facts<'_>) {
    let by_verdict = record.payload.verdicts.iter().any(|v| v.decision == "Committed");
    let (is, reason, text) = match record.phase {
        Phase::Completed if by_verdict => {
            (true, "ByVerdict", "the renamed predecessor is left to who decided")
        }
        Phase::Completed if record.payload.predecessor.is_none() => {
            (true, "Completed", "nothing was replaced")
        }
        Phase::Completed => (true, "Completed", "the predecessor is gone from every replica"),
        Phase::Abandoned => (false, "Abandoned", "ended by verdict as not applied; nothing is cleaned up"),
        _ => {
            let cause = facts.report.class.and_then(Classification::cause);
            (false, cause.unwrap_or("Pending"), "")
        }
    };
    c.set(ConditionType::CleanedUp, is, reason, text);
}

/// Each replica, by number.
fn outcomes(record: &Record, facts: &Facts<'_>) -> String {
    let states = &facts.report.states;
    if states.is_empty() {
        return String::new();
    }
    let one = |m: &publication_protocol::inventory::Member| {
        let state = states.get(&m.server_uuid).unwrap_or(&MemberState::Unobserved);
        format!("{} {}", m.name(), state.as_str())
    };
    let all: Vec<String> = record.payload.inventory.members.iter().map(one).collect();
    all.join(", ")
}

/// F-2: completed, and another operation has the slot by now.
fn listed(c: &mut Conditions<'_>) {
    const TEXT: &str = "the slot's history lists this operation as completed";
    c.admitted(&[]);
    converged(c);
    c.set(ConditionType::SlotAcquired, true, "Ended", TEXT);
    for (kind, reason) in AFTERWARDS.into_iter().zip(["Dispatched", "Committed", "Completed"]) {
        c.set(kind, true, reason, TEXT);
    }
}

fn summary(c: &mut Conditions<'_>, new: &ClusterPublicationStatus, facts: &Facts<'_>, said: &Said) {
    let (reason, text) = (said.reason, said.text.as_str());
    let (good, proved) = match repeated(facts) {
        Some(first) => ("AlreadyPublished", format!("{first} published this; nothing was performed again")),
        None => ("Published", "proved on every replica".to_owned()),
    };
    let drifted = facts.report.findings.first().is_some_and(|f| f.code == ErrorCode::IdentityDrift);
    match new.outcome {
        Some(Outcome::Succeeded) => {
            let (reason, text) = if drifted { (reason, text) } else { (good, proved.as_str()) };
            c.set(ConditionType::Succeeded, true, reason, text);
            c.set(ConditionType::Ready, true, if drifted { reason } else { good }, text);
        }
        Some(Outcome::Failed | Outcome::Blocked) => {
            c.set(ConditionType::Succeeded, false, reason, "see Ready");
            c.set(ConditionType::Ready, false, reason, text);
            c.set(ConditionType::Stalled, true, reason, text);
        }
        None => {
            c.set(ConditionType::Ready, false, reason, text);
            c.set(ConditionType::Reconciling, true, reason, text);
        }
    }
    if facts.deleted && new.outcome == Some(Outcome::Blocked) {
        c.set(ConditionType::DeletionBlocked, true, reason, &format!("deleted, but unresolved: {text}"));
    }
}

/// H-2: the object whose operation this one is, if it is another.
fn repeated(facts: &Facts<'_>) -> Option<String> {
    let owner = &facts.report.slot.as_ref()?.record.payload.owner;
    let other = facts.uid.as_deref().is_some_and(|uid| uid != owner.uid);
    other.then(|| format!("{}/{}", owner.namespace, owner.name))
}

#[cfg(test)]
#[path = "stages_tests.rs"]
mod tests;
