//! C: compare-and-swap over a raw port: mutate once, read exactly, compare, and only then issue the permit.

use crate::canonical::Digest;
use crate::identity::{Action, CorrelationToken, ServerUuid};
use crate::limits::DISPATCH_PERMIT_MS_MAX;
use crate::record::{RawRow, Record, Slot, VersionedRow};

/// Two clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// Milliseconds on a monotonic clock that counts suspension.
    pub boot_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: u64,
}

/// The one statement that a mutation is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// C-2: strict INSERT.
    Insert(RawRow),
    /// C-3: strict UPDATE under the complete predicate.
    Update {
        /// New values; the key is that of the row.
        row: RawRow,
        /// What must still hold.
        expected: Predicate,
    },
}

/// C-3: beside the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// `_version`.
    pub version: u64,
    /// `operation_id`.
    pub operation_id: String,
    /// `fence_token`.
    pub fence_token: String,
    /// `phase`.
    pub phase: String,
}

/// What a mutation's answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MutationOutcome {
    /// The server acknowledged it. For an UPDATE this proves nothing yet (C-3).
    Acknowledged,
    /// Surely a conflict: the key exists, or Keeper said "bad version".
    Conflict,
    /// The server refused it before doing anything (no such setting, no right, no table).
    Refused,
    /// C-5: anything else.
    Unknown,
}

/// Answer of the one-shot transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MutationAnswer {
    /// What it says.
    pub outcome: MutationOutcome,
    /// C-4: how often the transport was called; anything but 1 is a correctness failure.
    pub transport_calls: u32,
}

/// A CAS under way: what was asked, to be judged by its answer and the exact read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PendingCas {
    record: Record,
    written: RawRow,
    version: u64,
    server: ServerUuid,
    dispatch: Option<(Action, CorrelationToken)>,
    begun: Now,
}

/// C-5.
#[derive(Debug)]
pub enum CasResult {
    /// Acknowledged and read back exactly; with a permit if it was a dispatching CAS.
    Verified(Box<Slot>, Option<DispatchPermit>),
    /// Somebody else was first.
    Conflict,
    /// The server refused the statement itself; nothing was written.
    Refused,
    /// Nothing can be concluded, and nothing is sent (C-7).
    OutcomeUnknown,
    /// The transport was called more or less than once.
    OneShotViolation,
}

impl PendingCas {
    /// C-2.
    pub(crate) fn create(record: Record, server: ServerUuid, begun: Now) -> (Self, Mutation) {
        let record = record.sealed();
        let written = record.encode();
        let mutation = Mutation::Insert(written.clone());
        (Self { record, written, version: 0, server, dispatch: None, begun }, mutation)
    }

    /// C-3. `dispatch` is set by the transition table alone: see [`crate::phase::Edge::Dispatch`].
    pub(crate) fn swap(
        from: &Slot,
        record: Record,
        dispatches: bool,
        server: ServerUuid,
        begun: Now,
    ) -> (Self, Mutation) {
        let record = record.sealed();
        let written = record.encode();
        let expected = Predicate {
            version: from.version,
            operation_id: from.record.operation.to_string(),
            fence_token: from.record.fence.to_string(),
            phase: from.record.phase.as_str().to_owned(),
        };
        let mutation = Mutation::Update { row: written.clone(), expected };
        let last = record.last_dispatch().filter(|_| dispatches || planted!(PermitFromAnySwap));
        let dispatch = last.map(|d| (d.action, d.token.clone()));
        (Self { record, written, version: from.version + 1, server, dispatch, begun }, mutation)
    }

    /// The key, and the server that must be read: the one that was written to.
    pub fn exact_read(&self) -> (ServerUuid, String) {
        (self.server.clone(), self.written.target_key.clone())
    }

