//! G over the in-memory world: retire, then drop, and everything that can come between.
#![allow(clippy::panic)]

mod support;

use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Memory, Report};
use publication_protocol::limits::CLEANUP_EPOCHS_MAX;
use publication_protocol::phase::Phase;
use publication_protocol::sqltext::Ddl;
use support::build::{CANDIDATE, DEADLINES, NEW, OLD, TARGET, intent};
use support::run::{one, until_quiet, until_quiet_with};
use support::world::{Execution, Fault, World};

fn pass(world: &World) -> Report {
    one(world, &intent(), Memory::default()).expect("no crash")
}

/// Published on both members; the retire step is queued and not executed.
fn retiring() -> World {
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    pass(&world);
    world.lock().execute_all();
    pass(&world);
    assert_eq!((world.entries("retire"), world.phase()), (1, Some(Phase::RetirePending)));
    world
}

fn code(report: &Report) -> Option<ErrorCode> {
    report.class.and_then(Classification::code)
}

fn cause(report: &Report) -> Option<&'static str> {
    report.class.and_then(Classification::cause)
}

// proves: G-3, A-8
#[test]
fn drops_name_retired_names_only_and_every_retire_has_its_own() {
    let world = World::new(3, true);
    let report = until_quiet(&world, &intent());
    assert_eq!(report.end, End::Succeeded);
    let inner = world.lock();
    let ddl: Vec<&Ddl> = inner.queue.iter().map(|e| &e.statement.ddl).collect();
    let [Ddl::Exchange { target, candidate }, Ddl::Rename { from, to }, Ddl::DropIfExists { table }] =
        ddl.as_slice()
    else {
        panic!("{ddl:?}")
    };
    assert_eq!((target.table.as_str(), candidate.table.as_str()), (TARGET, CANDIDATE));
    assert_eq!((from.table.as_str(), to), (CANDIDATE, table));
    assert!(table.table.starts_with("t__retired_"));
}

// proves: G-1
#[test]
fn cleanup_begins_only_when_the_published_table_is_healthy_and_completion_does_not_ask() {
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    pass(&world);
    world.lock().members[1].unhealthy = true;
    world.lock().execute_all();
    let report = pass(&world);
    assert_eq!(world.phase(), Some(Phase::Committed), "what is proved is stored");
    assert_eq!((world.entries("retire"), report.end), (0, End::Waiting));
    world.lock().members[1].unhealthy = false;
    pass(&world);
    assert_eq!(world.entries("retire"), 1);
    world.lock().members[1].unhealthy = true;
    world.lock().execution = Execution::AtOnce;
    world.lock().execute_all();
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: G-2, F-2
#[test]
fn nothing_is_dispatched_while_a_member_is_down() {
    let world = retiring();
    world.lock().execute_all();
    world.lock().members[1].up = false;
    let report = pass(&world);
    assert_eq!((code(&report), cause(&report)), (Some(ErrorCode::CleanupBlocked), Some("MemberUnobserved")));
    assert_eq!((world.entries("drop"), report.end), (0, End::Waiting));
    world.lock().members[1].up = true;
    world.lock().execution = Execution::AtOnce;
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded, "exact evidence resumes it");
}

// proves: G-2, G-3, F, O11, K16
#[test]
fn a_reverted_member_keeps_both_generations() {
    // K16: h2 comes back with the mapping from before the exchange, our retire step still queued there.
    let world = retiring();
    {
        let mut inner = world.lock();
        inner.execute(1, 1);
        inner.members[1].tables = [(TARGET.to_owned(), OLD), (CANDIDATE.to_owned(), NEW)].into();
    }
    let report = pass(&world);
    assert_eq!((code(&report), cause(&report)), (Some(ErrorCode::CleanupBlocked), Some("MemberPending")));
    assert_eq!(report.end, End::Stalled);
    // The queued statement now hits the new generation: it is moved aside, recognised, and never dropped.
    world.lock().execute_all();
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), report.end), (Some(ErrorCode::UnsafeCleanupIdentity), End::Stalled));
    assert_eq!(world.entries("drop"), 0);
    world.judge();
}

