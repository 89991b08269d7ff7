//! Up to the first dispatch: who holds the slot (C-8, C-11), admission (B), witness (C-14), D-1, release (C-10).

use super::review::{admission_ask, drifted, expired, held_by};
use super::{After, BACKOFF_DOUBLINGS_MAX, Call, Driver, End, Held, Requeue, State, Tick};
use crate::admission::{Bound, Finding, Revalidation, Severity, admit, revalidate};
use crate::authority::PendingCas;
use crate::code::ErrorCode;
use crate::facade::bound_to;
use crate::intent::{publish, release};
use crate::phase::Phase;
use crate::ports::{AuthorityRead, MembersAnswer, MembersAsk, Scope};
use crate::preflight::{self, PreflightAnswer};
use crate::record::{Ending, Slot};
use crate::replica::observe;

impl Driver {
    pub(super) fn slot_read(&mut self, read: &AuthorityRead, tick: &Tick) -> Call {
        let found = match self.judge(read, tick) {
            Ok(found) => found,
            Err(call) => return call,
        };
        let (slot, missing) = (found.slot, found.missing);
        self.seen_slot.clone_from(&slot);
        let own = slot.as_ref().is_some_and(|s| s.record.operation == self.intent.operation);
        match slot {
            Some(slot) if own => self.own_slot(slot, missing, tick),
            Some(slot) => self.foreign_slot(slot, missing, tick),
            None => self.may_take(None, missing, tick),
        }
    }

    fn own_slot(&mut self, slot: Slot, missing: Option<Finding>, tick: &Tick) -> Call {
        self.converged = true;
        match slot.record.phase {
            #[cfg(planted)]
            Phase::Completed if planted!(CompletedRunsAgain) => self.may_take(Some(slot), missing, tick),
            #[cfg(planted)]
            Phase::Dispatching if planted!(ReleaseAfterDispatch) && self.intent.deleted => {
                self.release(&slot, None, tick)
            }
            Phase::Completed if self.intent.witnessed.is_some() => {
                self.finish(End::Succeeded, vec![], Requeue::Never)
            }
            // H-2: asked again by another object with the same invocation: report, and look whether it still holds.
            Phase::Completed => {
                let ask = self.ask(Scope::Each, slot.record.all_names());
                self.state = State::LookingBack(slot);
                Call::Members(ask)
            }
            Phase::Abandoned => self.finish(End::Failed, vec![abandoned()], Requeue::Never),
            Phase::Released => {
                self.converged = false;
                self.may_take(Some(slot), missing, tick)
            }
            Phase::Prepared => match missing {
                // C-10: a member that cannot be read is no reason to release, but deletion and a deadline are.
                Some(finding) if !self.intent.deleted && self.expired().is_none() => {
                    self.give_up(finding, tick)
                }
                _ => self.prepared(slot, tick),
            },
            _ => self.observe(slot, tick),
        }
    }

    fn foreign_slot(&mut self, slot: Slot, missing: Option<Finding>, tick: &Tick) -> Call {
        let listed = slot.record.payload.recent.iter().rev().find(|r| r.operation == self.intent.operation);
        match listed.map(|r| r.ending) {
            // F-2: an operation listed as completed reports success, wherever the slot is now.
            Some(Ending::Completed) => return self.finish(End::Succeeded, vec![], Requeue::Never),
            Some(Ending::Abandoned) => return self.finish(End::Failed, vec![abandoned()], Requeue::Never),
            Some(Ending::Released) | None => {}
        }
        if self.intent.deleted {
            return self.finish(End::Gone, vec![], Requeue::Never);
        }
        if slot.record.phase.is_final() {
            return self.may_take(Some(slot), missing, tick);
        }
        #[cfg(planted)]
        if Self::planted_stale(&slot, tick) {
            return self.may_take(Some(slot), missing, tick);
        }
        let owner = slot.record.payload.owner.clone();
        // B-5: nothing is taken over while a member's view of the slot is missing.
        if let (Phase::Prepared, Some(finding), None) = (slot.record.phase, &missing, self.expired()) {
            return self.give_up(finding.clone(), tick);
        }
        let known = owner.kube_uid == self.intent.owner.kube_uid || planted!(TakeForeignPrepared);
        if slot.record.phase == Phase::Prepared && known {
            self.state = State::AskingOwner(slot);
            return Call::OwnerGone(owner);
        }
        self.held(&slot, tick)
    }

    /// C-11: only a live GET that shows the UID gone opens a PREPARED slot.
    pub(super) fn owner_answered(&mut self, slot: Slot, gone: Option<bool>, tick: &Tick) -> Call {
        let gone = gone == Some(true) || (planted!(UnknownOwnerIsGone) && gone.is_none());
        if gone { self.may_take(Some(slot), None, tick) } else { self.held(&slot, tick) }
    }

