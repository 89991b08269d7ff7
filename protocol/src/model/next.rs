//! Everything that can happen next in a state.

use super::engine::Engine;
use super::input::Exec;
use super::judge::{apply, enqueue, run};
use super::person;
use super::real;
use super::state::{Config, Held, Last, Stage, State};
use super::worker;
use crate::identity::Action;
use crate::record::Record;
use crate::sqltext::Ddl;
use std::fmt;

/// What happened, for traces: what, and the numbers of worker, member or entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label(pub(crate) &'static str, pub(crate) usize, pub(crate) usize);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.0, self.1, self.2)
    }
}

/// Who makes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// It needs no fault and no person, so it happens in the end.
    World,
    /// A person who follows `docs/recovery.md`.
    Person,
    /// Nobody can count on it.
    Chance,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) by: By,
    pub(crate) label: Label,
    pub(crate) next: Result<State, String>,
}

/// Collects steps from one state.
pub(crate) struct Steps<'a> {
    pub(crate) engine: &'a mut Engine,
    pub(crate) config: &'a Config,
    pub(crate) state: &'a State,
    pub(crate) all: Vec<Successor>,
}

impl Steps<'_> {
    pub(crate) fn fair(
        &mut self,
        label: Label,
        step: impl FnOnce(&mut Engine, &mut State) -> Result<(), String>,
    ) {
        let mut next = self.state.clone();
        let result = step(self.engine, &mut next).map(|()| next);
        self.all.push(Successor { by: By::World, label, next: result });
    }

    /// A step that costs a fault; none when the budget is spent.
    pub(crate) fn fault(
        &mut self,
        may: bool,
        label: Label,
        step: impl FnOnce(&mut Engine, &mut State) -> Result<(), String>,
    ) {
        if may && self.state.faults > 0 {
            self.unfair(label, |engine, next| {
                next.faults -= 1;
                step(engine, next)
            });
        }
    }

    /// A step of a person.
    pub(crate) fn person(
        &mut self,
        label: Label,
        step: impl FnOnce(&mut Engine, &mut State) -> Result<(), String>,
    ) {
        self.fair(label, step);
        if let Some(last) = self.all.last_mut() {
            last.by = By::Person;
        }
    }

    /// A step that nobody can count on.
    pub(crate) fn unfair(
        &mut self,
        label: Label,
        step: impl FnOnce(&mut Engine, &mut State) -> Result<(), String>,
    ) {
        self.fair(label, step);
        if let Some(last) = self.all.last_mut() {
            last.by = By::Chance;
        }
    }
}

pub(crate) fn successors(engine: &mut Engine, config: &Config, state: &State) -> Vec<Successor> {
    let mut steps = Steps { engine, config, state, all: Vec::new() };
    for at in 0..state.workers.len() {
        worker::steps(&mut steps, at);
    }
    for member in 0..state.members.len() {
        member_steps(&mut steps, member);
    }
    upgrade_steps(&mut steps);
    person::membership_steps(&mut steps);
    queue_steps(&mut steps);
    network_steps(&mut steps);
    person::steps(&mut steps);
    for op in 0..state.operations.len() {
        if config.deletion && !state.operations[op].deleted {
            steps.unfair(Label("the object is deleted:", op, 0), |_, next| {
                next.operations[op].deleted = true;
                // The controller sees it and looks again.
                for worker in next.workers.iter_mut().filter(|w| usize::from(w.op) == op) {
                    if matches!(worker.stage, Stage::Idle(_)) {
                        worker.stage = Stage::Idle(Last::Waiting);
                    }
                }
                Ok(())
            });
        }
    }
    steps.all
}

/// The entry that a member works on: the first it has not marked, in the order of the queue.
fn current(state: &State, member: usize) -> Option<usize> {
    // A member that joined later is no host of it.
    let open = |host: Option<&Exec>| host.is_some_and(|host| !matches!(host, Exec::Finished(_)));
    state.queue.iter().position(|e| !e.gone && open(e.hosts.get(member)))
}

fn member_steps(steps: &mut Steps<'_>, member: usize) {
    let (state, config) = (steps.state, steps.config);
    if !state.members[member].up {
        steps.fair(Label("comes back: member", member, 0), |_, next| {
            next.members[member].up = true;
            Ok(())
        });
        return;
    }
    steps.fault(config.down, Label("stops: member", member, 0), |_, next| {
        next.members[member].up = false;
        Ok(())
    });
    if let Some(at) = current(state, member) {
        let entry = &state.queue[at];
        let stmt = entry.stmt;
        match entry.hosts[member] {
            Exec::Pending => {
                steps.fair(Label("runs its entry: member, entry", member, at), |engine, next| {
                    let code = run(engine, next, member, stmt)?;
                    let exec = if config.coarse { Exec::Finished(code) } else { Exec::Applied(code) };
                    next.queue[at].hosts[member] = exec;
                    Ok(())
                });
                steps.fault(
                    config.refuse,
                    Label("refuses its entry: member, entry", member, at),
                    |_, next| {
                        next.queue[at].hosts[member] = Exec::Finished(241);
                        Ok(())
                    },
                );
            }
            Exec::Applied(code) => {
                steps.fair(Label("marks its entry: member, entry", member, at), |_, next| {
                    next.queue[at].hosts[member] = Exec::Finished(code);
                    Ok(())
                });
                let label = Label("dies before it marks, and will run again: member, entry", member, at);
                steps.fault(config.twice, label, |_, next| {
                    next.queue[at].hosts[member] = Exec::Pending;
                    next.residue = true;
                    Ok(())
                });
            }
            Exec::Finished(_) => {}
        }
    }
    undo(steps, member);
}

