//! F: every cell, by enumeration against an oracle written as the contract's table is.

mod support;

use publication_protocol::classify::{Cause, Classification, CleanupBlock, QueueSummary, classify};
use publication_protocol::code::ErrorCode;
use publication_protocol::phase::Phase;
use publication_protocol::queue::QueueDoubt;
use publication_protocol::replica::{Found, MemberState, Mismatch};

fn states() -> Vec<MemberState> {
    let unknown = |found| MemberState::Unknown(Mismatch { name: "t".into(), found });
    vec![
        MemberState::Pending,
        MemberState::Committed,
        MemberState::Retired("t__retired_1".into()),
        MemberState::Cleaned,
        MemberState::Unobserved,
        unknown(Found::Nothing),
        unknown(Found::Foreign),
    ]
}

const DOUBTS: [QueueDoubt; 8] = [
    QueueDoubt::NotFound,
    QueueDoubt::SeveralEntries,
    QueueDoubt::EntryChanged,
    QueueDoubt::QueryChanged,
    QueueDoubt::ForeignStatement,
    QueueDoubt::Hosts,
    QueueDoubt::Status,
    QueueDoubt::Unreadable,
];

fn queues() -> Vec<QueueSummary> {
    let known = [
        QueueSummary::NothingDispatched,
        QueueSummary::InProgress,
        QueueSummary::TerminalSuccess,
        QueueSummary::TerminalFailure,
    ];
    known.into_iter().chain(DOUBTS.map(QueueSummary::Unknown)).collect()
}

/// Members of one mix, counted.
struct Mix {
    pending: usize,
    committed: usize,
    ahead: usize,
    unobserved: usize,
    unknown: usize,
    all: usize,
}

fn mix(states: &[&MemberState]) -> Mix {
    let count = |is: fn(&MemberState) -> bool| states.iter().filter(|s| is(s)).count();
    Mix {
        pending: count(|s| matches!(s, MemberState::Pending)),
        committed: count(|s| matches!(s, MemberState::Committed)),
        ahead: count(|s| matches!(s, MemberState::Retired(_) | MemberState::Cleaned)),
        unobserved: count(|s| matches!(s, MemberState::Unobserved)),
        unknown: count(|s| matches!(s, MemberState::Unknown(_))),
        all: states.len(),
    }
}

/// Rows of the table, from the top; the first that fits is the class.
#[allow(clippy::if_same_then_else)]
fn oracle(phase: Phase, m: &Mix, queue: QueueSummary, drift: bool) -> &'static str {
    let (in_progress, success, failure) = (
        queue == QueueSummary::InProgress,
        queue == QueueSummary::TerminalSuccess,
        queue == QueueSummary::TerminalFailure,
    );
    let terminal = success || failure;
    let only_two = m.pending + m.committed == m.all;
    let mixed = only_two && m.pending > 0 && m.committed > 0;
    let nothing = queue == QueueSummary::NothingDispatched;
    match phase {
        Phase::Prepared if m.pending == m.all && nothing && !drift => "Ready",
        Phase::Prepared => "NotReady",
        Phase::Released | Phase::Abandoned | Phase::Completed => "Nothing",
        Phase::Dispatching | Phase::InProgress => {
            if drift {
                "OutcomeUnknown"
            } else if m.pending == m.all && in_progress {
                "InProgress"
            } else if mixed && in_progress {
                "PartialInProgress"
            } else if m.unobserved > 0
                && m.pending + m.committed > 0
                && m.unobserved + m.pending + m.committed == m.all
                && in_progress
            {
                "PartialInProgress"
            } else if mixed && terminal {
                "PartialTerminal"
            } else if m.committed == m.all && in_progress {
                "CommittedPendingReceipt"
            } else if m.committed == m.all && terminal {
                "Committed"
            } else if m.pending == m.all && failure {
                "FailedUnchanged"
            } else {
                "OutcomeUnknown"
            }
        }
        _ if !drift && m.committed + m.ahead == m.all => "Cleanup",
        _ => "CleanupBlocked",
    }
}

