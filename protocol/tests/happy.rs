//! The shell over the in-memory world, when nothing goes wrong.

mod support;

use publication_protocol::driver::{End, Requeue};
use publication_protocol::phase::Phase;
use publication_protocol::replica::MemberState;
use support::build::{CANDIDATE, NEW, TARGET, intent};
use support::run::{one, until_quiet};
use support::world::{Counts, World};

// proves: G-3, G-5, D-6, C-3
#[test]
fn an_existing_target_costs_five_mutations_three_statements_three_scans() {
    for members in [2, 3, 5] {
        let world = World::new(members, true);
        let report = one(&world, &intent(), Default::default()).expect("no crash");
        assert_eq!((report.end, report.requeue), (End::Succeeded, Requeue::Never), "{report:?}");
        let expected = Counts {
            mutations: 5,
            sends: 3,
            scans: 3,
            // Only a statement that does not progress is diagnosed.
            backlogs: 0,
            exact_reads: 5,
            witnesses: 1,
            owner_reads: 0,
            // Admission, D-1, and one per statement.
            member_reads: 5,
            // Once, before the slot is taken.
            preflights: 1,
            // Begin, D-1, and two per statement (before and after the observation).
            slot_reads: 8,
        };
        assert_eq!(world.counts(), expected);
        let phases = ["PREPARED", "DISPATCHING", "RETIRE_DISPATCHING", "DROP_DISPATCHING", "COMPLETED"];
        assert_eq!(world.phases(), phases);
        assert_eq!(world.at(TARGET), vec![Some(NEW); members as usize]);
        for member in &world.lock().members {
            assert_eq!(member.tables.len(), 1, "only the target is left: {:?}", member.tables);
        }
        world.judge();
    }
}

// proves: G-5, H-1
#[test]
fn an_absent_target_costs_three_mutations_and_one_statement() {
    let world = World::new(2, false);
    let report = one(&world, &intent(), Default::default()).expect("no crash");
    assert_eq!(report.end, End::Succeeded, "{report:?}");
    let counts = world.counts();
    assert_eq!((counts.mutations, counts.sends, counts.scans, counts.witnesses), (3, 1, 1, 1));
    assert_eq!(world.phases(), ["PREPARED", "DISPATCHING", "COMPLETED"]);
    assert_eq!(world.at(TARGET), [Some(NEW), Some(NEW)]);
    assert_eq!(world.at(CANDIDATE), [None, None]);
}

// proves: H-2, A-2
#[test]
fn a_completed_operation_does_nothing_when_asked_again() {
    let world = World::new(2, true);
    until_quiet(&world, &intent());
    let before = world.counts();
    let again = one(&world, &intent(), Default::default()).expect("no crash");
    assert_eq!((again.end, again.requeue, again.findings), (End::Succeeded, Requeue::Never, vec![]));
    let after = world.counts();
    assert_eq!((after.mutations, after.sends, after.scans), (before.mutations, before.sends, before.scans));
    assert_eq!(world.phase(), Some(Phase::Completed));
}

/// Another object of the same invocation: it performs nothing, and says how every member is.
// proves: H-2
#[test]
fn asked_again_by_another_object_every_member_is_shown() {
    let world = World::new(2, true);
    until_quiet(&world, &intent());
    let before = world.counts();
    let mut again = intent();
    again.owner.uid = "another".into();
    let report = one(&world, &again, Default::default()).expect("no crash");
    let states: Vec<&str> = report.states.values().map(MemberState::as_str).collect();
    assert_eq!((report.end, states), (End::Succeeded, vec!["Cleaned", "Cleaned"]));
    assert_eq!((world.counts().mutations, world.counts().sends), (before.mutations, before.sends));
    assert_eq!(report.slot.map(|slot| slot.record.payload.owner.uid), Some("uid-1".into()));
}
