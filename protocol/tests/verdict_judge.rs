//! J: the judgement alone: every decision in every phase, every refusal, and what the evidence digest is made of.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::generation::{GenerationIdentity, NotAGeneration, TableFact};
use publication_protocol::phase::Phase;
use publication_protocol::ports::ReadFailure;
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::record::Record;
use publication_protocol::verdict::{Afresh, Decision, Verdict, judge};
use support::build::{
    ALIEN, CANDIDATE, NEW, OLD, REPRINTED, RETIRED, TARGET, now, queue_row, record_in, server,
};
use support::verdicts::{afresh, put};

fn judged(afresh: &Afresh, decision: Decision) -> Result<Record, String> {
    let operation = afresh.slot.record.operation;
    let verdict = Verdict { uid: "v".into(), operation, decision, evidence: afresh.digest() };
    judge(&verdict, afresh, now(9)).map_err(|finding| {
        assert_eq!(finding.code, ErrorCode::VerdictStale);
        format!("{}: {}", finding.rule, finding.message)
    })
}

fn ends(afresh: &Afresh, decision: Decision) -> Option<Phase> {
    judged(afresh, decision).ok().map(|record| record.phase)
}

// proves: J-2, H
#[test]
fn committed_and_not_applied_from_every_phase() {
    for phase in Phase::ALL {
        let record = record_in(phase, 2);
        let ended = phase != Phase::Prepared && !phase.is_final();
        let published = afresh(record.clone(), [Some(NEW); 2]);
        assert_eq!(ends(&published, Decision::Committed), ended.then_some(Phase::Completed), "{phase}");
        let reverted = afresh(record, [Some(OLD); 2]);
        let expected = match phase {
            Phase::Prepared => Some(Phase::Released),
            _ => ended.then_some(Phase::Abandoned),
        };
        assert_eq!(ends(&reverted, Decision::NotApplied), expected, "{phase}");
        assert_eq!(ends(&reverted, Decision::Committed), None, "{phase}");
        if phase != Phase::Prepared {
            assert_eq!(ends(&published, Decision::NotApplied), None, "{phase}");
        }
    }
}

// proves: J-2
#[test]
fn what_a_target_must_be() {
    let record = record_in(Phase::InProgress, 2);
    let not_applied = |targets| ends(&afresh(record.clone(), targets), Decision::NotApplied);
    assert_eq!(not_applied([None; 2]), Some(Phase::Abandoned));
    assert_eq!(not_applied([Some(ALIEN); 2]), Some(Phase::Abandoned));
    for mixed in [[Some(OLD), None], [Some(OLD), Some(ALIEN)], [Some(NEW), Some(OLD)], [Some(OLD), Some(NEW)]]
    {
        assert_eq!(not_applied(mixed), None, "{mixed:?}");
        assert_eq!(ends(&afresh(record.clone(), mixed), Decision::Committed), None, "{mixed:?}");
    }
    // However it is printed, the desired table is published.
    assert_eq!(not_applied([Some(NEW + REPRINTED); 2]), None);
    let mut view = afresh(record, [None; 2]);
    for member in [0, 1] {
        put(&mut view, member, TARGET, TableFact::Other(NotAGeneration::Engine("View".into())));
    }
    assert_eq!(ends(&view, Decision::NotApplied), None);
}

// proves: J-2
#[test]
fn every_name_must_be_gone_from_every_member() {
    for phase in [Phase::RetireDispatching, Phase::DropPending] {
        for name in [CANDIDATE, RETIRED] {
            for member in [0, 1] {
                for fact in [support::build::fact(ALIEN, 1), TableFact::Other(NotAGeneration::NoUuid)] {
                    let mut found = afresh(record_in(phase, 2), [Some(NEW); 2]);
                    put(&mut found, member, name, fact);
                    let why = judged(&found, Decision::Committed).unwrap_err();
                    assert!(why.contains(name) && why.contains(&format!("replica {}", member + 1)), "{why}");
                }
            }
        }
    }
}

fn unfinished(record: &Record, at: u32) -> QueueRow {
    queue_row(record, record.last_dispatch().unwrap(), at, None)
}

// proves: J-2
#[test]
fn the_queue_must_be_readable_and_finished_on_every_member() {
    let record = record_in(Phase::Dispatching, 2);
    let with = |rows: Option<Vec<QueueRow>>| Afresh { rows, ..afresh(record.clone(), [Some(OLD); 2]) };
    assert_eq!(ends(&with(None), Decision::NotApplied), None);
    let finished = |at| queue_row(&record, record.last_dispatch().unwrap(), at, Some(60));
    assert_eq!(ends(&with(Some(vec![finished(1), unfinished(&record, 2)])), Decision::NotApplied), None);
    let unclear = QueueRow { exception_text: ExceptionText::Null, ..finished(2) };
    assert_eq!(ends(&with(Some(vec![finished(1), unclear])), Decision::NotApplied), None);
    let nobody = QueueRow { host: None, ..unfinished(&record, 2) };
    assert_eq!(ends(&with(Some(vec![finished(1), nobody])), Decision::NotApplied), None);
    // A host that is no member has no say.
    let stranger = QueueRow { host: Some("h9".into()), ..unfinished(&record, 2) };
    assert!(ends(&with(Some(vec![finished(1), finished(2), stranger])), Decision::NotApplied).is_some());
    let ended = judged(&with(Some(vec![finished(1), finished(2)])), Decision::NotApplied).unwrap();
    assert!(ended.fences().is_empty(), "its receipt came with the verdict");
    let early = Afresh { deadlines_past: false, ..with(Some(vec![])) };
    assert_eq!(ends(&early, Decision::NotApplied), None);
}

