//! J: what a late statement can do after a verdict: nothing.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::phase::Phase;
use publication_protocol::verdict::Decision;
use support::build::{CANDIDATE, NEW, OLD, TARGET, intent};
use support::verdicts::{
    PRIVATE, applied, arrives_late, decide, held_up, make_private, rename_on, rename_on_cluster,
    swap_with_private, until_send,
};
use support::world::World;

/// EXCHANGE was to be sent, and never left.
fn unknown(existing: bool) -> (World, (String, publication_protocol::sqltext::Statement)) {
    let world = World::new(2, existing);
    let statement = until_send(&world, &intent(), 1);
    assert_eq!(world.phase(), Some(Phase::Dispatching));
    (world, statement)
}

// proves: J-1, J-2, K23
#[test]
fn a_late_exchange_undoes_no_verdict() {
    for decision in [Decision::NotApplied, Decision::Committed] {
        let (world, statement) = unknown(true);
        make_private(&world);
        let wanted = if decision == Decision::Committed { NEW } else { OLD };
        if decision == Decision::Committed {
            swap_with_private(&world, 0);
            swap_with_private(&world, 1);
        }
        let slot = applied(decide(&world, decision));
        assert_eq!(slot.record.fences().len(), 1, "not accounted for");
        arrives_late(&world, &statement);
        assert_eq!(world.at(TARGET), vec![Some(wanted), Some(wanted)]);
        world.judge();
        // The fence stays, so nobody can give the statement something to move.
        held_up(decide(&world, Decision::NameCleared("t__pub_7".into())), "J-3");
        assert_eq!(world.record().unwrap().fences()[0].name, CANDIDATE);
    }
}

// proves: J-1, J-2
#[test]
fn a_late_rename_to_an_absent_target_undoes_no_verdict() {
    for decision in [Decision::NotApplied, Decision::Committed] {
        let (world, statement) = unknown(false);
        make_private(&world);
        let committed = decision == Decision::Committed;
        if committed {
            rename_on(&world, 0, PRIVATE, TARGET);
            rename_on(&world, 1, PRIVATE, TARGET);
        }
        applied(decide(&world, decision));
        arrives_late(&world, &statement);
        assert_eq!(world.at(TARGET), vec![committed.then_some(NEW); 2]);
        world.judge();
    }
}

// proves: J-1, J-2, G-3
#[test]
fn a_late_retire_or_drop_undoes_no_verdict() {
    for nth in [2, 3] {
        let world = World::new(2, true);
        let statement = until_send(&world, &intent(), nth);
        let bears = if nth == 2 {
            CANDIDATE.to_owned()
        } else {
            world.record().unwrap().retired_names().next().unwrap().0.to_owned()
        };
        assert!(held_up(decide(&world, Decision::Committed), "J-2").contains(&bears));
        rename_on_cluster(&world, &bears, PRIVATE);
        assert!(held_up(decide(&world, Decision::NotApplied), "J-2").contains("revert"));
        let slot = applied(decide(&world, Decision::Committed));
        assert_eq!(slot.record.fences()[0].name, bears);
        arrives_late(&world, &statement);
        assert_eq!(world.at(TARGET), vec![Some(NEW), Some(NEW)]);
        assert_eq!(world.at(PRIVATE), vec![Some(OLD), Some(OLD)], "the predecessor is the person's");
        world.judge();
    }
}
