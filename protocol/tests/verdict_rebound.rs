//! J-4: members that were added, removed or replaced for good.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use futures::executor::block_on;
use publication_protocol::adjudicate::{Outcome, Ports, look_at_cluster, pass_over_cluster};
use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Memory};
use publication_protocol::facade::FacadeBinding;
use publication_protocol::phase::Phase;
use publication_protocol::queue::QueueView;
use publication_protocol::record::VersionedRow;
use publication_protocol::verdict::Decision;
use support::build::{CANDIDATE, NEW, OLD, TARGET, intent, inventory, server};
use support::ports::Worker;
use support::run::{one, until_quiet};
use support::verdicts::{applied, decide, held_up, once, see, served, verdict};
use support::world::{Execution, Fault, MemberSim, World};

/// A facade bound to as many members.
fn bound_to(world: &World, members: u32) {
    let row = FacadeBinding::of(&inventory(members)).encode();
    world.lock().binding = vec![VersionedRow { row, version: 0 }];
}

fn join(world: &World, tables: &[(&str, u64)]) {
    let mut inner = world.lock();
    let number = inner.members.len() as u32 + 1;
    let tables = tables.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    inner.members.push(MemberSim::new(number, tables));
}

/// Dispatched to two members, executed by the first one only.
fn in_flight(members: u32) -> World {
    let world = World::new(members, true);
    bound_to(&world, members);
    world.lock().execution = Execution::Manual;
    let _ = one(&world, &intent(), Memory::default());
    world.lock().execute(0, 1);
    let _ = one(&world, &intent(), Memory::default());
    world
}

fn rebound(members: u32) -> Decision {
    Decision::Rebound(inventory(members).digest())
}

fn binding(world: &World) -> (u64, bool) {
    let inner = world.lock();
    let row = inner.binding.last().unwrap();
    let now = FacadeBinding::of(&inventory(inner.members.len() as u32));
    (row.version, now.matches(&row.row).is_ok())
}

// proves: J-4
#[test]
fn an_added_member_is_judged_by_its_tables_and_not_by_old_entries() {
    let world = in_flight(2);
    join(&world, &[(TARGET, NEW), (CANDIDATE, OLD)]);
    held_up(decide(&world, Decision::Committed), "J-4");
    let before = world.record().unwrap();
    let slot = applied(decide(&world, rebound(3)));
    assert_eq!(binding(&world), (1, true));
    assert_eq!(slot.record.payload.inventory, inventory(3));
    assert_eq!((slot.record.phase, slot.record.epoch), (before.phase, before.epoch));
    assert_eq!(slot.record.payload.dispatches[0].hosts, Some(vec!["h1:9000".into(), "h2:9000".into()]));
    // The original entry is still waited for; when it is through, the operation goes on by itself.
    let report = one(&world, &intent(), Memory::default()).unwrap();
    assert!(matches!(report.queues.get(&1), Some(QueueView::InProgress { .. })), "{:?}", report.queues);
    world.lock().execution = Execution::AtOnce;
    world.lock().execute_all();
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
    assert_eq!(world.at(TARGET), vec![Some(NEW); 3]);
    world.judge();
}

/// Its part of the entry will never be finished, and nobody waits for it.
// proves: J-4
#[test]
fn a_removed_member_has_no_say_any_more() {
    let world = in_flight(3);
    world.lock().execute(0, 2);
    world.lock().members.pop();
    let report = until_quiet_stalled(&world);
    assert_eq!(report, End::Stalled, "inventory drift");
    applied(decide(&world, rebound(2)));
    assert_eq!(binding(&world), (1, true));
    world.lock().execution = Execution::AtOnce;
    assert_eq!(until_quiet(&world, &intent()).end, End::Succeeded);
    world.judge();
}

fn until_quiet_stalled(world: &World) -> End {
    one(world, &intent(), Memory::default()).unwrap().end
}