// proves: J-2, B-2
#[test]
fn every_member_must_answer_once_and_be_the_bound_one() {
    let record = record_in(Phase::InProgress, 2);
    let mut silent = afresh(record.clone(), [Some(OLD); 2]);
    silent.members.members.pop();
    silent.members.failures.push(("h2:9000".into(), ReadFailure::Unavailable));
    assert!(judged(&silent, Decision::NotApplied).unwrap_err().contains("replica 2"));
    let mut unsaid = afresh(record.clone(), [Some(OLD); 2]);
    unsaid.members.members[1].tables.remove(CANDIDATE);
    assert!(judged(&unsaid, Decision::NotApplied).unwrap_err().contains("replica 2"));
    let mut stranger = afresh(record.clone(), [Some(OLD); 2]);
    stranger.members.members[1].server_uuid = server(7);
    assert!(judged(&stranger, Decision::NotApplied).unwrap_err().starts_with("J-4"));
    let mut twice = afresh(record, [Some(OLD); 2]);
    twice.members.members[1] = twice.members.members[0].clone();
    assert!(judged(&twice, Decision::NotApplied).is_err());
}

/// The exception of J-2, and each of its conditions.
// proves: J-2
#[test]
fn nothing_moved_needs_no_rename() {
    let pending = |record: Record, codes: [Option<u32>; 2]| {
        let dispatch = record.last_dispatch().unwrap().clone();
        let rows = [1, 2].map(|at| queue_row(&record, &dispatch, at, codes[at as usize - 1]));
        let mut found = afresh(record, [Some(OLD); 2]);
        for member in [0, 1] {
            put(&mut found, member, CANDIDATE, support::build::fact(NEW, 1));
        }
        Afresh { rows: Some(rows.to_vec()), deadlines_past: false, ..found }
    };
    for phase in [Phase::Dispatching, Phase::InProgress] {
        let found = pending(record_in(phase, 2), [Some(60), Some(123)]);
        assert_eq!(ends(&found, Decision::NotApplied), Some(Phase::Abandoned), "{phase}");
        assert_eq!(ends(&found, Decision::Committed), None);
        let unfinished = pending(record_in(phase, 2), [Some(60), None]);
        assert_eq!(ends(&unfinished, Decision::NotApplied), None);
        let mut gone = found.clone();
        gone.rows = Some(vec![]);
        assert_eq!(ends(&gone, Decision::NotApplied), None);
        let mut two = found.clone();
        let mut second = found.rows.clone().unwrap();
        second.iter_mut().for_each(|row| row.entry = "query-0000000099".into());
        two.rows.as_mut().unwrap().extend(second);
        assert_eq!(ends(&two, Decision::NotApplied), None, "several entries");
        let mut moved = found.clone();
        put(&mut moved, 0, TARGET, support::build::fact(NEW, 1));
        put(&mut moved, 0, CANDIDATE, support::build::fact(OLD, 1));
        assert_eq!(ends(&moved, Decision::NotApplied), None);
    }
    // In cleanup nothing pending is harmless.
    let cleanup = record_in(Phase::Committed, 2);
    assert_eq!(ends(&pending(cleanup, [Some(0), Some(0)]), Decision::NotApplied), None);
}

// proves: J-3
#[test]
fn name_cleared_in_every_phase() {
    for phase in Phase::ALL {
        let mut record = record_in(phase, 2);
        if let Some(last) = record.payload.dispatches.last_mut() {
            last.receipt = None;
        }
        let fenced = record.fences().first().map(|f| f.name.clone()).unwrap_or_else(|| CANDIDATE.into());
        let found = afresh(record, [Some(NEW); 2]);
        let expected = matches!(phase, Phase::Completed | Phase::Abandoned).then_some(phase);
        assert_eq!(ends(&found, Decision::NameCleared(fenced)), expected, "{phase}");
        assert_eq!(ends(&found, Decision::NameCleared("t__pub_9".into())), None);
    }
}

