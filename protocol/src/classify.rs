//! F: the classification, total and pure: phase, member states and queue in, one class out.

use crate::code::ErrorCode;
use crate::phase::Phase;
use crate::queue::{QueueDoubt, QueueView, Receipt};
use crate::replica::{Found, MemberState};

/// What the queue says of the present dispatch: the stored receipt if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueSummary {
    /// Epoch 0.
    NothingDispatched,
    /// E-2.
    InProgress,
    /// E-2.
    TerminalSuccess,
    /// E-2.
    TerminalFailure,
    /// E-2, D-5.
    Unknown(QueueDoubt),
}

impl QueueSummary {
    /// From a stored receipt.
    pub fn of_receipt(receipt: &Receipt) -> Self {
        if receipt.is_success() { Self::TerminalSuccess } else { Self::TerminalFailure }
    }

    /// From a scan.
    pub fn of_view(view: &QueueView) -> Self {
        match view {
            QueueView::InProgress { .. } => Self::InProgress,
            QueueView::Terminal { receipt, .. } => Self::of_receipt(receipt),
            QueueView::Unknown(doubt) => Self::Unknown(*doubt),
        }
    }
}

/// F-3: why an outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The queue proves nothing.
    Queue(QueueDoubt),
    /// A member's identities fit no state.
    MemberUnknown,
    /// A member is in a state that only cleanup can give.
    MemberAhead,
    /// A member does not answer.
    MemberUnobserved,
    /// Cluster and bound inventory differ.
    InventoryDrift,
    /// Everything pending although the queue says success: a server may have executed twice.
    PendingAfterSuccess,
}

impl Cause {
    /// CamelCase, as in `status.cause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue(QueueDoubt::NotFound) => "EntryNotFound",
            Self::Queue(QueueDoubt::SeveralEntries) => "SeveralEntries",
            Self::Queue(QueueDoubt::EntryChanged) => "EntryChanged",
            Self::Queue(QueueDoubt::QueryChanged) => "QueryChanged",
            Self::Queue(QueueDoubt::ForeignStatement) => "ForeignStatement",
            Self::Queue(QueueDoubt::Hosts) => "QueueHosts",
            Self::Queue(QueueDoubt::Status) => "QueueStatus",
            Self::Queue(QueueDoubt::Unreadable) => "QueueUnreadable",
            Self::MemberUnknown => "MemberUnknown",
            Self::MemberAhead => "MemberAhead",
            Self::MemberUnobserved => "MemberUnobserved",
            Self::InventoryDrift => "InventoryDrift",
            Self::PendingAfterSuccess => "PendingAfterSuccess",
        }
    }

    /// F-3, api: what may pass by itself is waited for within a grace before it counts as stalled.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::MemberUnobserved | Self::Queue(QueueDoubt::NotFound | QueueDoubt::Unreadable))
    }
}

/// Why cleanup does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CleanupBlock {
    /// As for an unknown outcome.
    Evidence(Cause),
    /// A member still has the pending mapping: it reverted or never applied.
    MemberPending,
    /// An identity differs under a name of the operation (G-2).
    UnsafeIdentity,
    /// A drop failed on a member that still bears the name (G-4).
    DropFailed,
    /// G-4.
    EpochLimit,
}

impl CleanupBlock {
    /// The public code.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::UnsafeIdentity => ErrorCode::UnsafeCleanupIdentity,
            _ => ErrorCode::CleanupBlocked,
        }
    }

    /// CamelCase, as in `status.cause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Evidence(cause) => cause.as_str(),
            Self::MemberPending => "MemberPending",
            Self::UnsafeIdentity => "UnsafeIdentity",
            Self::DropFailed => "DropFailed",
            Self::EpochLimit => "EpochLimit",
        }
    }
}

/// F: one class for every combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Classification {
    /// PREPARED, all pending, nothing dispatched: dispatch after CAS.
    Ready,
    /// PREPARED and anything else: release (C-10) or wait.
    NotReady,
    /// RELEASED, ABANDONED, COMPLETED: nothing (H-2).
    Nothing,
    /// Wait.
    InProgress,
    /// Wait for the original entry only.
    PartialInProgress,
    /// Fail closed, keep both generations.
    PartialTerminal,
    /// Wait.
    CommittedPendingReceipt,
    /// Store the receipt, go to cleanup.
    Committed,
    /// Fail closed, no second dispatch.
    FailedUnchanged,
    /// No DDL, no cleanup.
    OutcomeUnknown(Cause),
    /// Next step of G.
    Cleanup,
    /// Published; no DDL.
    CleanupBlocked(CleanupBlock),
}

impl Classification {
    /// What [`Self::as_str`] says, each once.
    pub const WORDS: [&'static str; 12] = [
        "Ready",
        "NotReady",
        "Nothing",
        "InProgress",
        "PartialInProgress",
        "PartialTerminal",
        "CommittedPendingReceipt",
        "Committed",
        "FailedUnchanged",
        "OutcomeUnknown",
        "Cleanup",
        "CleanupBlocked",
    ];

