//! A person at work on an operation that has stopped (J): moves its tables to private names, finishes or reverts
//! members, decides; and the pass over that verdict, with the real `judge`. What the pass reads and its
//! compare-and-swap are two steps: the world may move between them.

use super::engine::{CallData, Engine, Stmt};
use super::input::{Exec, scanned};
use super::judge::{apply, enqueue};
use super::next::{Label, Steps};
use super::real;
use super::state::{Entry, Last, Member, Stage, State};
use super::worker;
use crate::adjudicate::{SlotName, ask};
use crate::admission::inventory;
use crate::authority::{Mutation, PendingCas};
use crate::evidence;
use crate::identity::{Action, CANDIDATE_INFIX, RETIRED_INFIX};
use crate::record::{Record, Slot};
use crate::sqltext::{Ddl, Statement, TableName};
use crate::verdict::{Afresh, Decision, Verdict, judge};

/// Names that no statement of ours ever says begin with this.
const KEPT: &str = "kept_";
/// A cluster of one replicates nothing.
const MEMBERS_MIN: usize = 2;

pub(super) fn steps(steps: &mut Steps<'_>) {
    if !steps.config.verdicts {
        return;
    }
    if let Some(call) = steps.state.verdict {
        store(steps, call);
        return;
    }
    let Some(row) = steps.state.row() else { return };
    let Ok(record) = steps.engine.record(row) else { return };
    let op = steps.engine.intents.iter().position(|i| i.operation == record.operation);
    let Some(op) = op else { return };
    if !record.phase.is_final() {
        // Nobody acts on what still moves; but it may begin to move again while the person is at work.
        let stalled = Stage::Idle(Last::Stalled);
        if !steps.state.workers.iter().any(|w| usize::from(w.op) == op && w.stage == stalled) {
            return;
        }
        // Who comes and who goes is settled first.
        if !drifted(steps.state, &record) {
            move_away(steps, &record, op);
            by_hand(steps, &record);
        }
    }
    for decision in decisions(steps, &record) {
        decide(steps, op, &decision, false);
        if steps.config.delay || steps.state.network.is_empty() {
            decide(steps, op, &decision, true);
        }
    }
}

/// `RENAME … ON CLUSTER`, so that each host does it after everything that was queued before (J-2).
fn move_away(steps: &mut Steps<'_>, record: &Record, op: usize) {
    for (at, name) in record.all_names().into_iter().enumerate().filter(|(_, n)| n != real::TARGET) {
        let there = (0..steps.state.members.len()).any(|m| tables(steps, m).iter().any(|(n, _)| *n == name));
        let sent: Vec<&Entry> =
            steps.state.queue.iter().filter(|e| moved(steps.engine, e).as_ref() == Some(&name)).collect();
        // A statement that a member refused is repeated, once it is over everywhere.
        if !there || sent.iter().any(|entry| !is_over(entry)) {
            continue;
        }
        let kept = format!("{KEPT}{}_{name}", sent.len());
        let token = format!("person:{kept}");
        let names = &record.payload.names;
        let table = |table: String| TableName { database: names.database.clone(), table };
        let ddl = Ddl::Rename { from: table(name.clone()), to: table(kept) };
        let statement = Statement { ddl, cluster: names.cluster.clone() };
        // No action of ours: nothing is judged as if it were.
        let stmt = Stmt { op: op as u8, action: Action::Bootstrap, epoch: 0, token, statement };
        steps.person(Label("the person moves away: name", at, 0), |engine, next| {
            let stmt = engine.stmts.id(stmt);
            enqueue(engine, next, stmt)
        });
    }
}

/// The name that an entry of the person moves.
fn moved(engine: &Engine, entry: &Entry) -> Option<String> {
    let stmt = engine.stmts.get(entry.stmt);
    match &stmt.statement.ddl {
        Ddl::Rename { from, .. } if stmt.action == Action::Bootstrap => Some(from.table.clone()),
        _ => None,
    }
}

fn is_over(entry: &Entry) -> bool {
    entry.hosts.iter().all(|host| matches!(host, Exec::Finished(_)))
}

