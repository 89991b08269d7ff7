//! J: each decision, carried out by a person on the in-memory cluster, and what a late statement can do afterwards.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::adjudicate::Outcome;
use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Memory};
use publication_protocol::identity::Names;
use publication_protocol::phase::Phase;
use publication_protocol::record::Ending;
use publication_protocol::verdict::Decision;
use support::build::{CANDIDATE, NEW, OLD, TARGET, intent, intent_of};
use support::run::{one, until_quiet};
use support::verdicts::{
    PRIVATE, applied, arrives_late, decide, held_up, make_private, once, rename_on, rename_on_cluster, see,
    served, swap_with_private, until_send, verdict,
};
use support::world::{Fault, World};

/// EXCHANGE fails on the second of two members.
fn partial() -> World {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("publish", 123);
    let report = until_quiet(&world, &intent());
    assert_eq!(report.class, Some(Classification::PartialTerminal));
    world
}

/// EXCHANGE was to be sent, and never left.
fn unknown(existing: bool) -> (World, (String, publication_protocol::sqltext::Statement)) {
    let world = World::new(2, existing);
    let statement = until_send(&world, &intent(), 1);
    assert_eq!(world.phase(), Some(Phase::Dispatching));
    (world, statement)
}

// proves: J-1
#[test]
fn the_digest_in_status_is_the_one_that_a_verdict_is_judged_by() {
    let world = partial();
    let report = until_quiet(&world, &intent());
    assert_eq!(report.evidence, Some(see(&world).digest()));
    let (world, _) = unknown(true);
    let report = one(&world, &intent(), Memory::default()).unwrap();
    assert_eq!(report.evidence, Some(see(&world).digest()));
    // In cleanup, with more names and tokens.
    let world = World::new(3, true);
    world.lock().members[2].refuses.insert("drop", 359);
    let report = until_quiet(&world, &intent());
    assert_eq!(report.slot.as_ref().map(|s| s.record.phase), Some(Phase::DropPending));
    assert_eq!(report.evidence, Some(see(&world).digest()));
}

// proves: J-1, J-2
#[test]
fn committed_after_the_pending_member_was_finished_by_hand() {
    let world = partial();
    let early = verdict(&world, Decision::Committed);
    assert!(held_up(served(&world, &early), "J-2").contains(CANDIDATE));
    make_private(&world);
    // The person's own rename made it stale.
    held_up(served(&world, &early), "J-1");
    assert!(held_up(decide(&world, Decision::Committed), "J-2").contains("finish the pending"));
    swap_with_private(&world, 1);
    assert!(held_up(decide(&world, Decision::NotApplied), "J-2").contains("revert"));
    let before = world.counts();
    let slot = applied(decide(&world, Decision::Committed));
    assert_eq!((slot.record.phase, slot.record.payload.verdicts.len()), (Phase::Completed, 1));
    assert_eq!(world.counts().sends, before.sends, "a verdict sends no statement");
    assert_eq!(world.counts().mutations, before.mutations + 1);
    let report = until_quiet(&world, &intent());
    assert_eq!((report.end, world.at(TARGET)), (End::Succeeded, vec![Some(NEW), Some(NEW)]));
    assert_eq!(world.at(PRIVATE)[0], Some(OLD), "the predecessor is the person's");
}

// proves: J-2
#[test]
fn not_applied_after_the_committed_member_was_reverted() {
    let world = partial();
    make_private(&world);
    assert!(held_up(decide(&world, Decision::NotApplied), "J-2").contains("revert"));
    swap_with_private(&world, 0);
    let slot = applied(decide(&world, Decision::NotApplied));
    assert_eq!(slot.record.phase, Phase::Abandoned);
    // Its entry is accounted for on every member, so nothing stays fenced.
    assert!(slot.record.fences().is_empty());
    let report = until_quiet(&world, &intent());
    assert_eq!((report.end, world.at(TARGET)), (End::Failed, vec![Some(OLD), Some(OLD)]));
}