// proves: G-3, G-4
#[test]
fn a_table_under_the_name_of_an_unaccounted_retire_is_retired_again() {
    let world = retiring();
    // Executed, then the entry is gone from the queue before its receipt was stored.
    world.lock().execute_all();
    world.lock().queue[1].gone = true;
    world.lock().execution = Execution::AtOnce;
    let started = world.lock().now.boot_ms;
    let report = until_quiet(&world, &intent());
    assert_eq!(report.end, End::Succeeded, "{report:?}");
    assert!(world.lock().now.boot_ms - started > DEADLINES.visibility_wait_ms(), "G-4 waits as D-5");
    assert_eq!((world.entries("retire"), world.entries("drop")), (2, 1));
    let record = world.record().expect("a record");
    let names: Vec<(String, bool)> =
        record.retired_names().map(|(name, accounted)| (name.to_owned(), accounted)).collect();
    assert!(!names[0].1 && names[1].1 && names[0].0 != names[1].0, "{names:?}");
    assert_eq!(record.payload.dispatches[2].from, names[0].0, "retired from the unaccounted name");
    let fences = record.fences();
    assert_eq!(fences.len(), 1);
    assert_eq!((fences[0].name.as_str(), fences[0].epoch), (CANDIDATE, 2));
}

/// K21: h2 says that it is too large (359). K17: that something depends on it (630).
// proves: G-4, K17, K21, O11
#[test]
fn a_failed_drop_blocks_at_once_and_only_a_change_tries_again() {
    for refusal in [359, 630] {
        a_failed_drop(refusal);
    }
}

fn a_failed_drop(refusal: u32) {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("drop", refusal);
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), cause(&report)), (Some(ErrorCode::CleanupBlocked), Some("DropFailed")));
    let said = format!("h2:9000 (replica 2) Retired, drop (code {refusal})");
    assert!(report.findings[0].message.contains(&said), "{report:?}");
    assert_eq!((world.entries("drop"), report.end), (1, End::Stalled));
    assert_eq!(world.at(TARGET), [Some(NEW), Some(NEW)], "published all the same");
    world.advance(10_000_000);
    until_quiet(&world, &intent());
    assert_eq!(world.entries("drop"), 1, "time alone tries nothing");
    let mut changed = intent();
    changed.changed = true;
    one(&world, &changed, Memory::default()).expect("no crash");
    assert_eq!(world.entries("drop"), 2);
    assert_eq!(cause(&until_quiet(&world, &intent())), Some("DropFailed"));
    world.lock().members[1].refuses.clear();
    one(&world, &changed, Memory::default()).expect("no crash");
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: G-4
#[test]
fn eight_cleanup_epochs_and_no_more() {
    let world = World::new(2, true);
    world.lock().members[0].refuses.insert("retire", 48);
    world.lock().members[1].refuses.insert("retire", 48);
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), cause(&report)), (Some(ErrorCode::CleanupBlocked), Some("EpochLimit")));
    assert_eq!(world.entries("retire") as u64, CLEANUP_EPOCHS_MAX);
    assert_eq!(world.entries("drop"), 0);
}

