//! B, C-9: every answer of members and every record that no publication may be built on, with its exact code and
//! words (the snapshots); and each of them costs reads alone, ever fewer.
#![allow(clippy::panic, clippy::semicolon_if_nothing_returned)]

mod support;

use publication_protocol::admission::Severity;
use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, End, Input, Memory, Requeue};
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::limits::{MEMBERS_MAX, RECORD_BYTES_MAX};
use publication_protocol::phase::Phase;
use publication_protocol::ports::{MemberAnswer, MembersAnswer, ReadFailure};
use publication_protocol::preflight::{Policy, PreflightAnswer};
use publication_protocol::record::{RawRow, VersionedRow};
use support::build::{CANDIDATE, OLD, TARGET, admissible, fact, intent, record_in, server, view};
use support::stepper::Stepper;
use support::world::World;

type Change = fn(&mut MembersAnswer);
type BadInput = (&'static str, ErrorCode, Change);

const PASSES: u32 = 8;

/// Passes over a world that answers so, each later than the last; what the object says, which never changes.
fn told(world: &World, name: &str, code: ErrorCode, answer: Option<&MembersAnswer>) -> String {
    let mut memory = Memory::default();
    let (mut said, mut waited_ms) = (Vec::new(), 0);
    for pass in 1..=PASSES {
        let mut stepper = Stepper::with(world, &intent(), memory);
        let interesting = |call: &Call| matches!(call, Call::Members(_) | Call::Finish(_));
        let report = match (stepper.until(Input::Begin, interesting), answer) {
            (Call::Finish(report), _) => *report,
            (_, Some(answer)) => stepper.finish(Input::Members(as_it_comes(answer, pass))),
            (call, None) => panic!("{name}: {call:?}"),
        };
        let blocked = report.findings.iter().any(|f| f.severity == Severity::Block);
        assert_eq!(report.end == End::Stalled, blocked, "{name}: {report:?}");
        assert_eq!(report.findings[0].code, code, "{name}: {:?}", report.findings);
        assert!(report.slot.is_none() && report.passed.is_empty(), "{name}");
        let Requeue::AfterMs(ms) = report.requeue else { panic!("{name}: {:?}", report.requeue) };
        assert!(ms >= 200, "{name}: pass {pass} is followed after {ms} ms");
        waited_ms += ms;
        said.push(report.findings);
        memory = report.memory;
    }
    assert!(waited_ms >= 30_000, "{name}: {PASSES} passes within {waited_ms} ms");
    assert!(said.windows(2).all(|two| two[0] == two[1]), "{name}: {said:?}");
    let counts = world.counts();
    assert_eq!((counts.mutations, counts.sends, counts.witnesses), (0, 0, 0), "{name}");
    let lines = said[0].iter().map(|f| format!("  {:?} {} ({}) {}\n", f.severity, f.code, f.rule, f.message));
    format!("{name}\n{}", lines.collect::<String>())
}

/// Rows of several servers come in any order.
fn as_it_comes(answer: &MembersAnswer, pass: u32) -> MembersAnswer {
    let mut answer = answer.clone();
    if pass.is_multiple_of(2) {
        answer.members.reverse();
        each(&mut answer, |m| m.view.reverse());
    }
    answer
}

fn all(inputs: &[BadInput]) -> String {
    let one = |(name, code, change): &BadInput| {
        let mut answer = admissible(2);
        change(&mut answer);
        told(&World::new(2, true), name, *code, Some(&answer))
    };
    inputs.iter().map(one).collect()
}

fn each(answer: &mut MembersAnswer, change: impl Fn(&mut MemberAnswer)) {
    answer.members.iter_mut().for_each(change);
}

fn second(answer: &mut MembersAnswer) -> &mut MemberAnswer {
    &mut answer.members[1]
}

// proves: B-1, B-2, K07, K08, K09
#[test]
fn clusters() {
    use ErrorCode::{AccessDenied, EndpointUnavailable, IncompleteInventory, UnsupportedTopology};
    let said = all(&[
        ("no such cluster", UnsupportedTopology, |a| each(a, |m| m.view.clear())),
        ("two shards", UnsupportedTopology, |a| each(a, |m| m.view[1].shard = 2)),
        ("one replica", UnsupportedTopology, |a| each(a, |m| m.view.truncate(1))),
        ("too many replicas", UnsupportedTopology, |a| {
            each(a, |m| m.view = view(MEMBERS_MAX as u32 + 1, 1));
        }),
        ("a host twice", UnsupportedTopology, |a| each(a, |m| m.view[1].host = "h1".into())),
        ("a replica number twice", UnsupportedTopology, |a| each(a, |m| m.view[1].replica = 1)),
        ("internal_replication off", UnsupportedTopology, |a| {
            each(a, |m| m.view[1].internal_replication = Some(false));
        }),
        ("internal_replication not shown", UnsupportedTopology, |a| {
            each(a, |m| m.view[1].internal_replication = None);
        }),
        ("a member has another view", IncompleteInventory, |a| second(a).view[0].port = 9440),
        ("a member knows nothing of the cluster", IncompleteInventory, |a| second(a).view.clear()),
        ("a member is not local to itself", IncompleteInventory, |a| second(a).view[1].is_local = false),
        ("a member is local twice", IncompleteInventory, |a| second(a).view[0].is_local = true),
        ("both members take one row", IncompleteInventory, |a| second(a).view = view(2, 1)),
        ("one server twice", IncompleteInventory, |a| second(a).server_uuid = server(1)),
        ("a member is missing", IncompleteInventory, |a| drop(a.members.pop())),
        ("a load balancer", IncompleteInventory, |a| fails(a, ReadFailure::WrongServer)),
        ("an endpoint does not answer", EndpointUnavailable, |a| fails(a, ReadFailure::Unavailable)),
        ("an endpoint answers garbage", EndpointUnavailable, |a| fails(a, ReadFailure::Malformed)),
        ("a password is refused", AccessDenied, |a| fails(a, ReadFailure::Credentials)),
        ("a read is refused", AccessDenied, |a| fails(a, ReadFailure::AccessDenied)),
    ]);
    insta::assert_snapshot!(said);
}

fn fails(answer: &mut MembersAnswer, failure: ReadFailure) {
    answer.members.pop();
    answer.failures.push(("h2:8443".into(), failure));
}

// proves: B-3, K18
#[test]
fn databases() {
    use ErrorCode::TargetInvalid;
    let said = all(&[
        ("missing", TargetInvalid, |a| each(a, |m| m.database_engine = None)),
        ("missing on one member", TargetInvalid, |a| second(a).database_engine = None),
        ("Ordinary", TargetInvalid, |a| each(a, |m| m.database_engine = Some("Ordinary".into()))),
        ("Replicated", TargetInvalid, |a| each(a, |m| m.database_engine = Some("Replicated".into()))),
        ("differs", TargetInvalid, |a| second(a).database_engine = Some("Replicated".into())),
    ]);
    insta::assert_snapshot!(said);
}

// proves: B-7, K18
#[test]
fn kinds_of_objects() {
    let mut said = String::new();
    for kind in ["View", "MaterializedView", "Distributed", "MergeTree", "Dictionary"] {
        for (name, code) in [(TARGET, ErrorCode::TargetInvalid), (CANDIDATE, ErrorCode::CandidateInvalid)] {
            let mut answer = admissible(2);
            let engine = TableFact::Other(NotAGeneration::Engine(kind.into()));
            each(&mut answer, |m| drop(m.tables.insert(name.into(), engine.clone())));
            said += &told(&World::new(2, true), &format!("{name} is a {kind}"), code, Some(&answer));
        }
    }
    insta::assert_snapshot!(said);
}

fn put(member: &mut MemberAnswer, name: &str, fact: TableFact) {
    member.tables.insert(name.into(), fact);
}

fn put_each(answer: &mut MembersAnswer, name: &str, generation: u64) {
    for (at, member) in (1..).zip(&mut answer.members) {
        put(member, name, fact(generation, at));
    }
}

fn spoilt(answer: &mut MembersAnswer, name: &str, spoil: fn(&mut String, &mut String, &mut Vec<String>)) {
    each(answer, |m| {
        let Some(TableFact::Generation { identity, replica_name, path_macros }) = m.tables.get_mut(name)
        else {
            panic!("a generation");
        };
        spoil(&mut identity.zookeeper_path, replica_name, path_macros);
    });
}

// proves: B-7, K04, K18, K27
#[test]
fn generations() {
    use ErrorCode::{CandidateInvalid, EndpointUnavailable, TargetInvalid};
    let said = all(&[
        ("the candidate is the target", CandidateInvalid, |a| put_each(a, CANDIDATE, OLD)),
        ("no candidate", CandidateInvalid, |a| each(a, |m| put(m, CANDIDATE, TableFact::Absent))),
        ("no candidate on one member", CandidateInvalid, |a| put(second(a), CANDIDATE, TableFact::Absent)),
        ("no target on one member", TargetInvalid, |a| put(second(a), TARGET, TableFact::Absent)),
        ("another candidate on one member", CandidateInvalid, |a| put(second(a), CANDIDATE, fact(7, 2))),
        ("another target on one member", TargetInvalid, |a| put(second(a), TARGET, fact(7, 2))),
        ("the target's path", CandidateInvalid, |a| {
            spoilt(a, CANDIDATE, |path, _, _| *path = "/clickhouse/tables/1".into());
        }),
        ("one replica name", CandidateInvalid, |a| spoilt(a, CANDIDATE, |_, name, _| *name = "r1".into())),
        ("the candidate's path follows its name", CandidateInvalid, |a| {
            spoilt(a, CANDIDATE, |_, _, macros| macros.push("{table}".into()));
        }),
        ("the target's path follows its database", TargetInvalid, |a| {
            spoilt(a, TARGET, |_, _, macros| macros.push("{database}".into()));
        }),
        ("a definition that cannot be read", CandidateInvalid, |a| {
            put(second(a), CANDIDATE, TableFact::Other(NotAGeneration::Unparseable));
        }),
        ("a table without UUID", TargetInvalid, |a| {
            put(second(a), TARGET, TableFact::Other(NotAGeneration::NoUuid));
        }),
        ("a table without replica", TargetInvalid, |a| {
            put(second(a), TARGET, TableFact::Other(NotAGeneration::NotInReplicas));
        }),
        ("a name that was not answered", EndpointUnavailable, |a| drop(second(a).tables.remove(TARGET))),
    ]);
    insta::assert_snapshot!(said);
}

// proves: B-8, K25
#[test]
fn health_and_rows() {
    use ErrorCode::{CandidateNotConverged, RowCountMismatch};
    fn health(answer: &mut MembersAnswer, spoil: fn(&mut publication_protocol::ports::Health)) {
        second(answer).health.iter_mut().for_each(spoil);
    }
    let said = all(&[
        ("queue", CandidateNotConverged, |a| health(a, |h| h.queue_size = 3)),
        ("readonly", CandidateNotConverged, |a| health(a, |h| h.readonly = true)),
        ("session", CandidateNotConverged, |a| health(a, |h| h.session_expired = true)),
        ("lost part", CandidateNotConverged, |a| health(a, |h| h.lost_parts = 1)),
        ("parts to check", CandidateNotConverged, |a| health(a, |h| h.parts_to_check = 2)),
        ("inactive replica", CandidateNotConverged, |a| health(a, |h| h.active_replicas = 1)),
        ("log pointer", CandidateNotConverged, |a| health(a, |h| h.log_pointer = 4)),
        ("mutation", CandidateNotConverged, |a| health(a, |h| h.unfinished_mutations = 1)),
        ("not read", CandidateNotConverged, |a| second(a).health = None),
        ("too few rows", RowCountMismatch, |a| each(a, |m| m.count = Some(9))),
        ("other rows on one member", RowCountMismatch, |a| second(a).count = Some(11)),
    ]);
    insta::assert_snapshot!(said);
}

/// The payload changed by whoever, with a digest that fits again.
fn resealed(row: &mut RawRow, from: &str, to: &str) {
    assert!(row.payload.contains(from), "{from}");
    row.payload = row.payload.replacen(from, to, 1);
    row.payload_sha256 = Digest::of_bytes(row.payload.as_bytes()).to_string();
}

// proves: C-9
#[test]
fn records() {
    type Spoil = fn(&mut RawRow);
    let inputs: [(&str, Spoil); 9] = [
        ("a digest that is not the payload's", |row| row.payload_sha256 = "0".repeat(64)),
        ("a payload that was changed", |row| row.payload.push(' ')),
        ("no JSON", |row| resealed(row, "{", "")),
        ("a newer schema", |row| resealed(row, "\"schema\":1", "\"schema\":2")),
        ("no schema", |row| resealed(row, "\"schema\":1,", "")),
        ("a field too many", |row| resealed(row, "\"rowCount\":10", "\"rowCount\":10,\"more\":1")),
        ("rows below zero", |row| resealed(row, "\"rowCount\":10", "\"rowCount\":-1")),
        ("too long", |row| {
            row.payload = " ".repeat(RECORD_BYTES_MAX + 1);
            row.payload_sha256 = Digest::of_bytes(row.payload.as_bytes()).to_string();
        }),
        ("a phase that is none", |row| row.phase = "DONE".into()),
    ];
    let mut said = String::new();
    for (name, spoil) in inputs {
        let mut row = record_in(Phase::Completed, 2).encode();
        spoil(&mut row);
        let world = World::new(2, true);
        world.lock().slot.push(VersionedRow { row: row.clone(), version: 0 });
        said += &told(&world, name, ErrorCode::AuthorityMalformed, None);
        assert_eq!(world.lock().slot[0].row, row, "never overwritten");
    }
    insta::assert_snapshot!(said);
}

// proves: B-9, B-7
#[test]
fn the_order_of_answers_changes_no_word_of_preflight() {
    let table = |name: &str| support::facts::table("an", name);
    let obstacles = |answer: &mut PreflightAnswer| {
        for facts in &mut answer.members {
            facts.policies = ["b", "a"].map(|p| Policy { name: p.into(), table: TARGET.into() }).to_vec();
            facts.same_path.extend(["t2", "t1"].map(table));
            facts.grants.clear();
            facts.tables.iter_mut().for_each(|t| t.bytes = 60_000);
            for set in &mut facts.replicas {
                set.names.extend(["r9", "r8"].map(str::to_owned));
            }
        }
        answer.members[1].server_version = "25.9".into();
    };
    let turned = |answer: &mut PreflightAnswer| {
        obstacles(answer);
        answer.members.reverse();
        for facts in &mut answer.members {
            facts.policies.reverse();
            facts.same_path.reverse();
            facts.tables.reverse();
            facts.replicas.iter_mut().for_each(|set| set.names.reverse());
        }
    };
    let said = support::facts::judged(true, &[], obstacles);
    assert!(said.len() > 10, "{said:?}");
    assert_eq!(said, support::facts::judged(true, &[], turned));
}
