//! What a worker can do next: its pending call takes effect, is answered, is not answered; or it dies.

use super::effects;
use super::engine::{CallData, Engine};
use super::input::{InputKey, Tick};
use super::next::{Label, Steps, wait_matters};
use super::real;
use super::state::{Busy, Config, Last, Stage, State};
use crate::authority::Mutation;
use crate::driver::{End, Memory};
use crate::identity::ServerUuid;

type Done = Result<(), String>;

/// The mutation of a pending call.
pub(crate) fn mutation(engine: &Engine, call: u32) -> Option<Mutation> {
    match &*engine.calls.get(call) {
        CallData::Mutate(_, mutation) => Some(mutation.clone()),
        _ => None,
    }
}

pub(crate) fn steps(steps: &mut Steps<'_>, at: usize) {
    let state = steps.state;
    match &state.workers[at].stage {
        Stage::Idle(Last::Succeeded | Last::Over) => {
            steps.fault(steps.config.again, Label("is asked again: worker", at, 0), |_, s| {
                s.workers[at].stage = Stage::Idle(Last::Waiting);
                Ok(())
            });
        }
        Stage::Idle(_) if state.snapshot => {
            steps.fair(Label("makes a pass: worker", at, 0), |e, s| pass(e, s, at, false));
            let waited = state.workers[at].seen.is_some() && may_wait(steps.config, state);
            if waited && wait_matters(steps.engine, state).unwrap_or(true) {
                after_wait(steps, Some(at), waited_out(at), |e, s| pass(e, s, at, true));
            }
        }
        Stage::Idle(_) => steps.fair(Label("begins a pass: worker", at, 0), |e, s| begin(e, s, at)),
        Stage::Busy(busy) => {
            let busy = busy.clone();
            steps.fault(steps.config.crash, Label("dies: worker", at, 0), |_, next| {
                crash(next, at);
                Ok(())
            });
            pending(steps, at, &busy);
        }
    }
}

pub(super) fn crash(state: &mut State, at: usize) {
    let worker = &mut state.workers[at];
    worker.stage = Stage::Idle(Last::Waiting);
    worker.seen = None;
    worker.stale = false;
}

fn tick(engine: &Engine, state: &State, at: usize, late: bool) -> Tick {
    Tick { late, worker: at as u8, nonce: state.nonce, version: state.version(engine) }
}

fn begin(engine: &mut Engine, state: &mut State, at: usize) -> Done {
    let worker = &state.workers[at];
    let operation = &state.operations[usize::from(worker.op)];
    let mut intent = engine.intents[usize::from(worker.op)].clone();
    intent.deleted = operation.deleted;
    intent.witnessed = operation.witness.map(|version| (real::root(), version));
    let early = real::now(false).boot_ms;
    let memory = Memory {
        seen: worker.seen.map(|version| (version, early)),
        stale_since: worker.stale.then_some(early),
        trouble_since: None,
        attempt: 0,
    };
    let tick = tick(engine, state, at, false);
    let (driver, call) = engine.begin(intent, memory, tick)?;
    let busy = Busy { driver, call, late: false, expired: false, applied: false, partial: Vec::new() };
    state.workers[at].stage = Stage::Busy(busy);
    Ok(())
}

/// Hands an answer to the driver and takes its next call. Preflight facts never change here, and
/// a backlog only words a report: these reads are no steps.
pub(super) fn answer(engine: &mut Engine, state: &mut State, at: usize, input: InputKey) -> Done {
    give(engine, state, at, input)?;
    while let Stage::Busy(Busy { call, .. }) = state.workers[at].stage
        && (state.snapshot || matches!(&*engine.calls.get(call), CallData::Preflight(_) | CallData::Backlog))
        && let Some(input) = read(engine, state, call)
    {
        give(engine, state, at, input)?;
    }
    Ok(())
}

/// What a pending read finds now.
fn read(engine: &Engine, state: &State, call: u32) -> Option<InputKey> {
    let tables = || state.members.iter().map(|m| m.up.then_some(m.tables)).collect();
    match &*engine.calls.get(call) {
        CallData::ReadSlot => Some(slot(state, rows(state))),
        CallData::Members(_) => Some(InputKey::Members(call, tables())),
        CallData::Preflight(_) => Some(InputKey::Preflight(call, tables())),
        CallData::Scan(tokens) => {
            let entries = state.queue.iter().enumerate().filter(|(_, entry)| {
                let token = &engine.stmts.get(entry.stmt).token;
                !entry.gone && tokens.iter().any(|t| t.as_str() == token)
            });
            let entries = entries.map(|(at, entry)| (entry.stmt, at as u8, entry.hosts.clone()));
            Some(InputKey::Scan(Some(entries.collect())))
        }
        CallData::Backlog => Some(InputKey::Backlog),
        CallData::OwnerGone(uid) => {
            let owner = engine.intents.iter().position(|i| i.owner.uid == *uid);
            Some(InputKey::OwnerGone(owner.map(|owner| state.operations[owner].deleted)))
        }
        _ => None,
    }
}

