//! K13, K07: a statement that does not progress names who is waited for and why, in time, and is never sent again.
#![allow(clippy::panic)]

mod support;

use publication_protocol::admission::label;
use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::diagnose::{Stuck, StuckCause, diagnose, signs};
use publication_protocol::driver::{End, Memory, Report, Requeue};
use publication_protocol::limits::{MEMBERS_MAX, STATEMENT_EXPECTED_MS};
use publication_protocol::ports::{AuthorityRead, MembersAnswer, ReadFailure};
use publication_protocol::preflight::{Backlog, EntryState};
use std::collections::BTreeSet;
use support::build::{CANDIDATE, NEW, TARGET, admissible, entry_name, intent, inventory, member, server};
use support::run::{one, until_quiet};
use support::world::{Execution, Fault, World};

/// Our entry, in the tests of the judgement alone.
const OURS: u64 = 7;

fn row(number: u64, host: u32, state: EntryState, age_s: u64) -> Backlog {
    Backlog { entry: entry_name(number), host: format!("h{host}"), port: 9000, state, age_s }
}

fn read(members: u32) -> AuthorityRead {
    AuthorityRead { rows: (1..=members).map(|at| (server(at), None)).collect(), ..AuthorityRead::default() }
}

/// Of members 2 and later, in a cluster of `members`, that have not finished.
fn judged(
    members: u32,
    answer: &MembersAnswer,
    read: &AuthorityRead,
    rows: Option<&[Backlog]>,
) -> Option<Stuck> {
    let inventory = inventory(members);
    let unfinished: BTreeSet<_> = (2..=members).map(server).collect();
    let signs = signs(&inventory, answer, read);
    diagnose(&inventory, &entry_name(OURS), &unfinished, &signs, rows)
}

/// Causes of member 2 of 2, when the queue has these rows.
fn causes(rows: &[Backlog]) -> Vec<StuckCause> {
    let stuck = judged(2, &admissible(2), &read(2), Some(rows)).expect("somebody is waited for");
    assert_eq!(stuck.members.len(), 1, "the member that has finished is not named");
    assert_eq!(stuck.members[0].member, member(2));
    stuck.members[0].causes.clone()
}

fn with_sign(answer: &MembersAnswer, read: &AuthorityRead) -> Vec<StuckCause> {
    let rows = [row(OURS, 2, EntryState::Inactive, 20)];
    judged(2, answer, read, Some(&rows)).expect("stuck").members[0].causes.clone()
}

// proves: K13
#[test]
fn a_worker_that_takes_nothing_is_told_from_one_that_works() {
    assert_eq!(causes(&[row(OURS, 2, EntryState::Inactive, 20)]), [StuckCause::WorkerStopped]);
    assert_eq!(causes(&[row(OURS, 2, EntryState::Active, 20)]), [StuckCause::Running]);
    // What came later, or waits elsewhere, holds nothing up.
    let beside = [
        row(OURS, 2, EntryState::Inactive, 20),
        row(OURS + 1, 2, EntryState::Active, 5),
        row(OURS - 1, 1, EntryState::Active, 90),
        row(OURS - 1, 9, EntryState::Active, 90),
    ];
    assert_eq!(causes(&beside), [StuckCause::WorkerStopped]);
}

