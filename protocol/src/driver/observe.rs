//! After the first dispatch: observe, decide, perform (F, G).

use super::overdue::Ended;
use super::prepare::abandoned;
use super::{
    After, BACKOFF_DOUBLINGS_MAX, Call, DISPATCHES_PER_PASS_MAX, Driver, End, OBSERVATIONS_PER_PASS_MAX,
    POLL_DOUBLINGS_MAX, POLLS_OFTEN_MAX, Requeue, State, Tick,
};
use crate::admission::{Finding, Severity, label, unhealthy};
use crate::classify::{Cause, Classification, CleanupBlock};
use crate::evidence;
use crate::identity::Action;
use crate::limits::{STALLED_REOBSERVE_MS, UNOBSERVED_GRACE_MS};
use crate::phase::Phase;
use crate::ports::{AuthorityRead, MembersAnswer, ReadFailure, Scope};
use crate::queue::{HostResult, QueueDoubt, QueueRow, QueueView};
use crate::record::{Record, Slot};
use crate::replica::{MemberState, observe};
use crate::step::{Allowance, Decision, Evidence, step};
use std::collections::BTreeMap;

impl Driver {
    /// Begins one observation: the queue first, if some dispatch has no stored receipt.
    pub(super) fn observe(&mut self, slot: Slot, tick: &Tick) -> Call {
        // The holder of a permit may have released it meanwhile (C-12): admission's again, not a failure.
        if matches!(slot.record.phase, Phase::Prepared | Phase::Released) {
            return self.finish(End::Waiting, vec![], Requeue::Now);
        }
        self.observed += 1;
        if self.observed > OBSERVATIONS_PER_PASS_MAX {
            return self.finish(End::Waiting, vec![], Requeue::Now);
        }
        self.remember(&slot, tick);
        self.looked_at = tick.now.boot_ms;
        self.seen_slot = Some(slot.clone());
        let tokens = slot.record.open_tokens();
        if tokens.is_empty() || slot.record.phase.is_final() || planted!(MembersBeforeQueue) {
            self.queue_evidence = Some(evidence::queue_digest(Some(&[])));
            return self.read_members(slot, BTreeMap::new());
        }
        self.state = State::ObservingQueue(slot);
        Call::Scan(self.intent.names.cluster.clone(), tokens)
    }

    /// D-5: the wait counts from this observer's first read of the version.
    fn remember(&mut self, slot: &Slot, tick: &Tick) {
        if self.memory.seen.is_none_or(|(version, _)| version != slot.version) {
            self.memory.seen = Some((slot.version, tick.now.boot_ms));
            self.memory.attempt = 0;
            self.memory.trouble_since = None;
        }
    }

    pub(super) fn queue_read(&mut self, slot: Slot, rows: &Result<Vec<QueueRow>, ReadFailure>) -> Call {
        self.queue_evidence = Some(evidence::queue_digest(rows.as_deref().ok()));
        let record = &slot.record;
        let open = record.payload.dispatches.iter().filter(|d| !d.is_accounted());
        let queues = open
            .map(|dispatch| {
                let seen = match rows {
                    Ok(rows) => record.queue_view(dispatch, rows),
                    Err(_) => QueueView::Unknown(QueueDoubt::Unreadable),
                };
                (dispatch.epoch, seen)
            })
            .collect();
        self.read_members(slot, queues)
    }

    fn read_members(&mut self, slot: Slot, queues: BTreeMap<u64, QueueView>) -> Call {
        let mut ask = self.ask(Scope::Each, slot.record.all_names());
        ask.health_of = Some(slot.record.payload.names.target.clone());
        self.state = State::ObservingMembers(slot, queues);
        Call::Members(ask)
    }

    /// The record was read again: a changed version discards the observation (F).
    pub(super) fn observed(
        &mut self,
        slot: Slot,
        queues: BTreeMap<u64, QueueView>,
        answer: &MembersAnswer,
        read: &AuthorityRead,
        tick: &Tick,
    ) -> Call {
        let again = match self.judge(read, tick) {
            Ok(found) => found.slot,
            Err(call) => return call,
        };
        match again {
            Some(again) if again == slot || planted!(KeepMovedObservation) => {}
            Some(again) if again.record.operation == slot.record.operation => {
                return self.observe(again, tick);
            }
            _ => return self.finish(End::Waiting, vec![], Requeue::Now),
        }
        self.evidence = self.queue_evidence.map(|queue| evidence::digest(&slot, queue, answer));
        let (states, drift) = observe(&slot.record, answer);
        let healthy = healthy(&slot.record, answer);
        let evidence = Evidence { states, drift, queues, healthy };
        let visibility_ms = self.intent.deadlines.visibility_wait_ms();
        let seen_for = self.memory.seen.map_or(0, |(_, since)| self.looked_at.saturating_sub(since));
        let allowance = Allowance {
            visibility_over: seen_for > visibility_ms,
            retry_failed_drop: self.intent.changed,
            first_dispatch: self.dispatched == 0,
            suspended: self.intent.suspended || tick.stopping || self.dispatched >= DISPATCHES_PER_PASS_MAX,
        };
        let decided = step(&slot.record, &evidence, allowance, tick.now, &tick.random);
        // One observation is several queries: a statement that ran between two of them shows identities that
        // never were. Before that stalls the operation it is looked at once more.
        if decided.decision == Decision::FailClosed && may_be_torn(decided.class) && !self.doubted {
            self.doubted = true;
            return self.observe(slot, tick);
        }
        #[cfg(planted)]
        if let Some(call) = self.planted_anew(&slot, decided.class, &evidence.states, tick) {
            return call;
        }
        self.class = Some(decided.class);
        self.looked_at_version = Some(slot.version);
        let findings = explain(&slot.record, decided.class, &evidence);
        self.states = evidence.states;
        self.queues = evidence.queues;
        match decided.decision {
            Decision::Store(next) => self.swap(&slot, *next, After::Stored, tick),
            Decision::Dispatch(next) => self.swap(&slot, *next, After::Dispatch, tick),
            Decision::Done => self.final_phase(slot.record.phase),
            Decision::Wait => {
                let ended = self.wait(decided.class, findings, allowance.visibility_over, tick);
                self.end(ended, &slot, (answer, read), seen_for)
            }
            Decision::FailClosed => {
                let ended = (End::Stalled, findings, Requeue::AfterMs(STALLED_REOBSERVE_MS));
                self.end(ended, &slot, (answer, read), seen_for)
            }
        }
    }

