//! H: the phases and the one transition table.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Phase of the authority record. Not a queue result, not a member state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Phase {
    /// Bound, nothing dispatched.
    Prepared,
    /// The publication may have been sent.
    Dispatching,
    /// Its entry is bound.
    InProgress,
    /// Every member serves the desired generation; cleanup not begun.
    Committed,
    /// A retire may have been sent.
    RetireDispatching,
    /// Its entry is bound.
    RetirePending,
    /// A drop may have been sent.
    DropDispatching,
    /// Its entry is bound.
    DropPending,
    /// Done and proved.
    Completed,
    /// Given up before any dispatch.
    Released,
    /// Ended by verdict, not applied.
    Abandoned,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 11] = [
        Self::Prepared,
        Self::Dispatching,
        Self::InProgress,
        Self::Committed,
        Self::RetireDispatching,
        Self::RetirePending,
        Self::DropDispatching,
        Self::DropPending,
        Self::Completed,
        Self::Released,
        Self::Abandoned,
    ];

    /// As stored in the `phase` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "PREPARED",
            Self::Dispatching => "DISPATCHING",
            Self::InProgress => "IN_PROGRESS",
            Self::Committed => "COMMITTED",
            Self::RetireDispatching => "RETIRE_DISPATCHING",
            Self::RetirePending => "RETIRE_PENDING",
            Self::DropDispatching => "DROP_DISPATCHING",
            Self::DropPending => "DROP_PENDING",
            Self::Completed => "COMPLETED",
            Self::Released => "RELEASED",
            Self::Abandoned => "ABANDONED",
        }
    }

    /// Reads the `phase` column.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text)
    }

    /// C-8: another operation may take the slot.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Released | Self::Abandoned)
    }

    /// F: DISPATCHING, IN_PROGRESS.
    pub fn is_dispatched(self) -> bool {
        matches!(self, Self::Dispatching | Self::InProgress)
    }

    /// F: COMMITTED and all RETIRE_*, DROP_*.
    pub fn is_cleanup(self) -> bool {
        self == Self::Committed || self.is_cleanup_dispatch()
    }

    /// D-4, D-6: evidence may be stored without a change of phase and without a new epoch.
    pub fn keeps_evidence(self) -> bool {
        self.is_dispatched() || self.is_cleanup()
    }

    fn is_cleanup_dispatch(self) -> bool {
        self.is_retire() || self.is_drop()
    }

    fn is_retire(self) -> bool {
        matches!(self, Self::RetireDispatching | Self::RetirePending)
    }

    fn is_drop(self) -> bool {
        matches!(self, Self::DropDispatching | Self::DropPending)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What kind of change a transition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Evidence is stored, or the next phase follows from it; nothing is sent.
    Advance,
    /// A dispatching CAS: epoch + 1, and the only kind that can yield a permit (C-6).
    Dispatch,
    /// C-10: nothing was dispatched.
    Release,
    /// C-12: the holder of the permit knows that it sent nothing.
    NotSent,
    /// Another operation takes the slot (C-8, C-11, H-3).
    TakeOver,
    /// J: by a person's verdict.
    Verdict,
}

/// Who makes the change: the record's own operation, one that takes the slot, or a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The record's operation.
    Own,
    /// An operation that is not (or, after RELEASED, may be) the record's.
    Taker,
    /// A PublicationVerdict.
    Verdict,
}

/// H-1: the one transition table. `None` = `INTERNAL_INVARIANT`, no effect.
pub fn edge(actor: Actor, from: Phase, to: Phase) -> Option<Edge> {
    use Phase as P;
    match (actor, from, to) {
        (Actor::Taker, P::Prepared | P::Completed | P::Released | P::Abandoned, P::Prepared) => {
            Some(Edge::TakeOver)
        }
        #[cfg(planted)]
        (Actor::Taker, _, P::Prepared) if planted!(StealAfterTimeout) => Some(Edge::TakeOver),
        (Actor::Taker, ..) => None,
        (Actor::Verdict, P::Prepared, P::Released) => Some(Edge::Verdict),
        (Actor::Verdict, from, P::Completed | P::Abandoned) if from != P::Prepared && !from.is_final() => {
            Some(Edge::Verdict)
        }
        // J-3..J-5 change what the record binds, never the phase.
        (Actor::Verdict, from, to) if from == to => Some(Edge::Verdict),
        (Actor::Verdict, ..) => None,
        (Actor::Own, P::Prepared, P::Dispatching) => Some(Edge::Dispatch),
        (Actor::Own, P::Prepared, P::Released) => Some(Edge::Release),
        (Actor::Own, P::Dispatching, P::Released) => Some(Edge::NotSent),
        (Actor::Own, P::Dispatching, P::InProgress | P::Committed | P::Completed) => Some(Edge::Advance),
        (Actor::Own, P::InProgress, P::Committed | P::Completed) => Some(Edge::Advance),
        (Actor::Own, P::Dispatching | P::InProgress, P::RetireDispatching) => Some(Edge::Dispatch),
        (Actor::Own, from, P::RetireDispatching | P::DropDispatching) if from.is_cleanup() => {
            Some(Edge::Dispatch)
        }
        (Actor::Own, P::RetireDispatching, P::RetirePending)
        | (Actor::Own, P::DropDispatching, P::DropPending) => Some(Edge::Advance),
        (Actor::Own, from, P::Completed) if from.is_cleanup() => Some(Edge::Advance),
        // D-4, D-6: evidence stored without a change of phase.
        (Actor::Own, from, to) if from == to && from.keeps_evidence() => Some(Edge::Advance),
        (Actor::Own, ..) => None,
    }
}
