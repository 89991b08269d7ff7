//! Wrong protocols, each a mistake that a good engineer could make: `tools/planted` runs every test against each of
//! them and fails when one passes. Compiled only under `--cfg planted`, which nothing but that tool sets; in any other
//! build `planted!` is the literal `false`. The environment is read once, so that a step stays a function of its input.

use std::sync::OnceLock;

/// Names the one mistake that is made.
pub const VARIABLE: &str = "PUBLICATION_PLANTED_BUG";

macro_rules! bugs {
    ($($bug:ident $rule:literal $what:literal)+) => {
        /// The mistakes; `tools/planted` reads this table.
        #[allow(missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug { $($bug),+ }

        /// Name, the rule whose guard is gone, and what is done instead.
        const ALL: &[(Bug, &str, &str, &str)] = &[$((Bug::$bug, stringify!($bug), $rule, $what)),+];
    };
}

bugs! {
    AnyTargetName "A-8" "a target's own name may contain the infix of candidates or retired tables"
    AnyCandidateSuffix "A-8" "a candidate's suffix may begin with anything"
    PartialInventory "B-2" "the members that answered are taken for all of them"
    TwoServersOneRow "B-2" "two servers that take one row for themselves are accepted"
    OtherRoot "B-5" "a facade under another root than the one in the status is taken"
    BootstrapOverLostAuthority "B-6" "a facade that is gone from every member is created anew"
    LostRowIsNew "B-6" "a row that is gone although the object has shown it is taken for a first publication"
    ReuseFencedName "B-7" "a fenced name is taken as a candidate"
    ReuseSpentName "B-7" "the candidate's name of an earlier operation is taken again"
    MixedCandidate "B-7" "the candidate may be another generation on another member"
    SkipPostRead "C-3" "an acknowledged swap is believed without the exact read"
    PostReadElsewhere "C-3" "the exact read may come from another member"
    AnyVersionWillDo "C-3" "the exact read compares the row and not its version"
    TransportCallsUncounted "C-4" "a statement that the transport sent twice counts as sent once"
    KeeperErrorIsConflict "C-5" "code 999 is a plain conflict, and the pass goes on"
    PermitFromAnySwap "C-6" "every verified swap gives a permit, and a permit is used"
    RetryTimedOutSwap "C-7" "a swap whose answer was lost is sent again"
    PermitOnMatchingRead "C-7" "a swap whose answer was lost counts when its row is read"
    StealAfterTimeout "C-8" "a slot that nobody moved for a minute is taken over"
    DigestUnchecked "C-9" "a payload is read whatever its digest column says"
    ReleaseAfterDispatch "C-10" "a deleted object's operation is released although it was dispatched"
    TakeForeignPrepared "C-11" "a PREPARED slot of another Kubernetes cluster is taken"
    UnknownOwnerIsGone "C-11" "an owner that could not be looked up counts as gone"
    IgnorePermitExpiry "C-12" "a permit has no age"
    PermitByWallClockOnly "C-12" "a permit's age is taken from the wall clock alone"
    TakeOlderRecord "C-13" "members that read different versions: the first answer is taken"
    SkipWitness "C-14" "the first dispatch does not wait for the status write"
    SkipRevalidation "D-1" "nothing is read again between PREPARED and the dispatch"
    NewestOfTwoEntries "D-3" "of two entries with one token the newest is taken"
    AnyStatementText "D-3" "an entry's stored text is not compared with what was sent"
    EntryMayChange "D-4" "an entry is looked up by its token only, bound or not"
    AbsentIsNotQueued "D-5" "an entry that is not seen was not queued: begin anew"
    ReceiptNotStored "D-6" "a terminal receipt is not kept"
    FinishedWithoutCode "E" "Finished counts as success whatever the exception columns say"
    MissingHostsIgnored "E-1" "hosts without a row are left out of the count"
    FinishedIsSwapped "F" "an entry that succeeded everywhere proves the swap"
    RedispatchWhenAllPending "F" "all members pending: the publication is begun anew"
    MembersBeforeQueue "F" "the members are read first, then the queue"
    KeepMovedObservation "F" "an observation counts although the record moved under it"
    UnknownMemberIgnored "F" "a member that fits no state is left out"
    StatusDecides "F-2" "what the object's status shows need not be read again"
    CleanupWithoutReceipt "G-1" "all members committed: clean up before the entry is terminal"
    CleanupOfUnhealthy "G-1" "the published table's health is not asked for"
    DropWhileMemberDown "G-2" "a member that does not answer does not hold cleanup up"
    DropByName "G-2" "whatever bears a retired name is the predecessor"
    DropCandidateName "G-3" "the predecessor is dropped under the candidate's name, without a retire"
    RetiredNameReused "G-3" "all retire epochs share one retired name"
    DropUnaccountedName "G-3" "a name whose retire is not accounted for is dropped"
    RepeatBeforeTerminal "G-4" "a cleanup step is repeated while its entry is in progress"
    RepeatWithoutWaiting "G-4" "a cleanup step whose entry is not seen yet is repeated at once"
    NoEpochLimit "G-4" "cleanup is repeated without end"
    RetryFailedDrop "G-4" "a failed drop is repeated without a change"
    ForgetFences "G-4" "the next operation does not inherit the fences"
    CompletedBySome "G-5" "one cleaned member completes the operation"
    CleanPartialTerminal "G-5" "a mixed terminal state goes on to cleanup"
    CompletedRunsAgain "H-2" "a completed operation that is asked again is admitted again"
    VerdictWithoutEvidence "J-1" "a verdict's evidence digest is not compared"
    VerdictWhileCandidateExists "J-2" "a verdict ends an operation whose candidate name is still borne"
    VerdictWhileUnfinished "J-2" "a verdict ends an operation whose entry is unfinished"
    VerdictBeforeDeadlines "J-2" "a verdict does not wait for the deadlines"
    CommittedWithAnyTarget "J-2" "Committed does not look at the targets"
    ClearRunningFence "J-3" "a fence is cleared while its statement still runs"
    ClearUnfinishedFence "J-3" "a fence is cleared while its entry is unfinished"
    ReboundUnclear "J-4" "an inventory is bound although a member fits no state"
    RebaselineAnything "J-5" "a table of the same UUID is the same table"
}

/// Whether this is the mistake to make.
///
/// # Panics
/// When the variable names none of them: a run that tests nothing must not pass.
#[allow(clippy::panic)]
pub fn is(bug: Bug) -> bool {
    static ACTIVE: OnceLock<Option<Bug>> = OnceLock::new();
    let active = ACTIVE.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
        match ALL.iter().find(|(_, known, ..)| *known == name) {
            Some((bug, ..)) => Some(*bug),
            None => panic!("{VARIABLE}: there is no bug {name}"),
        }
    });
    *active == Some(bug)
}

#[cfg(test)]
#[test]
fn names_are_unique_and_described() {
    let mut names: Vec<&str> = ALL.iter().map(|(_, name, ..)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    assert!(ALL.iter().all(|(_, _, rule, what)| !rule.is_empty() && !what.is_empty()));
}
