//! M: the protocol's constants, in one place.

/// C-12: a permit older than this is refused.
pub const DISPATCH_PERMIT_MS_MAX: u64 = 10_000;
/// Added to the cluster's statement timeout to give the send deadline.
pub const SEND_SLACK_MS: u64 = 30_000;
/// Added to permit and send deadline to give the visibility wait (D-5).
pub const VISIBILITY_SLACK_MS: u64 = 5_000;
/// C-13: how long a member may answer with an older record before it blocks.
pub const STALE_READ_MS_MAX: u64 = 30_000;
/// F-3: how long an unreachable member is only waited for.
pub const UNOBSERVED_GRACE_MS: u64 = 60_000;
/// F: a statement that is in the queue for longer than this does not progress. It only touches catalogs: a server runs one
/// in well below a second, and the statement's own answer has waited 5 s for it before the first look.
pub const STATEMENT_EXPECTED_MS: u64 = 10_000;
/// How often a stalled operation is observed again.
pub const STALLED_REOBSERVE_MS: u64 = 600_000;
/// G-4: cleanup dispatches of one operation.
pub const CLEANUP_EPOCHS_MAX: u64 = 8;
/// C-9: a payload above this is refused.
pub const RECORD_BYTES_MAX: usize = 65_536;
/// C: operations remembered by a slot.
pub const RECENT_OPERATIONS_MAX: usize = 64;
/// Of these, the last ones keep the digest of their receipt.
pub const RECENT_RECEIPTS_MAX: usize = 16;
/// C-9: fenced names a slot can carry.
pub const FENCED_NAMES_MAX: usize = 8;
/// Verdicts that a record remembers.
pub const VERDICTS_MAX: usize = 8;
///
pub const TOKEN_BYTES_MAX: usize = 200;
/// Names in manifests.
pub const NAME_BYTES_MAX: usize = 200;
/// K02: a dropped table's metadata file is `<db>.<table>.<uuid>.sql` and may have 255 bytes.
pub const ESCAPED_NAME_BYTES_MAX: usize = 255 - 1 - 1 - 36 - 4;
/// Members of one shard.
pub const MEMBERS_MAX: usize = 64;

/// Deadlines that depend on the cluster's statement timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadlines {
    /// The cluster's statement timeout.
    pub statement_timeout_ms: u64,
}

impl Deadlines {
    /// M: after this, a statement that was being sent is given up by its sender.
    pub fn send_deadline_ms(self) -> u64 {
        self.statement_timeout_ms + SEND_SLACK_MS
    }

    /// D-5: only after this does a missing entry count as missing.
    pub fn visibility_wait_ms(self) -> u64 {
        DISPATCH_PERMIT_MS_MAX + self.send_deadline_ms() + VISIBILITY_SLACK_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: D-5, C-12
    #[test]
    fn the_visibility_wait_exceeds_permit_plus_send_deadline() {
        let deadlines = Deadlines { statement_timeout_ms: 180_000 };
        assert_eq!(deadlines.send_deadline_ms(), 210_000);
        assert_eq!(deadlines.visibility_wait_ms(), 225_000);
        assert!(deadlines.visibility_wait_ms() > DISPATCH_PERMIT_MS_MAX + deadlines.send_deadline_ms());
    }

    #[test]
    fn constants_are_those_of_the_contract() {
        assert_eq!(
            [
                DISPATCH_PERMIT_MS_MAX,
                STALE_READ_MS_MAX,
                UNOBSERVED_GRACE_MS,
                STALLED_REOBSERVE_MS,
                CLEANUP_EPOCHS_MAX
            ],
            [10_000, 30_000, 60_000, 600_000, 8]
        );
        assert_eq!([RECORD_BYTES_MAX, RECENT_OPERATIONS_MAX, FENCED_NAMES_MAX], [65_536, 64, 8]);
    }
}