/// Finishes or reverts one member, with private names only, once every member has moved its tables away.
fn by_hand(steps: &mut Steps<'_>, record: &Record) {
    let ours = |name: &str| name.contains(CANDIDATE_INFIX) || name.contains(RETIRED_INFIX);
    if steps.state.queue.iter().any(|e| moved(steps.engine, e).is_some() && !is_over(e)) {
        return;
    }
    for member in (0..steps.state.members.len()).filter(|m| steps.state.members[*m].up) {
        let now = tables(steps, member);
        if now.iter().any(|(name, _)| record.all_names().contains(name) && ours(name)) {
            continue;
        }
        for (name, generation) in now.iter().filter(|(name, _)| name.starts_with(KEPT)) {
            let label = Label("the person exchanges: member, generation", member, usize::from(*generation));
            let changed = now.iter().map(|(n, g)| match n.as_str() {
                real::TARGET => (name.clone(), *g),
                n if n == name => (real::TARGET.to_owned(), *g),
                n => (n.to_owned(), *g),
            });
            let changed = changed.collect();
            steps.person(label, |engine, next| put(engine, next, member, changed));
        }
        if record.payload.predecessor.is_none() && now.iter().any(|(name, _)| name == real::TARGET) {
            let back = |(name, generation): &(String, u8)| {
                (if name == real::TARGET { format!("{KEPT}back") } else { name.clone() }, *generation)
            };
            let changed = now.iter().map(back).collect();
            let label = Label("the person takes the target away: member", member, 0);
            steps.person(label, |engine, next| put(engine, next, member, changed));
        }
    }
}

fn put(
    engine: &mut Engine,
    next: &mut State,
    member: usize,
    mut now: Vec<(String, u8)>,
) -> Result<(), String> {
    now.sort();
    next.members[member].tables = engine.tables.id(now);
    Ok(())
}

fn tables(steps: &Steps<'_>, member: usize) -> Vec<(String, u8)> {
    (*steps.engine.tables.get(steps.state.members[member].tables)).clone()
}

/// The members are not those that the record binds.
fn drifted(state: &State, record: &Record) -> bool {
    record.payload.inventory.members.len() != state.members.len()
}

fn decisions(steps: &Steps<'_>, record: &Record) -> Vec<Decision> {
    let mut names: Vec<String> = record.fences().into_iter().map(|fence| fence.name).collect();
    names.dedup();
    let mut all: Vec<Decision> = match record.phase.is_final() {
        true => names.into_iter().map(Decision::NameCleared).collect(),
        false => vec![Decision::Committed, Decision::NotApplied],
    };
    if steps.config.reprint && !record.phase.is_final() {
        all.push(Decision::Rebaselined);
    }
    if drifted(steps.state, record)
        && let Some(inventory) = real::inventory(steps.state.members.len())
    {
        all.push(Decision::Rebound(inventory.digest()));
    }
    all
}

/// Members that come and go for good, and a Rebound that names no slot. Whoever changes members does it before moving
/// tables.
pub(super) fn membership_steps(steps: &mut Steps<'_>) {
    let (config, state) = (steps.config, steps.state);
    let members = state.members.len();
    if usize::from(state.bound) != members && config.verdicts {
        steps.person(Label("the facade is bound anew: members", members, 0), |_, next| {
            next.bound = members as u8;
            Ok(())
        });
    }
    if state.queue.iter().any(|entry| moved(steps.engine, entry).is_some()) {
        return;
    }
    let leaves = config.membership && members > MEMBERS_MIN;
    steps.fault(leaves, Label("is removed for good: member", members - 1, 0), |_, next| {
        next.members.pop();
        Ok(())
    });
    for like in 0..members {
        let label = Label("joins: member, with the tables of", members, like);
        steps.fault(config.membership, label, |_, next| {
            let joins = Member { up: true, ..next.members[like].clone() };
            next.members.push(joins);
            Ok(())
        });
    }
}

