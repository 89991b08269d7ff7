//! B, C-8: what `plan` shows is what a pass does before its first write.
#![allow(clippy::panic)]

mod support;

use publication_protocol::admission::{Finding, Severity};
use publication_protocol::authority::Mutation;
use publication_protocol::driver::{Call, Driver, Input, Memory, Report, Standing, Tick, review};
use publication_protocol::facade::{FacadeBinding, FacadeSeen};
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use publication_protocol::phase::Phase;
use publication_protocol::ports::{AuthorityRead, MembersAnswer, ReadFailure};
use publication_protocol::preflight::{Policy, PreflightAnswer};
use publication_protocol::record::{Ending, Recent, Record, VersionedRow};
use support::build::{
    CANDIDATE, TARGET, admissible, intent, intent_of, inventory, names, now, random, record_in, root, server,
};
use support::facts::unobstructed;

/// What a pass comes to by reading alone.
enum First {
    /// It would write PREPARED.
    Takes,
    /// It ends without a write.
    Ends(Box<Report>),
    /// It is about an operation that is under way.
    Observes,
}

fn first(
    intent: &Intent,
    read: &AuthorityRead,
    gone: Option<bool>,
    members: &MembersAnswer,
    preflight: &PreflightAnswer,
) -> First {
    let mut driver = Driver::new(intent.clone(), Memory::default());
    let mut input = Input::Begin;
    loop {
        let tick = Tick { now: now(1), random: random(1), stopping: false };
        input = match driver.next(input, &tick) {
            Call::ReadSlot(_) => Input::Slot(read.clone()),
            Call::Members(_) => Input::Members(members.clone()),
            Call::Preflight(_) => Input::Preflight(preflight.clone()),
            Call::OwnerGone(_) => Input::OwnerGone(gone),
            Call::Mutate(_, Mutation::Insert(row) | Mutation::Update { row, .. }) => {
                return if row.phase == Phase::Prepared.as_str() { First::Takes } else { First::Observes };
            }
            Call::Finish(report) => return First::Ends(report),
            _ => return First::Observes,
        };
    }
}

fn slot(record: Option<&Record>) -> AuthorityRead {
    let row = record.map(|record| VersionedRow { row: record.encode(), version: 7 });
    let facade = |n| (server(n), FacadeSeen::of("publication", root(), &inventory(2)));
    AuthorityRead {
        rows: vec![(server(1), row.clone()), (server(2), row)],
        facades: vec![facade(1), facade(2)],
        failures: vec![],
    }
}

fn slots() -> Vec<AuthorityRead> {
    let mut slots: Vec<AuthorityRead> = vec![slot(None)];
    slots.extend(Phase::ALL.iter().map(|phase| slot(Some(&record_in(*phase, 2)))));
    for ending in [Ending::Completed, Ending::Released, Ending::Abandoned] {
        let mut over = record_in(Phase::Released, 2);
        over.operation = intent_of("uid-3", names()).operation;
        over.payload.recent.push(Recent {
            operation: intent().operation,
            candidate: "t__pub_0".into(),
            ending,
            desired: over.payload.desired.digest(),
            kube_uid: "kube-1".into(),
            created_ms: 5_000,
            final_version: 3,
            receipt: None,
        });
        slots.push(slot(Some(&over)));
    }
    slots.extend(wrong_facades());
    let mut unread = slot(None);
    unread.failures.push((String::from("h2:8443"), ReadFailure::Unavailable));
    let mut malformed = slot(Some(&record_in(Phase::Completed, 2)));
    for (_, row) in &mut malformed.rows {
        if let Some(row) = row {
            row.row.payload.push(' ');
        }
    }
    let mut differing = slot(Some(&record_in(Phase::Completed, 2)));
    differing.rows[1].1 = None;
    slots.extend([unread, malformed, differing]);
    slots
}

