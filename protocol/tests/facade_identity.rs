//! B-5, B-6, F-2: a pass uses no facade but the one that it was told of, bound to the members that it reads.
#![allow(clippy::panic)]

mod support;

use publication_protocol::admission::Severity;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, End, Input, Memory, Report, Requeue};
use publication_protocol::facade::FacadeBinding;
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use publication_protocol::phase::Phase;
use publication_protocol::record::{RawRow, VersionedRow};
use support::build::{intent, inventory, random, record_in, root};
use support::run::{one, until_quiet};
use support::stepper::Stepper;
use support::world::{Execution, World};

fn pass(world: &World, intent: &Intent) -> Report {
    one(world, intent, Memory::default()).expect("no crash")
}

fn code(report: &Report) -> Option<ErrorCode> {
    report.findings.first().map(|f| f.code)
}

/// Every member's facade is dropped and made anew.
fn remake(world: &World, members: &[u32]) {
    let other = RootId::draw(&random(3));
    world.lock().remade = members.iter().map(|number| (*number, other)).collect();
}

fn bind(world: &World, row: RawRow) {
    let mut inner = world.lock();
    let version = inner.binding.len() as u64;
    inner.binding.push(VersionedRow { row, version });
}

fn elsewhere() -> RawRow {
    FacadeBinding { cluster: "other".into(), ..FacadeBinding::of(&inventory(2)) }.encode()
}

type Spoil = fn(&World);

/// What becomes of a facade behind the back of a PublicationCluster that was Ready.
const SPOILT: [(Spoil, ErrorCode); 8] = [
    (|w| remake(w, &[1, 2]), ErrorCode::AuthorityLost),
    (|w| remake(w, &[2]), ErrorCode::AuthorityLost),
    (|w| w.lock().no_facade = true, ErrorCode::AuthorityLost),
    (|w| w.lock().binding.clear(), ErrorCode::AuthorityLost),
    (|w| bind(w, elsewhere()), ErrorCode::AuthorityConflict),
    (|w| bind(w, FacadeBinding::of(&inventory(3)).encode()), ErrorCode::IncompleteInventory),
    (
        |w| bind(w, RawRow { payload: "?".into(), ..FacadeBinding::of(&inventory(2)).encode() }),
        ErrorCode::AuthorityMalformed,
    ),
    (
        |w| bind(w, FacadeBinding { schema: 2, ..FacadeBinding::of(&inventory(2)) }.encode()),
        ErrorCode::AuthorityMalformed,
    ),
];

// proves: B-5, B-6
#[test]
fn a_new_publication_is_not_admitted_over_another_facade() {
    for (at, (spoil, wanted)) in SPOILT.iter().enumerate() {
        let world = World::new(2, true);
        spoil(&world);
        let report = until_quiet(&world, &intent());
        assert_eq!((code(&report), report.end), (Some(*wanted), End::Stalled), "case {at}");
        let counts = world.lock().counts.clone();
        assert_eq!((counts.mutations, counts.sends), (0, 0), "case {at}");
        // Looked at again and again, and nothing is latched.
        assert!(matches!(report.requeue, Requeue::AfterMs(_)), "case {at}");
    }
    let world = World::new(2, true);
    remake(&world, &[1, 2]);
    pass(&world, &intent());
    world.lock().remade.clear();
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: B-5, B-2
#[test]
fn what_is_wrong_with_the_members_is_said_before_what_they_are_bound_to() {
    let world = World::new(2, true);
    bind(&world, elsewhere());
    world.lock().members[1].tables.remove("t__pub_1");
    assert_eq!(code(&pass(&world, &intent())), Some(ErrorCode::CandidateInvalid));
    assert_eq!(world.lock().counts.member_reads, 1);
}

// proves: D-1, B-5, C-10
#[test]
fn right_before_the_first_dispatch_the_facade_is_looked_at_again() {
    for (at, (spoil, wanted)) in SPOILT.iter().enumerate() {
        let world = World::new(2, true);
        let mut stepper = Stepper::new(&world, &intent());
        // PREPARED is written and shown; then the facade changes.
        let call = stepper.until(Input::Begin, |call| matches!(call, Call::Witness(..)));
        spoil(&world);
        let input = stepper.perform(call);
        let report = stepper.finish(input);
        assert_eq!(code(&report), Some(*wanted), "case {at}");
        assert_eq!(world.lock().counts.sends, 0, "case {at}");
        let phases = world.phases();
        // Another cluster's now: what PREPARED bound does not hold, and the slot is given back.
        let released = matches!(wanted, ErrorCode::AuthorityConflict | ErrorCode::IncompleteInventory);
        let last = if released { Phase::Released } else { Phase::Prepared };
        assert_eq!(phases.last().map(String::as_str), Some(last.as_str()), "case {at}: {phases:?}");
    }
}

// proves: F-2
#[test]
fn in_flight_another_root_is_a_lost_authority_and_nothing_is_done() {
    for phase in Phase::ALL.into_iter().filter(|phase| !phase.is_final()) {
        for remade in [&[1][..], &[2], &[1, 2]] {
            let world = World::new(2, true);
            world.lock().slot.push(VersionedRow { row: record_in(phase, 2).encode(), version: 0 });
            remake(&world, remade);
            let shown = Intent { witnessed: Some((root(), 0)), ..intent() };
            let report = pass(&world, &shown);
            assert_eq!(
                (code(&report), report.end),
                (Some(ErrorCode::AuthorityLost), End::Stalled),
                "{phase}"
            );
            let counts = world.lock().counts.clone();
            assert_eq!((counts.mutations, counts.sends), (0, 0), "{phase}");
        }
    }
}

// proves: F-2, J-4
#[test]
fn in_flight_a_changed_binding_row_changes_nothing() {
    // A Rebound of the cluster changes the row first: what is under way keeps its own members.
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    let first = pass(&world, &intent());
    assert_eq!(first.end, End::Waiting);
    bind(&world, FacadeBinding::of(&inventory(3)).encode());
    world.lock().execution = Execution::AtOnce;
    world.lock().execute_all();
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: B-5, C-13
#[test]
fn members_that_read_the_binding_row_differently_are_waited_for() {
    let world = World::new(2, true);
    let mut stepper = Stepper::new(&world, &intent());
    let call = stepper.next(Input::Begin);
    let Input::Slot(mut read) = stepper.perform(call) else { panic!("a read of the slot") };
    read.facades[1].1.binding = None;
    let report = stepper.finish(Input::Slot(read.clone()));
    let finding = &report.findings[0];
    assert_eq!((finding.code, finding.severity), (ErrorCode::AuthorityUnavailable, Severity::Wait));
    // A catalog that does not show the definition, or an answer without it, is no evidence either.
    for spoil in [0, 1] {
        let mut stepper = Stepper::new(&world, &intent());
        stepper.next(Input::Begin);
        let mut read = read.clone();
        if spoil == 0 {
            read.facades[0].1.table = None;
        } else {
            read.facades.remove(0);
        }
        let report = stepper.done(Input::Slot(read));
        assert_eq!(code(&report), Some(ErrorCode::AuthorityUnavailable));
    }
}