/// Decides on what is there now, if that would be taken; the pass has read the same.
fn decide(steps: &mut Steps<'_>, op: usize, decision: &Decision, late: bool) {
    // K: a network that holds a statement back for ever is beyond what NameCleared can know.
    if matches!(decision, Decision::NameCleared(_)) && !steps.state.network.is_empty() {
        return;
    }
    let state = steps.state;
    let Some(afresh) = afresh(steps.engine, state, late) else { return };
    let verdict = Verdict {
        uid: format!("verdict-{}", afresh.slot.version),
        operation: steps.engine.intents[op].operation,
        decision: decision.clone(),
        evidence: afresh.digest(),
    };
    let Ok(record) = judge(&verdict, &afresh, real::now(false)) else { return };
    if late && judge(&verdict, &Afresh { deadlines_past: false, ..afresh.clone() }, real::now(false)).is_ok()
    {
        return;
    }
    steps.engine.reached.insert(format!("verdict {} on {}", decision.as_str(), afresh.slot.record.phase));
    let Some(server) = real::server(0) else { return };
    let (_, mutation) = PendingCas::swap(&afresh.slot, record, false, server.clone(), real::now(false));
    let call = steps.engine.calls.id(CallData::Mutate(server, mutation));
    let step = |engine: &mut Engine, next: &mut State| {
        if late {
            worker::expire(engine, next);
        }
        next.verdict = Some(call);
        Ok(())
    };
    let label = Label(if late { "a verdict after every wait:" } else { "a verdict:" }, op, 0);
    if late { worker::after_wait(steps, None, label, step) } else { steps.person(label, step) }
}

fn afresh(engine: &mut Engine, state: &State, late: bool) -> Option<Afresh> {
    let row = engine.rows.get(state.row()?);
    let record = (*engine.record(state.row()?).ok()?).clone();
    let slot = Slot { version: row.version, record };
    let names = &slot.record.payload.names;
    let name = SlotName {
        root: real::root(),
        cluster: names.cluster.clone(),
        database: names.database.clone(),
        target: names.target.clone(),
        declared_internal_replication: false,
    };
    let found: Vec<Option<u32>> = state.members.iter().map(|m| m.up.then_some(m.tables)).collect();
    let members = super::input::members(engine, &ask(&name, &slot.record), &found).ok()?;
    let rows = scanned(engine, state, &evidence::tokens(&slot.record));
    let inventory = inventory(&name.cluster, false, &members);
    Some(Afresh { slot, rows: Some(rows), members, inventory, running: Some(false), deadlines_past: late })
}

/// How many members a verdict binds, if it binds others.
fn rebinds(steps: &mut Steps<'_>, mutation: &Mutation) -> Option<u8> {
    let now = steps.engine.record(steps.state.row()?).ok()?;
    let (Mutation::Insert(row) | Mutation::Update { row, .. }) = mutation;
    let members = Record::decode(row).ok()?.payload.inventory.members.len();
    (members != now.payload.inventory.members.len()).then_some(members as u8)
}

fn store(steps: &mut Steps<'_>, call: u32) {
    let Some(mutation) = worker::mutation(steps.engine, call) else { return };
    // J-4: the binding row first.
    if let Some(members) = rebinds(steps, &mutation).filter(|members| *members != steps.state.bound) {
        steps.person(
            Label("the facade is bound as a verdict says: members", members.into(), 0),
            |_, next| {
                next.bound = members;
                Ok(())
            },
        );
        return;
    }
    let ends = |engine: &mut Engine, next: &State| {
        let record = next.row().map(|row| engine.record(row)).transpose()?;
        let decided =
            |r: &Record| r.payload.verdicts.last().is_some_and(|note| !note.decision.starts_with("Re"));
        let ended = record.filter(|r| r.phase.is_final() && decided(r));
        Ok::<_, String>(ended.and_then(|r| engine.intents.iter().position(|i| i.operation == r.operation)))
    };
    steps.person(Label("the verdict is stored", 0, 0), |engine, next| {
        next.verdict = None;
        let (_, applied) = apply(engine, next, &mutation)?;
        if applied && let Some(op) = ends(engine, next)? {
            next.operations[op].settled = true;
        }
        Ok(())
    });
    steps.fault(steps.config.loss, Label("the verdict is lost on its way", 0, 0), |_, next| {
        next.verdict = None;
        Ok(())
    });
}