/// Only the entries of the name count, and the other fences stay.
// proves: J-3
#[test]
fn names_are_cleared_one_by_one() {
    let mut record = record_in(Phase::DropPending, 2);
    record.phase = Phase::Completed;
    record.payload.dispatches.iter_mut().for_each(|d| d.receipt = None);
    let names: Vec<String> = record.fences().into_iter().map(|f| f.name).collect();
    assert_eq!(names, [CANDIDATE, CANDIDATE, RETIRED]);
    let mut found = afresh(record.clone(), [Some(NEW); 2]);
    found.rows = Some(vec![unfinished(&record, 1)]);
    let next = judged(&found, Decision::NameCleared(CANDIDATE.into())).unwrap();
    assert_eq!(next.fences().iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), [RETIRED]);
    assert!(judged(&found, Decision::NameCleared(RETIRED.into())).unwrap_err().contains("unfinished"));
    let busy = Afresh { running: Some(true), ..afresh(record, [Some(NEW); 2]) };
    assert!(judged(&busy, Decision::NameCleared(CANDIDATE.into())).unwrap_err().contains("runs"));
}

// proves: J-5
#[test]
fn rebaselined_replaces_digests_of_the_same_tables_only() {
    let pending = |target: [u64; 2], candidate: [u64; 2]| {
        let mut found = afresh(record_in(Phase::InProgress, 2), [Some(target[0]), Some(target[1])]);
        for member in [0, 1] {
            put(&mut found, member, CANDIDATE, support::build::fact(candidate[member], 1));
        }
        found
    };
    let (old, new) = (OLD + REPRINTED, NEW + REPRINTED);
    let next = judged(&pending([old; 2], [new; 2]), Decision::Rebaselined).unwrap();
    assert_eq!(next.phase, Phase::InProgress);
    assert_eq!(next.payload.desired, support::build::generation(new));
    assert_eq!(next.payload.predecessor, Some(support::build::generation(old)));
    let next = judged(&pending([old; 2], [NEW; 2]), Decision::Rebaselined).unwrap();
    assert_eq!(next.payload.desired, support::build::generation(NEW));
    // Nothing changed; members that differ; another table; a member in a state of its own.
    for (target, candidate) in [
        ([OLD; 2], [NEW; 2]),
        ([old, OLD], [NEW; 2]),
        ([ALIEN; 2], [new; 2]),
        ([old; 2], [NEW, ALIEN]),
        ([new; 2], [new; 2]),
    ] {
        assert!(
            judged(&pending(target, candidate), Decision::Rebaselined).is_err(),
            "{target:?} {candidate:?}"
        );
    }
}

// proves: J-5, A-4
#[test]
fn a_table_under_another_path_or_ensemble_is_not_printed_differently() {
    let changes: [fn(&mut GenerationIdentity); 2] =
        [|table| table.zookeeper_path.push('x'), |table| table.zookeeper_name = "other".into()];
    for change in changes {
        let mut found = afresh(record_in(Phase::InProgress, 2), [Some(OLD); 2]);
        for member in [0, 1] {
            let mut identity = support::build::generation(NEW);
            change(&mut identity);
            let fact = TableFact::Generation { identity, replica_name: "r1".into(), path_macros: vec![] };
            put(&mut found, member, CANDIDATE, fact);
        }
        let refused = judged(&found, Decision::Rebaselined).unwrap_err();
        assert!(refused.starts_with("J-5"), "{refused}");
    }
}

// proves: J-1
#[test]
fn stale_evidence_and_other_operations_are_refused() {
    for decision in [
        Decision::Committed,
        Decision::NotApplied,
        Decision::NameCleared(CANDIDATE.into()),
        Decision::Rebaselined,
    ] {
        let found = afresh(record_in(Phase::InProgress, 2), [Some(OLD); 2]);
        let operation = found.slot.record.operation;
        let evidence = Digest::of_bytes(b"something else");
        let stale = Verdict { uid: "v".into(), operation, decision, evidence };
        let finding = judge(&stale, &found, now(9)).unwrap_err();
        assert_eq!((finding.code, finding.rule), (ErrorCode::VerdictStale, "J-1"));
        let other = Verdict { operation: evidence, evidence: found.digest(), ..stale };
        assert_eq!(judge(&other, &found, now(9)).unwrap_err().rule, "J-1");
    }
}

/// A refusal is final, so what is wrong with the way to the members must not cost the verdict (its own contents may).
// proves: J-4
#[test]
fn a_rebound_waits_while_the_members_cannot_be_read_or_do_not_agree() {
    use publication_protocol::admission::{Finding, Severity, read_failure};
    use publication_protocol::verdict::named_inventory;
    use support::build;
    let wanted = build::inventory(2).digest();
    for finding in [
        read_failure("h1:8443", ReadFailure::Credentials),
        read_failure("h1:8443", ReadFailure::AccessDenied),
        read_failure("h1:8443", ReadFailure::WrongServer),
        read_failure("h1:8443", ReadFailure::Unavailable),
        Finding::block(ErrorCode::UnsupportedTopology, "B-1", "two shards"),
    ] {
        let held = named_inventory(&wanted, &Err(finding.clone())).unwrap_err();
        assert_eq!((held.severity, held.code), (Severity::Wait, finding.code));
    }
    let other = named_inventory(&wanted, &Ok(build::inventory(3))).unwrap_err();
    assert_eq!((other.severity, other.code), (Severity::Block, ErrorCode::VerdictStale));
}