    fn held(&mut self, slot: &Slot, tick: &Tick) -> Call {
        if let Some(expired) = self.expired() {
            return self.finish(End::Failed, vec![expired], Requeue::Never);
        }
        self.give_up(held_by(slot), tick)
    }

    fn expired(&self) -> Option<Finding> {
        expired(&self.intent)
    }

    /// The slot is free: admission.
    fn may_take(&mut self, slot: Option<Slot>, missing: Option<Finding>, tick: &Tick) -> Call {
        if self.intent.deleted {
            return self.finish(End::Gone, vec![], Requeue::Never);
        }
        if let Some(expired) = self.expired() {
            return self.finish(End::Failed, vec![expired], Requeue::Never);
        }
        if let Some(finding) = missing {
            return self.give_up(finding, tick);
        }
        if let Err(finding) = self.intent.check_slot(slot.as_ref()) {
            if finding.code == ErrorCode::Superseded {
                return self.finish(End::Failed, vec![finding], Requeue::Never);
            }
            return self.give_up(finding, tick);
        }
        self.state = State::Admitting(slot);
        Call::Members(admission_ask(&self.intent.names))
    }

    pub(super) fn admission_read(&mut self, slot: Option<Slot>, answer: &MembersAnswer, tick: &Tick) -> Call {
        let intent = &self.intent;
        let bound = match admit(&intent.names, intent.rows, intent.declared_internal_replication, answer) {
            Ok(bound) => bound,
            Err(findings) => return self.give_up_all(findings, tick),
        };
        self.converged = true;
        // B-5: a Ready PublicationCluster was probed some time ago; this is the probe before each admission.
        if let Err(finding) = bound_to(&bound.inventory, &self.facades) {
            return self.give_up(finding, tick);
        }
        if self.intent.suspended || tick.stopping {
            return self.held_back(tick);
        }
        if let Some(older) = self.intent.behind.clone() {
            return self.hold(Held::Behind(older), tick);
        }
        let ask = preflight::ask(&self.intent.names, &bound);
        self.state = State::Preflighting(slot, bound);
        Call::Preflight(ask)
    }

    /// B-9 and what else is better known before the slot is taken. Not read again at D-1: none of it can make a
    /// statement hit the wrong table, it only makes one fail, or surprise.
    pub(super) fn preflight_read(
        &mut self,
        slot: Option<Slot>,
        bound: Bound,
        answer: &PreflightAnswer,
        tick: &Tick,
    ) -> Call {
        let intent = &self.intent;
        let findings = preflight::judge(&intent.names, &intent.accepted_dependents, &bound, answer);
        if findings.first().is_some_and(|worst| worst.severity > Severity::Warn) {
            return self.give_up_all(findings, tick);
        }
        self.warnings = findings;
        if tick.stopping {
            return self.held_back(tick);
        }
        let record = match self.intent.prepare(slot.as_ref(), bound, tick.now, &tick.random) {
            Ok(record) => record,
            Err(finding) => return self.give_up(finding, tick),
        };
        let Some(server) = self.server.clone() else { return self.halt() };
        match slot {
            Some(slot) => self.swap(&slot, record, After::Prepared, tick),
            None => {
                let (cas, mutation) = PendingCas::create(record, server.clone(), tick.now);
                self.state = State::Swapping(cas, After::Prepared);
                Call::Mutate(server, mutation)
            }
        }
    }

    /// PREPARED is ours, just written or found.
    pub(super) fn prepared(&mut self, slot: Slot, tick: &Tick) -> Call {
        self.converged = true;
        if self.intent.deleted {
            return self.release(&slot, None, tick);
        }
        if let Some(expired) = self.expired() {
            return self.release(&slot, Some(expired), tick);
        }
        if self.intent.suspended || tick.stopping {
            return self.held_back(tick);
        }
        let shown = self.intent.witnessed == Some((self.intent.root, slot.version));
        if shown || planted!(SkipWitness) {
            #[cfg(planted)]
            if let Some(call) = self.planted_unread(&slot, tick) {
                return call;
            }
            return self.revalidate(slot);
        }
        let shown = Call::Witness(self.intent.root, slot.version);
        self.state = State::Witnessing(slot);
        shown
    }

    /// Nothing is wrong, and nothing may begin now.
    fn hold(&mut self, held: Held, tick: &Tick) -> Call {
        self.held = Some(held);
        self.memory.trouble_since = None;
        let wait = self.backoff(BACKOFF_DOUBLINGS_MAX, tick);
        self.finish(End::Waiting, vec![], wait)
    }

    fn held_back(&mut self, tick: &Tick) -> Call {
        self.hold(if tick.stopping { Held::Stopping } else { Held::Suspended }, tick)
    }

