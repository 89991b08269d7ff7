//! C-8..C-11, C-13, F-2, H-2, H-3, B-7: who may have the slot, what stale and lost reads mean.
#![allow(clippy::panic)]

mod support;

use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Input, Memory, Report, Requeue};
use publication_protocol::generation::TableFact;
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use publication_protocol::limits::{RECENT_OPERATIONS_MAX, STALE_READ_MS_MAX, UNOBSERVED_GRACE_MS};
use publication_protocol::phase::Phase;
use publication_protocol::record::{Ending, Fence, Recent, Record, VersionedRow};
use support::build::{
    CANDIDATE, NEW, OLD, TARGET, account, fact, intent, intent_of, names, prepared, random, record_in,
};
use support::run::{one, until_quiet};
use support::stepper::Stepper;
use support::world::World;

/// A world whose slot holds this record.
fn holding(record: &Record) -> World {
    let world = World::new(2, true);
    world.lock().slot.push(VersionedRow { row: record.encode(), version: 0 });
    world
}

fn pass(world: &World, intent: &Intent) -> Report {
    one(world, intent, Memory::default()).expect("no crash")
}

fn code(report: &Report) -> Option<ErrorCode> {
    report.findings.first().map(|f| f.code)
}

fn other() -> Intent {
    intent_of("uid-2", names())
}

// proves: C-8, C-1
#[test]
fn another_operation_takes_only_what_is_final() {
    for phase in Phase::ALL {
        let world = holding(&record_in(phase, 2));
        let report = pass(&world, &other());
        let taken = world.record().expect("a record").operation == other().operation;
        match phase {
            // Its candidate is spent by then, so taking stops at B-7; the phase itself would allow it.
            Phase::Completed | Phase::Abandoned => {
                assert_eq!((taken, code(&report)), (false, Some(ErrorCode::CandidateNameSpent)), "{phase}");
            }
            Phase::Released => assert!(taken, "{phase}"),
            _ => assert_eq!((taken, code(&report)), (false, Some(ErrorCode::AuthorityConflict)), "{phase}"),
        }
        assert_eq!(world.publications(), usize::from(taken), "{phase}");
    }
}

// proves: C-8, H-3, B-7
#[test]
fn a_final_slot_is_taken_under_a_fresh_candidate_name_and_its_history_is_inherited() {
    for phase in [Phase::Completed, Phase::Abandoned] {
        let mut old = record_in(phase, 2);
        // An epoch without an account leaves a fence.
        old.payload.dispatches[0].receipt = None;
        let world = holding(&old);
        let fresh = publication_protocol::identity::Names::new("c", "db", TARGET, "t__pub_2").expect("names");
        for member in &mut world.lock().members {
            member.tables.remove(CANDIDATE);
            member.tables.insert("t__pub_2".into(), NEW);
        }
        let intent = intent_of("uid-2", fresh);
        assert_eq!(pass(&world, &intent).end, End::Succeeded, "{phase}");
        let record = world.record().expect("a record");
        assert_ne!(record.fence, old.fence, "A-3");
        assert_eq!(record.payload.fenced.len(), 1, "G-4: fences are inherited");
        assert_eq!(record.payload.fenced[0].name, CANDIDATE);
        let listed: Vec<(_, Ending)> =
            record.payload.recent.iter().map(|r| (r.operation, r.ending)).collect();
        let ending = if phase == Phase::Completed { Ending::Completed } else { Ending::Abandoned };
        assert_eq!(listed, [(old.operation, ending)]);
    }
}

// proves: H-3
#[test]
fn a_released_operation_comes_back_with_a_new_fence_and_an_abandoned_one_never() {
    let old = record_in(Phase::Released, 2);
    let world = holding(&old);
    assert_eq!(pass(&world, &intent()).end, End::Succeeded);
    assert_ne!(world.record().expect("a record").fence, old.fence, "A-3");
    let world = holding(&record_in(Phase::Abandoned, 2));
    let report = pass(&world, &intent());
    assert_eq!((report.end, world.counts().mutations), (End::Failed, 0));
}