/// All multisets of `n` states.
fn multisets(states: &[MemberState], n: usize) -> Vec<Vec<&MemberState>> {
    if n == 0 {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for (at, first) in states.iter().enumerate() {
        for mut rest in multisets(&states[at..], n - 1) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

// proves: F-1, F, O01
#[test]
fn every_phase_mix_and_queue_gives_the_class_of_the_table() {
    let states = states();
    let mut cells = 0;
    for phase in Phase::ALL {
        for n in [2, 3] {
            for members in multisets(&states, n) {
                for queue in queues() {
                    for drift in [false, true] {
                        let class = classify(phase, &members, queue, drift);
                        let expected = oracle(phase, &mix(&members), queue, drift);
                        assert_eq!(class.as_str(), expected, "{phase} {members:?} {queue:?} drift {drift}");
                        cells += 1;
                    }
                }
            }
        }
    }
    assert_eq!(cells, 11 * (28 + 84) * 12 * 2);
}

// proves: F-1
#[test]
fn order_of_members_does_not_matter_and_nobody_is_never_ready() {
    let states = states();
    for phase in Phase::ALL {
        for mut members in multisets(&states, 3) {
            for queue in queues() {
                let class = classify(phase, &members, queue, false);
                members.rotate_left(1);
                assert_eq!(classify(phase, &members, queue, false), class);
            }
        }
        let class = classify(phase, &[], QueueSummary::TerminalSuccess, false);
        let harmless = ["NotReady", "Nothing", "OutcomeUnknown", "CleanupBlocked"];
        assert!(harmless.contains(&class.as_str()), "{phase}: {class:?}");
    }
}

// proves: F-2, F-3, O09
#[test]
fn only_four_classes_may_ever_lead_to_a_statement() {
    // UNKNOWN never authorises: with any unknown or silent member, or any doubt, none of these can come up.
    let authorising = ["Ready", "Committed", "Cleanup"];
    let states = states();
    for phase in Phase::ALL {
        for members in multisets(&states, 3) {
            for queue in queues() {
                let class = classify(phase, &members, queue, false);
                let m = mix(&members);
                let doubtful = m.unknown > 0 || m.unobserved > 0;
                if doubtful || (phase.is_dispatched() && matches!(queue, QueueSummary::Unknown(_))) {
                    assert!(!authorising.contains(&class.as_str()), "{phase} {members:?} {queue:?}");
                }
            }
        }
    }
}

// proves: F-3
#[test]
fn every_unknown_outcome_has_a_cause_and_only_what_may_pass_is_waited_for() {
    let expected = |cause: Cause| match cause {
        Cause::Queue(QueueDoubt::NotFound) => ("EntryNotFound", true),
        Cause::Queue(QueueDoubt::SeveralEntries) => ("SeveralEntries", false),
        Cause::Queue(QueueDoubt::EntryChanged) => ("EntryChanged", false),
        Cause::Queue(QueueDoubt::QueryChanged) => ("QueryChanged", false),
        Cause::Queue(QueueDoubt::ForeignStatement) => ("ForeignStatement", false),
        Cause::Queue(QueueDoubt::Hosts) => ("QueueHosts", false),
        Cause::Queue(QueueDoubt::Status) => ("QueueStatus", false),
        Cause::Queue(QueueDoubt::Unreadable) => ("QueueUnreadable", true),
        Cause::MemberUnknown => ("MemberUnknown", false),
        Cause::MemberAhead => ("MemberAhead", false),
        Cause::MemberUnobserved => ("MemberUnobserved", true),
        Cause::InventoryDrift => ("InventoryDrift", false),
        Cause::PendingAfterSuccess => ("PendingAfterSuccess", false),
    };
    let others = [
        Cause::MemberUnknown,
        Cause::MemberAhead,
        Cause::MemberUnobserved,
        Cause::InventoryDrift,
        Cause::PendingAfterSuccess,
    ];
    for cause in DOUBTS.map(Cause::Queue).into_iter().chain(others) {
        let class = Classification::OutcomeUnknown(cause);
        assert_eq!((class.cause(), class.is_transient()), (Some(expected(cause).0), expected(cause).1));
        assert_eq!(class.code(), Some(ErrorCode::OutcomeUnknown));
        let blocked = Classification::CleanupBlocked(CleanupBlock::Evidence(cause));
        assert_eq!(blocked.is_transient(), expected(cause).1);
        assert_eq!(blocked.code(), Some(ErrorCode::CleanupBlocked));
    }
    for block in [CleanupBlock::MemberPending, CleanupBlock::DropFailed, CleanupBlock::EpochLimit] {
        let class = Classification::CleanupBlocked(block);
        assert_eq!((class.code(), class.is_transient()), (Some(ErrorCode::CleanupBlocked), false));
    }
    let class = Classification::CleanupBlocked(CleanupBlock::UnsafeIdentity);
    assert_eq!((class.code(), class.is_transient()), (Some(ErrorCode::UnsafeCleanupIdentity), false));
    assert_eq!(Classification::PartialTerminal.code(), Some(ErrorCode::PartialTerminal));
    assert_eq!(Classification::FailedUnchanged.code(), Some(ErrorCode::FailedUnchanged));
}

// proves: F-1, F-2, K11, K31
#[test]
fn a_duplicate_execution_is_seen_as_a_contradiction() {
    // K31: h0 POST, h1 PRE, Finished/0 on both. And all back at PRE although the queue says success.
    let (pending, committed) = (MemberState::Pending, MemberState::Committed);
    let class = |members: &[&MemberState], queue| classify(Phase::InProgress, members, queue, false);
    let success = QueueSummary::TerminalSuccess;
    assert_eq!(class(&[&committed, &pending], success), Classification::PartialTerminal);
    let twice = Classification::OutcomeUnknown(Cause::PendingAfterSuccess);
    assert_eq!(class(&[&pending, &pending], success), twice);
    // K11: one failed, one swapped. All failed and nothing moved.
    let failure = QueueSummary::TerminalFailure;
    assert_eq!(class(&[&committed, &pending], failure), Classification::PartialTerminal);
    assert_eq!(class(&[&pending, &pending], failure), Classification::FailedUnchanged);
}