    /// Judges an answer before the exact read; `None` = read now.
    pub fn after_answer(&self, answer: MutationAnswer) -> Option<CasResult> {
        if answer.transport_calls != 1 && !planted!(TransportCallsUncounted) {
            return Some(CasResult::OneShotViolation);
        }
        match answer.outcome {
            #[cfg(planted)]
            MutationOutcome::Acknowledged if planted!(SkipPostRead) => Some(self.clone().verified()),
            MutationOutcome::Acknowledged => None,
            MutationOutcome::Conflict => Some(CasResult::Conflict),
            MutationOutcome::Refused => Some(CasResult::Refused),
            #[cfg(planted)]
            MutationOutcome::Unknown if planted!(PermitOnMatchingRead) => None,
            // C-7: no read can turn this into a permit, so none is made.
            MutationOutcome::Unknown => Some(CasResult::OutcomeUnknown),
        }
    }

    /// C-3: judges the exact read that followed an acknowledgement. `read` is none when it failed.
    pub fn after_read(self, read: Option<(ServerUuid, Option<VersionedRow>)>) -> CasResult {
        let Some((server, Some(found))) = read else { return CasResult::OutcomeUnknown };
        let same_server = server == self.server || planted!(PostReadElsewhere);
        let next_version = found.version == self.version || planted!(AnyVersionWillDo);
        if !same_server || !next_version {
            return CasResult::OutcomeUnknown;
        }
        if found.row != self.written {
            return CasResult::Conflict;
        }
        self.verified()
    }

    fn verified(self) -> CasResult {
        let permit = self.dispatch.map(|(action, token)| DispatchPermit {
            operation: self.record.operation,
            epoch: self.record.epoch,
            action,
            token,
            server: self.server,
            begun: self.begun,
        });
        CasResult::Verified(Box::new(Slot { record: self.record, version: self.version }), permit)
    }

    /// What a planted retry sends again.
    #[cfg(planted)]
    pub(crate) fn record(&self) -> Record {
        self.record.clone()
    }
}

/// C-6: the right to send one statement once. It exists only in memory, comes only from an acknowledged CAS into
/// a dispatching phase plus its exact read, and is used by value.
///
/// ```compile_fail
/// fn twice(permit: publication_protocol::authority::DispatchPermit) {
///     drop(permit);
///     drop(permit);
/// }
/// ```
#[derive(Debug)]
#[must_use = "a permit that is not used must be given back (C-12)"]
pub struct DispatchPermit {
    operation: Digest,
    epoch: u64,
    action: Action,
    token: CorrelationToken,
    server: ServerUuid,
    begun: Now,
}

impl DispatchPermit {
    /// What it allows.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The epoch it was issued for.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The operation it was issued for.
    pub fn operation(&self) -> Digest {
        self.operation
    }

    /// The token that the statement must carry.
    pub fn token(&self) -> &CorrelationToken {
        &self.token
    }

    /// The server that was written to, the one to send to.
    pub fn server(&self) -> &ServerUuid {
        &self.server
    }

    /// C-12: called right before the statement is written; gives the permit back when it is too old by either clock.
    ///
    /// # Errors
    /// The permit itself, not spent.
    pub fn redeem(self, now: Now) -> Result<Redeemed, Self> {
        let late =
            |now: u64, begun: u64| now.checked_sub(begun).is_none_or(|age| age > DISPATCH_PERMIT_MS_MAX);
        let late_by_boot = late(now.boot_ms, self.begun.boot_ms) && !planted!(PermitByWallClockOnly);
        if (late_by_boot || late(now.wall_ms, self.begun.wall_ms)) && !planted!(IgnorePermitExpiry) {
            return Err(self);
        }
        Ok(Redeemed { permit: self })
    }
}

/// A permit that was in time. The transport turns it back only when it knows that no byte was written.
#[derive(Debug)]
pub struct Redeemed {
    permit: DispatchPermit,
}

impl Redeemed {
    /// The token that the statement must carry.
    pub fn token(&self) -> &CorrelationToken {
        self.permit.token()
    }

    /// No byte was written: the permit goes back (C-12).
    pub fn not_sent(self) -> DispatchPermit {
        self.permit
    }
}