// proves: J-4
#[test]
fn a_member_of_the_new_inventory_must_be_known_and_answer() {
    let world = in_flight(2);
    join(&world, &[(TARGET, OLD)]);
    let why = held_up(decide(&world, rebound(3)), "J-4");
    assert!(why.contains("replica 3"), "{why}");
    assert_eq!(binding(&world).0, 0, "refused before anything was written");
    assert!(held_up(decide(&world, rebound(2)), "J-4").contains("is"), "not the inventory of now");
    world.lock().members[2].tables.insert(CANDIDATE.into(), NEW);
    world.lock().members[0].up = false;
    let wanted = {
        world.lock().members[0].up = true;
        let wanted = verdict(&world, rebound(3));
        world.lock().members[0].up = false;
        wanted
    };
    assert!(matches!(served(&world, &wanted), Outcome::Waiting(..)));
    world.lock().members[0].up = true;
    applied(served(&world, &wanted));
}

// proves: J-4, C-7
#[test]
fn lost_answers_of_both_writes_are_told_by_the_rows() {
    // Calls of a pass: row, scan, members, row | binding row, its CAS, its read | CAS.
    for (call, after_binding) in [(5, false), (7, true)] {
        for fault in [Fault::LostAfter, Fault::LostBefore] {
            let world = in_flight(2);
            join(&world, &[(TARGET, OLD), (CANDIDATE, NEW)]);
            let wanted = verdict(&world, rebound(3));
            let at = world.lock().calls + call;
            world.lock().faults.insert(at, fault);
            let mut memory = Memory::default();
            let lost = once(&world, &wanted, &mut memory);
            assert!(
                matches!(&lost, Outcome::Waiting(f, _) if f.code == ErrorCode::CasOutcomeUnknown),
                "{call} {fault:?}: {lost:?} {:?}",
                world.lock().trace
            );
            assert_eq!(binding(&world).1, after_binding || fault == Fault::LostAfter);
            let slot = applied(once(&world, &wanted, &mut memory));
            assert_eq!(slot.record.payload.inventory, inventory(3));
            assert_eq!(binding(&world), (1, true), "changed once");
        }
    }
}

// proves: J-4
#[test]
fn the_host_sets_are_kept_once_and_only_where_they_differ() {
    let world = in_flight(2);
    join(&world, &[(TARGET, OLD), (CANDIDATE, NEW)]);
    applied(decide(&world, rebound(3)));
    join(&world, &[(TARGET, OLD), (CANDIDATE, NEW)]);
    let slot = applied(decide(&world, rebound(4)));
    assert_eq!(slot.record.payload.dispatches[0].hosts.as_ref().map(Vec::len), Some(2));
    let mut again = verdict(&world, rebound(4));
    again.uid = "another object".into();
    assert!(held_up(served(&world, &again), "J-4").contains("already"));
    // The same hosts with another server behind one of them: the entry's rows are its as well.
    let mut afresh = see(&in_flight(2));
    let replaced = server(9);
    afresh.members.members[1].server_uuid = replaced.clone();
    let mut now = inventory(2);
    now.members[1].server_uuid = replaced.clone();
    afresh.inventory = Ok(now.clone());
    let operation = afresh.slot.record.operation;
    let decision = Decision::Rebound(now.digest());
    let verdict = publication_protocol::verdict::Verdict {
        uid: "v".into(),
        operation,
        decision,
        evidence: afresh.digest(),
    };
    let next = publication_protocol::verdict::judge(&verdict, &afresh, support::build::now(1)).unwrap();
    assert_eq!(next.payload.dispatches[0].hosts, None);
    let view = next.queue_view(&next.payload.dispatches[0], afresh.rows.as_deref().unwrap());
    assert!(
        matches!(&view, QueueView::InProgress { hosts, .. } if hosts.contains_key(&replaced)),
        "{view:?}"
    );
}