// proves: C-11
#[test]
fn a_prepared_slot_is_taken_only_when_a_live_get_shows_its_owner_gone() {
    for (gone, taken) in [(Some(true), true), (Some(false), false), (None, false)] {
        let world = holding(&record_in(Phase::Prepared, 2));
        world.lock().owner_gone = gone;
        pass(&world, &other());
        let record = world.record().expect("a record");
        assert_eq!(record.operation == other().operation, taken, "{gone:?}");
    }
    // Of another Kubernetes cluster: not even asked.
    let mut foreign = record_in(Phase::Prepared, 2);
    foreign.payload.owner.kube_uid = "kube-2".into();
    let world = holding(&foreign);
    world.lock().owner_gone = Some(true);
    assert_eq!(code(&pass(&world, &other())), Some(ErrorCode::AuthorityConflict));
    assert_eq!(world.counts().owner_reads, 0);
    // And not while a member's own view of the slot is missing (B-5).
    let world = holding(&record_in(Phase::Prepared, 2));
    world.lock().owner_gone = Some(true);
    world.lock().members[1].up = false;
    assert_eq!(code(&pass(&world, &other())), Some(ErrorCode::EndpointUnavailable));
    assert_eq!(world.counts().mutations, 0);
}

// proves: C-10
#[test]
fn prepared_is_released_when_what_it_bound_changed_and_kept_when_a_member_is_silent() {
    let bound = || holding(&record_in(Phase::Prepared, 2));
    let world = bound();
    world.lock().members[1].up = false;
    assert_eq!(pass(&world, &intent()).end, End::Waiting);
    assert_eq!(world.phases(), ["PREPARED"], "waited for");
    for change in [
        (|world: &World| {
            world.lock().members.iter_mut().for_each(|m| {
                m.tables.insert(TARGET.into(), 7);
            });
        }) as fn(&World),
        |world| world.lock().members.iter_mut().for_each(|m| m.unhealthy = true),
        |world| {
            world.lock().members[0].tables.remove(CANDIDATE);
        },
    ] {
        let world = bound();
        change(&world);
        pass(&world, &intent());
        assert_eq!(world.phases(), ["PREPARED", "RELEASED"]);
        assert_eq!(world.publications(), 0);
    }
    // A target that appeared where none was bound.
    let world = holding(&prepared(2, false));
    pass(&world, &intent());
    assert_eq!(world.phases(), ["PREPARED", "RELEASED"]);
    // Deleted, also while a member is down: the finalizer does not hang (K30).
    let world = bound();
    world.lock().members[1].up = false;
    let mut deleted = intent();
    deleted.deleted = true;
    assert_eq!(pass(&world, &deleted).end, End::Gone);
    assert_eq!(world.phases(), ["PREPARED", "RELEASED"]);
}

// proves: C-9
#[test]
fn a_malformed_record_is_never_overwritten() {
    for spoil in [
        (|row: &mut VersionedRow| row.row.payload.push('x')) as fn(&mut VersionedRow),
        |row| row.row.payload_sha256 = "0".repeat(64),
        |row| row.row.phase = "DONE".into(),
        |row| row.row.fence_token = String::new(),
        |row| row.row.dispatch_epoch = 7,
    ] {
        for intent in [intent(), other()] {
            let world = holding(&record_in(Phase::Completed, 2));
            spoil(world.lock().slot.last_mut().expect("a row"));
            let report = pass(&world, &intent);
            assert_eq!((code(&report), report.end), (Some(ErrorCode::AuthorityMalformed), End::Stalled));
            assert_eq!(world.counts().mutations, 0);
        }
    }
}

