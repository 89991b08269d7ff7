//! A person with a verdict: looks, decides, and renames tables by hand.

use super::build::{CANDIDATE, DEADLINES, TARGET, answer, inventory, root};
use super::ports::Worker;
use super::stepper::Stepper;
use super::world::World;
use futures::executor::block_on;
use publication_protocol::adjudicate::{Outcome, Ports, SlotName, look, pass};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, Input, Memory};
use publication_protocol::generation::TableFact;
use publication_protocol::intent::Intent;
use publication_protocol::ports::MembersAnswer;
use publication_protocol::record::{Record, Slot};
use publication_protocol::sqltext::{Ddl, Statement, TableName};
use publication_protocol::verdict::{Afresh, Decision, Verdict};

/// Where a person puts what bore the candidate's name.
pub const PRIVATE: &str = "mine_candidate";

pub fn slot_name() -> SlotName {
    SlotName {
        root: root(),
        cluster: "c".into(),
        database: "db".into(),
        target: TARGET.into(),
        declared_internal_replication: false,
    }
}

/// Everything as it is now.
pub fn see(world: &World) -> Afresh {
    let w = Worker::new(world);
    let ports = Ports { control: &w, catalog: &w, ddl: &w, processes: &w, environment: &w };
    let found = block_on(look(&slot_name(), DEADLINES, &mut Memory::default(), &ports));
    found.expect("everybody answers").expect("a slot")
}

/// Two members with this target; every other name is absent.
pub fn afresh(record: Record, targets: [Option<u64>; 2]) -> Afresh {
    let names = record.all_names();
    let members = [1, 2].map(|at: u32| {
        let tables: Vec<(&str, Option<u64>)> = names
            .iter()
            .map(|name| (name.as_str(), targets[at as usize - 1].filter(|_| name == TARGET)))
            .collect();
        answer(2, at, &tables)
    });
    Afresh {
        slot: Slot { record, version: 7 },
        rows: Some(vec![]),
        members: MembersAnswer { members: members.to_vec(), failures: vec![] },
        inventory: Ok(inventory(2)),
        running: Some(false),
        deadlines_past: true,
    }
}

pub fn put(afresh: &mut Afresh, member: usize, name: &str, fact: TableFact) {
    afresh.members.members[member].tables.insert(name.into(), fact);
}

/// A verdict on what is there now.
pub fn verdict(world: &World, decision: Decision) -> Verdict {
    let afresh = see(world);
    let operation = afresh.slot.record.operation;
    // Another decision is another object.
    Verdict { uid: format!("verdict {decision:?}"), operation, decision, evidence: afresh.digest() }
}

pub fn once(world: &World, verdict: &Verdict, memory: &mut Memory) -> Outcome {
    block_on(serve(world, verdict, memory))
}

/// One pass over a verdict; it may hang where a fault kills its worker.
pub async fn serve(world: &World, verdict: &Verdict, memory: &mut Memory) -> Outcome {
    let w = Worker::new(world);
    let ports = Ports { control: &w, catalog: &w, ddl: &w, processes: &w, environment: &w };
    pass(&slot_name(), verdict, DEADLINES, memory, &ports).await
}

/// Passes over a verdict until it is applied or refused, or has waited for longer than every deadline.
pub fn served(world: &World, verdict: &Verdict) -> Outcome {
    let mut memory = Memory::default();
    let mut outcome = once(world, verdict, &mut memory);
    for _ in 0..4 {
        if !matches!(outcome, Outcome::Waiting(..)) {
            break;
        }
        world.advance(DEADLINES.visibility_wait_ms());
        outcome = once(world, verdict, &mut memory);
    }
    outcome
}

/// A verdict on what is there now, served.
pub fn decide(world: &World, decision: Decision) -> Outcome {
    served(world, &verdict(world, decision))
}

pub fn applied(outcome: Outcome) -> Slot {
    match outcome {
        Outcome::Applied(slot) => *slot,
        other => panic!("not applied: {other:?}"),
    }
}

/// Refused, or not yet, by this rule; the message.
pub fn held_up(outcome: Outcome, rule: &str) -> String {
    let finding = match outcome {
        Outcome::Refused(finding) | Outcome::Waiting(finding, _) => finding,
        other => panic!("expected {rule}, got {other:?}"),
    };
    assert_eq!((finding.rule, finding.code), (rule, ErrorCode::VerdictStale), "{}", finding.message);
    finding.message
}

fn table(name: &str) -> TableName {
    TableName { database: "db".into(), table: name.into() }
}

/// `RENAME TABLE … ON CLUSTER` by a person: behind everything that is queued, on every member.
pub fn rename_on_cluster(world: &World, from: &str, to: &str) {
    let mut inner = world.lock();
    let ddl = Ddl::Rename { from: table(from), to: table(to) };
    inner.push_entry("a person", &Statement { ddl, cluster: "c".into() });
    inner.execute_all();
}

/// By hand, on one member.
pub fn rename_on(world: &World, member: usize, from: &str, to: &str) {
    let mut inner = world.lock();
    let tables = &mut inner.members[member].tables;
    assert!(!tables.contains_key(to), "{to} is taken");
    let moved = tables.remove(from).expect("a table to rename");
    tables.insert(to.into(), moved);
}

/// As docs/recovery.md says: the candidate's name becomes private everywhere, and the member gets what was there.
pub fn swap_with_private(world: &World, member: usize) {
    rename_on(world, member, TARGET, "mine_was_target");
    rename_on(world, member, PRIVATE, TARGET);
}

pub fn make_private(world: &World) {
    rename_on_cluster(world, CANDIDATE, PRIVATE);
}

/// Runs passes up to the nth statement and stops there, as a crash right before it is sent: its token and text.
pub fn until_send(world: &World, intent: &Intent, nth: usize) -> (String, Statement) {
    let (mut seen, mut memory) = (0, Memory::default());
    for _ in 0..100 {
        let mut stepper = Stepper::with(world, intent, std::mem::take(&mut memory));
        let mut input = Input::Begin;
        memory = loop {
            match stepper.next(input) {
                Call::Send(permit, order) => {
                    seen += 1;
                    if seen == nth {
                        return (permit.token().as_str().to_owned(), order.statement);
                    }
                    input = stepper.perform(Call::Send(permit, order));
                }
                Call::Finish(report) => break report.memory,
                call => input = stepper.perform(call),
            }
        };
        world.advance(1_000);
    }
    panic!("statement {nth} was never sent: {:?}", world.phases());
}

/// A statement arrives after all: queued now, and run by every member.
pub fn arrives_late(world: &World, (token, statement): &(String, Statement)) {
    let mut inner = world.lock();
    inner.enqueue(token, statement);
    inner.execute_all();
}