// proves: K13
#[test]
fn the_entry_that_comes_first_is_named_with_its_age_and_members() {
    let rows = [
        row(OURS, 2, EntryState::Inactive, 20),
        row(5, 2, EntryState::Inactive, 8_000),
        row(6, 2, EntryState::Active, 7_200),
        row(6, 1, EntryState::Inactive, 7_200),
        row(6, 9, EntryState::Active, 7_200),
    ];
    let found = causes(&rows);
    let [StuckCause::OlderEntry(older)] = found.as_slice() else { panic!("{found:?}") };
    // The running one, not the first in line.
    assert_eq!((older.entry.as_str(), older.here), (entry_name(6).as_str(), EntryState::Active));
    assert_eq!(older.unfinished, [(member(1), EntryState::Inactive), (member(2), EntryState::Active)]);
    let said = found[0].what();
    for part in ["query-0000000006", "over 1 h", "replica 1 Inactive", "replica 2 Active"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // Not begun either: the worker is named beside it.
    let idle = [row(OURS, 2, EntryState::Inactive, 20), row(5, 2, EntryState::Inactive, 30)];
    assert!(matches!(causes(&idle).as_slice(), [StuckCause::OlderEntry(_), StuckCause::WorkerStopped]));
}

// proves: K13
#[test]
fn an_age_moves_in_steps() {
    let said = |age_s| {
        let rows = [row(OURS, 2, EntryState::Inactive, 20), row(5, 2, EntryState::Active, age_s)];
        causes(&rows)[0].what()
    };
    assert_eq!(said(3_700), said(20_000));
    assert_ne!(said(59), said(60));
    assert!(said(u64::MAX).contains("over 7 d"));
}

// proves: K07, B-1
#[test]
fn a_host_that_is_not_local_is_named() {
    let lost = |answer: &mut MembersAnswer, local: &[u32]| {
        for row in &mut answer.members[1].view {
            row.is_local = local.contains(&row.replica);
        }
    };
    for local in [&[][..], &[1], &[1, 2]] {
        let mut answer = admissible(2);
        lost(&mut answer, local);
        assert_eq!(with_sign(&answer, &read(2)), [StuckCause::HostNotLocal], "{local:?}");
    }
}

// proves: K13, B-2, B-5, B-8
#[test]
fn a_member_that_is_not_well_is_named_with_what_it_lacks() {
    let health = |change: fn(&mut publication_protocol::ports::Health)| {
        let mut answer = admissible(2);
        change(answer.members[1].health.as_mut().expect("health"));
        with_sign(&answer, &read(2))
    };
    assert_eq!(health(|h| h.readonly = true), [StuckCause::ReadOnly]);
    // The missing session comes first: without one a replica is read-only.
    let expired = health(|h| {
        h.readonly = true;
        h.session_expired = true;
    });
    assert_eq!(expired, [StuckCause::KeeperUnreachable]);
    assert_eq!(health(|h| h.keeper_exception = true), [StuckCause::KeeperUnreachable]);
    // It answers, but reads nothing that lies in Keeper.
    let mut half = read(2);
    half.rows.pop();
    half.failures.push(("h2:8123".into(), ReadFailure::KeeperUnavailable));
    assert_eq!(with_sign(&admissible(2), &half), [StuckCause::KeeperUnreachable]);
    let mut hollow = half.clone();
    hollow.failures[0].1 = ReadFailure::NotActivated;
    assert_eq!(with_sign(&admissible(2), &hollow), [StuckCause::KeeperUnreachable]);
    let mut denied = half.clone();
    denied.failures[0].1 = ReadFailure::AccessDenied;
    assert_eq!(with_sign(&admissible(2), &denied), [StuckCause::WorkerStopped], "a right, not Keeper");
    let mut gone = admissible(2);
    gone.members.pop();
    assert_eq!(with_sign(&gone, &half), [StuckCause::Unreachable]);
    // What the queue knows is said beside it.
    let rows = [row(OURS, 2, EntryState::Inactive, 20), row(5, 2, EntryState::Active, 30)];
    let both = judged(2, &gone, &half, Some(&rows)).expect("stuck").members[0].causes.clone();
    assert!(matches!(both.as_slice(), [StuckCause::Unreachable, StuckCause::OlderEntry(_)]), "{both:?}");
}

// proves: K13, F-3
#[test]
fn a_queue_that_cannot_be_read_is_said_and_nobody_is_named_who_has_finished() {
    let stuck = judged(2, &admissible(2), &read(2), None).expect("stuck");
    assert_eq!(stuck.members[0].causes, [StuckCause::Unexplained]);
    assert_eq!(judged(2, &admissible(2), &read(2), Some(&[row(5, 2, EntryState::Active, 30)])), None);
}

// proves: K13, K29
#[test]
fn what_is_said_is_bounded_and_says_what_to_do() {
    let members = u32::try_from(MEMBERS_MAX).expect("small");
    let mut rows: Vec<Backlog> = (2..=members).map(|at| row(OURS, at, EntryState::Inactive, 20)).collect();
    rows.extend((1..=members).map(|at| row(5, at, EntryState::Inactive, 30)));
    let stuck = judged(members, &admissible(members), &read(members), Some(&rows)).expect("stuck");
    assert_eq!(stuck.members.len(), MEMBERS_MAX - 1);
    // As much as a condition takes.
    assert!(stuck.message().len() <= 1_024, "{}", stuck.message().len());
    assert!(
        stuck.message().contains("waits for 63 members: ") && stuck.message().contains(&label(&member(2)))
    );
    for waited in &stuck.members {
        assert!(waited.line().len() <= 256, "{}", waited.line());
        assert!(waited.causes.len() <= 3 && waited.line().contains("see what holds that entry up"));
    }
}

/// Passes over virtual time until somebody is told about, with the time from the dispatch until then.
fn until_told(world: &World, mut memory: Memory) -> (Report, u64) {
    let mut dispatched_ms = None;
    for _ in 0..64 {
        let report = one(world, &intent(), std::mem::take(&mut memory)).expect("no crash");
        let now_ms = world.lock().now.boot_ms;
        if !world.lock().queue.is_empty() {
            dispatched_ms.get_or_insert(now_ms);
        }
        if report.stuck.is_some() {
            return (report, now_ms - dispatched_ms.unwrap_or(now_ms));
        }
        match report.requeue {
            Requeue::Now => world.advance(1),
            Requeue::AfterMs(ms) => world.advance(ms),
            Requeue::Never => panic!("{report:?}"),
        }
        memory = report.memory.clone();
    }
    panic!("never told")
}

/// A statement that member 2 does not finish, with what is the matter in the world.
fn stuck_with(members: u32, matter: impl Fn(&World)) -> (World, Report) {
    let world = World::new(members, true);
    world.lock().execution = Execution::Manual;
    let mut memory = Memory::default();
    // Up to the dispatch and its first look, with nothing wrong.
    let first = one(&world, &intent(), std::mem::take(&mut memory)).expect("no crash");
    let (begun, at) = (world.counts(), world.lock().now.boot_ms);
    assert_eq!((begun.sends, begun.backlogs, first.stuck), (1, 0, None));
    for number in (1..=members).filter(|number| *number != 2) {
        world.lock().execute(0, number);
    }
    matter(&world);
    let (report, _) = until_told(&world, first.memory);
    let took = world.lock().now.boot_ms - at;
    assert!(took > STATEMENT_EXPECTED_MS, "told of as stuck after {took} ms");
    assert!(took <= STATEMENT_EXPECTED_MS + 15_000, "told of only after {took} ms");
    assert_eq!(world.counts().sends, 1, "nothing is sent again");
    assert_eq!(world.counts().mutations, begun.mutations + report.passed.len() as u32);
    (world, report)
}

fn named(report: &Report) -> Vec<(u32, &'static str)> {
    let stuck = report.stuck.as_ref().expect("stuck");
    let cause = |waited: &publication_protocol::diagnose::Waited| {
        (waited.member.replica, waited.causes.first().expect("a cause").as_str())
    };
    stuck.members.iter().map(cause).collect()
}

/// It goes on as soon as the member does, from the one statement.
fn resumes(world: &World) {
    world.lock().execution = Execution::AtOnce;
    world.lock().execute_all();
    let report = until_quiet(world, &intent());
    assert_eq!(report.end, End::Succeeded, "{report:?}");
    assert_eq!((world.publications(), world.counts().sends), (1, 3));
    assert_eq!(world.at(TARGET), vec![Some(NEW); world.lock().members.len()]);
    assert_eq!(world.at(CANDIDATE), vec![None; world.lock().members.len()]);
}

// proves: K13, F
#[test]
fn every_cause_is_named_within_15_s_and_nothing_is_sent_again() {
    type Matter = fn(&World);
    let matters: [(&str, Matter, Matter); 6] = [
        ("WorkerStopped", |_| {}, |_| {}),
        ("StatementRunning", |w| w.lock().members[1].begun = true, |_| {}),
        (
            "OlderEntry",
            |w| w.lock().foreign = vec![row(0, 2, EntryState::Active, 7_200)],
            |w| {
                w.lock().foreign.clear();
            },
        ),
        ("MemberReadOnly", |w| w.lock().members[1].readonly = true, |w| w.lock().members[1].readonly = false),
        ("KeeperUnreachable", |w| w.lock().members[1].keeper = false, |w| w.lock().members[1].keeper = true),
        ("MemberUnreachable", |w| w.lock().members[1].up = false, |w| w.lock().members[1].up = true),
    ];
    for members in [2, 3] {
        for (cause, matter, ends) in matters {
            let (world, report) = stuck_with(members, matter);
            assert_eq!(named(&report), [(2, cause)]);
            assert_eq!((report.end, report.class), (End::Waiting, Some(Classification::PartialInProgress)));
            assert_eq!(report.findings, [], "waiting is no error");
            let message = report.stuck.expect("stuck").message();
            assert!(message.contains(&entry_name(1)) && message.contains(&label(&member(2))), "{message}");
            ends(&world);
            resumes(&world);
        }
    }
}

// proves: K07, F
#[test]
fn a_member_that_no_longer_knows_itself_is_named_at_once() {
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    let first = one(&world, &intent(), Memory::default()).expect("no crash");
    world.lock().members[1].local = false;
    let report = one(&world, &intent(), first.memory).expect("no crash");
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    assert_eq!((report.end, finding.code), (End::Stalled, ErrorCode::OutcomeUnknown));
    let said = format!("{} no longer takes exactly its own row as local", label(&member(2)));
    assert!(finding.message.contains(&said), "{finding:?}");
    // A later look says it by cause as well.
    world.advance(STATEMENT_EXPECTED_MS + 1);
    let report = one(&world, &intent(), report.memory).expect("no crash");
    assert_eq!(named(&report), [(1, "WorkerStopped"), (2, "HostNotLocal")]);
    assert_eq!(world.counts().sends, 1);
    world.lock().members[1].local = true;
    resumes(&world);
}

// proves: K13
#[test]
fn a_statement_of_the_cleanup_is_told_of_as_well() {
    let world = World::new(2, true);
    world.lock().execution = Execution::Manual;
    let first = one(&world, &intent(), Memory::default()).expect("no crash");
    world.lock().execute_all();
    let retired = one(&world, &intent(), first.memory).expect("no crash");
    assert_eq!((world.entries("retire"), retired.class), (1, Some(Classification::Cleanup)));
    world.lock().execute(1, 1);
    let (report, took) = until_told(&world, retired.memory);
    assert!(took <= STATEMENT_EXPECTED_MS + 15_000, "{took}");
    assert_eq!((named(&report), world.counts().sends), (vec![(2, "WorkerStopped")], 2));
    resumes(&world);
}

// proves: K13, F-2
#[test]
fn a_new_worker_tells_it_again_from_the_same_record() {
    let (world, before) = stuck_with(2, |_| {});
    let (after, took) = until_told(&world, Memory::default());
    assert_eq!(before.stuck, after.stuck);
    assert!(took <= STATEMENT_EXPECTED_MS + 15_000, "{took}");
    assert_eq!(world.counts().sends, 1);
    resumes(&world);
}

// proves: K13
#[test]
fn the_extra_read_is_one_a_look_decides_nothing_and_its_loss_is_said() {
    let (world, report) = stuck_with(2, |_| {});
    let before = world.counts();
    assert_eq!(before.backlogs, 1);
    // The same look, its diagnosis lost.
    let look = ["read_all", "scan", "members", "read_all", "backlog"];
    let calls = world.lock().trace.len();
    assert_eq!(world.lock().trace[calls - look.len()..], look);
    world.lock().faults.insert((calls + look.len() - 1) as u32, Fault::LostBefore);
    let again = one(&world, &intent(), report.memory.clone()).expect("no crash");
    assert_eq!(named(&again), [(2, "NotProgressing")]);
    assert_eq!((again.end, again.class, &again.findings), (report.end, report.class, &report.findings));
    let after = world.counts();
    assert_eq!((after.scans, after.backlogs, after.sends), (before.scans + 1, before.backlogs, before.sends));
    resumes(&world);
}
