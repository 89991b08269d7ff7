//! Status of a ClusterPublication: a pure projection of (old, report, now). It decides nothing.

use super::conditions::cut;
use super::findings::told;
use super::{evidence, stages, stuck};
use crate::api::{ClusterPublicationStatus, ErrorStatus, MESSAGE_BYTES_MAX, Outcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use publication_protocol::admission::Finding;
use publication_protocol::driver::{End, Report};
use publication_protocol::identity::RootId;
use publication_protocol::phase::Phase;

/// What a pass, or a refusal before it, says.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) generation: Option<i64>,
    /// Somebody asked for the object's deletion.
    pub(super) deleted: bool,
    /// The deadline ended the object before its record could be read.
    pub(super) release_pending: bool,
    /// Of the object.
    pub(super) uid: Option<String>,
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
        operation_id: shown(report, old, facts.operation.clone(), old.operation_id.clone()),
        facade_root: shown(report, old, facts.root.map(|r| r.to_string()), old.facade_root.clone()),
        start_time: old.start_time.clone().or_else(|| Some(first_seen(report, now))),
        completion_time: match outcome {
            Some(Outcome::Succeeded | Outcome::Failed) => {
                old.completion_time.clone().or_else(|| Some(now.clone()))
            }
            Some(Outcome::Blocked) | None => None,
        },
        error: error(&report.findings),
        ..old.clone()
    };
    match &report.slot {
        Some(slot) => evidence::of_slot(&mut new, slot, report),
        // The witness outlives a slot that another operation took (F-2).
        None => new.classification = report.class.map(|c| c.as_str().to_owned()),
    }
    new.cause = stuck::cause(report).map(str::to_owned);
    new.conditions = stages::conditions(old, &new, facts, now);
    new
}

/// C-14, F-2: what was shown with a version stays the witness until a record is seen again, whatever root the cluster
/// has by now.
fn shown(
    report: &Report,
    old: &ClusterPublicationStatus,
    now: Option<String>,
    before: Option<String>,
) -> Option<String> {
    let witness = report.slot.is_none() && old.authority_version.is_some();
    if witness { before.or(now) } else { now.or(before) }
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
    ClusterPublicationStatus {
        observed_generation: generation,
        outcome: None,
        phase: Some(camel(Phase::Prepared)),
        operation_id: Some(operation.to_owned()),
        facade_root: Some(root.to_string()),
        authority_version: i64::try_from(version).ok(),
        dispatch_epoch: Some(0),
        start_time: old.start_time.clone().or_else(|| Some(now.clone())),
        error: None,
        conditions: stages::witnessed(&old.conditions, generation, now),
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

fn error(findings: &[Finding]) -> Option<ErrorStatus> {
    let rule = format!(" ({})", findings.first()?.rule);
    let (code, text) = told(findings, MESSAGE_BYTES_MAX - rule.len())?;
    let message = format!("{}{rule}", cut(&text, MESSAGE_BYTES_MAX - rule.len()));
    Some(ErrorStatus { code: code.as_str().to_owned(), message })
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

pub(super) fn time(ms: u64) -> Time {
    let second = i64::try_from(ms / 1000).unwrap_or(0);
    Time(
        k8s_openapi::jiff::Timestamp::from_second(second).unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    )
}