// proves: C-13
#[test]
fn the_older_record_is_never_taken_and_blocks_only_after_the_bound() {
    let world = World::new(2, true);
    let mut stepper = Stepper::new(&world, &intent());
    stepper.until_cas("DISPATCHING");
    world.lock().witnesses.clear();
    world.lock().members[1].lag = 1;
    let report = pass(&world, &intent());
    assert_eq!((report.findings[0].rule, report.end), ("C-13", End::Waiting));
    world.advance(STALE_READ_MS_MAX + 1);
    let report = one(&world, &intent(), report.memory).expect("no crash");
    assert_eq!((code(&report), report.end), (Some(ErrorCode::AuthorityUnavailable), End::Stalled));
    assert_eq!(world.counts().mutations, 1, "only the PREPARED of before");
    world.lock().members[1].lag = 0;
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

fn witnessed(root: RootId, version: u64) -> Intent {
    Intent { witnessed: Some((root, version)), ..intent() }
}

/// Reports of passes over time, with the memory kept.
fn over_time(world: &World, intent: &Intent) -> [Report; 2] {
    let first = pass(world, intent);
    world.advance(STALE_READ_MS_MAX + 1);
    let second = one(world, intent, first.memory.clone()).expect("no crash");
    [first, second]
}

// proves: F-2, C-13
#[test]
fn authority_lost_in_each_form() {
    let root = intent().root;
    // Another root than the one that was shown.
    let world = holding(&record_in(Phase::Dispatching, 2));
    let report = pass(&world, &witnessed(RootId::draw(&random(3)), 0));
    assert_eq!((code(&report), report.end), (Some(ErrorCode::AuthorityLost), End::Stalled));
    // The row is missing on every member.
    let world = World::new(2, true);
    assert_eq!(code(&pass(&world, &witnessed(root, 0))), Some(ErrorCode::AuthorityLost));
    // Every member stays below the shown version.
    let world = holding(&record_in(Phase::Dispatching, 2));
    let [first, second] = over_time(&world, &witnessed(root, 5));
    assert_eq!((code(&first), first.end), (Some(ErrorCode::AuthorityUnavailable), End::Waiting));
    assert_eq!((code(&second), second.end), (Some(ErrorCode::AuthorityLost), End::Stalled));
    // Somebody else's slot whose history reaches back and does not know the operation.
    let mut stranger = record_in(Phase::Completed, 2);
    stranger.operation = other().operation;
    let world = holding(&stranger);
    assert_eq!(code(&pass(&world, &witnessed(root, 0))), Some(ErrorCode::AuthorityLost));
    // Nothing of this is latched: with the row back, the operation goes on.
    let world = World::new(2, true);
    pass(&world, &witnessed(root, 0));
    world.lock().slot.push(VersionedRow { row: record_in(Phase::Prepared, 2).encode(), version: 0 });
    assert_eq!(pass(&world, &witnessed(root, 0)).end, End::Succeeded);
    assert!(world.counts().sends > 0);
}

// proves: F-2
#[test]
fn a_silent_member_may_hold_the_newer_record_so_nothing_is_lost_yet() {
    let root = intent().root;
    for world in [World::new(2, true), holding(&record_in(Phase::Dispatching, 2))] {
        world.lock().members[1].up = false;
        for report in over_time(&world, &witnessed(root, 5)) {
            assert_eq!(code(&report), Some(ErrorCode::EndpointUnavailable), "{report:?}");
        }
    }
}

// proves: F-2, H-2
#[test]
fn a_listed_operation_reports_its_ending_wherever_the_slot_is_now() {
    let listed = |ending| Recent {
        operation: intent().operation,
        candidate: CANDIDATE.into(),
        ending,
        desired: prepared(2, true).payload.desired.digest(),
        kube_uid: "kube-1".into(),
        created_ms: 1,
        final_version: 4,
        receipt: None,
    };
    for (ending, end) in [(Ending::Completed, End::Succeeded), (Ending::Abandoned, End::Failed)] {
        let mut later = record_in(Phase::Dispatching, 2);
        later.operation = other().operation;
        later.payload.recent = vec![listed(ending)];
        let world = holding(&later);
        let report = pass(&world, &witnessed(intent().root, 0));
        assert_eq!((report.end, report.requeue, world.counts().mutations), (end, Requeue::Never, 0));
    }
}

// proves: H-2
#[test]
fn identity_drift_is_said_when_the_target_is_no_longer_what_was_published() {
    let world = holding(&record_in(Phase::Completed, 2));
    for member in &mut world.lock().members {
        member.tables = [(TARGET.to_owned(), NEW)].into();
    }
    assert_eq!(pass(&world, &intent()).findings, vec![]);
    world.lock().members[1].tables.insert(TARGET.into(), OLD);
    let report = pass(&world, &intent());
    assert_eq!((code(&report), report.end), (Some(ErrorCode::IdentityDrift), End::Succeeded));
    assert_eq!(world.counts().mutations, 0);
}

// proves: B-7, C-9
#[test]
fn fenced_and_spent_names_and_full_fence_lists_are_refused() {
    let fence = |name: String| Fence {
        name,
        operation: other().operation,
        epoch: 1,
        token: account(record_in(Phase::Dispatching, 2)).payload.dispatches[0].token.clone(),
    };
    let held = |fences: Vec<Fence>| {
        let mut record = record_in(Phase::Released, 2);
        record.operation = other().operation;
        record.payload.fenced = fences;
        holding(&record)
    };
    let report = pass(&held(vec![fence(CANDIDATE.into())]), &intent());
    assert_eq!(code(&report), Some(ErrorCode::CandidateNameSpent));
    let report = pass(&held((0..8).map(|n| fence(format!("t__pub_f{n}"))).collect()), &intent());
    assert_eq!(code(&report), Some(ErrorCode::FenceLimit));
    assert_eq!(
        pass(&held((0..7).map(|n| fence(format!("t__pub_f{n}"))).collect()), &intent()).end,
        End::Succeeded
    );
}

// proves: C-10, B-7
#[test]
fn releasing_again_and_again_does_not_push_spent_names_out_of_the_list() {
    let mut record = record_in(Phase::Released, 2);
    let spent = Recent {
        operation: other().operation,
        candidate: "t__pub_spent".into(),
        ending: Ending::Completed,
        desired: record.payload.desired.digest(),
        kube_uid: "kube-1".into(),
        created_ms: 1,
        final_version: 0,
        receipt: None,
    };
    record.payload.recent = vec![spent.clone()];
    for version in 1..=2 * RECENT_OPERATIONS_MAX as u64 {
        record.payload.recent = record.recent_with_self(version);
    }
    assert_eq!(record.payload.recent.first(), Some(&spent));
    assert_eq!(record.payload.recent.len(), 2);
}

// proves: F-3, C-10
#[test]
fn the_grace_of_an_unreachable_member_counts_from_its_own_beginning() {
    let world = World::new(2, true);
    world.lock().members[0].unhealthy = true;
    let waiting = pass(&world, &intent());
    assert_eq!((code(&waiting), waiting.end), (Some(ErrorCode::CandidateNotConverged), End::Waiting));
    world.advance(10 * UNOBSERVED_GRACE_MS);
    let waiting = one(&world, &intent(), waiting.memory).expect("no crash");
    world.lock().members[1].up = false;
    let blip = one(&world, &intent(), waiting.memory).expect("no crash");
    assert_eq!((code(&blip), blip.end), (Some(ErrorCode::EndpointUnavailable), End::Waiting));
    world.advance(UNOBSERVED_GRACE_MS + 1);
    let outage = one(&world, &intent(), blip.memory).expect("no crash");
    assert_eq!(outage.end, End::Stalled);
}

// proves: F-2, F-3
#[test]
fn a_torn_read_is_looked_at_again_before_it_stalls_the_operation() {
    use publication_protocol::driver::Call;
    let world = holding(&record_in(Phase::InProgress, 2));
    let mut stepper = Stepper::new(&world, &intent());
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Members(_)));
    // One member was read while it swapped: the new generation under both names.
    let Input::Members(mut answer) = stepper.perform(call) else { panic!("members") };
    answer.members[0].tables.insert(TARGET.into(), fact(NEW, 1));
    assert_ne!(answer.members[0].tables[TARGET], TableFact::Absent);
    let report = stepper.finish(Input::Members(answer));
    assert_ne!(report.class.and_then(Classification::cause), Some("MemberUnknown"), "{report:?}");
    assert_eq!((report.end, world.counts().member_reads), (End::Waiting, 2));
}

