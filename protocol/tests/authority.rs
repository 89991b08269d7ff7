//! C-2..C-7, C-12, C-14: what a CAS, its answer, its exact read and its permit are worth.
#![allow(clippy::panic)]

mod support;

use futures::executor::block_on;
use publication_protocol::authority::{DispatchPermit, Mutation, MutationAnswer, MutationOutcome, Now};
use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, End, Input, Report};
use publication_protocol::identity::{Action, ServerUuid};
use publication_protocol::ports::{ControlTable, SendOutcome};
use publication_protocol::record::VersionedRow;
use support::build::{intent, server};
use support::stepper::Stepper;
use support::world::World;

fn acknowledged() -> Input {
    answered(MutationOutcome::Acknowledged, 1)
}

fn answered(outcome: MutationOutcome, transport_calls: u32) -> Input {
    Input::Mutated(MutationAnswer { outcome, transport_calls })
}

/// A worker that stands before the dispatching CAS, and what it would send.
fn before_cas() -> (World, Stepper, ServerUuid, Mutation) {
    let world = World::new(2, true);
    let mut stepper = Stepper::new(&world, &intent());
    let (server, mutation) = stepper.until_cas("DISPATCHING");
    (world, stepper, server, mutation)
}

fn code(report: &Report) -> ErrorCode {
    report.findings.first().expect("a finding").code
}

/// The CAS was acknowledged; what the exact read then shows decides.
fn after_exact_read(
    read: impl FnOnce(&World, &Mutation, VersionedRow) -> Option<(ServerUuid, Option<VersionedRow>)>,
) -> Call {
    let (world, mut stepper, _, mutation) = before_cas();
    let call = stepper.next(acknowledged());
    let Call::ReadExact(asked, _) = &call else { panic!("{call:?}") };
    assert_eq!(*asked, server(1), "C-3: the server that was written to");
    let before = world.lock().slot.last().cloned().expect("PREPARED");
    let input = Input::Exact(read(&world, &mutation, before));
    stepper.next(input)
}

fn written(mutation: &Mutation, version: u64) -> VersionedRow {
    let Mutation::Update { row, .. } = mutation else { panic!("{mutation:?}") };
    VersionedRow { row: row.clone(), version }
}

fn finding(call: Call) -> ErrorCode {
    match call {
        Call::Finish(report) => code(&report),
        other => panic!("went on to {other:?}"),
    }
}

// proves: C-3, C-6
#[test]
fn only_the_exact_row_at_the_next_version_from_the_same_server_gives_a_permit() {
    let exact = after_exact_read(|_, m, before| Some((server(1), Some(written(m, before.version + 1)))));
    let Call::Send(permit, _) = exact else { panic!("{exact:?}") };
    assert_eq!((permit.action(), permit.epoch(), permit.server()), (Action::Publish, 1, &server(1)));
    assert_eq!(permit.operation(), intent().operation);
}

// proves: C-3, C-5, K23, O03
#[test]
fn anything_else_that_is_read_gives_none() {
    use ErrorCode::{CasConflict, CasOutcomeUnknown};
    // K23 c: a stale predicate is acknowledged; the old version is still there.
    let noop = after_exact_read(|_, _, before| Some((server(1), Some(before))));
    assert_eq!(finding(noop), CasOutcomeUnknown);
    let later = after_exact_read(|_, m, before| Some((server(1), Some(written(m, before.version + 2)))));
    assert_eq!(finding(later), CasOutcomeUnknown, "other version, wanted row");
    let elsewhere = after_exact_read(|_, m, before| Some((server(2), Some(written(m, before.version + 1)))));
    assert_eq!(finding(elsewhere), CasOutcomeUnknown, "another server");
    assert_eq!(finding(after_exact_read(|_, _, _| None)), CasOutcomeUnknown, "no read");
    assert_eq!(finding(after_exact_read(|_, _, _| Some((server(1), None)))), CasOutcomeUnknown, "no row");
    // Our version, but somebody else's values, in any single column.
    for change in [
        (|row: &mut VersionedRow| row.row.fence_token = "0".repeat(32)) as fn(&mut VersionedRow),
        |row| row.row.operation_id = "0".repeat(64),
        |row| row.row.phase = "IN_PROGRESS".into(),
        |row| row.row.dispatch_epoch = 2,
        |row| row.row.payload.push(' '),
        |row| row.row.payload_sha256 = "0".repeat(64),
    ] {
        let call = after_exact_read(|_, m, before| {
            let mut row = written(m, before.version + 1);
            change(&mut row);
            Some((server(1), Some(row)))
        });
        assert_eq!(finding(call), CasConflict);
    }
}