    fn final_phase(&mut self, phase: Phase) -> Call {
        match phase {
            Phase::Completed => self.finish(End::Succeeded, vec![], Requeue::Never),
            _ => self.finish(End::Failed, vec![abandoned()], Requeue::Never),
        }
    }

    /// Waiting that may resolve itself; errors among it count as stalled after their grace.
    fn wait(
        &mut self,
        class: Classification,
        findings: Vec<Finding>,
        visibility_over: bool,
        tick: &Tick,
    ) -> Ended {
        if class.code().is_none() {
            self.memory.trouble_since = None;
            let often = self.memory.attempt < POLLS_OFTEN_MAX;
            let poll = self.backoff(if often { POLL_DOUBLINGS_MAX } else { BACKOFF_DOUBLINGS_MAX }, tick);
            return (End::Waiting, findings, poll);
        }
        let since = *self.memory.trouble_since.get_or_insert(tick.now.boot_ms);
        let waited = tick.now.boot_ms.saturating_sub(since);
        // D-5 has a longer bound of its own; an entry that is not there by then is looked for rarely.
        if class.cause() == Some("EntryNotFound") && visibility_over {
            return (End::Stalled, findings, Requeue::AfterMs(STALLED_REOBSERVE_MS));
        }
        let over = class.cause() != Some("EntryNotFound") && waited > UNOBSERVED_GRACE_MS;
        let again = self.backoff(BACKOFF_DOUBLINGS_MAX, tick);
        (if over { End::Stalled } else { End::Waiting }, findings, again)
    }
}

fn may_be_torn(class: Classification) -> bool {
    matches!(
        class,
        Classification::OutcomeUnknown(Cause::MemberUnknown)
            | Classification::CleanupBlocked(
                CleanupBlock::UnsafeIdentity | CleanupBlock::Evidence(Cause::MemberUnknown)
            )
    )
}

/// G-1: none when some member's health could not be read.
fn healthy(record: &Record, answer: &MembersAnswer) -> Option<bool> {
    let expected = record.payload.inventory.members.len();
    if answer.members.len() != expected || !answer.failures.is_empty() {
        return None;
    }
    let all: Option<Vec<bool>> = answer
        .members
        .iter()
        .map(|m| m.health.as_ref().map(|h| unhealthy(h, expected as u64).is_none()))
        .collect();
    all.map(|healthy| healthy.into_iter().all(|h| h))
}

/// For people: the code, which members are how, and what the queue says of each.
fn explain(record: &Record, class: Classification, evidence: &Evidence) -> Vec<Finding> {
    let Some(code) = class.code() else { return Vec::new() };
    let severity = if class.is_transient() { Severity::Wait } else { Severity::Block };
    let rule = match class {
        Classification::CleanupBlocked(CleanupBlock::DropFailed | CleanupBlock::EpochLimit) => "G-4",
        Classification::CleanupBlocked(_) => "G-2",
        Classification::OutcomeUnknown(_) => "D-5",
        _ => "F",
    };
    let members: Vec<String> = record
        .payload
        .inventory
        .members
        .iter()
        .map(|member| {
            let state = evidence.states.get(&member.server_uuid).unwrap_or(&MemberState::Unobserved);
            let statement = statement_result(record, evidence, &member.server_uuid);
            format!("{} {}{statement}", label(member), describe(state))
        })
        .collect();
    let cause = class.cause().map(|c| format!("{c}: ")).unwrap_or_default();
    let drift = evidence.drift.as_ref().map(|d| format!("; {}", d.0)).unwrap_or_default();
    vec![Finding { severity, code, rule, message: format!("{cause}{}{drift}", members.join(", ")) }]
}

fn describe(state: &MemberState) -> String {
    match state {
        MemberState::Unknown(mismatch) => format!("Unknown ({}: {:?})", mismatch.name, mismatch.found),
        other => other.as_str().to_owned(),
    }
}

fn statement_result(record: &Record, evidence: &Evidence, server: &crate::identity::ServerUuid) -> String {
    let Some(dispatch) = record.last_dispatch() else { return String::new() };
    let which = match dispatch.action {
        Action::Retire => ", retire",
        Action::Drop => ", drop",
        Action::Publish | Action::Bootstrap => "",
    };
    let code = match (&dispatch.receipt, evidence.queues.get(&dispatch.epoch)) {
        (Some(receipt), _) | (None, Some(QueueView::Terminal { receipt, .. })) => {
            receipt.codes.get(server).copied()
        }
        (None, Some(QueueView::InProgress { hosts, .. })) => match hosts.get(server) {
            Some(HostResult::TerminalSuccess) => Some(0),
            Some(HostResult::TerminalFailure(code)) => Some(*code),
            _ => return format!("{which} (statement unfinished)"),
        },
        _ => None,
    };
    code.map(|code| format!("{which} (code {code})")).unwrap_or_default()
}