fn give(engine: &mut Engine, state: &mut State, at: usize, input: InputKey) -> Done {
    let Stage::Busy(mut busy) = state.workers[at].stage.clone() else { return Err("an idle worker".into()) };
    let tick = tick(engine, state, at, busy.late);
    let (driver, call) = engine.step(busy.driver, input, tick)?;
    busy.driver = driver;
    busy.call = call;
    busy.partial.clear();
    let next = engine.calls.get(call);
    if !matches!(*next, CallData::ReadExact(_) | CallData::Send(..)) {
        busy.expired = false;
    }
    match &*next {
        CallData::Send(..) if !busy.applied => {
            return Err("C-6, C-7: a permit without an own CAS that took effect and was acknowledged".into());
        }
        CallData::Finish(ended) => {
            let last = match ended.end {
                End::Succeeded => Last::Succeeded,
                End::Failed | End::Gone => Last::Over,
                End::Stalled => Last::Stalled,
                End::Waiting => Last::Waiting,
                End::Halted => return Err("H-1: the worker halted".into()),
            };
            // Nothing is remembered of an operation that has ended, nor of a wait that decides nothing (yet): losing
            // memory makes waits longer, never shorter.
            let remembers = !matches!(last, Last::Succeeded | Last::Over) && wait_matters(engine, state)?;
            let worker = &mut state.workers[at];
            worker.stage = Stage::Idle(last);
            worker.seen = ended.seen.filter(|_| remembers);
            worker.stale = ended.stale && !matches!(last, Last::Succeeded | Last::Over);
            return Ok(());
        }
        CallData::ReadExact(_) => {}
        _ => busy.applied = false,
    }
    state.workers[at].stage = Stage::Busy(busy);
    Ok(())
}

pub(super) fn up(state: &State, server: &ServerUuid) -> Option<u8> {
    let at = (0..state.members.len()).find(|at| real::server(*at).as_ref() == Some(server))?;
    state.members[at].up.then_some(at as u8)
}

fn pending(steps: &mut Steps<'_>, at: usize, busy: &Busy) {
    let (config, call) = (steps.config, busy.call);
    match &*steps.engine.calls.get(call) {
        CallData::ReadSlot => read_slot(steps, at, busy),
        CallData::Members(_) => members(steps, at, busy),
        CallData::Scan(_) => {
            steps.fair(Label("scans the queue: worker", at, 0), |e, s| read_on(e, s, at, call));
            steps.fault(config.loss, Label("cannot scan the queue: worker", at, 0), |e, s| {
                answer(e, s, at, InputKey::Scan(None))
            });
        }
        CallData::Mutate(server, mutation) => effects::mutate(steps, at, call, server, mutation),
        CallData::ReadExact(server) => {
            let server = up(steps.state, server);
            steps.fair(Label("reads exactly: worker", at, 0), |e, s| {
                let row = s.row();
                answer(e, s, at, InputKey::Exact(server.map(|server| (server, row))))
            });
            steps.fault(config.loss, Label("loses the exact read: worker", at, 0), |e, s| {
                answer(e, s, at, InputKey::Exact(None))
            });
            if let (Some(server), Some(older)) = (server, steps.state.older_row()) {
                steps.fault(config.stale, Label("reads exactly, but stale: worker", at, 0), |e, s| {
                    answer(e, s, at, InputKey::Exact(Some((server, older))))
                });
            }
        }
        CallData::Witness(version) => effects::witness(steps, at, *version),
        CallData::OwnerGone(_) => {
            steps.fair(Label("asks for the owner: worker", at, 0), |e, s| read_on(e, s, at, call));
        }
        CallData::Send(_, stmt) => effects::send(steps, at, busy, *stmt),
        CallData::Preflight(_) | CallData::Backlog | CallData::Finish(_) => {}
    }
}

fn read_on(engine: &mut Engine, state: &mut State, at: usize, call: u32) -> Done {
    match read(engine, state, call) {
        Some(input) => answer(engine, state, at, input),
        None => Ok(()),
    }
}

fn rows(state: &State) -> Vec<Option<Option<u32>>> {
    state.members.iter().map(|m| m.up.then_some(state.row())).collect()
}

fn slot(state: &State, rows: Vec<Option<Option<u32>>>) -> InputKey {
    InputKey::Slot(rows, state.bound)
}