// proves: J-2
#[test]
fn failed_unchanged_is_not_applied_without_a_rename() {
    let world = World::new(2, true);
    for member in &mut world.lock().members {
        member.refuses.insert("publish", 60);
    }
    let report = until_quiet(&world, &intent());
    assert_eq!(report.class, Some(Classification::FailedUnchanged));
    held_up(decide(&world, Decision::Committed), "J-2");
    let mut memory = Memory::default();
    let at_once = once(&world, &verdict(&world, Decision::NotApplied), &mut memory);
    assert_eq!(applied(at_once).record.phase, Phase::Abandoned);
    // The retry: the same rows under a fresh name, by another object.
    world.lock().members.iter_mut().for_each(|m| m.refuses.clear());
    rename_on_cluster(&world, CANDIDATE, "t__pub_2");
    let names = Names::new("c", "db", TARGET, "t__pub_2").unwrap();
    let mut again = intent_of("uid-2", names);
    again.owner.created_ms += 1;
    let tables = until_quiet_second(&world, &again);
    assert_eq!((tables, world.at(TARGET)), (End::Succeeded, vec![Some(NEW), Some(NEW)]));
}

/// A second operation: the world's own judge counts one publication only, so the passes are run here.
fn until_quiet_second(world: &World, intent: &publication_protocol::intent::Intent) -> End {
    let mut memory = Memory::default();
    for _ in 0..50 {
        let report = one(world, intent, memory).unwrap();
        if matches!(report.end, End::Succeeded | End::Failed | End::Stalled) {
            return report.end;
        }
        memory = report.memory;
        world.advance(1_000);
    }
    panic!("not quiet: {:?}", world.phases());
}

// proves: J-2, D-5
#[test]
fn an_unknown_outcome_waits_for_the_deadlines() {
    let (world, _) = unknown(true);
    assert!(held_up(decide(&world, Decision::NotApplied), "J-2").contains(CANDIDATE));
    make_private(&world);
    let wanted = verdict(&world, Decision::NotApplied);
    let mut memory = Memory::default();
    let early = once(&world, &wanted, &mut memory);
    assert!(matches!(early, Outcome::Waiting(..)), "{early:?}");
    world.advance(support::build::DEADLINES.visibility_wait_ms() - 1_000);
    let still = once(&world, &wanted, &mut memory);
    assert!(held_up(still, "J-2").contains("deadlines"));
    world.advance(2_000);
    let slot = applied(once(&world, &wanted, &mut memory));
    assert_eq!(slot.record.phase, Phase::Abandoned);
    assert_eq!(slot.record.fences()[0].name, CANDIDATE);
}

// proves: J-2
#[test]
fn an_unfinished_entry_is_waited_for() {
    let world = World::new(2, true);
    world.lock().execution = support::world::Execution::Manual;
    let _ = one(&world, &intent(), Memory::default());
    // The person renamed on each member by hand, against the advice: the entry is still there.
    rename_on(&world, 0, CANDIDATE, PRIVATE);
    rename_on(&world, 1, CANDIDATE, PRIVATE);
    assert!(held_up(decide(&world, Decision::NotApplied), "J-2").contains("unfinished"));
    world.lock().execute_all();
    assert_eq!(world.at(TARGET), vec![Some(OLD), Some(OLD)], "its names are gone");
    let slot = applied(decide(&world, Decision::NotApplied));
    assert!(slot.record.fences().is_empty(), "the receipt came with the verdict");
    assert!(slot.record.payload.dispatches[0].is_accounted());
}

// proves: J-2
#[test]
fn on_prepared_not_applied_releases() {
    let world = World::new(2, true);
    let mut stepper = support::stepper::Stepper::new(&world, &intent());
    drop(stepper.until_cas("DISPATCHING"));
    assert_eq!(world.phase(), Some(Phase::Prepared));
    held_up(decide(&world, Decision::Committed), "J-2");
    let slot = applied(once(&world, &verdict(&world, Decision::NotApplied), &mut Memory::default()));
    assert_eq!(slot.record.phase, Phase::Released);
    assert!(slot.record.fences().is_empty());
    let recent = slot.record.recent_with_self(slot.version);
    assert_eq!(recent.last().map(|r| r.ending), Some(Ending::Released), "the name is not spent");
}

/// The object is not needed: only the record is read. The operation's own worker was never heard of again.
// proves: J-1
#[test]
fn it_works_when_the_object_is_gone() {
    let (world, statement) = unknown(true);
    world.lock().witnesses.clear();
    world.lock().owner_gone = Some(true);
    make_private(&world);
    applied(decide(&world, Decision::NotApplied));
    assert_eq!(world.counts().owner_reads, 0);
    arrives_late(&world, &statement);
    assert_eq!(world.at(TARGET), vec![Some(OLD), Some(OLD)]);
}