    /// C-14: no dispatching CAS without an acknowledged status write.
    pub(super) fn witnessed(&mut self, slot: Slot, shown: bool, tick: &Tick) -> Call {
        if shown {
            self.intent.witnessed = Some((self.intent.root, slot.version));
            return self.revalidate(slot);
        }
        let message = "the object's status could not be written; nothing is dispatched without it";
        self.give_up(Finding::wait(ErrorCode::CasConflict, "C-14", message), tick)
    }

    fn revalidate(&mut self, slot: Slot) -> Call {
        let ask = admission_ask(&self.intent.names);
        self.state = State::Revalidating(slot);
        Call::Members(ask)
    }

    pub(super) fn revalidated(&mut self, slot: Slot, answer: &MembersAnswer, tick: &Tick) -> Call {
        match revalidate(&slot.record, self.intent.declared_internal_replication, answer) {
            Revalidation::Holds => self.read_slot(State::RevalidatingSlot(slot)),
            #[cfg(planted)]
            _ if planted!(SkipRevalidation) => self.read_slot(State::RevalidatingSlot(slot)),
            Revalidation::Changed(finding) => self.release(&slot, Some(finding), tick),
            Revalidation::Unreadable(finding) => self.give_up(finding, tick),
        }
    }

    /// D-1, last read before the CAS: every member must read the PREPARED record that was judged.
    pub(super) fn revalidated_slot(&mut self, slot: &Slot, read: &AuthorityRead, tick: &Tick) -> Call {
        let found = match self.judge(read, tick) {
            Ok(found) => found,
            Err(call) => return call,
        };
        if let Some(finding) = found.missing {
            return self.give_up(finding, tick);
        }
        // D-1, D-2: an endpoint that reaches a stranger would observe drift after the dispatch, or send it there.
        let bound = &slot.record.payload.inventory;
        let stranger = read.rows.iter().any(|(server, _)| bound.by_uuid(server).is_none());
        if stranger || read.rows.len() != bound.members.len() {
            let message = "members: the endpoints reach other servers than the cluster's members; list one URL for each member";
            return self.give_up(Finding::block(ErrorCode::IncompleteInventory, "D-1", message), tick);
        }
        if found.slot.as_ref() != Some(slot) {
            let message = "another worker changed the record first; looking again";
            return self.give_up(Finding::wait(ErrorCode::CasConflict, "D-1", message), tick);
        }
        if let Err(finding) = bound_to(bound, &self.facades) {
            return match finding.code {
                // Another cluster's, or other members': what PREPARED bound no longer holds.
                ErrorCode::AuthorityConflict | ErrorCode::IncompleteInventory => {
                    self.release(slot, Some(finding), tick)
                }
                _ => self.give_up(finding, tick),
            };
        }
        if tick.stopping {
            return self.held_back(tick);
        }
        let next = publish(slot, tick.now, &tick.random);
        self.swap(slot, next, After::Dispatch, tick)
    }

    fn release(&mut self, slot: &Slot, why: Option<Finding>, tick: &Tick) -> Call {
        match release(slot, tick.now) {
            Some(record) => self.swap(slot, record, After::Released(why), tick),
            None => self.halt(),
        }
    }

    pub(super) fn released(&mut self, why: Option<Finding>, tick: &Tick) -> Call {
        match why {
            _ if self.intent.deleted => self.finish(End::Gone, vec![], Requeue::Never),
            Some(finding) if finding.code == ErrorCode::AdmissionDeadline => {
                self.finish(End::Failed, vec![finding], Requeue::Never)
            }
            Some(finding) => self.give_up(finding, tick),
            // Not sent: a send path that stays broken must not spin through admissions (F-3).
            None => {
                let wait = self.backoff(BACKOFF_DOUBLINGS_MAX, tick);
                self.finish(End::Waiting, vec![], wait)
            }
        }
    }

    /// H-2.
    pub(super) fn looked_back(&mut self, slot: &Slot, answer: &MembersAnswer, tick: &Tick) -> Call {
        let _ = tick;
        self.states = observe(&slot.record, answer).0;
        let findings = drifted(slot, answer).into_iter().collect();
        self.finish(End::Succeeded, findings, Requeue::Never)
    }

    pub(super) fn ask(&self, scope: Scope, names: Vec<String>) -> MembersAsk {
        MembersAsk {
            scope,
            cluster: self.intent.names.cluster.clone(),
            database: self.intent.names.database.clone(),
            names,
            health_of: None,
            count_of: None,
        }
    }
}

pub(super) fn abandoned() -> Finding {
    Finding::block(
        ErrorCode::OutcomeUnknown,
        "J-2",
        "ended by verdict as not applied; publish again under a fresh candidate name",
    )
}
