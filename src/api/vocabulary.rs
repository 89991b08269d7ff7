//! The words of the status fields, in one place: CamelCase as users read them.
//!
//! The status holds them as strings, so that an older operator can read what a newer one wrote.

use std::fmt;

/// Declares an enum whose variants print as written.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every value, in the order of the protocol.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As written in a status.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.as_str().to_owned()
            }
        }
    };
}

words! {
    /// `status.phase`: phase of the authority record (protocol H).
    Phase {
        Prepared, Dispatching, InProgress, Committed, RetireDispatching, RetirePending, DropDispatching,
        DropPending, Completed, Released, Abandoned,
    }
}

words! {
    /// `status.classification`: what the evidence means (protocol F).
    Classification {
        Ready, InProgress, PartialInProgress, PartialTerminal, CommittedPendingReceipt, Committed,
        FailedUnchanged, OutcomeUnknown, Cleanup, CleanupBlocked,
    }
}

words! {
    /// `status.replicas[].state`: what the names are on one member (protocol F).
    MemberState { Pending, Committed, Retired, Cleaned, Unobserved, Unknown }
}

words! {
    /// `status.replicas[].statement` and `status.publication.result`: a queue result (protocol E).
    StatementResult { InProgress, TerminalSuccess, TerminalFailure, Unknown }
}

words! {
    /// Condition types of the three kinds.
    ConditionType {
        /// ClusterPublication: admission passed.
        Admitted,
        /// ClusterPublication: the candidate is complete and healthy on every member.
        CandidateConverged,
        /// ClusterPublication: this operation holds the target's slot.
        SlotAcquired,
        /// ClusterPublication: the publishing statement was sent.
        Dispatched,
        /// ClusterPublication: its message gives the outcome of each replica.
        ReplicasCommitted,
        /// ClusterPublication: the predecessor is gone everywhere.
        CleanedUp,
        /// ClusterPublication: the operation ended well.
        Succeeded,
        /// ClusterPublication and PublicationCluster (kstatus).
        Ready,
        /// ClusterPublication, only while true (kstatus).
        Reconciling,
        /// ClusterPublication, only while true (kstatus).
        Stalled,
        /// PublicationCluster: the KeeperMap facade exists and agrees on every member.
        FacadeReady,
        /// PublicationCluster: nothing new is dispatched.
        Suspended,
        /// PublicationVerdict: took effect.
        Applied,
        /// PublicationVerdict: did not take effect.
        Refused,
        /// ClusterPublication: deleted, but unresolved. PublicationCluster: deleted, but unresolved publications use it.
        DeletionBlocked,
        /// PublicationCluster: its endpoints reach other members than unresolved publications are bound to.
        RepointingBlocked,
    }
}