// proves: C-5, C-7, C-4, K23
#[test]
fn an_answer_that_is_not_an_acknowledgement_ends_the_pass_without_a_read() {
    for (outcome, calls, expected, end) in [
        (MutationOutcome::Unknown, 1, ErrorCode::CasOutcomeUnknown, End::Waiting),
        (MutationOutcome::Conflict, 1, ErrorCode::CasConflict, End::Waiting),
        (MutationOutcome::Refused, 1, ErrorCode::AccessDenied, End::Stalled),
        (MutationOutcome::Acknowledged, 0, ErrorCode::InternalInvariant, End::Halted),
        (MutationOutcome::Acknowledged, 2, ErrorCode::InternalInvariant, End::Halted),
        (MutationOutcome::Unknown, 2, ErrorCode::InternalInvariant, End::Halted),
    ] {
        let (_, mut stepper, _, _) = before_cas();
        let report = stepper.done(answered(outcome, calls));
        assert_eq!((code(&report), report.end), (expected, end), "{outcome:?} {calls}");
    }
}

// proves: C-7, C-5, D-5, K23, O05
#[test]
fn a_lost_cas_answer_never_leads_to_a_dispatch_even_when_the_row_is_seen_later() {
    let (world, mut stepper, server, mutation) = before_cas();
    block_on(stepper.worker.mutate(&server, &mutation));
    let report = stepper.done(answered(MutationOutcome::Unknown, 1));
    assert_eq!(code(&report), ErrorCode::CasOutcomeUnknown);
    let report = support::run::until_quiet(&world, &intent());
    assert_eq!(world.counts().sends, 0);
    assert_eq!(report.end, End::Stalled);
    assert_eq!(report.class.and_then(Classification::cause), Some("EntryNotFound"));
    assert_eq!(world.phases(), ["PREPARED", "DISPATCHING"]);
}

// proves: C-2, C-3
#[test]
fn the_statements_carry_the_whole_predicate() {
    let world = World::new(2, true);
    let mut stepper = Stepper::new(&world, &intent());
    let (_, insert) = stepper.until_cas("PREPARED");
    assert!(matches!(insert, Mutation::Insert(ref row) if row.dispatch_epoch == 0), "{insert:?}");
    let (world, _, _, update) = before_cas();
    let Mutation::Update { row, expected } = update else { panic!("{update:?}") };
    let prepared = world.lock().slot.last().cloned().expect("PREPARED");
    assert_eq!(expected.version, prepared.version);
    assert_eq!(expected.operation_id, prepared.row.operation_id);
    assert_eq!(expected.fence_token, prepared.row.fence_token);
    assert_eq!(expected.phase, "PREPARED");
    assert_eq!((row.phase.as_str(), row.dispatch_epoch), ("DISPATCHING", 1));
    assert_eq!(row.fence_token, prepared.row.fence_token, "one fence for one holding of the slot");
}

/// A permit issued at the world's present time.
fn permit() -> (DispatchPermit, Now) {
    let (_, mut stepper, server, mutation) = before_cas();
    block_on(stepper.worker.mutate(&server, &mutation));
    let call = stepper.until(acknowledged(), |call| matches!(call, Call::Send(..)));
    let Call::Send(permit, _) = call else { panic!("{call:?}") };
    let now = stepper.worker.world.lock().now;
    (permit, now)
}

// proves: C-12, C-6
#[test]
fn a_permit_dies_by_either_clock_and_by_a_clock_that_goes_back() {
    let at = |boot: i64, wall: i64| {
        let (permit, now) = permit();
        let shift = |ms: u64, by: i64| ms.checked_add_signed(by).expect("in range");
        permit.redeem(Now { boot_ms: shift(now.boot_ms, boot), wall_ms: shift(now.wall_ms, wall) }).is_ok()
    };
    assert!(at(0, 0));
    assert!(at(9_000, 9_000));
    assert!(!at(10_001, 0), "suspended, wall clock set back meanwhile");
    assert!(!at(0, 10_001), "the wall clock alone");
    assert!(!at(-500, 0) && !at(0, -500), "a clock that goes back proves no age");
}

// proves: C-12, H-1
#[test]
fn a_holder_that_sent_nothing_releases_once_and_does_not_spin() {
    let world = World::new(2, true);
    world.lock().unsendable = true;
    let mut stepper = Stepper::new(&world, &intent());
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Send(..)));
    let Call::Send(permit, _) = call else { panic!("{call:?}") };
    let report = stepper.finish(Input::Sent(SendOutcome::NotSent(permit)));
    assert_eq!(world.phases(), ["PREPARED", "DISPATCHING", "RELEASED"]);
    assert_eq!((report.end, world.counts().mutations), (End::Waiting, 3));
    // A send path that stays broken: ever longer waits, not a loop of admissions.
    let mut memory = report.memory;
    let mut waits = Vec::new();
    for _ in 0..10 {
        let report = support::run::one(&world, &intent(), memory).expect("no crash");
        let publication_protocol::driver::Requeue::AfterMs(ms) = report.requeue else {
            panic!("{:?}", report.requeue)
        };
        waits.push(ms);
        memory = report.memory;
    }
    assert!(waits.iter().all(|ms| *ms >= 250) && waits[9] >= 30_000, "{waits:?}");
    // The name is not spent, and its own releases fill one place of the list.
    let record = world.record().expect("a record");
    assert_eq!(record.payload.recent.len(), 1);
    world.lock().unsendable = false;
    let report = support::run::until_quiet(&world, &intent());
    assert_eq!((report.end, world.publications()), (End::Succeeded, 1));
}

