//! Every port call of a pass can lose its answer or kill the worker, before or after its effect. Afterwards new
//! passes run until nothing more is to come. Judged from the world: at most one publication, no drop before all
//! serve the new generation, and an end that is either COMPLETED or has a class and a code.
#![allow(clippy::panic)]

mod support;

use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Report};
use publication_protocol::intent::Intent;
use publication_protocol::limits::Deadlines;
use publication_protocol::phase::Phase;
use support::build::{NEW, TARGET};
use support::run::{until_quiet, until_quiet_with};
use support::world::{Execution, Fault, World};

/// With a short statement timeout: the visibility wait is then 46 s, which saves passes of virtual time.
fn intent() -> Intent {
    Intent { deadlines: Deadlines { statement_timeout_ms: 1_000 }, ..support::build::intent() }
}

const FAULTS: [Fault; 4] = [Fault::LostBefore, Fault::LostAfter, Fault::CrashBefore, Fault::CrashAfter];

/// Port calls of a happy pass, with room for what a fault adds.
fn calls_of_a_happy_pass(existing: bool) -> u32 {
    let world = World::new(2, existing);
    until_quiet(&world, &intent());
    world.lock().calls
}

/// Published and proved, or fail-closed with a reason and nothing lost.
fn judge_end(world: &World, report: &Report, case: &str) {
    world.judge();
    let published = world.at(TARGET).iter().all(|g| *g == Some(NEW));
    match report.end {
        End::Succeeded => {
            assert_eq!(world.phase(), Some(Phase::Completed), "{case}");
            assert!(published, "{case}: reported success");
        }
        End::Stalled => {
            let class = report.class.expect("a stalled operation has a class");
            assert_eq!(class.code(), Some(ErrorCode::OutcomeUnknown), "{case}: {class:?}");
            assert_eq!(class.cause(), Some("EntryNotFound"), "{case}");
            assert!(!report.findings.is_empty(), "{case}: says why");
            assert_eq!(world.publications(), 0, "{case}: stalled although the entry is there");
        }
        other => panic!("{case}: ended as {other:?} {report:?}"),
    }
}

fn run(existing: bool, faults: &[(u32, Fault)], slow: bool) -> (World, Report) {
    let world = World::new(2, existing);
    world.lock().faults.extend(faults.iter().copied());
    let intent: Intent = intent();
    let report = if slow {
        world.lock().execution = Execution::Manual;
        let mut turn = 0;
        until_quiet_with(&world, &intent, |world| {
            turn += 1;
            let mut inner = world.lock();
            let entries = inner.queue.len();
            // One member a pass, so that every mixed state is seen.
            if let Some(at) = (0..entries).find(|at| inner.queue[*at].codes.len() < 2) {
                let number = if inner.queue[at].codes.contains_key(&1) { 2 } else { 1 };
                if turn % 2 == 0 {
                    inner.execute(at, number);
                }
            }
        })
    } else {
        until_quiet(&world, &intent)
    };
    (world, report)
}

// proves: F-2, C-7, D-5, G-4
#[test]
fn one_fault_at_every_port_call() {
    let mut stalled = 0;
    for existing in [true, false] {
        for slow in [false, true] {
            for at in 0..calls_of_a_happy_pass(existing) + 4 {
                for fault in FAULTS {
                    let (world, report) = run(existing, &[(at, fault)], slow);
                    judge_end(&world, &report, &format!("{existing} {slow} {at} {fault:?}"));
                    stalled += u32::from(report.end == End::Stalled);
                }
            }
        }
    }
    // Lost around the dispatching CAS or before the send: these must stall, and only these.
    assert!(stalled > 0, "some fault leaves the outcome unknown on purpose");
}

// proves: F-2, C-7, G-3, G-4
#[test]
fn two_faults_close_to_each_other() {
    let calls = calls_of_a_happy_pass(true);
    for first in 0..calls + 4 {
        for second in first + 1..first + 9 {
            for faults in [
                [Fault::LostAfter, Fault::LostAfter],
                [Fault::CrashAfter, Fault::LostBefore],
                [Fault::CrashAfter, Fault::CrashAfter],
            ] {
                let plan = [(first, faults[0]), (second, faults[1])];
                let (world, report) = run(true, &plan, false);
                judge_end(&world, &report, &format!("{plan:?}"));
            }
        }
    }
}

// proves: H-1, C-12
#[test]
fn a_crash_between_the_dispatching_cas_and_the_send_leaves_outcome_unknown() {
    let world = World::new(2, true);
    let send = {
        let happy = World::new(2, true);
        until_quiet(&happy, &intent());
        let at = happy.lock().trace.iter().position(|kind| *kind == "send").expect("a send");
        at as u32
    };
    world.lock().faults.insert(send, Fault::CrashBefore);
    let started = world.lock().now.boot_ms;
    let report = until_quiet(&world, &intent());
    assert_eq!(report.class.and_then(Classification::code), Some(ErrorCode::OutcomeUnknown));
    assert_eq!((world.publications(), world.phase()), (0, Some(Phase::Dispatching)));
    let waited = world.lock().now.boot_ms - started;
    assert!(waited > intent().deadlines.visibility_wait_ms(), "D-5: only after the wait ({waited})");
    // The slot fences: another operation gets nothing.
    let other = support::build::intent_of("uid-2", support::build::names());
    let refused = support::run::one(&world, &other, Default::default()).expect("no crash");
    assert_eq!(refused.findings[0].code, ErrorCode::AuthorityConflict);
}
