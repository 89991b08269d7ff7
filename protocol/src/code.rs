//! I: the stable error codes, one table.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// A public, stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode { $($(#[$doc])* $name),+ }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// As in `status.error.code`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// As a condition's reason: the same code in CamelCase.
            pub fn reason(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),+ }
            }
        }
    };
}

codes! {
    /// The manifest breaks a rule of A.
    SpecInvalid = "SPEC_INVALID",
    /// A referenced object or key is not there.
    ReferenceNotFound = "REFERENCE_NOT_FOUND",
    /// Secret or CA without keys, or malformed.
    CredentialsInvalid = "CREDENTIALS_INVALID",
    /// More fenced names than a slot can carry (C-9).
    FenceLimit = "FENCE_LIMIT",
    /// B-1, B-3.
    UnsupportedTopology = "UNSUPPORTED_TOPOLOGY",
    /// B-1, B-2.
    IncompleteInventory = "INCOMPLETE_INVENTORY",
    /// B-4.
    CapabilityMissing = "CAPABILITY_MISSING",
    /// An endpoint does not answer.
    EndpointUnavailable = "ENDPOINT_UNAVAILABLE",
    /// ClickHouse refuses user or right.
    AccessDenied = "ACCESS_DENIED",
    /// The platform does not allow this namespace or database.
    ReferenceDenied = "REFERENCE_DENIED",
    /// Facade or Keeper cannot be read.
    AuthorityUnavailable = "AUTHORITY_UNAVAILABLE",
    /// Another operation holds the slot (C-8).
    AuthorityConflict = "AUTHORITY_CONFLICT",
    /// C-9.
    AuthorityMalformed = "AUTHORITY_MALFORMED",
    /// F-2, B-6.
    AuthorityLost = "AUTHORITY_LOST",
    /// A race for the same version.
    CasConflict = "CAS_CONFLICT",
    /// C-5, C-7.
    CasOutcomeUnknown = "CAS_OUTCOME_UNKNOWN",
    /// B-3, B-7.
    TargetInvalid = "TARGET_INVALID",
    /// B-7.
    CandidateInvalid = "CANDIDATE_INVALID",
    /// B-8.
    CandidateNotConverged = "CANDIDATE_NOT_CONVERGED",
    /// B-8.
    RowCountMismatch = "ROW_COUNT_MISMATCH",
    /// B-7.
    CandidateNameSpent = "CANDIDATE_NAME_SPENT",
    /// A-8, K02.
    NameTooLong = "NAME_TOO_LONG",
    /// B-9.
    DependentsPresent = "DEPENDENTS_PRESENT",
    /// H-2.
    IdentityDrift = "IDENTITY_DRIFT",
    /// A newer object was published there.
    Superseded = "SUPERSEDED",
    /// `admissionDeadlineSeconds` passed before dispatch.
    AdmissionDeadline = "ADMISSION_DEADLINE",
    /// F.
    PartialTerminal = "PARTIAL_TERMINAL",
    /// F.
    FailedUnchanged = "FAILED_UNCHANGED",
    /// F.
    OutcomeUnknown = "OUTCOME_UNKNOWN",
    /// F, G.
    CleanupBlocked = "CLEANUP_BLOCKED",
    /// F, G-2.
    UnsafeCleanupIdentity = "UNSAFE_CLEANUP_IDENTITY",
    /// J-1.
    VerdictStale = "VERDICT_STALE",
    /// H-1, C-4.
    InternalInvariant = "INTERNAL_INVARIANT",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn reasons_map_one_to_one() {
        for code in ErrorCode::ALL {
            let squeezed = code.as_str().replace('_', "").to_lowercase();
            assert_eq!(squeezed, code.reason().to_lowercase());
        }
        assert_eq!(ErrorCode::ALL.len(), 33);
    }
}
