//! F, G: `step(record, evidence) -> decision`. Total; returns data, performs nothing.

use crate::authority::Now;
use crate::classify::{Cause, Classification, CleanupBlock, QueueSummary, classify};
use crate::identity::{Action, CorrelationToken, Random, ServerUuid};
use crate::limits::CLEANUP_EPOCHS_MAX;
use crate::phase::{Actor, Edge, Phase, edge};
use crate::queue::{QueueDoubt, QueueView, Receipt};
use crate::record::{Dispatch, ErrorNote, Record};
use crate::replica::{Drift, MemberState};
use std::collections::BTreeMap;

/// Everything that was observed of one record version.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// By bound member.
    pub states: BTreeMap<ServerUuid, MemberState>,
    /// Inventory drift, if any.
    pub drift: Option<Drift>,
    /// By epoch of each dispatch without a stored receipt.
    pub queues: BTreeMap<u64, QueueView>,
    /// G-1: the published table is healthy on every member (none: not looked at, or not readable).
    pub healthy: Option<bool>,
}

/// What time and surroundings allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Allowance {
    /// D-5: this version was first read longer ago than the visibility wait.
    pub visibility_over: bool,
    /// G-4: object, cluster or a verdict changed since a drop failed.
    pub retry_failed_drop: bool,
    /// Nothing was dispatched yet in this pass: a step that failed is not repeated in a hot loop.
    pub first_dispatch: bool,
    /// The platform suspended dispatching, or the process is stopping.
    pub suspended: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Nothing, but look again.
    Wait,
    /// Nothing until a person, or evidence that changes by itself, resolves it.
    FailClosed,
    /// CAS, no effect beside it.
    Store(Box<Record>),
    /// CAS into a dispatching phase; its permit sends the last dispatch of this record.
    Dispatch(Box<Record>),
    /// A final record: report it.
    Done,
}

/// A decision with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// F.
    pub class: Classification,
    /// What to do.
    pub decision: Decision,
}

/// Decides on a record after PREPARED (PREPARED itself is admission's, see [`crate::admission`]).
pub fn step(record: &Record, evidence: &Evidence, allowance: Allowance, now: Now, random: &Random) -> Step {
    let absorbed = absorb(record, evidence);
    let states: Vec<&MemberState> = evidence.states.values().collect();
    let queue = summary(&absorbed, evidence);
    let class = classify(record.phase, &states, queue, evidence.drift.is_some());
    let mut planner = Planner { record, absorbed, evidence, allowance, now, random };
    match class {
        Classification::Nothing => Step { class, decision: Decision::Done },
        Classification::Committed => planner.committed(),
        Classification::Cleanup => planner.cleanup(),
        _ => Step { class, decision: planner.hold(class) },
    }
}

/// D-4, D-6: puts bindings and terminal receipts that the queue shows into a copy of the record.
fn absorb(record: &Record, evidence: &Evidence) -> Record {
    let mut absorbed = record.clone();
    for dispatch in &mut absorbed.payload.dispatches {
        match evidence.queues.get(&dispatch.epoch) {
            Some(QueueView::Terminal { binding, receipt }) if dispatch.receipt.is_none() => {
                dispatch.entry = Some(binding.clone());
                dispatch.receipt = Some(receipt.clone()).filter(|_| !planted!(ReceiptNotStored));
            }
            Some(QueueView::InProgress { binding, .. }) => dispatch.entry = Some(binding.clone()),
            _ => {}
        }
    }
    // C-9: also receipts that come late and together.
    fold_older(&mut absorbed.payload.dispatches, 2);
    absorbed
}

/// C-9: older epochs keep only digests; the publication's receipt and those of the last epochs stay whole.
pub(crate) fn fold_older(dispatches: &mut [Dispatch], whole: usize) {
    for old in dispatches.iter_mut().rev().skip(whole).filter(|d| d.action != Action::Publish) {
        if let Some(receipt) = &mut old.receipt {
            receipt.fold();
        }
    }
}

/// F: "queue" is the stored receipt if there is one.
fn summary(absorbed: &Record, evidence: &Evidence) -> QueueSummary {
    match absorbed.last_dispatch() {
        None => QueueSummary::NothingDispatched,
        Some(Dispatch { receipt: Some(receipt), .. }) => QueueSummary::of_receipt(receipt),
        Some(dispatch) => evidence
            .queues
            .get(&dispatch.epoch)
            .map_or(QueueSummary::Unknown(QueueDoubt::Unreadable), QueueSummary::of_view),
    }
}

