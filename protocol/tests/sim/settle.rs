//! After the faults: every operation comes to rest within a bounded time, and every fail-closed state has an exit.

use crate::sim::hands::{Hand, Stage};
use crate::sim::run::Simulation;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::End;

const REST_MS_MAX: u64 = 2 * 3_600_000;
const REST_STEPS_MAX: u32 = 60_000;

impl Simulation {
    /// Faults stop; then everything must come to rest.
    pub fn settle(&mut self) -> Result<(), String> {
        self.chaos = false;
        self.judged(|ghost| ghost.faults = false);
        for member in &mut self.world.lock().members {
            member.up = true;
            member.lag = 0;
            member.unhealthy = false;
            member.refuses.clear();
        }
        self.people.iter_mut().for_each(super::people::Person::leave);
        self.objects.iter_mut().for_each(|o| o.intent.suspended = false);
        self.note(|| "faults stop".into());
        self.rest()
    }

    fn rest(&mut self) -> Result<(), String> {
        for hand in self.objects.iter_mut().flat_map(|o| &mut o.hands) {
            (hand.last, hand.same) = (None, 0);
            if let Stage::Busy(_, until) | Stage::Asleep(until) = &mut hand.stage {
                *until = 0;
            }
        }
        let begun = self.now();
        for _ in 0..REST_STEPS_MAX {
            if self.is_at_rest() {
                return Ok(());
            }
            if self.now() - begun > REST_MS_MAX {
                break;
            }
            self.step()?;
        }
        let restless: Vec<String> = (0..self.objects.len())
            .filter(|o| !self.objects[*o].hands.iter().all(rests))
            .map(|o| {
                let hands: Vec<_> = self.objects[o].hands.iter().map(|h| h.last).collect();
                format!("object {o}: {hands:?}")
            })
            .collect();
        Err(format!("liveness: not at rest after the faults stopped: {restless:?}"))
    }

    fn is_at_rest(&self) -> bool {
        let entries = self.world.lock().queue.len();
        self.queues.iter().all(|(next, _)| *next >= entries)
            && self.objects.iter().flat_map(|o| &o.hands).all(rests)
    }

    /// People resolve what failed closed; in the end every slot is final, and nothing that arrives late does harm.
    pub fn resolve(&mut self) -> Result<(), String> {
        const ROUNDS_MAX: u32 = 12;
        for _ in 0..ROUNDS_MAX {
            let open: Vec<usize> = (0..self.targets.len()).filter(|t| !self.is_free(*t)).collect();
            if open.is_empty() {
                return self.let_arrive();
            }
            let now = self.now();
            open.iter().for_each(|target| self.people[*target].call(now));
            for _ in 0..REST_STEPS_MAX {
                if open.iter().all(|target| self.people[*target].due().is_none() || self.is_free(*target)) {
                    break;
                }
                self.step()?;
            }
            open.iter().for_each(|target| self.people[*target].leave());
            self.rest()?;
        }
        let slots: Vec<String> = (0..self.targets.len()).map(|t| self.describe(t)).collect();
        Err(format!("J: a fail-closed state without an exit: {slots:?}"))
    }

    fn describe(&self, target: usize) -> String {
        let key = self.key(target);
        self.judged(|ghost| ghost.last.get(&key).map(|r| r.phase.to_string()).unwrap_or_default())
    }

    fn is_free(&self, target: usize) -> bool {
        let key = self.key(target);
        self.judged(|ghost| ghost.last.get(&key).is_none_or(|r| r.phase.is_final()))
    }

    fn let_arrive(&mut self) -> Result<(), String> {
        let mut inner = self.world.lock();
        while !inner.held.is_empty() {
            inner.arrive(0);
        }
        drop(inner);
        self.rest()?;
        match self.world.lock().violations.first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }
}

/// Ended, or declared to wait for a person or for the operation that holds the slot. What a fault could explain is no
/// reason any more.
fn rests(hand: &Hand) -> bool {
    const EXCUSES: [ErrorCode; 8] = [
        ErrorCode::EndpointUnavailable,
        ErrorCode::AuthorityUnavailable,
        ErrorCode::AuthorityMalformed,
        ErrorCode::AuthorityLost,
        ErrorCode::CasConflict,
        ErrorCode::CasOutcomeUnknown,
        ErrorCode::IncompleteInventory,
        ErrorCode::InternalInvariant,
    ];
    let closed = |code: Option<ErrorCode>| code.is_some_and(|code| !EXCUSES.contains(&code));
    match (&hand.stage, hand.last) {
        (Stage::Done, _) => true,
        (Stage::Busy(..), _) | (_, None) => false,
        (_, Some((End::Stalled, _, code))) => hand.same >= 2 && closed(code),
        (_, Some((_, _, code))) => hand.same >= 2 && code == Some(ErrorCode::AuthorityConflict),
    }
}