fn read_slot(steps: &mut Steps<'_>, at: usize, busy: &Busy) {
    let config = steps.config;
    steps.fair(Label("reads the slot: worker", at, 0), |e, s| {
        let found = slot(s, rows(s));
        answer(e, s, at, found)
    });
    match wait_matters(steps.engine, steps.state) {
        Ok(true) if !busy.late && may_wait(config, steps.state) => {
            after_wait(steps, Some(at), waited_out(at), |e, s| {
                wait(e, s, at);
                let found = slot(s, rows(s));
                answer(e, s, at, found)
            });
        }
        Ok(_) => {}
        Err(what) => steps.fair(Label("reads the slot: worker", at, 0), |_, _| Err(what)),
    }
    for member in 0..steps.state.members.len() {
        steps.fault(config.loss, Label("cannot read the slot: worker, member", at, member), |e, s| {
            let mut rows = rows(s);
            rows[member] = None;
            let found = slot(s, rows);
            answer(e, s, at, found)
        });
        let Some(older) = steps.state.older_row() else { continue };
        steps.fault(config.stale, Label("reads the slot stale: worker, member", at, member), |e, s| {
            let mut rows = rows(s);
            rows[member] = rows[member].map(|_| older);
            let found = slot(s, rows);
            answer(e, s, at, found)
        });
    }
    if let Some(older) = steps.state.older_row() {
        steps.fault(config.stale, Label("reads the slot stale everywhere: worker", at, 0), |e, s| {
            let rows = rows(s).into_iter().map(|row| row.map(|_| older)).collect();
            let found = slot(s, rows);
            answer(e, s, at, found)
        });
    }
}

/// A step of a worker after every wait has passed. That another worker was stopped for as long, on its way to send, is a
/// fault.
pub(super) fn after_wait(
    steps: &mut Steps<'_>,
    at: Option<usize>,
    label: Label,
    step: impl FnOnce(&mut Engine, &mut State) -> Done,
) {
    let mut workers = steps.state.workers.iter().enumerate().filter(|(other, _)| Some(*other) != at);
    if workers
        .any(|(_, other)| matches!(&other.stage, Stage::Busy(b) if !b.expired && may_send(steps.engine, b)))
    {
        steps.fault(steps.config.permit, label, step);
    } else if at.is_some() {
        steps.fair(label, step);
    } else {
        steps.person(label, step);
    }
}

/// It holds a permit, or waits for what may yield one.
fn may_send(engine: &Engine, busy: &Busy) -> bool {
    matches!(
        &*engine.calls.get(busy.call),
        CallData::Mutate(..) | CallData::ReadExact(_) | CallData::Send(..)
    )
}

/// Every wait passes: what is not sent by now is too late.
fn wait(engine: &Engine, state: &mut State, at: usize) {
    expire(engine, state);
    if let Stage::Busy(busy) = &mut state.workers[at].stage {
        busy.late = true;
    }
}

fn waited_out(at: usize) -> Label {
    Label("goes on after every wait: worker", at, 0)
}

/// What is not sent by now is too late.
pub(super) fn expire(engine: &Engine, state: &mut State) {
    for worker in &mut state.workers {
        if let Stage::Busy(busy) = &mut worker.stage
            && may_send(engine, busy)
        {
            busy.expired = true;
        }
    }
}

/// In a world of snapshots: a pass up to its first effect.
fn pass(engine: &mut Engine, state: &mut State, at: usize, late: bool) -> Done {
    begin(engine, state, at)?;
    if late {
        wait(engine, state, at);
    }
    let found = slot(state, rows(state));
    answer(engine, state, at, found)
}

/// D-5 assumes that a statement is given up by its sender, and arrives or never will, within the send deadline; only
/// the configurations with a network that holds back without bound do without.
pub(super) fn may_wait(config: &Config, state: &State) -> bool {
    config.delay || state.network.is_empty()
}

fn members(steps: &mut Steps<'_>, at: usize, busy: &Busy) {
    let call = busy.call;
    let all = steps.state.members.len();
    let read = busy.partial.len();
    let next = if steps.config.split { read + 1 } else { all };
    // One by one: the world moves between two members.
    let take = move |s: &mut State, lost: Option<usize>| -> Vec<Option<u32>> {
        let fresh = (read..next).map(|m| {
            let member = &s.members[m];
            (member.up && lost != Some(m)).then_some(member.tables)
        });
        let found: Vec<Option<u32>> = fresh.collect();
        match &mut s.workers[at].stage {
            Stage::Busy(busy) => {
                busy.partial.extend(found);
                busy.partial.clone()
            }
            Stage::Idle(_) => found,
        }
    };
    let give = move |e: &mut super::engine::Engine, s: &mut State, found: Vec<Option<u32>>| {
        if found.len() < all { Ok(()) } else { answer(e, s, at, InputKey::Members(call, found)) }
    };
    steps.fair(Label("reads members: worker, up to", at, next), |e, s| {
        let found = take(s, None);
        give(e, s, found)
    });
    for lost in read..next {
        steps.fault(steps.config.loss, Label("cannot read: worker, member", at, lost), |e, s| {
            let found = take(s, Some(lost));
            give(e, s, found)
        });
    }
}