/// Nobody who was sent the entry is left: its fate proves nothing.
// proves: J-4, E-1
#[test]
fn without_a_survivor_the_queue_proves_nothing() {
    let world = in_flight(2);
    let afresh = see(&world);
    let mut record = afresh.slot.record.clone();
    record.payload.dispatches[0].hosts = Some(vec!["h1:9000".into(), "h2:9000".into()]);
    record.payload.inventory.members.iter_mut().for_each(|m| m.host.insert(0, 'x'));
    let rows = afresh.rows.unwrap();
    let view = record.queue_view(&record.payload.dispatches[0], &rows);
    assert!(matches!(view, QueueView::Unknown(_)), "{view:?}");
    // One row too few is no answer either, survivor or not.
    record.payload.inventory = inventory(1);
    let view = record.queue_view(&record.payload.dispatches[0], &rows[..1]);
    assert!(matches!(view, QueueView::Unknown(_)), "{view:?}");
    let view = record.queue_view(&record.payload.dispatches[0], &rows);
    assert!(matches!(view, QueueView::Terminal { .. }), "{view:?}");
}

fn pass_cluster(world: &World, wanted: Digest, seen: Digest) -> Outcome {
    let w = Worker::new(world);
    let ports = Ports { control: &w, catalog: &w, ddl: &w, processes: &w, environment: &w };
    block_on(pass_over_cluster("c", false, (wanted, seen), &mut Memory::default(), &ports))
}

fn cluster_digest(world: &World) -> Digest {
    let w = Worker::new(world);
    let ports = Ports { control: &w, catalog: &w, ddl: &w, processes: &w, environment: &w };
    block_on(look_at_cluster("c", false, &ports)).unwrap().digest()
}

// proves: J-4, B-5
#[test]
fn without_a_slot_only_the_binding_row_changes() {
    let world = World::new(3, true);
    bound_to(&world, 2);
    let seen = cluster_digest(&world);
    let wanted = inventory(3).digest();
    assert!(matches!(pass_cluster(&world, wanted, wanted), Outcome::Refused(f) if f.rule == "J-1"));
    assert!(
        matches!(pass_cluster(&world, inventory(2).digest(), seen), Outcome::Refused(f) if f.rule == "J-4")
    );
    world.lock().members[2].up = false;
    assert!(matches!(pass_cluster(&world, wanted, seen), Outcome::Waiting(..)));
    world.lock().members[2].up = true;
    assert_eq!(binding(&world), (0, false));
    assert_eq!(pass_cluster(&world, wanted, seen), Outcome::Bound);
    assert_eq!(binding(&world), (1, true));
    assert_eq!(world.phase(), None);
    // Again, or after a lost answer: the row tells, and nothing is written.
    assert_eq!(pass_cluster(&world, wanted, seen), Outcome::Bound);
    assert_eq!(binding(&world), (1, true));
    // Another cluster's name is no replaced member.
    let mut other = FacadeBinding::of(&inventory(3));
    other.cluster = "d".into();
    world.lock().binding.push(VersionedRow { row: other.encode(), version: 2 });
    let seen = cluster_digest(&world);
    let refused = pass_cluster(&world, wanted, seen);
    assert!(matches!(&refused, Outcome::Refused(f) if f.code == ErrorCode::AuthorityConflict), "{refused:?}");
}

// proves: J-4, J-3
#[test]
fn a_final_slot_can_be_rebound_so_that_its_fences_can_end() {
    let world = World::new(2, true);
    bound_to(&world, 2);
    let _ = support::verdicts::until_send(&world, &intent(), 1);
    support::verdicts::make_private(&world);
    assert_eq!(applied(decide(&world, Decision::NotApplied)).record.phase, Phase::Abandoned);
    join(&world, &[(TARGET, OLD)]);
    let cleared = Decision::NameCleared(CANDIDATE.into());
    held_up(decide(&world, cleared.clone()), "J-4");
    applied(decide(&world, rebound(3)));
    assert!(applied(decide(&world, cleared)).record.fences().is_empty());
}