// proves: J-2, G-4
#[test]
fn a_failed_drop_is_ended_by_committed() {
    let world = World::new(2, true);
    world.lock().members[1].refuses.insert("drop", 359);
    let report = until_quiet(&world, &intent());
    assert_eq!(report.end, End::Stalled);
    let retired = world.record().unwrap().retired_names().next().unwrap().0.to_owned();
    assert!(held_up(decide(&world, Decision::Committed), "J-2").contains(&retired));
    rename_on(&world, 1, &retired, PRIVATE);
    assert_eq!(applied(decide(&world, Decision::Committed)).record.phase, Phase::Completed);
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
}

// proves: J-3, B-7
#[test]
fn a_fence_ends_only_when_nothing_can_be_late() {
    let (world, statement) = unknown(true);
    held_up(decide(&world, Decision::NameCleared(CANDIDATE.into())), "J-3");
    make_private(&world);
    applied(decide(&world, Decision::NotApplied));
    let cleared = verdict(&world, Decision::NameCleared(CANDIDATE.into()));
    for running in [Some(true), None] {
        world.lock().running = running;
        held_up(served(&world, &cleared), "J-3");
    }
    world.lock().running = Some(false);
    let mut memory = Memory::default();
    held_up(once(&world, &cleared, &mut memory), "J-3");
    world.advance(support::build::DEADLINES.visibility_wait_ms() + 1);
    let slot = applied(once(&world, &cleared, &mut memory));
    assert!(slot.record.fences().is_empty());
    // It is spent all the same: names are single-use.
    let recent = slot.record.recent_with_self(slot.version);
    assert_eq!(recent.last().map(|r| (r.ending, r.candidate.as_str())), Some((Ending::Abandoned, CANDIDATE)));
    arrives_late(&world, &statement);
    assert_eq!(world.at(TARGET), vec![Some(OLD), Some(OLD)]);
}

// proves: J-3
#[test]
fn a_fence_stays_while_its_entry_is_unfinished() {
    let (world, statement) = unknown(true);
    make_private(&world);
    applied(decide(&world, Decision::NotApplied));
    {
        let mut inner = world.lock();
        inner.execution = support::world::Execution::Manual;
        inner.enqueue(&statement.0, &statement.1);
    }
    let mut cleared = verdict(&world, Decision::NameCleared(CANDIDATE.into()));
    assert!(held_up(served(&world, &cleared), "J-2").contains("unfinished"));
    world.lock().execute_all();
    held_up(served(&world, &cleared), "J-1");
    cleared.evidence = see(&world).digest();
    applied(served(&world, &cleared));
}

// proves: J-1
#[test]
fn a_verdict_while_the_operation_moves_on_its_own_is_stale() {
    let world = World::new(2, true);
    world.lock().execution = support::world::Execution::Manual;
    let report = one(&world, &intent(), Memory::default()).unwrap();
    let wanted = verdict(&world, Decision::NotApplied);
    world.lock().execute_all();
    let _ = one(&world, &intent(), report.memory);
    held_up(served(&world, &wanted), "J-1");
    world.lock().execution = support::world::Execution::AtOnce;
    world.lock().execute_all();
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
    // Over, with another one in its place or not: never applied.
    held_up(served(&world, &wanted), "J-1");
}

// proves: J-1, C-7
#[test]
fn a_lost_answer_is_found_by_uid_at_the_next_pass() {
    let world = partial();
    make_private(&world);
    swap_with_private(&world, 1);
    let wanted = verdict(&world, Decision::Committed);
    let mut memory = Memory::default();
    let _ = once(&world, &wanted, &mut memory);
    world.advance(support::build::DEADLINES.visibility_wait_ms() + 1);
    // Calls of one pass: read, members, read, mutate (its tokens are accounted for: no scan).
    let at = world.lock().calls + 3;
    world.lock().faults.insert(at, Fault::LostAfter);
    let lost = once(&world, &wanted, &mut memory);
    assert!(matches!(&lost, Outcome::Waiting(f, _) if f.code == ErrorCode::CasOutcomeUnknown), "{lost:?}");
    assert_eq!(world.phase(), Some(Phase::Completed));
    let mutations = world.counts().mutations;
    assert_eq!(applied(once(&world, &wanted, &mut memory)).record.phase, Phase::Completed);
    assert_eq!(world.counts().mutations, mutations, "it is not stored twice");
}

// proves: J-1, B-2
#[test]
fn a_silent_member_is_waited_for() {
    let world = partial();
    make_private(&world);
    swap_with_private(&world, 1);
    let wanted = verdict(&world, Decision::Committed);
    world.lock().members[0].up = false;
    assert!(matches!(served(&world, &wanted), Outcome::Waiting(..)));
    world.lock().members[0].up = true;
    applied(served(&world, &wanted));
}