// proves: G-4, D-6, H-1
#[test]
fn a_late_receipt_of_an_earlier_retire_is_stored_and_does_not_stall() {
    let world = retiring();
    world.lock().queue[1].gone = true;
    world.lock().invisible = true;
    let mut memory = pass(&world).memory;
    world.advance(DEADLINES.visibility_wait_ms() + 1_000);
    memory = one(&world, &intent(), memory).expect("no crash").memory;
    assert_eq!((world.entries("retire"), world.phase()), (2, Some(Phase::RetireDispatching)));
    // The first one shows up after all; the second is still on its way.
    world.lock().queue[1].gone = false;
    world.lock().execute_all();
    let report = one(&world, &intent(), memory).expect("no crash");
    assert_eq!(report.end, End::Waiting, "{report:?}");
    let record = world.record().expect("a record");
    assert!(record.payload.dispatches[1].is_accounted(), "D-6: stored as soon as it is seen");
    world.lock().queue[2].gone = false;
    world.lock().execution = Execution::AtOnce;
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: G-5
#[test]
fn completion_needs_every_member_cleaned_and_the_last_entry_terminal() {
    let world = retiring();
    world.lock().execute_all();
    pass(&world);
    assert_eq!((world.entries("drop"), world.phase()), (1, Some(Phase::DropPending)));
    world.lock().execute(2, 1);
    let report = pass(&world);
    assert_eq!((world.phase(), report.end), (Some(Phase::DropPending), End::Waiting), "h2 has not dropped");
    {
        // h2 drops and is killed before it marks the entry finished: all cleaned, not yet terminal.
        let mut inner = world.lock();
        inner.run(2, 2);
    }
    assert_eq!(pass(&world).end, End::Waiting);
    world.lock().execute(2, 2);
    assert_eq!(pass(&world).end, End::Succeeded);
}

/// K11: h1 swapped, h2 failed with 48 and did not. K19: its user has no right to (497).
// proves: G-5, F, K11, K19
#[test]
fn a_mixed_terminal_state_cleans_nothing_and_names_the_member() {
    for refusal in [48, 497] {
        a_mixed_terminal_state(refusal);
    }
}

fn a_mixed_terminal_state(refusal: u32) {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("publish", refusal);
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), report.end), (Some(ErrorCode::PartialTerminal), End::Stalled));
    let message = &report.findings[0].message;
    assert!(message.contains("h1:9000 (replica 1) Committed (code 0)"), "{message}");
    assert!(message.contains(&format!("h2:9000 (replica 2) Pending (code {refusal})")), "{message}");
    assert_eq!((world.publications(), world.entries("retire"), world.entries("drop")), (1, 0, 0));
    assert_eq!(
        (world.at(CANDIDATE), world.at(TARGET)),
        (vec![Some(OLD), Some(NEW)], vec![Some(NEW), Some(OLD)])
    );
    // F-2: a person finishes the pending member; exact evidence resumes the operation from the same record.
    world.lock().members[1].refuses.clear();
    world.lock().run(0, 2);
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
    assert_eq!(world.publications(), 1);
}

// proves: F, F-2
#[test]
fn all_failed_and_unchanged_is_never_sent_again() {
    let world = World::new(2, true);
    for member in 0..2 {
        world.lock().members[member].refuses.insert("publish", 48);
    }
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), report.end), (Some(ErrorCode::FailedUnchanged), End::Stalled));
    world.advance(100_000_000);
    until_quiet(&world, &intent());
    assert_eq!((world.publications(), world.counts().sends), (1, 1));
}

// proves: D-6, D-5
#[test]
fn a_stored_receipt_survives_retention_and_a_lost_entry_without_one_does_not_count() {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("publish", 48);
    until_quiet(&world, &intent());
    world.lock().queue[0].gone = true;
    assert_eq!(code(&pass(&world)), Some(ErrorCode::PartialTerminal), "the receipt is the queue now");
    // Bound but not terminal when it goes: the outcome is unknown, although all members are POST.
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    pass(&world);
    world.lock().queue[0].gone = true;
    world.lock().execute_all();
    let report = until_quiet(&world, &intent());
    assert_eq!((code(&report), cause(&report)), (Some(ErrorCode::OutcomeUnknown), Some("EntryNotFound")));
    assert_eq!((world.entries("retire"), report.end), (0, End::Stalled));
}

// proves: F-3, D-5
#[test]
fn waiting_never_spins_however_long_the_queue_is_held_up() {
    // K13: our entry Inactive everywhere for two hours.
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    let mut turns = 0;
    let report = until_quiet_with(&world, &intent(), |world| {
        turns += 1;
        if world.lock().now.boot_ms > 7_200_000 {
            let mut inner = world.lock();
            inner.execution = Execution::AtOnce;
            inner.execute_all();
        }
    });
    assert_eq!((report.end, world.publications()), (End::Succeeded, 1));
    assert!(turns < 2_200, "{turns} passes in two hours");
    assert!(world.counts().mutations <= 9, "budget when answers are late: {:?}", world.counts());
}

// proves: G-4, C-7, O11
#[test]
fn a_lost_send_of_a_cleanup_step_is_repeated_only_after_the_visibility_wait() {
    let world = World::new(2, true);
    let trace = {
        let happy = World::new(2, true);
        until_quiet(&happy, &intent());
        happy.lock().trace.clone()
    };
    let sends: Vec<usize> = (0..trace.len()).filter(|at| trace[*at] == "send").collect();
    world.lock().faults.insert(sends[1] as u32, Fault::LostBefore);
    let started = world.lock().now.boot_ms;
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
    assert!(world.lock().now.boot_ms - started > DEADLINES.visibility_wait_ms());
    assert_eq!((world.entries("retire"), world.publications()), (1, 1));
    assert_eq!(world.record().expect("a record").epoch, 4, "publish, retire lost, retire, drop");
}
