//! The driver: a sans-IO state machine that says which port call comes next and takes its result.
//!
//! One pass serves one operation: read the slot, admit or observe, decide, perform at most a few steps, report.
//! `Clone + Hash` (the permit leaves by value inside [`Call::Send`] and is never part of the state), so that a
//! model checker can run exactly this code.

mod again;
mod authority_read;
mod observe;
mod overdue;
#[cfg(planted)]
mod planted;
mod prepare;
mod report;
mod review;

pub use again::troubled;
pub(crate) use authority_read::lost_authority;
pub use report::{End, Held, Memory, Report, Requeue};
pub use review::{Review, Standing, admission_ask, review};

use crate::admission::{Bound, Finding};
use crate::authority::{CasResult, DispatchPermit, Mutation, MutationAnswer, Now, PendingCas};
use crate::canonical::Digest;
use crate::classify::Classification;
use crate::code::ErrorCode;
use crate::diagnose::Stuck;
use crate::facade::FacadeSeen;
use crate::identity::{CorrelationToken, Random, RootId, ServerUuid};
use crate::intent::{Intent, invariant};
use crate::phase::{Actor, Edge, Phase, edge};
use crate::ports::{AuthorityRead, MemberAnswer, MembersAnswer, MembersAsk, Order, ReadFailure, SendOutcome};
use crate::preflight::{Backlog, PreflightAnswer, PreflightAsk};
use crate::queue::{QueueRow, QueueView};
use crate::receipt::Look;
use crate::record::{Owner, Record, Slot, VersionedRow};
use crate::replica::MemberState;
use std::collections::BTreeMap;

/// Dispatches that one pass may make: publish, retire, drop, and one repetition.
const DISPATCHES_PER_PASS_MAX: u32 = 4;
/// Observations that a moving record may cost one pass.
const OBSERVATIONS_PER_PASS_MAX: u32 = 8;

/// First wait, doubled each time.
const BACKOFF_FIRST_MS: u64 = 250;
/// Up to 32 s while something is wrong.
const BACKOFF_DOUBLINGS_MAX: u32 = 7;
/// Up to 4 s in the first minute of a statement; a scan reads the whole queue, so a long wait is polled rarely.
const POLL_DOUBLINGS_MAX: u32 = 4;
const POLLS_OFTEN_MAX: u32 = 16;

/// The next port call. Not `Clone`: a permit may be inside.
#[derive(Debug)]
pub enum Call {
    /// [`crate::ports::ControlTable::read_all`].
    ReadSlot(String),
    /// [`crate::ports::Catalog::members`].
    Members(MembersAsk),
    /// [`crate::ports::Catalog::preflight`].
    Preflight(PreflightAsk),
    /// [`crate::ports::Ddl::scan`].
    Scan(String, Vec<CorrelationToken>),
    /// [`crate::ports::Ddl::backlog`].
    Backlog(String),
    /// [`crate::ports::ControlTable::mutate`].
    Mutate(ServerUuid, Mutation),
    /// [`crate::ports::ControlTable::read_exact`].
    ReadExact(ServerUuid, String),
    /// [`crate::ports::Owners::witness`].
    Witness(RootId, u64),
    /// [`crate::ports::Owners::owner_gone`].
    OwnerGone(Owner),
    /// [`crate::ports::Ddl::send`].
    Send(DispatchPermit, Order),
    /// The pass is over.
    Finish(Box<Report>),
}