// proves: C-14, H-1
#[test]
fn a_deleted_object_whose_status_lags_does_not_forget_what_is_in_flight() {
    use publication_protocol::driver::Call;
    use publication_protocol::ports::{AuthorityRead, ReadFailure};
    let world = holding(&record_in(Phase::InProgress, 2));
    // Deleted, and read before the witness was written to its status.
    let mut deleted = intent();
    deleted.deleted = true;
    let mut stepper = Stepper::new(&world, &deleted);
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Members(_)));
    let members = stepper.perform(call);
    stepper.until(members, |call| matches!(call, Call::ReadSlot(_)));
    let failures = vec![("h1:9000".into(), ReadFailure::Unavailable)];
    let report = stepper.done(Input::Slot(AuthorityRead { failures, ..AuthorityRead::default() }));
    assert_eq!(report.end, End::Waiting, "{report:?}");
    // Without any sight of the slot, and without a witness, nothing can be in flight (C-14).
    let mut stepper = Stepper::new(&world, &deleted);
    stepper.next(Input::Begin);
    let failures = vec![("h1:9000".into(), ReadFailure::Unavailable)];
    assert_eq!(
        stepper.done(Input::Slot(AuthorityRead { failures, ..AuthorityRead::default() })).end,
        End::Gone
    );
}