struct Planner<'a> {
    record: &'a Record,
    absorbed: Record,
    evidence: &'a Evidence,
    allowance: Allowance,
    now: Now,
    random: &'a Random,
}

impl Planner<'_> {
    /// Stores what was learnt, or waits, or fails closed.
    fn hold(&mut self, class: Classification) -> Decision {
        let bound = self.absorbed.last_dispatch().is_some_and(|d| d.entry.is_some());
        let phase = match self.record.phase {
            Phase::Dispatching if bound => Phase::InProgress,
            Phase::RetireDispatching if bound => Phase::RetirePending,
            Phase::DropDispatching if bound => Phase::DropPending,
            same => same,
        };
        if self.absorbed.payload.dispatches != self.record.payload.dispatches {
            self.absorbed.payload.error =
                class.code().map(|code| ErrorNote { code: code.as_str().to_owned() });
            return self.store(phase);
        }
        if class.is_transient() { Decision::Wait } else { Decision::FailClosed }
    }

    fn store(&mut self, phase: Phase) -> Decision {
        // The table reads RETIRE_DISPATCHING or DROP_DISPATCHING to itself as a new epoch; without one it is
        // D-6: an earlier epoch's receipt that came late.
        let kept = phase == self.record.phase && phase.keeps_evidence();
        if !kept && edge(Actor::Own, self.record.phase, phase) != Some(Edge::Advance) {
            return Decision::FailClosed;
        }
        Decision::Store(Box::new(self.successor(phase)))
    }

    fn successor(&self, phase: Phase) -> Record {
        let mut next = self.absorbed.clone();
        next.phase = phase;
        next.payload.updated_ms = self.now.wall_ms;
        if phase.is_final() {
            next.payload.error = None;
        }
        next
    }

    /// All COMMITTED and the publication's receipt complete.
    fn committed(&mut self) -> Step {
        if self.record.payload.predecessor.is_none() {
            return Step { class: Classification::Committed, decision: self.store(Phase::Completed) };
        }
        match self.next_cleanup() {
            Ok(next) => Step { class: Classification::Committed, decision: next },
            // Published, but cleanup may not begin yet: what is proved is stored now.
            Err(_) => Step { class: Classification::Committed, decision: self.store(Phase::Committed) },
        }
    }

    fn cleanup(&mut self) -> Step {
        match self.next_cleanup() {
            Ok(decision) => Step { class: Classification::Cleanup, decision },
            Err(Classification::Cleanup) => {
                Step { class: Classification::Cleanup, decision: self.hold(Classification::Cleanup) }
            }
            Err(blocked) => Step { class: blocked, decision: self.hold(blocked) },
        }
    }

    /// G: the next step, or why none may be taken now.
    fn next_cleanup(&mut self) -> Result<Decision, Classification> {
        #[cfg(planted)]
        if planted!(DropCandidateName) && !self.record.phase.is_cleanup() {
            return Err(Classification::Cleanup);
        }
        self.last_is_settled()?;
        let states = self.evidence.states.values();
        let is_cleaned = |s: &MemberState| *s == MemberState::Cleaned;
        let some_cleaned = planted!(CompletedBySome) && states.clone().any(is_cleaned);
        if states.clone().all(is_cleaned) || some_cleaned {
            return Ok(self.store(Phase::Completed));
        }
        self.drop_has_not_failed()?;
        let cleanups = self.record.payload.dispatches.iter().filter(|d| d.action != Action::Publish).count();
        if cleanups as u64 >= CLEANUP_EPOCHS_MAX && !planted!(NoEpochLimit) {
            return Err(Classification::CleanupBlocked(CleanupBlock::EpochLimit));
        }
        // G-1: asked for once, before the first cleanup statement.
        if cleanups == 0 && self.evidence.healthy != Some(true) && !planted!(CleanupOfUnhealthy) {
            return Err(Classification::Cleanup);
        }
        let (action, from) = self.next_target();
        let repeats = self.record.last_dispatch().is_some_and(|d| d.action == action);
        if self.allowance.suspended || (repeats && !self.allowance.first_dispatch) {
            return Err(Classification::Cleanup);
        }
        Ok(self.dispatch(action, from))
    }

    /// G-4: the earlier entry is terminal on every member, or was not found for longer than the visibility wait.
    fn last_is_settled(&self) -> Result<(), Classification> {
        let Some(last) = self.absorbed.last_dispatch() else { return Err(Classification::Cleanup) };
        if last.is_accounted() {
            return Ok(());
        }
        match self.evidence.queues.get(&last.epoch) {
            #[cfg(planted)]
            Some(QueueView::InProgress { .. }) if planted!(RepeatBeforeTerminal) => Ok(()),
            #[cfg(planted)]
            Some(QueueView::Unknown(QueueDoubt::NotFound)) if planted!(RepeatWithoutWaiting) => Ok(()),
            Some(QueueView::Unknown(QueueDoubt::NotFound)) if self.allowance.visibility_over => Ok(()),
            Some(QueueView::InProgress { .. } | QueueView::Unknown(QueueDoubt::NotFound)) => {
                Err(Classification::Cleanup)
            }
            Some(QueueView::Unknown(doubt)) => {
                Err(Classification::CleanupBlocked(CleanupBlock::Evidence(Cause::Queue(*doubt))))
            }
            Some(QueueView::Terminal { .. }) | None => Err(Classification::CleanupBlocked(
                CleanupBlock::Evidence(Cause::Queue(QueueDoubt::Unreadable)),
            )),
        }
    }

    /// G-4: a drop that failed on a member still bearing the name.
    fn drop_has_not_failed(&self) -> Result<(), Classification> {
        let Some(Dispatch { action: Action::Drop, from, receipt: Some(Receipt { codes, .. }), .. }) =
            self.absorbed.last_dispatch()
        else {
            return Ok(());
        };
        let failed = self.evidence.states.iter().any(|(server, state)| {
            *state == MemberState::Retired(from.clone()) && codes.get(server).is_some_and(|code| *code != 0)
        });
        if failed && !self.allowance.retry_failed_drop && !planted!(RetryFailedDrop) {
            return Err(Classification::CleanupBlocked(CleanupBlock::DropFailed));
        }
        Ok(())
    }

    /// G-3: retire from the candidate's name, then from names of unaccounted epochs, then drop.
    fn next_target(&self) -> (Action, String) {
        let states = self.evidence.states.values();
        if states.clone().any(|s| *s == MemberState::Committed) {
            let action = if planted!(DropCandidateName) { Action::Drop } else { Action::Retire };
            return (action, self.record.payload.names.candidate.clone());
        }
        let borne: Vec<&String> = states
            .filter_map(|s| if let MemberState::Retired(name) = s { Some(name) } else { None })
            .collect();
        let unaccounted: Vec<&str> =
            self.absorbed.retired_names().filter(|(_, accounted)| !accounted).map(|(name, _)| name).collect();
        let unaccounted = |name: &str| unaccounted.contains(&name) && !planted!(DropUnaccountedName);
        match borne.iter().find(|name| unaccounted(name)) {
            Some(name) => (Action::Retire, (*name).clone()),
            // Never empty here: not all are CLEANED and none is COMMITTED.
            None => (Action::Drop, borne.first().map(|n| (*n).clone()).unwrap_or_default()),
        }
    }

    fn dispatch(&self, action: Action, from: String) -> Decision {
        let random = if planted!(RetiredNameReused) { &Random([0; 32]) } else { self.random };
        let (phase, to) = match action {
            Action::Retire => (Phase::RetireDispatching, Some(self.record.payload.names.retired(random))),
            _ => (Phase::DropDispatching, None),
        };
        if from.is_empty() || edge(Actor::Own, self.record.phase, phase) != Some(Edge::Dispatch) {
            return Decision::FailClosed;
        }
        let next = with_dispatch(self.successor(phase), action, from, to, self.now, self.random);
        Decision::Dispatch(Box::new(next))
    }
}

/// Adds the dispatch of the next epoch, with a token of its own.
pub(crate) fn with_dispatch(
    mut record: Record,
    action: Action,
    from: String,
    to: Option<String>,
    now: Now,
    random: &Random,
) -> Record {
    // The one that is added is whole too.
    fold_older(&mut record.payload.dispatches, 1);
    record.epoch += 1;
    record.payload.updated_ms = now.wall_ms;
    record.payload.dispatches.push(Dispatch {
        epoch: record.epoch,
        action,
        token: CorrelationToken::draw(record.operation, action, record.epoch, random),
        from,
        to,
        at_ms: now.wall_ms,
        entry: None,
        receipt: None,
        cleared: false,
        hosts: None,
    });
    record
}
