//! Two workers at once. Each stops before every port call, and the test decides who goes on.
#![allow(clippy::panic)]

mod support;

use publication_protocol::driver::{End, Memory, Report};
use publication_protocol::intent::Intent;
use publication_protocol::phase::Phase;
use support::build::{NEW, TARGET, intent, intent_of, names};
use support::ports::Worker;
use support::run::{Pass, begin, finish, poll, until_quiet};
use support::world::World;

fn worker(world: &World, intent: &Intent) -> Pass {
    begin(Worker::yielding(world), intent.clone(), Memory::default())
}

/// Lets a pass make `steps` port calls; its report if it ends before.
fn steps(pass: &mut Pass, steps: u32) -> Option<Report> {
    (0..=steps).find_map(|_| poll(pass))
}

fn calls(intent: &Intent) -> u32 {
    let world = World::new(2, true);
    finish(&mut worker(&world, intent));
    world.lock().calls
}

/// After both are done, a new worker finds the operation finished or fail-closed, never in between.
fn settle(world: &World, intent: &Intent, case: &str) {
    world.judge();
    let report = until_quiet(world, intent);
    match report.end {
        End::Succeeded => assert_eq!(world.at(TARGET), [Some(NEW), Some(NEW)], "{case}"),
        End::Stalled => assert_eq!(world.publications(), 0, "{case}: {:?}", report.class),
        other => panic!("{case}: {other:?} {:?}", report.findings),
    }
}

// proves: C-3, C-6, C-12, H-1, O04, S05
#[test]
fn one_operation_two_workers_every_two_switches() {
    let intent = intent();
    let calls = calls(&intent);
    let mut stalled = 0;
    for first in 0..=calls {
        for second in 0..=calls {
            let world = World::new(2, true);
            let (mut a, mut b) = (worker(&world, &intent), worker(&world, &intent));
            let a_done = steps(&mut a, first);
            let b_done = steps(&mut b, second);
            if a_done.is_none() {
                finish(&mut a);
            }
            if b_done.is_none() {
                finish(&mut b);
            }
            world.judge();
            stalled += u32::from(world.phase() != Some(Phase::Completed));
            settle(&world, &intent, &format!("{first} {second}"));
        }
    }
    assert!(stalled < calls * calls / 2, "the common case is that they finish");
}

// proves: C-3, C-6
#[test]
fn one_operation_two_workers_in_random_order() {
    for seed in 0..400_u64 {
        let intent = intent();
        let world = World::new(2, true);
        let mut passes = [Some(worker(&world, &intent)), Some(worker(&world, &intent))];
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        while passes.iter().any(Option::is_some) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let slot = &mut passes[(state & 1) as usize];
            if slot.as_mut().is_some_and(|pass| poll(pass).is_some()) {
                *slot = None;
            }
        }
        settle(&world, &intent, &format!("seed {seed}"));
    }
}

// proves: C-8, C-2, C-3
#[test]
fn two_operations_on_one_target_publish_once() {
    let (one, two) = (intent(), intent_of("uid-2", names()));
    let calls = calls(&one);
    for first in 0..=calls {
        for second in [0, 1, 2, 3, 4, 6, 9, calls] {
            let world = World::new(2, true);
            let (mut a, mut b) = (worker(&world, &one), worker(&world, &two));
            let a_done = steps(&mut a, first).is_some();
            let b_done = steps(&mut b, second).is_some();
            if !a_done {
                finish(&mut a);
            }
            if !b_done {
                finish(&mut b);
            }
            world.judge();
            let holder =
                if world.record().expect("a record").operation == one.operation { &one } else { &two };
            settle(&world, holder, &format!("{first} {second}"));
            assert!(world.publications() <= 1);
        }
    }
}

// proves: C-12, C-6, D-5, K28
#[test]
fn a_worker_that_pauses_anywhere_and_wakes_up_later_never_sends_twice() {
    let intent = intent();
    // K28: 20 s is longer than a permit lives; 400 s is longer than the visibility wait.
    for pause_ms in [5_000, 20_000, 400_000] {
        for at in 0..=calls(&intent) {
            let world = World::new(2, true);
            let mut sleeper = worker(&world, &intent);
            let done = steps(&mut sleeper, at).is_some();
            let mut other = worker(&world, &intent);
            finish(&mut other);
            world.advance(pause_ms);
            finish(&mut worker(&world, &intent));
            if !done {
                finish(&mut sleeper);
            }
            world.judge();
            settle(&world, &intent, &format!("{pause_ms} at {at}"));
        }
    }
}

// proves: C-12, H-3
#[test]
fn a_permit_that_grew_too_old_releases_and_the_operation_is_admitted_again() {
    let intent = intent();
    let world = World::new(2, true);
    let mut sleeper = worker(&world, &intent);
    while !world.phases().iter().any(|phase| phase == "DISPATCHING") {
        assert!(poll(&mut sleeper).is_none());
    }
    // It has read its CAS back when it stands before the send.
    assert!(poll(&mut sleeper).is_none());
    // Meanwhile another worker observes, and must not take the release for a failure.
    let mut observer = worker(&world, &intent);
    assert!(steps(&mut observer, 3).is_none());
    world.advance(20_000);
    let report = finish(&mut sleeper);
    assert_eq!(world.phases(), ["PREPARED", "DISPATCHING", "RELEASED"]);
    assert_eq!((report.end, world.counts().sends), (End::Waiting, 0));
    let observed = finish(&mut observer);
    assert_eq!(observed.end, End::Waiting, "RELEASED is not the end of the operation: {observed:?}");
    let report = until_quiet(&world, &intent);
    assert_eq!((report.end, world.publications()), (End::Succeeded, 1));
}
