//! J-1: a verdict against an operation that moves at the same moment.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use futures::task::noop_waker;
use publication_protocol::adjudicate::{Outcome, Ports, pass};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::Memory;
use publication_protocol::phase::Phase;
use publication_protocol::record::{Record, VersionedRow};
use publication_protocol::verdict::Decision;
use std::pin::Pin;
use std::task::{Context, Poll};
use support::build::{DEADLINES, intent};
use support::ports::Worker;
use support::run::{begin, finish, poll, until_quiet};
use support::verdicts::{held_up, see, served, slot_name, verdict};
use support::world::World;

fn failed_unchanged() -> World {
    let world = World::new(2, true);
    for member in &mut world.lock().members {
        member.refuses.insert("publish", 60);
    }
    let _ = until_quiet(&world, &intent());
    world
}

/// One pass over a verdict, with `between` called before each port call.
fn interrupted(world: &World, decision: Decision, mut between: impl FnMut(&World)) -> Outcome {
    let wanted = verdict(world, decision);
    let w = Worker::yielding(world);
    let (name, mut memory) = (slot_name(), Memory::default());
    let ports = Ports { control: &w, catalog: &w, ddl: &w, processes: &w, environment: &w };
    let mut pass: Pin<Box<dyn Future<Output = Outcome> + '_>> =
        Box::pin(pass(&name, &wanted, DEADLINES, &mut memory, &ports));
    loop {
        match pass.as_mut().poll(&mut Context::from_waker(&noop_waker())) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => between(world),
        }
    }
}

/// Whenever the operation moves between the look and the end of the CAS, the verdict is not applied.
// proves: J-1, C-3
#[test]
fn a_verdict_loses_every_race_against_the_operation() {
    let calls = {
        let mut calls = 0;
        let world = failed_unchanged();
        let applied = interrupted(&world, Decision::NotApplied, |_| calls += 1);
        assert!(matches!(applied, Outcome::Applied(_)), "{applied:?}");
        calls
    };
    for at in 1..calls - 1 {
        let world = failed_unchanged();
        let mut call = 0;
        let outcome = interrupted(&world, Decision::NotApplied, |world| {
            call += 1;
            if call == at + 1 {
                let mut record = see(world).slot.record;
                record.payload.updated_ms += 1;
                let mut inner = world.lock();
                let version = inner.slot.len() as u64;
                inner.slot.push(VersionedRow { row: record.encode(), version });
            }
        });
        let code = match &outcome {
            Outcome::Waiting(finding, _) => finding.code,
            other => panic!("call {at}: {other:?}"),
        };
        assert!(matches!(code, ErrorCode::CasConflict | ErrorCode::CasOutcomeUnknown), "call {at}: {code:?}");
        let record: Record = world.record().unwrap();
        assert_eq!((record.phase, record.payload.verdicts.len()), (Phase::InProgress, 0), "call {at}");
        held_up(served(&world, &verdict_of_before(&world)), "J-1");
    }
}

/// A verdict with evidence of an earlier version.
fn verdict_of_before(world: &World) -> publication_protocol::verdict::Verdict {
    let now = verdict(world, Decision::NotApplied);
    let evidence = publication_protocol::canonical::Digest::of_bytes(b"before");
    publication_protocol::verdict::Verdict { evidence, ..now }
}

/// The operation's worker reads, then the verdict ends the operation, then the worker's CAS and permit come to nothing:
/// whatever step of its pass the verdict falls into, at most one statement exists, and none after the verdict.
// proves: J-1, C-3, C-7
#[test]
fn a_worker_in_the_middle_of_its_pass_does_nothing_after_a_verdict() {
    for steps in 1..40 {
        let world = World::new(2, true);
        let mut pass = begin(Worker::yielding(&world), intent(), Memory::default());
        let ended = (0..steps).find_map(|_| poll(&mut pass));
        if ended.is_some() {
            break;
        }
        if world.phase() != Some(Phase::Prepared) {
            continue;
        }
        let released = served(&world, &verdict(&world, Decision::NotApplied));
        assert!(matches!(released, Outcome::Applied(_)), "step {steps}: {released:?}");
        let _ = finish(&mut pass);
        assert_eq!((world.phase(), world.publications()), (Some(Phase::Released), 0), "step {steps}");
        world.judge();
    }
}