/// K: power loss takes back the last effect that a member acknowledged. A drop is not taken back.
fn undo(steps: &mut Steps<'_>, member: usize) {
    let state = steps.state;
    let done = |e: &&super::state::Entry| e.hosts.get(member) == Some(&Exec::Finished(0));
    let Some(last) = state.queue.iter().rev().find(done) else { return };
    let stmt = last.stmt;
    let action = steps.engine.stmts.get(stmt).action;
    if action == Action::Drop {
        return;
    }
    steps.fault(steps.config.undo, Label("loses what it acknowledged: member", member, 0), |engine, next| {
        next.residue = true;
        let mut tables = (*engine.tables.get(next.members[member].tables)).clone();
        match &engine.stmts.get(stmt).statement.ddl {
            Ddl::Exchange { target, candidate } => {
                for (name, _) in &mut tables {
                    if *name == target.table {
                        name.clone_from(&candidate.table);
                    } else if *name == candidate.table {
                        name.clone_from(&target.table);
                    }
                }
            }
            Ddl::Rename { from, to } => {
                for (name, _) in tables.iter_mut().filter(|(name, _)| *name == to.table) {
                    name.clone_from(&from.table);
                }
            }
            Ddl::DropIfExists { .. } | Ddl::CreateIfNotExists { .. } => {}
        }
        tables.sort();
        next.members[member].tables = engine.tables.id(tables);
        Ok(())
    });
}

/// An upgrade that one member has seen reaches every member in the end.
fn upgrade_steps(steps: &mut Steps<'_>) {
    if !steps.config.reprint {
        return;
    }
    let upgraded = |steps: &Steps<'_>, member: usize| {
        let tables = steps.engine.tables.get(steps.state.members[member].tables);
        tables.iter().any(|(_, generation)| *generation >= real::REPRINTED)
    };
    let members = 0..steps.state.members.len();
    let begun = members.clone().any(|member| upgraded(steps, member));
    for member in members {
        if upgraded(steps, member) {
            continue;
        }
        let label = Label("prints definitions differently from now on: member", member, 0);
        let step = |engine: &mut Engine, next: &mut State| {
            let tables = engine.tables.get(next.members[member].tables);
            let reprinted = tables.iter().map(|(name, g)| (name.clone(), g + real::REPRINTED)).collect();
            next.members[member].tables = engine.tables.id(reprinted);
            Ok(())
        };
        if begun { steps.fair(label, step) } else { steps.fault(true, label, step) }
    }
}

fn queue_steps(steps: &mut Steps<'_>) {
    let state = steps.state;
    for at in (0..state.queue.len()).filter(|at| !state.queue[*at].gone) {
        steps.fault(steps.config.removal, Label("retention removes: entry", at, 0), |_, next| {
            next.queue[at].gone = true;
            Ok(())
        });
    }
}

fn network_steps(steps: &mut Steps<'_>) {
    let state = steps.state;
    for (at, held) in state.network.iter().enumerate() {
        let label = Label("arrives late: message", at, 0);
        match *held {
            Held::Mutation(call) => {
                let mutation = worker::mutation(steps.engine, call);
                steps.fair(label, |engine, next| {
                    next.network.remove(at);
                    match mutation {
                        Some(mutation) => apply(engine, next, &mutation).map(|_| ()),
                        None => Err("a message that is no mutation".into()),
                    }
                });
            }
            Held::Statement(stmt) => steps.fair(label, |engine, next| {
                next.network.remove(at);
                enqueue(engine, next, stmt)
            }),
        }
        steps.unfair(Label("is lost: message", at, 0), |_, next| {
            next.network.remove(at);
            Ok(())
        });
    }
}

/// Whether waiting can matter now: a dispatch whose entry nobody can see. Nothing else depends on the wait but
/// words of reports.
pub(crate) fn wait_matters(engine: &mut Engine, state: &State) -> Result<bool, String> {
    let Some(row) = state.row() else { return Ok(false) };
    let record = engine.record(row)?;
    Ok(!record.phase.is_final() && open_unseen(engine, state, &record))
}

fn open_unseen(engine: &Engine, state: &State, record: &Record) -> bool {
    let seen = |token: &str| state.queue.iter().any(|e| !e.gone && engine.stmts.get(e.stmt).token == token);
    record.open_tokens().iter().any(|token| !seen(token.as_str()))
}
