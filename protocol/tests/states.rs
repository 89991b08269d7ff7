//! F: the state of one member, for both kinds of target, from identities alone.
#![allow(clippy::panic)]

mod support;

use publication_protocol::generation::{GenerationIdentity, NotAGeneration, TableFact};
use publication_protocol::phase::Phase;
use publication_protocol::ports::{MembersAnswer, ReadFailure};
use publication_protocol::record::Record;
use publication_protocol::replica::{Found, MemberState, Mismatch, member_state, observe};
use std::collections::BTreeMap;
use support::build::{
    ALIEN, CANDIDATE, NEW, OLD, RETIRED, TARGET, answer, fact, generation, prepared, record_in, server,
};

type Places<'a> = &'a [(&'a str, Option<u64>)];

fn state(record: &Record, places: Places<'_>) -> MemberState {
    member_state(record, &answer(2, 1, places).tables)
}

fn unknown(record: &Record, places: Places<'_>) -> Mismatch {
    match state(record, places) {
        MemberState::Unknown(mismatch) => mismatch,
        other => panic!("{places:?}: {other:?}"),
    }
}

// proves: F, O01
#[test]
fn existing_target_every_placement_of_three_generations() {
    let record = record_in(Phase::RetirePending, 2);
    let kinds = [None, Some(OLD), Some(NEW), Some(ALIEN)];
    for target in kinds {
        for candidate in kinds {
            for retired in kinds {
                let expected = match (target, candidate, retired) {
                    (Some(OLD), Some(NEW), None) => Some(MemberState::Pending),
                    (Some(NEW), Some(OLD), None) => Some(MemberState::Committed),
                    (Some(NEW), None, Some(OLD)) => Some(MemberState::Retired(RETIRED.into())),
                    (Some(NEW), None, None) => Some(MemberState::Cleaned),
                    _ => None,
                };
                let places = [(TARGET, target), (CANDIDATE, candidate), (RETIRED, retired)];
                let found = state(&record, &places);
                match expected {
                    Some(expected) => assert_eq!(found, expected, "{places:?}"),
                    None => assert!(matches!(found, MemberState::Unknown(_)), "{places:?}: {found:?}"),
                }
            }
        }
    }
}

// proves: F, O01
#[test]
fn absent_target_every_placement() {
    let record = prepared(2, false);
    let kinds = [None, Some(OLD), Some(NEW), Some(ALIEN)];
    for target in kinds {
        for candidate in kinds {
            let found = state(&record, &[(TARGET, target), (CANDIDATE, candidate)]);
            match (target, candidate) {
                (None, Some(NEW)) => assert_eq!(found, MemberState::Pending),
                (Some(NEW), None) => assert_eq!(found, MemberState::Committed),
                _ => assert!(matches!(found, MemberState::Unknown(_)), "{target:?} {candidate:?}"),
            }
        }
    }
}

// proves: F, G-2
#[test]
fn a_mismatch_names_the_worst_place() {
    let record = record_in(Phase::RetirePending, 2);
    let at = |places: Places<'_>| {
        let mismatch = unknown(&record, places);
        (mismatch.name, mismatch.found)
    };
    let alien = [(TARGET, Some(NEW)), (CANDIDATE, Some(ALIEN)), (RETIRED, None)];
    assert_eq!(at(&alien), (CANDIDATE.into(), Found::Foreign));
    let misplaced = [(TARGET, Some(OLD)), (CANDIDATE, Some(OLD)), (RETIRED, None)];
    assert_eq!(at(&misplaced), (TARGET.into(), Found::Misplaced));
    let nothing = [(TARGET, None), (CANDIDATE, None), (RETIRED, None)];
    assert_eq!(at(&nothing), (TARGET.into(), Found::Nothing));
}

// proves: F, A-4
#[test]
fn a_table_that_is_printed_differently_is_text_drift_and_not_the_generation() {
    let record = record_in(Phase::Dispatching, 2);
    let mut tables = answer(2, 1, &[(TARGET, Some(OLD)), (CANDIDATE, Some(NEW))]).tables;
    let drifted = GenerationIdentity { schema_digest: generation(NEW).digest(), ..generation(NEW) };
    let shown = TableFact::Generation { identity: drifted, replica_name: "r1".into(), path_macros: vec![] };
    tables.insert(CANDIDATE.into(), shown);
    let expected = Mismatch { name: CANDIDATE.into(), found: Found::TextDrift };
    assert_eq!(member_state(&record, &tables), MemberState::Unknown(expected));
    tables.insert(CANDIDATE.into(), TableFact::Other(NotAGeneration::Engine("View".into())));
    let expected = Mismatch { name: CANDIDATE.into(), found: Found::NoGeneration };
    assert_eq!(member_state(&record, &tables), MemberState::Unknown(expected));
}

// proves: B-2, F
#[test]
fn a_name_that_was_not_answered_is_not_an_absent_table() {
    let record = record_in(Phase::RetirePending, 2);
    let mut tables: BTreeMap<String, TableFact> = BTreeMap::new();
    tables.insert(TARGET.into(), fact(NEW, 1));
    tables.insert(CANDIDATE.into(), TableFact::Absent);
    // With the retired name taken for absent this member would count as CLEANED.
    assert_eq!(member_state(&record, &tables), MemberState::Unobserved);
}

// proves: F, G-3
#[test]
fn two_tables_under_retired_names_are_unknown() {
    let record = support::build::dispatched(
        support::build::account(record_in(Phase::RetirePending, 2)),
        Phase::RetirePending,
        publication_protocol::identity::Action::Retire,
        CANDIDATE,
        Some("t__retired_0000000000000002"),
    );
    let second = "t__retired_0000000000000002";
    let places = |a, b| [(TARGET, Some(NEW)), (CANDIDATE, None), (RETIRED, a), (second, b)];
    assert_eq!(state(&record, &places(None, Some(OLD))), MemberState::Retired(second.into()));
    unknown(&record, &places(Some(OLD), Some(OLD)));
    unknown(&record, &places(Some(OLD), Some(NEW)));
}

// proves: F, B-2
#[test]
fn answers_are_attributed_by_identity_and_the_silent_are_unobserved() {
    let record = record_in(Phase::Dispatching, 2);
    let post = [(TARGET, Some(NEW)), (CANDIDATE, Some(OLD))];
    let mut members = MembersAnswer {
        members: vec![answer(2, 2, &post)],
        failures: vec![("h1:9000".into(), ReadFailure::Unavailable)],
    };
    let (states, drift) = observe(&record, &members);
    assert_eq!(states[&server(1)], MemberState::Unobserved);
    assert_eq!(states[&server(2)], MemberState::Committed);
    assert_eq!(drift, None);
    // The same server behind two endpoints (K09), a stranger, a changed view, nobody local (K07): drift.
    members.members.push(answer(2, 2, &post));
    assert!(observe(&record, &members).1.is_some_and(|d| d.0.contains("answers twice")));
    let one = |answer| observe(&record, &MembersAnswer { members: vec![answer], failures: vec![] }).1;
    assert!(one(answer(3, 3, &post)).is_some_and(|d| d.0.contains("is not a member")));
    let mut changed = answer(2, 1, &post);
    changed.view[1].host = "elsewhere".into();
    assert!(one(changed).is_some_and(|d| d.0.contains("another system.clusters")));
    let mut nobody = answer(2, 1, &post);
    nobody.view[0].is_local = false;
    assert!(one(nobody).is_some_and(|d| d.0.contains("its own row")));
}