// proves: C-8, C-11
#[test]
fn no_slot_is_taken_over_however_long_nobody_moved_it() {
    const MONTH_MS: u64 = 30 * 24 * 3_600_000;
    for phase in Phase::ALL.into_iter().filter(|phase| !phase.is_final()) {
        let world = holding(&record_in(phase, 2));
        world.advance(MONTH_MS);
        assert_eq!(code(&pass(&world, &other())), Some(ErrorCode::AuthorityConflict), "{phase}");
        assert_eq!(world.counts().mutations, 0, "{phase}");
    }
}

// proves: F-2, D-1
#[test]
fn a_status_that_shows_the_record_spares_no_read_before_the_dispatch() {
    let world = holding(&record_in(Phase::Prepared, 2));
    for member in &mut world.lock().members {
        member.tables.insert(TARGET.into(), 7);
    }
    pass(&world, &witnessed(intent().root, 0));
    assert_eq!((world.phases(), world.publications()), (vec!["PREPARED".into(), "RELEASED".into()], 0));
}

// proves: C-10, D-5
#[test]
fn what_was_dispatched_is_not_released_by_a_deletion() {
    for phase in [Phase::Dispatching, Phase::InProgress, Phase::Committed, Phase::RetireDispatching] {
        let world = holding(&record_in(phase, 2));
        let mut deleted = intent();
        deleted.deleted = true;
        pass(&world, &deleted);
        assert!(!world.phases().contains(&"RELEASED".to_owned()), "{phase}: {:?}", world.phases());
    }
}

/// PREPARED was written, and its worker died before the witness: the deadline frees the slot, whoever else is away.
// proves: C-10
#[test]
fn a_deadline_releases_a_prepared_slot_although_a_member_is_away() {
    let world = holding(&record_in(Phase::Prepared, 2));
    world.lock().members[1].up = false;
    let waits = pass(&world, &intent());
    assert_eq!((waits.end, world.counts().mutations), (End::Waiting, 0), "no reason without a deadline");
    let mut late = intent();
    late.deadline_passed = true;
    let report = pass(&world, &late);
    assert_eq!((code(&report), report.end), (Some(ErrorCode::AdmissionDeadline), End::Failed));
    assert_eq!(world.phase(), Some(Phase::Released));
}