    /// CamelCase, as in `status.classification`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Nothing => "Nothing",
            Self::InProgress => "InProgress",
            Self::PartialInProgress => "PartialInProgress",
            Self::PartialTerminal => "PartialTerminal",
            Self::CommittedPendingReceipt => "CommittedPendingReceipt",
            Self::Committed => "Committed",
            Self::FailedUnchanged => "FailedUnchanged",
            Self::OutcomeUnknown(_) => "OutcomeUnknown",
            Self::Cleanup => "Cleanup",
            Self::CleanupBlocked(_) => "CleanupBlocked",
        }
    }

    /// The cause, where there is one.
    pub fn cause(self) -> Option<&'static str> {
        match self {
            Self::OutcomeUnknown(cause) => Some(cause.as_str()),
            Self::CleanupBlocked(block) => Some(block.as_str()),
            _ => None,
        }
    }

    /// The public code, for the classes that are errors.
    pub fn code(self) -> Option<ErrorCode> {
        match self {
            Self::PartialTerminal => Some(ErrorCode::PartialTerminal),
            Self::FailedUnchanged => Some(ErrorCode::FailedUnchanged),
            Self::OutcomeUnknown(_) => Some(ErrorCode::OutcomeUnknown),
            Self::CleanupBlocked(block) => Some(block.code()),
            _ => None,
        }
    }

    /// Whether it may pass by itself (against: fails closed at once).
    pub fn is_transient(self) -> bool {
        match self {
            Self::OutcomeUnknown(cause) | Self::CleanupBlocked(CleanupBlock::Evidence(cause)) => {
                cause.is_transient()
            }
            Self::PartialTerminal | Self::FailedUnchanged | Self::CleanupBlocked(_) => false,
            _ => true,
        }
    }
}

/// F, the whole table.
pub fn classify(phase: Phase, states: &[&MemberState], queue: QueueSummary, drift: bool) -> Classification {
    if phase.is_final() {
        Classification::Nothing
    } else if phase == Phase::Prepared {
        let ready =
            !drift && all(states, |s| *s == MemberState::Pending) && queue == QueueSummary::NothingDispatched;
        if ready { Classification::Ready } else { Classification::NotReady }
    } else if phase.is_cleanup() {
        cleanup(states, drift)
    } else {
        dispatched(states, queue, drift)
    }
}

fn all(states: &[&MemberState], is: impl Fn(&MemberState) -> bool) -> bool {
    !states.is_empty() && states.iter().all(|s| is(s))
}

fn dispatched(states: &[&MemberState], queue: QueueSummary, drift: bool) -> Classification {
    use Classification as C;
    if let Some(cause) = doubt(states, drift) {
        return C::OutcomeUnknown(cause);
    }
    if states.iter().any(|s| matches!(s, MemberState::Retired(_) | MemberState::Cleaned)) {
        return C::OutcomeUnknown(Cause::MemberAhead);
    }
    let unobserved = states.iter().filter(|s| ***s == MemberState::Unobserved).count();
    let pending = states.iter().any(|s| **s == MemberState::Pending);
    let committed = states.iter().any(|s| **s == MemberState::Committed);
    match queue {
        #[cfg(planted)]
        QueueSummary::TerminalSuccess if planted!(FinishedIsSwapped) => C::Committed,
        #[cfg(planted)]
        QueueSummary::InProgress if planted!(CleanupWithoutReceipt) && committed && !pending => C::Committed,
        #[cfg(planted)]
        QueueSummary::TerminalFailure if planted!(CleanPartialTerminal) && committed => C::Committed,
        QueueSummary::Unknown(doubt) => C::OutcomeUnknown(Cause::Queue(doubt)),
        // Unreachable by the record's own check (epoch >= 1 here); said without guessing.
        QueueSummary::NothingDispatched => C::OutcomeUnknown(Cause::Queue(QueueDoubt::NotFound)),
        QueueSummary::InProgress if unobserved > 0 && unobserved < states.len() => C::PartialInProgress,
        _ if unobserved > 0 || states.is_empty() => C::OutcomeUnknown(Cause::MemberUnobserved),
        QueueSummary::InProgress => match (pending, committed) {
            (true, true) => C::PartialInProgress,
            (false, true) => C::CommittedPendingReceipt,
            _ => C::InProgress,
        },
        QueueSummary::TerminalSuccess | QueueSummary::TerminalFailure => match (pending, committed) {
            (true, true) => C::PartialTerminal,
            (false, true) => C::Committed,
            _ if queue == QueueSummary::TerminalFailure => C::FailedUnchanged,
            _ => C::OutcomeUnknown(Cause::PendingAfterSuccess),
        },
    }
}

fn cleanup(states: &[&MemberState], drift: bool) -> Classification {
    if let Some(cause) = doubt(states, drift) {
        let unsafe_identity =
            states.iter().any(|s| matches!(s, MemberState::Unknown(m) if m.found != Found::Nothing));
        return Classification::CleanupBlocked(if unsafe_identity {
            CleanupBlock::UnsafeIdentity
        } else {
            CleanupBlock::Evidence(cause)
        });
    }
    if states.iter().any(|s| **s == MemberState::Pending) {
        return Classification::CleanupBlocked(CleanupBlock::MemberPending);
    }
    let silent = states.iter().any(|s| **s == MemberState::Unobserved);
    if states.is_empty() || (silent && !planted!(DropWhileMemberDown)) {
        return Classification::CleanupBlocked(CleanupBlock::Evidence(Cause::MemberUnobserved));
    }
    Classification::Cleanup
}

fn doubt(states: &[&MemberState], drift: bool) -> Option<Cause> {
    if drift {
        Some(Cause::InventoryDrift)
    } else if states.iter().any(|s| matches!(s, MemberState::Unknown(_))) && !planted!(UnknownMemberIgnored) {
        Some(Cause::MemberUnknown)
    } else {
        None
    }
}