// proves: C-12
#[test]
fn a_verified_dispatch_is_carried_through_a_shutdown_and_nothing_new_is_begun() {
    let (world, mut stepper, server, mutation) = before_cas();
    block_on(stepper.worker.mutate(&server, &mutation));
    stepper.stopping = true;
    let report = stepper.finish(acknowledged());
    assert_eq!(world.publications(), 1);
    assert_eq!((world.counts().sends, report.end), (1, End::Waiting), "no retire while stopping");
    assert_eq!(world.phase().map(|p| p.to_string()), Some("COMMITTED".into()));
    let fresh = World::new(2, true);
    let mut stepper = Stepper::new(&fresh, &intent());
    stepper.stopping = true;
    stepper.finish(Input::Begin);
    assert_eq!(fresh.counts().mutations, 0);
}

// proves: C-14
#[test]
fn the_witness_comes_before_the_dispatching_cas_and_without_it_there_is_none() {
    let world = World::new(2, true);
    support::run::until_quiet(&world, &intent());
    let trace = world.lock().trace.clone();
    let witness = trace.iter().position(|kind| *kind == "witness").expect("a witness");
    let mutations: Vec<usize> =
        trace.iter().enumerate().filter(|(_, kind)| **kind == "mutate").map(|(at, _)| at).collect();
    assert!(mutations[0] < witness && witness < mutations[1], "{trace:?}");
    let world = World::new(2, true);
    world.lock().witness_refused = true;
    let report = support::run::one(&world, &intent(), Default::default()).expect("no crash");
    assert_eq!((report.findings[0].rule, report.end), ("C-14", End::Waiting));
    assert_eq!((world.phases(), world.counts().sends), (vec!["PREPARED".to_owned()], 0));
}

/// A worker that has revalidated the catalogs and is about to read the authority for the last time.
fn before_the_last_read(world: &World) -> (Stepper, Call) {
    let mut stepper = Stepper::new(world, &intent());
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Witness(..)));
    let shown = stepper.perform(call);
    let call = stepper.until(shown, |call| matches!(call, Call::ReadSlot(_)));
    (stepper, call)
}

// proves: D-1, C-13
#[test]
fn every_member_must_read_the_judged_record_right_before_the_cas() {
    let world = World::new(2, true);
    let (mut stepper, call) = before_the_last_read(&world);
    world.lock().members[1].up = false;
    let read = stepper.perform(call);
    let report = stepper.done(read);
    assert_eq!((code(&report), world.counts().mutations), (ErrorCode::EndpointUnavailable, 1));
    let world = World::new(2, true);
    let (mut stepper, call) = before_the_last_read(&world);
    // Another worker prepared it anew meanwhile: what was revalidated is no longer what is held.
    let other = VersionedRow { row: support::build::prepared(2, true).encode(), version: 1 };
    world.lock().slot.push(other);
    let read = stepper.perform(call);
    let report = stepper.done(read);
    assert_eq!((code(&report), report.findings[0].rule), (ErrorCode::CasConflict, "D-1"));
    assert_eq!(world.counts().mutations, 1);
}

// proves: F, D-4
#[test]
fn an_observation_is_discarded_when_the_record_moved_under_it() {
    use publication_protocol::phase::Phase;
    use support::build::record_in;
    let world = World::new(2, true);
    let dispatching = record_in(Phase::Dispatching, 2);
    world.lock().slot.push(VersionedRow { row: dispatching.encode(), version: 0 });
    let mut stepper = Stepper::new(&world, &intent());
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Members(_)));
    let mut moved = dispatching;
    moved.phase = Phase::InProgress;
    world.lock().slot.push(VersionedRow { row: moved.encode(), version: 1 });
    let members = stepper.perform(call);
    let report = stepper.finish(members);
    let counts = world.counts();
    assert_eq!((counts.scans, counts.member_reads, counts.mutations), (2, 2, 0), "looked at anew");
    assert_eq!(report.slot.map(|slot| slot.version), Some(1));
}

// proves: F
#[test]
fn what_finishes_between_two_reads_is_no_contradiction() {
    use support::world::Execution;
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    support::run::one(&world, &intent(), Default::default()).expect("no crash");
    assert_eq!(world.publications(), 1);
    let mut stepper = Stepper::new(&world, &intent());
    let first = stepper.until(Input::Begin, |call| matches!(call, Call::Scan(..) | Call::Members(_)));
    let read = stepper.perform(first);
    // Read before the members, the queue can only be behind them: a mixed or early state, never a false end.
    world.lock().execute_all();
    let report = stepper.finish(read);
    assert_eq!(report.class, Some(Classification::CommittedPendingReceipt));
}