/// The result of the last call.
#[derive(Debug)]
pub enum Input {
    /// Starts the pass.
    Begin,
    /// Of [`Call::ReadSlot`].
    Slot(AuthorityRead),
    /// Of [`Call::Members`].
    Members(MembersAnswer),
    /// Of [`Call::Preflight`].
    Preflight(PreflightAnswer),
    /// Of [`Call::Scan`].
    Scan(Result<Vec<QueueRow>, ReadFailure>),
    /// Of [`Call::Backlog`].
    Backlog(Result<Vec<Backlog>, ReadFailure>),
    /// Of [`Call::Mutate`].
    Mutated(MutationAnswer),
    /// Of [`Call::ReadExact`].
    Exact(Option<(ServerUuid, Option<VersionedRow>)>),
    /// Of [`Call::Witness`].
    Witnessed(bool),
    /// Of [`Call::OwnerGone`].
    OwnerGone(Option<bool>),
    /// Of [`Call::Send`].
    Sent(SendOutcome),
}

/// Time, randomness and the wish to stop, read by the shell for each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tick {
    /// Both clocks.
    pub now: Now,
    /// Fresh for each step.
    pub random: Random,
    /// Shutting down: nothing new is dispatched; a verified dispatch is carried through.
    pub stopping: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Start,
    ReadingSlot,
    /// Admission before the slot is taken.
    Admitting(Option<Slot>),
    /// Admitted so far: what would stand in the way later (B-9).
    Preflighting(Option<Slot>, Bound),
    /// C-11.
    AskingOwner(Slot),
    Swapping(PendingCas, After),
    SwapReading(PendingCas, After),
    /// C-14.
    Witnessing(Slot),
    /// D-1: catalogs, then the authority again.
    Revalidating(Slot),
    RevalidatingSlot(Slot),
    Sending(Slot),
    /// H-2: a last look at what the finished operation published.
    LookingBack(Slot),
    // One observation: record, queue, members, record again.
    ObservingQueue(Slot),
    ObservingMembers(Slot, BTreeMap<u64, QueueView>),
    ObservingSlot(Slot, BTreeMap<u64, QueueView>, MembersAnswer),
    #[cfg(planted)]
    QueueLast(Slot, MembersAnswer),
    Rereading,
    /// Everything is decided; what is said of an overdue statement is missing.
    Diagnosing(Box<overdue::Overdue>),
    Done,
}

/// What a verified CAS leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum After {
    /// PREPARED was written.
    Prepared,
    /// A dispatching CAS: send.
    Dispatch,
    /// Evidence was stored.
    Stored,
    /// PREPARED was released; report why.
    Released(Option<Finding>),
}

/// One pass over one operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Driver {
    intent: Intent,
    memory: Memory,
    state: State,
    /// The server to write to and to read exactly: one that answered in this pass.
    server: Option<ServerUuid>,
    /// B-5: the facade as the last read of the slot showed it.
    facades: Vec<(ServerUuid, FacadeSeen)>,
    dispatched: u32,
    /// D-5: when this observation began, before its scan (monotonic).
    looked_at: u64,
    observed: u32,
    /// An identity that fits nothing was seen once in this pass.
    doubted: bool,
    /// J-1: what the last scan said.
    queue_evidence: Option<Digest>,
    evidence: Option<Digest>,
    stuck: Option<Stuck>,
    held: Option<Held>,
    warnings: Vec<Finding>,
    converged: bool,
    passed: Vec<crate::phase::Phase>,
    /// For the receipt alone.
    history: Vec<Look>,
    looked_at_version: Option<u64>,
    server_versions: BTreeMap<ServerUuid, String>,
    /// Last evidence, for the report.
    seen_slot: Option<Slot>,
    class: Option<Classification>,
    states: BTreeMap<ServerUuid, MemberState>,
    queues: BTreeMap<u64, QueueView>,
}

