//! Planted mistakes that need more than a missing guard; see [`crate::planted`].

use super::{After, Call, Driver, State, Tick};
use crate::authority::{MutationAnswer, MutationOutcome, PendingCas};
use crate::classify::{Cause, Classification};
use crate::limits::UNOBSERVED_GRACE_MS;
use crate::ports::{MembersAnswer, ReadFailure};
use crate::queue::{QueueDoubt, QueueRow, QueueView};
use crate::record::{Record, Slot};
use crate::replica::MemberState;
use std::collections::BTreeMap;

impl Driver {
    /// `RetryTimedOutSwap`: the same statement under the same predicate. `KeeperErrorIsConflict`: look, and go on.
    pub(super) fn planted_retry(
        &mut self,
        cas: &PendingCas,
        after: &After,
        answer: MutationAnswer,
        tick: &Tick,
    ) -> Option<Call> {
        if answer.outcome != MutationOutcome::Unknown {
            return None;
        }
        if planted!(KeeperErrorIsConflict) {
            return Some(self.read_slot(State::ReadingSlot));
        }
        if !planted!(RetryTimedOutSwap) {
            return None;
        }
        let server = self.server.clone()?;
        let (cas, mutation) = match self.seen_slot.clone() {
            Some(from) => {
                let dispatches = *after == After::Dispatch;
                PendingCas::swap(&from, cas.record(), dispatches, server.clone(), tick.now)
            }
            None => PendingCas::create(cas.record(), server.clone(), tick.now),
        };
        self.state = State::Swapping(cas, after.clone());
        Some(Call::Mutate(server, mutation))
    }

    /// `StealAfterTimeout`.
    pub(super) fn planted_stale(slot: &Slot, tick: &Tick) -> bool {
        let idle_ms = tick.now.wall_ms.saturating_sub(slot.record.payload.updated_ms);
        planted!(StealAfterTimeout) && idle_ms > UNOBSERVED_GRACE_MS
    }

    /// `MembersBeforeQueue`: the members' answer waits for the queue.
    pub(super) fn planted_queue_last(
        &mut self,
        slot: &Slot,
        queues: &BTreeMap<u64, QueueView>,
        answer: &MembersAnswer,
    ) -> Option<Call> {
        let tokens = slot.record.open_tokens();
        if !planted!(MembersBeforeQueue) || !queues.is_empty() || tokens.is_empty() {
            return None;
        }
        self.state = State::QueueLast(slot.clone(), answer.clone());
        Some(Call::Scan(self.intent.names.cluster.clone(), tokens))
    }

    pub(super) fn planted_queue_read(
        &mut self,
        slot: Slot,
        answer: MembersAnswer,
        rows: &Result<Vec<QueueRow>, ReadFailure>,
    ) -> Call {
        drop(self.queue_read(slot, rows));
        match std::mem::replace(&mut self.state, State::Done) {
            State::ObservingMembers(slot, queues) => {
                self.read_slot(State::ObservingSlot(slot, queues, answer))
            }
            _ => self.halt(),
        }
    }

    /// `AbsentIsNotQueued`, `RedispatchWhenAllPending`: what looks as if nothing had happened is begun anew.
    pub(super) fn planted_anew(
        &mut self,
        slot: &Slot,
        class: Classification,
        states: &BTreeMap<crate::identity::ServerUuid, MemberState>,
        tick: &Tick,
    ) -> Option<Call> {
        let not_found = class == Classification::OutcomeUnknown(Cause::Queue(QueueDoubt::NotFound));
        let pending = states.values().all(|state| *state == MemberState::Pending);
        let unchanged = class == Classification::FailedUnchanged
            || class == Classification::OutcomeUnknown(Cause::PendingAfterSuccess);
        let anew = (planted!(AbsentIsNotQueued) && not_found && pending)
            || (planted!(RedispatchWhenAllPending) && unchanged);
        let released: Record = crate::intent::release(slot, tick.now).filter(|_| anew)?;
        Some(self.swap(slot, released, After::Released(None), tick))
    }

    /// `StatusDecides`: the status shows this version, so nothing is read again.
    pub(super) fn planted_unread(&mut self, slot: &Slot, tick: &Tick) -> Option<Call> {
        let next = crate::intent::publish(slot, tick.now, &tick.random);
        planted!(StatusDecides).then(|| self.swap(slot, next, After::Dispatch, tick))
    }
}