/// B-5: made anew, bound to others, not bound, or not the same everywhere.
fn wrong_facades() -> Vec<AuthorityRead> {
    let mut other_root = slot(None);
    other_root.facades[1].1 = FacadeSeen::of("publication", RootId::draw(&random(3)), &inventory(2));
    let mut differing = slot(None);
    differing.facades[1].1.binding = None;
    let mut hidden = slot(None);
    hidden.facades[0].1.table = None;
    let everywhere = |binding: Option<FacadeBinding>| {
        let mut read = slot(None);
        for (_, seen) in &mut read.facades {
            seen.binding = binding.as_ref().map(|b| VersionedRow { row: b.encode(), version: 3 });
        }
        read
    };
    let bound = FacadeBinding::of(&inventory(2));
    let elsewhere = FacadeBinding { cluster: "other".into(), ..bound };
    let others = FacadeBinding::of(&inventory(3));
    vec![
        other_root,
        differing,
        hidden,
        everywhere(None),
        everywhere(Some(elsewhere)),
        everywhere(Some(others)),
    ]
}

fn members() -> Vec<MembersAnswer> {
    let mut missing = admissible(2);
    missing.members[1].tables.insert(CANDIDATE.into(), publication_protocol::generation::TableFact::Absent);
    let mut unhealthy = admissible(2);
    unhealthy.members[0].health.as_mut().expect("health").queue_size = 3;
    let mut counts = admissible(2);
    counts.members[1].count = Some(9);
    let silent =
        MembersAnswer { members: vec![], failures: vec![("h1:8443".into(), ReadFailure::Unavailable)] };
    let absent_target = {
        let mut answer = admissible(2);
        for member in &mut answer.members {
            member.tables.insert(TARGET.into(), publication_protocol::generation::TableFact::Absent);
        }
        answer
    };
    vec![admissible(2), missing, unhealthy, counts, silent, absent_target]
}

/// With what preflight answers: mostly nothing in the way.
fn seen() -> Vec<(MembersAnswer, PreflightAnswer)> {
    let with = |target: bool| move |answer: MembersAnswer| (answer, unobstructed(2, target));
    let mut members = members();
    let absent_target = members.pop();
    let mut seen: Vec<_> = members.into_iter().map(with(true)).collect();
    seen.extend(absent_target.map(with(false)));
    let mut depended_on = unobstructed(2, true);
    depended_on.members[0].policies.push(Policy { name: "p".into(), table: TARGET.into() });
    let mut warned = unobstructed(2, true);
    warned.members[1].server_version = "25.9".into();
    let silent = PreflightAnswer { members: vec![], ..unobstructed(2, true) };
    seen.extend([depended_on, warned, silent].map(|facts| (admissible(2), facts)));
    seen
}

// proves: B-7, B-8, B-9, C-8, C-9, C-10, C-11, C-13, H-2
#[test]
fn a_review_says_what_a_pass_does() {
    let mut taken = 0;
    let expired = Intent { deadline_passed: true, ..intent_of("uid-2", names()) };
    for intent in [intent(), intent_of("uid-2", names()), expired] {
        for read in slots() {
            for gone in [None, Some(false), Some(true)] {
                for (answer, facts) in seen() {
                    let shown = review(&intent, &read, gone, &answer, Some(&facts));
                    let stands = |f: &Finding| f.severity > Severity::Warn;
                    let clear = shown.standing == Standing::Free && !shown.findings.iter().any(stands);
                    match first(&intent, &read, gone, &answer, &facts) {
                        First::Takes => {
                            assert!(clear && shown.bound.is_some(), "{shown:?}");
                            taken += 1;
                        }
                        // Status, not admission, tells of what is under way.
                        First::Ends(_) | First::Observes if shown.standing == Standing::UnderWay => {}
                        First::Ends(report) => {
                            assert!(!clear, "{report:?} although {shown:?}");
                            for finding in &report.findings {
                                assert!(shown.findings.contains(finding), "{finding:?} not in {shown:?}");
                            }
                        }
                        First::Observes => assert!(!clear, "{shown:?}"),
                    }
                }
            }
        }
    }
    assert!(taken > 8, "{taken} admissible combinations");
}

// proves: B-7
#[test]
fn a_review_gives_all_findings_at_once() {
    let held = slot(Some(&record_in(Phase::InProgress, 2)));
    let mut answer = admissible(2);
    answer.members[1].tables.insert(CANDIDATE.into(), publication_protocol::generation::TableFact::Absent);
    let shown = review(&intent_of("uid-2", names()), &held, None, &answer, None);
    let rules: Vec<&str> = shown.findings.iter().map(|f| f.rule).collect();
    assert_eq!((shown.standing, rules), (Standing::Held, vec!["B-7", "C-8"]));
    assert_eq!(shown.findings[0].code.as_str(), "CANDIDATE_INVALID");
}
