//! Every port call of a pass can lose its answer or kill the worker, before or after its effect. Afterwards new
//! passes run until nothing more is to come. Judged from the world: at most one publication, no drop before all
//! serve the new generation, and an end that is either COMPLETED or has a class and a code.
#![allow(clippy::panic)]

mod support;

use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::Memory;
use publication_protocol::driver::{End, Report};
use publication_protocol::intent::Intent;
use publication_protocol::limits::Deadlines;
use publication_protocol::phase::Phase;
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::build::{NEW, OLD, TARGET};
use support::ports::Worker;
use support::proof::{number, on_every_core, write};
use support::run::{begin, poll, until_quiet, until_quiet_with};
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
            let class = report.class.unwrap_or_else(|| panic!("{case}: stalled without a class: {report:?}"));
            assert_eq!(class.code(), Some(ErrorCode::OutcomeUnknown), "{case}: {class:?}");
            assert_eq!(class.cause(), Some("EntryNotFound"), "{case}");
            assert!(!report.findings.is_empty(), "{case}: says why");
            assert_eq!(world.publications(), 0, "{case}: stalled although the entry is there");
        }
        other => panic!("{case}: ended as {other:?} {report:?}"),
    }
}

fn run(existing: bool, faults: &[(u32, Fault)], slow: bool) -> (World, Report) {
    run_on(World::new(2, existing), faults, slow)
}

fn run_on(world: World, faults: &[(u32, Fault)], slow: bool) -> (World, Report) {
    world.lock().faults.extend(faults.iter().copied());
    let intent: Intent = intent();
    let report = if slow {
        world.lock().execution = Execution::Manual;
        let mut turn = 0;
        until_quiet_with(&world, &intent, |world| {
            turn += 1;
            let mut inner = world.lock();
            // One member every other pass, so that every mixed state is seen.
            let open = inner.queue.iter().position(|entry| entry.codes.len() < entry.hosts.len());
            if let Some(at) = open.filter(|_| turn % 2 == 0) {
                let entry = &inner.queue[at];
                let next = entry.hosts.iter().copied().find(|host| !entry.codes.contains_key(host));
                inner.execute(at, next.expect("a host to come"));
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

/// Members, target there, members run an entry one at a time.
const SCENARIOS: [(&str, u32, bool, bool); 6] = [
    ("existing target", 2, true, false),
    ("absent target", 2, false, false),
    ("existing target, slow members", 2, true, true),
    ("absent target, slow members", 2, false, true),
    ("three members", 3, true, false),
    ("three members, slow", 3, true, true),
];
/// Longer than every deadline of [`intent`].
const LATE_MS: u64 = 60_000;
const POINTS: [Fault; 6] = [
    Fault::LostBefore,
    Fault::LostAfter,
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::Delayed(LATE_MS),
    Fault::CrashDelayed(LATE_MS),
];

/// Port calls until quiet, with room for what faults add.
fn calls_of(scenario: (&str, u32, bool, bool)) -> u32 {
    let (_, members, existing, slow) = scenario;
    let (world, _) = run_on(World::new(members, existing), &[], slow);
    world.lock().calls + 12
}

/// Name, members, existing target, slow members.
type Scenario = (&'static str, u32, bool, bool);

/// Runs plans on every core; each must keep the invariants and end as [`judge_end`] allows.
fn all_hold(plans: &[(Scenario, Vec<(u32, Fault)>)]) -> u64 {
    let failed = on_every_core(plans.len() as u64, |at| {
        let ((name, members, existing, slow), plan) = &plans[at as usize];
        let case = format!("{name} {plan:?}");
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let (world, report) = run_on(World::new(*members, *existing), plan, *slow);
            judge_end(&world, &report, &case);
        }));
        ran.err().map(|_| case)
    });
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{} of {} plans failed: {:?}", failed.len(), plans.len(), failed.first());
    plans.len() as u64
}

/// Every port call of six scenarios, cut in six ways; all pairs of cuts for three of them under `POINTS`, and every
/// 23rd pair without.
// proves: F-2, C-6, C-7, C-12, D-5, G-3, G-4
#[test]
fn every_crash_point_and_every_pair() {
    const PAIRED: [Fault; 3] = [Fault::LostAfter, Fault::CrashBefore, Fault::CrashAfter];
    let mut plans = Vec::new();
    for scenario in SCENARIOS {
        for at in 0..calls_of(scenario) {
            plans.extend(POINTS.map(|fault| (scenario, vec![(at, fault)])));
        }
    }
    let singles = plans.len();
    for scenario in SCENARIOS.into_iter().take(3) {
        let calls = calls_of(scenario);
        for (first, second) in (0..calls).flat_map(|a| (a + 1..calls).map(move |b| (a, b))) {
            for (one, two) in PAIRED.into_iter().flat_map(|a| PAIRED.map(|b| (a, b))) {
                plans.push((scenario, vec![(first, one), (second, two)]));
            }
        }
    }
    let wanted = number("POINTS").is_some();
    if !wanted {
        let mut at = 0;
        plans.retain(|_| {
            at += 1;
            at <= singles && at % 5 == 0 || at % 23 == 0
        });
    }
    let runs = all_hold(&plans) + awaits_hold();
    println!("{runs} crash point runs");
    if wanted {
        write("crash", &serde_json::json!({"crash_point_runs": runs, "violations": 0}));
    }
}

/// The future is dropped at each await: before a call, between its effect and its answer, between two members.
fn awaits_hold() -> u64 {
    let mut runs = 0;
    for existing in [true, false] {
        for cut in 0.. {
            let world = World::new(2, existing);
            let mut pass =
                begin(Worker { torn: true, ..Worker::yielding(&world) }, intent(), Memory::default());
            let ended = (0..=cut).any(|_| poll(&mut pass).is_some());
            drop(pass);
            let report = until_quiet(&world, &intent());
            judge_end(&world, &report, &format!("dropped at await {cut}"));
            runs += 1;
            if ended {
                break;
            }
        }
    }
    runs
}

/// A verdict's calls are cut in the same ways: it is stored once, and nothing is sent.
// proves: J-1, J-2, C-7
#[test]
fn a_verdict_is_stored_once_wherever_it_is_cut() {
    use publication_protocol::verdict::Decision;
    use support::verdicts::{make_private, serve, until_send, verdict};
    let stuck = || {
        let world = World::new(2, true);
        until_send(&world, &support::build::intent(), 1);
        make_private(&world);
        world
    };
    for at in 0..12 {
        for fault in POINTS {
            let world = stuck();
            let wanted = verdict(&world, Decision::NotApplied);
            let first = world.lock().calls;
            let mut memory = Memory::default();
            for pass in 0..60 {
                // Served for the first time, and again when the deadlines are past.
                if pass == 1 {
                    world.lock().faults.insert(first + 6 + at, fault);
                }
                let mut served = Box::pin(serve(&world, &wanted, &mut memory));
                let _ = futures::FutureExt::now_or_never(&mut served);
                drop(served);
                world.advance(support::build::DEADLINES.visibility_wait_ms());
                world.arrivals();
            }
            let case = format!("{at} {fault:?}");
            let record = world.record().expect("a record");
            assert_eq!((record.phase, record.payload.verdicts.len()), (Phase::Abandoned, 1), "{case}");
            assert_eq!((world.publications(), world.at(TARGET)), (0, vec![Some(OLD), Some(OLD)]), "{case}");
        }
    }
}
