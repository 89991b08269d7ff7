//! H-1: the whole matrix, from x to x actor, against an explicit list.

use publication_protocol::phase::{Actor, Edge, Phase, edge};

use publication_protocol::phase::Phase::{
    Abandoned, Committed, Completed, Dispatching, DropDispatching, DropPending, InProgress, Prepared,
    Released, RetireDispatching, RetirePending,
};

const OWN: &[(Phase, Phase, Edge)] = &[
    (Prepared, Dispatching, Edge::Dispatch),
    (Prepared, Released, Edge::Release),
    (Dispatching, Released, Edge::NotSent),
    (Dispatching, Dispatching, Edge::Advance),
    (Dispatching, InProgress, Edge::Advance),
    (Dispatching, Committed, Edge::Advance),
    (Dispatching, RetireDispatching, Edge::Dispatch),
    (Dispatching, Completed, Edge::Advance),
    (InProgress, InProgress, Edge::Advance),
    (InProgress, Committed, Edge::Advance),
    (InProgress, RetireDispatching, Edge::Dispatch),
    (InProgress, Completed, Edge::Advance),
    (Committed, Committed, Edge::Advance),
    (Committed, RetireDispatching, Edge::Dispatch),
    (Committed, DropDispatching, Edge::Dispatch),
    (Committed, Completed, Edge::Advance),
    (RetireDispatching, RetireDispatching, Edge::Dispatch),
    (RetireDispatching, RetirePending, Edge::Advance),
    (RetireDispatching, DropDispatching, Edge::Dispatch),
    (RetireDispatching, Completed, Edge::Advance),
    (RetirePending, RetireDispatching, Edge::Dispatch),
    (RetirePending, RetirePending, Edge::Advance),
    (RetirePending, DropDispatching, Edge::Dispatch),
    (RetirePending, Completed, Edge::Advance),
    (DropDispatching, RetireDispatching, Edge::Dispatch),
    (DropDispatching, DropDispatching, Edge::Dispatch),
    (DropDispatching, DropPending, Edge::Advance),
    (DropDispatching, Completed, Edge::Advance),
    (DropPending, RetireDispatching, Edge::Dispatch),
    (DropPending, DropDispatching, Edge::Dispatch),
    (DropPending, DropPending, Edge::Advance),
    (DropPending, Completed, Edge::Advance),
];

const TAKERS: &[Phase] = &[Prepared, Completed, Released, Abandoned];

const UNDER_WAY: &[Phase] =
    &[Dispatching, InProgress, Committed, RetireDispatching, RetirePending, DropDispatching, DropPending];

fn expected(actor: Actor, from: Phase, to: Phase) -> Option<Edge> {
    match actor {
        Actor::Own => OWN.iter().find(|(f, t, _)| (*f, *t) == (from, to)).map(|(_, _, edge)| *edge),
        Actor::Taker => (TAKERS.contains(&from) && to == Prepared).then_some(Edge::TakeOver),
        Actor::Verdict => {
            let ends = UNDER_WAY.contains(&from) && [Completed, Abandoned].contains(&to);
            let releases = (from, to) == (Prepared, Released);
            (ends || releases || from == to).then_some(Edge::Verdict)
        }
    }
}

// proves: H-1, C-8, H-3, C-10, C-11, C-12
#[test]
fn the_whole_matrix() {
    let mut allowed = 0;
    for actor in [Actor::Own, Actor::Taker, Actor::Verdict] {
        for from in Phase::ALL {
            for to in Phase::ALL {
                let found = edge(actor, from, to);
                assert_eq!(found, expected(actor, from, to), "{actor:?} {from} -> {to}");
                allowed += u32::from(found.is_some());
            }
        }
    }
    assert_eq!(allowed, 32 + 4 + 7 * 2 + 1 + 11);
}

// proves: H-1, C-6
#[test]
fn the_publication_is_dispatched_from_prepared_and_from_nowhere_else() {
    for actor in [Actor::Own, Actor::Taker, Actor::Verdict] {
        for from in Phase::ALL {
            let dispatches = edge(actor, from, Dispatching) == Some(Edge::Dispatch);
            assert_eq!(dispatches, actor == Actor::Own && from == Prepared, "{actor:?} {from}");
        }
    }
    // Final phases are left by a taker only, and a verdict never dispatches.
    for from in [Completed, Released, Abandoned] {
        assert!(Phase::ALL.iter().all(|to| edge(Actor::Own, from, *to).is_none()), "{from}");
    }
    let verdicts = Phase::ALL.iter().flat_map(|f| Phase::ALL.iter().map(|t| edge(Actor::Verdict, *f, *t)));
    assert!(verdicts.flatten().all(|edge| edge == Edge::Verdict));
}

// proves: H-1
#[test]
fn phases_are_read_as_they_are_written() {
    for phase in Phase::ALL {
        assert_eq!(Phase::parse(phase.as_str()), Some(phase));
        let json = serde_json::to_string(&phase).expect("serialises");
        assert_eq!(json, format!("\"{phase}\""));
    }
    for text in ["", "prepared", "PREPARED ", "UNKNOWN"] {
        assert_eq!(Phase::parse(text), None, "{text}");
    }
}