impl Driver {
    /// Begins a pass.
    pub fn new(intent: Intent, memory: Memory) -> Self {
        Self {
            intent,
            memory,
            state: State::Start,
            server: None,
            facades: Vec::new(),
            dispatched: 0,
            looked_at: 0,
            observed: 0,
            doubted: false,
            queue_evidence: None,
            evidence: None,
            stuck: None,
            held: None,
            warnings: Vec::new(),
            converged: false,
            passed: Vec::new(),
            history: Vec::new(),
            looked_at_version: None,
            server_versions: BTreeMap::new(),
            seen_slot: None,
            class: None,
            states: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    /// Takes the result of the last call and gives the next one. Total: an input that does not fit the state ends
    /// the pass without an effect.
    pub fn next(&mut self, input: Input, tick: &Tick) -> Call {
        let state = std::mem::replace(&mut self.state, State::Done);
        if let Input::Members(answer) = &input {
            self.note_versions(answer);
        }
        match (state, input) {
            (State::Start, Input::Begin) => self.read_slot(State::ReadingSlot),
            (State::ReadingSlot, Input::Slot(read)) => self.slot_read(&read, tick),
            (State::Admitting(slot), Input::Members(answer)) => self.admission_read(slot, &answer, tick),
            (State::Preflighting(slot, bound), Input::Preflight(answer)) => {
                self.preflight_read(slot, bound, &answer, tick)
            }
            (State::AskingOwner(slot), Input::OwnerGone(gone)) => self.owner_answered(slot, gone, tick),
            (State::Swapping(cas, after), Input::Mutated(answer)) => {
                self.swap_answered(cas, after, answer, tick)
            }
            (State::SwapReading(cas, after), Input::Exact(read)) => {
                self.swap_judged(cas.after_read(read), after, tick)
            }
            (State::Witnessing(slot), Input::Witnessed(shown)) => self.witnessed(slot, shown, tick),
            (State::Revalidating(slot), Input::Members(answer)) => self.revalidated(slot, &answer, tick),
            (State::RevalidatingSlot(slot), Input::Slot(read)) => self.revalidated_slot(&slot, &read, tick),
            (State::Sending(slot), Input::Sent(outcome)) => self.sent(&slot, outcome, tick),
            (State::LookingBack(slot), Input::Members(answer)) => self.looked_back(&slot, &answer, tick),
            (State::Rereading, Input::Slot(read)) => self.slot_reread(&read, tick),
            (State::ObservingQueue(slot), Input::Scan(rows)) => self.queue_read(slot, &rows),
            #[cfg(planted)]
            (State::QueueLast(slot, answer), Input::Scan(rows)) => {
                self.planted_queue_read(slot, answer, &rows)
            }
            (State::ObservingMembers(slot, queues), Input::Members(answer)) => {
                #[cfg(planted)]
                if let Some(call) = self.planted_queue_last(&slot, &queues, &answer) {
                    return call;
                }
                self.read_slot(State::ObservingSlot(slot, queues, answer))
            }
            (State::ObservingSlot(slot, queues, answer), Input::Slot(read)) => {
                self.observed(slot, queues, &answer, &read, tick)
            }
            (State::Diagnosing(overdue), Input::Backlog(rows)) => {
                self.diagnosed(*overdue, rows.as_deref().ok())
            }
            _ => self.halt(),
        }
    }

    /// For the model checker: states that differ only in what a later report would say are one state.
    #[cfg(any(test, publication_model))]
    pub(crate) fn forget_what_only_reports_show(&mut self) -> Option<Classification> {
        self.queue_evidence = None;
        self.evidence = None;
        self.stuck = None;
        self.warnings.clear();
        self.converged = false;
        self.passed.clear();
        self.history.clear();
        self.looked_at_version = None;
        self.server_versions.clear();
        self.states.clear();
        self.queues.clear();
        self.class.take()
    }

    fn note_versions(&mut self, answer: &MembersAnswer) {
        let version = |m: &MemberAnswer| (m.server_uuid.clone(), m.server_version.clone());
        self.server_versions.extend(answer.members.iter().map(version));
    }

    fn read_slot(&mut self, then: State) -> Call {
        self.state = then;
        Call::ReadSlot(self.intent.key().to_string())
    }

    // The call is the pass's next one and is returned at once: nothing to gain from a box.
    #[allow(clippy::result_large_err)]
    fn judge(&mut self, read: &AuthorityRead, tick: &Tick) -> Result<authority_read::SlotRead, Call> {
        let since = *self.memory.stale_since.get_or_insert(tick.now.boot_ms);
        match authority_read::judge(&self.intent, read, tick.now.boot_ms.saturating_sub(since)) {
            Ok(found) => {
                self.memory.stale_since = None;
                self.server = Some(found.server.clone());
                self.facades.clone_from(&found.facades);
                Ok(found)
            }
            Err(finding) => {
                if finding.rule != "C-13" && finding.code != ErrorCode::AuthorityLost {
                    self.memory.stale_since = None;
                }
                Err(self.give_up(finding, tick))
            }
        }
    }

    /// C-3 over the transition table's word: only a dispatching edge can yield a permit.
    fn swap(&mut self, from: &Slot, record: Record, after: After, tick: &Tick) -> Call {
        let dispatches = after == After::Dispatch;
        let actor = if after == After::Prepared { Actor::Taker } else { Actor::Own };
        // In RETIRE_DISPATCHING and DROP_DISPATCHING the same phase is a new epoch, or evidence that came late.
        let kept = !dispatches && from.record.phase == record.phase && record.phase.keeps_evidence();
        let allowed = if kept { Some(Edge::Advance) } else { edge(actor, from.record.phase, record.phase) };
        if allowed.is_none() || dispatches != (allowed == Some(Edge::Dispatch)) {
            return self.halt();
        }
        let Some(server) = self.server.clone() else { return self.halt() };
        let (cas, mutation) = PendingCas::swap(from, record, dispatches, server.clone(), tick.now);
        self.state = State::Swapping(cas, after);
        Call::Mutate(server, mutation)
    }

    fn swap_answered(&mut self, cas: PendingCas, after: After, answer: MutationAnswer, tick: &Tick) -> Call {
        #[cfg(planted)]
        if let Some(call) = self.planted_retry(&cas, &after, answer, tick) {
            return call;
        }
        if let Some(result) = cas.after_answer(answer) {
            return self.swap_judged(result, after, tick);
        }
        let (server, key) = cas.exact_read();
        self.state = State::SwapReading(cas, after);
        Call::ReadExact(server, key)
    }

    fn swap_judged(&mut self, result: CasResult, after: After, tick: &Tick) -> Call {
        let (slot, permit) = match result {
            CasResult::Verified(slot, permit) => (*slot, permit),
            CasResult::Conflict => {
                let finding = Finding::wait(
                    ErrorCode::CasConflict,
                    "C-5",
                    "another worker changed the record first; looking again",
                );
                return self.give_up(finding, tick);
            }
            CasResult::Refused => {
                let message =
                    "the server refused the authority statement; check grants and settings of the user";
                return self.give_up(Finding::block(ErrorCode::AccessDenied, "C-4", message), tick);
            }
            CasResult::OutcomeUnknown => {
                let message =
                    "the answer of an authority statement was lost; it is never sent again, the record tells";
                return self.give_up(Finding::wait(ErrorCode::CasOutcomeUnknown, "C-7", message), tick);
            }
            CasResult::OneShotViolation => return self.halt(),
        };
        self.passed.push(slot.record.phase);
        self.history.push(Look::written(tick.now.wall_ms, slot.version, slot.record.phase, self.class));
        self.seen_slot = Some(slot.clone());
        match (after, permit) {
            (After::Prepared, None) => self.prepared(slot, tick),
            (After::Dispatch, Some(permit)) => self.send(slot, permit),
            #[cfg(planted)]
            (After::Stored, Some(permit)) if planted!(PermitFromAnySwap) => self.send(slot, permit),
            (After::Stored, None) if slot.record.phase.is_final() => {
                self.finish(End::Succeeded, vec![], Requeue::Never)
            }
            (After::Stored, None) => self.finish(End::Waiting, vec![], Requeue::Now),
            (After::Released(why), None) => self.released(why, tick),
            _ => self.halt(),
        }
    }

    fn send(&mut self, slot: Slot, permit: DispatchPermit) -> Call {
        let Some(dispatch) = slot.record.last_dispatch() else { return self.halt() };
        let order = Order { statement: slot.record.statement(dispatch) };
        self.dispatched += 1;
        self.state = State::Sending(slot);
        Call::Send(permit, order)
    }

    /// D-3: whatever the answer, the queue is looked up.
    fn sent(&mut self, slot: &Slot, outcome: SendOutcome, tick: &Tick) -> Call {
        match outcome {
            SendOutcome::Answered | SendOutcome::Unknown => self.read_slot(State::Rereading),
            SendOutcome::OneShotViolation => self.halt(),
            // C-12: the permit goes into this one CAS. A cleanup step is simply dispatched again later (G-4).
            SendOutcome::NotSent(permit) => match crate::intent::release(slot, tick.now) {
                Some(record) if permit.epoch() == slot.record.epoch => {
                    drop(permit);
                    self.swap(slot, record, After::Released(None), tick)
                }
                _ => self.read_slot(State::Rereading),
            },
        }
    }

    /// The record of an own, dispatched operation, read once more after a statement or a discarded observation.
    fn slot_reread(&mut self, read: &AuthorityRead, tick: &Tick) -> Call {
        match self.judge(read, tick) {
            Err(call) => call,
            Ok(found) => match found.slot {
                Some(slot) if slot.record.operation == self.intent.operation => self.observe(slot, tick),
                _ => self.finish(End::Waiting, vec![], Requeue::Now),
            },
        }
    }

    /// Ends the pass with a finding. What may pass by itself is waited for within a grace (F-3).
    fn give_up(&mut self, finding: Finding, tick: &Tick) -> Call {
        self.give_up_all(vec![finding], tick)
    }

    fn give_up_all(&mut self, findings: Vec<Finding>, tick: &Tick) -> Call {
        // C-14: what never showed a version was never dispatched; C-11 frees a slot that it may hold.
        // What was just seen in flight is not forgotten because the object's status was read before its witness.
        let in_flight = self.seen_slot.as_ref().is_some_and(|s| {
            s.record.operation == self.intent.operation
                && s.record.phase != Phase::Prepared
                && !s.record.phase.is_final()
        });
        if self.intent.deleted && self.intent.witnessed.is_none() && !in_flight {
            return self.finish(End::Gone, vec![], Requeue::Never);
        }
        let (end, requeue) = troubled(&mut self.memory, &findings, tick.now, &tick.random);
        self.finish(end, findings, requeue)
    }

    /// F-3: bounded exponential backoff with jitter.
    pub(super) fn backoff(&mut self, doublings_max: u32, tick: &Tick) -> Requeue {
        Requeue::AfterMs(self.memory.backoff(doublings_max, &tick.random))
    }

    fn halt(&mut self) -> Call {
        self.finish(End::Halted, vec![invariant()], Requeue::Never)
    }

    fn finish(&mut self, end: End, findings: Vec<Finding>, requeue: Requeue) -> Call {
        self.state = State::Done;
        let own = self.seen_slot.take().filter(|s| s.record.operation == self.intent.operation);
        Call::Finish(Box::new(Report {
            end,
            slot: own,
            class: self.class,
            findings,
            warnings: std::mem::take(&mut self.warnings),
            states: std::mem::take(&mut self.states),
            queues: std::mem::take(&mut self.queues),
            stuck: self.stuck.take(),
            evidence: self.evidence.take(),
            held: self.held.take(),
            converged: self.converged,
            passed: std::mem::take(&mut self.passed),
            history: std::mem::take(&mut self.history),
            looked_at: self.looked_at_version,
            server_versions: std::mem::take(&mut self.server_versions),
            requeue,
            memory: std::mem::take(&mut self.memory),
        }))
    }
}
