//! The effects of the world, and what is judged at each of them: from tables, queue and rows, never from a report.

use super::engine::{CallData, Engine, Stmt};
use super::input::Exec;
use super::real;
use super::state::{Entry, Held, Stage, State};
use crate::authority::{Mutation, MutationOutcome};
use crate::identity::{Action, RETIRED_INFIX};
use crate::phase::Phase;
use crate::record::{Record, VersionedRow};
use crate::sqltext::Ddl;

type Judged<T> = Result<T, String>;

/// Keeper's part of a mutation: conditional, atomic, acknowledged even when nothing matched. Says whether it matched.
pub(crate) fn apply(
    engine: &mut Engine,
    state: &mut State,
    mutation: &Mutation,
) -> Judged<(MutationOutcome, bool)> {
    let latest = state.row().map(|row| engine.rows.get(row));
    let (row, version) = match mutation {
        Mutation::Insert(row) if latest.is_none() => (row, 0),
        Mutation::Insert(_) => return Ok((MutationOutcome::Conflict, false)),
        Mutation::Update { row, expected } => match latest {
            Some(now)
                if now.version == expected.version
                    && now.row.target_key == row.target_key
                    && now.row.operation_id == expected.operation_id
                    && now.row.fence_token == expected.fence_token
                    && now.row.phase == expected.phase =>
            {
                (row, now.version + 1)
            }
            _ => return Ok((MutationOutcome::Acknowledged, false)),
        },
    };
    let id = engine.rows.id(VersionedRow { row: row.clone(), version });
    judge_row(engine, state, id)?;
    state.slot.push(id);
    if state.slot.len() > 2 {
        state.slot.remove(0);
    }
    Ok((MutationOutcome::Acknowledged, true))
}

fn table(engine: &Engine, state: &State, member: usize, name: &str) -> Option<u8> {
    let tables = engine.tables.get(state.members[member].tables);
    tables.iter().find(|(n, _)| n == name).map(|(_, g)| real::plain(*g))
}

fn operation(engine: &Engine, record: &Record) -> Judged<usize> {
    engine.intents.iter().position(|i| i.operation == record.operation).ok_or("a row of nobody".into())
}

/// Every member's target is this operation's generation now.
fn served(engine: &Engine, state: &State, op: usize) -> bool {
    let desired = Some(real::desired(op as u8));
    (0..state.members.len()).all(|at| table(engine, state, at, real::TARGET) == desired)
}

fn serves_anywhere(engine: &Engine, state: &State, op: usize) -> bool {
    let desired = Some(real::desired(op as u8));
    (0..state.members.len()).any(|at| table(engine, state, at, real::TARGET) == desired)
}

/// A row that Keeper is about to take.
fn judge_row(engine: &mut Engine, state: &mut State, row: u32) -> Judged<()> {
    let next = engine.record(row)?;
    let op = operation(engine, &next)?;
    let last = state.row().map(|row| engine.record(row)).transpose()?;
    if next.phase == Phase::Prepared {
        if let Some(last) = &last {
            let owner = operation(engine, last)?;
            let gone = last.phase == Phase::Prepared && owner != op && state.operations[owner].deleted;
            let own = owner == op && last.phase == Phase::Released;
            if !(gone || own || (owner != op && last.phase.is_final())) {
                return Err(format!("C-8: a slot in {} was taken over", last.phase));
            }
        }
        state.operations[op].predecessor = next.payload.predecessor.as_ref().map(real::number);
    } else {
        let last = last.ok_or("H: a first row that is not PREPARED")?;
        if last.operation != next.operation || last.fence != next.fence {
            return Err("C-8: a stale holder advanced the slot".into());
        }
        let dispatches = next.epoch != last.epoch;
        let dispatching =
            matches!(next.phase, Phase::Dispatching | Phase::RetireDispatching | Phase::DropDispatching);
        if dispatches && (!dispatching || next.epoch != last.epoch + 1) {
            return Err("H: an epoch that no dispatching phase began".into());
        }
        if dispatches && next.phase != Phase::Dispatching {
            judge_cleanup(engine, state, op, &next)?;
        }
        if next.phase == Phase::Released && was_sent(engine, state, op) {
            return Err("C-10, C-12: RELEASED although a statement was sent".into());
        }
    }
    let proved = state.residue || served(engine, state, op);
    if next.phase == Phase::Abandoned && !state.residue && serves_anywhere(engine, state, op) {
        return Err("J-2: ABANDONED while a member serves the desired generation".into());
    }
    if next.phase == Phase::Completed && !proved {
        return Err("G-5: COMPLETED while a member does not serve the desired generation".into());
    }
    Ok(())
}

/// A statement of this operation is an entry, on its way, or ordered with a permit that somebody holds. One that was lost
/// looks to its sender like one that arrived, so every way to a release that ignores the first is seen with the second.
fn was_sent(engine: &Engine, state: &State, op: usize) -> bool {
    let on_its_way = state.network.iter().filter_map(|held| match held {
        Held::Statement(stmt) => Some(*stmt),
        Held::Mutation(_) => None,
    });
    let ordered = state.workers.iter().filter_map(|worker| match &worker.stage {
        Stage::Busy(busy) => match &*engine.calls.get(busy.call) {
            CallData::Send(_, stmt) => Some(*stmt),
            _ => None,
        },
        Stage::Idle(_) => None,
    });
    state.queue.iter().map(|entry| entry.stmt).chain(on_its_way).chain(ordered).any(|stmt| {
        let stmt = engine.stmts.get(stmt);
        usize::from(stmt.op) == op && stmt.action != Action::Bootstrap
    })
}

/// G-1..G-3: nothing of the predecessor is touched before all is proved and stored.
fn judge_cleanup(engine: &Engine, state: &State, op: usize, next: &Record) -> Judged<()> {
    let Some(last) = next.last_dispatch() else { return Err("H: an epoch without a dispatch".into()) };
    let published = next.payload.dispatches.first().is_some_and(|d| d.receipt.is_some());
    if !published {
        return Err("G-1: cleanup without a stored receipt of the publication".into());
    }
    if !state.residue && !served(engine, state, op) {
        return Err("G-1: cleanup while a member does not serve the desired generation".into());
    }
    if last.action == Action::Drop {
        let accounted = next.retired_names().any(|(name, accounted)| name == last.from && accounted);
        if !last.from.contains(RETIRED_INFIX) || !accounted {
            return Err(format!("G-3: a drop of {}", last.from));
        }
    }
    Ok(())
}

/// A statement arrives and becomes an entry.
pub(crate) fn enqueue(engine: &mut Engine, state: &mut State, stmt: u32) -> Judged<()> {
    let new = engine.stmts.get(stmt);
    let last = state.row().map(|row| engine.record(row)).transpose()?;
    if let Some(last) = last.filter(|_| new.action == Action::Publish)
        && last.phase == Phase::Released
        && operation(engine, &last)? == usize::from(new.op)
    {
        return Err("C-10, C-12: a statement of a RELEASED operation arrived".into());
    }
    for entry in &state.queue {
        let old = engine.stmts.get(entry.stmt);
        if old.action == Action::Publish && new.action == Action::Publish && old.op == new.op {
            return Err("zero blind EXCHANGE: a second publication of one operation was queued".into());
        }
        if old.token == new.token {
            return Err("C-6: a permit was used twice".into());
        }
    }
    state.queue.push(Entry { stmt, hosts: vec![Exec::Pending; state.members.len()], gone: false });
    Ok(())
}

/// One member runs one statement; gives the server's code (0 done, 60 no such table, 57 exists).
pub(crate) fn run(engine: &mut Engine, state: &mut State, member: usize, stmt: u32) -> Judged<u16> {
    let stmt = engine.stmts.get(stmt);
    let mut tables = (*engine.tables.get(state.members[member].tables)).clone();
    let find = |tables: &[(String, u8)], name: &str| tables.iter().position(|(n, _)| n == name);
    let code = match &stmt.statement.ddl {
        Ddl::Exchange { target, candidate } => {
            match (find(&tables, &target.table), find(&tables, &candidate.table)) {
                (Some(a), Some(b)) => {
                    judge_swap(state, &stmt, real::plain(tables[a].1), real::plain(tables[b].1))?;
                    let old = tables[a].1;
                    tables[a].1 = tables[b].1;
                    tables[b].1 = old;
                    0
                }
                _ => 60,
            }
        }
        Ddl::Rename { from, to } => match (find(&tables, &from.table), find(&tables, &to.table)) {
            (_, Some(_)) => 57,
            (None, None) => 60,
            (Some(at), None) => {
                judge_move(state, &stmt, real::plain(tables[at].1))?;
                tables[at].0.clone_from(&to.table);
                0
            }
        },
        Ddl::DropIfExists { table } => {
            if let Some(at) = find(&tables, &table.table) {
                judge_drop(engine, state, &stmt, real::plain(tables[at].1))?;
                tables.remove(at);
            }
            0
        }
        Ddl::CreateIfNotExists { .. } => 0,
    };
    tables.sort();
    state.members[member].tables = engine.tables.id(tables);
    Ok(code)
}

/// J: no statement that arrives or runs late can touch what a verdict has settled. Power loss that takes back a
/// person's rename is known residue (K).
fn not_settled(state: &State, stmt: &Stmt) -> Judged<()> {
    let ours = stmt.action != Action::Bootstrap;
    if ours && state.operations[usize::from(stmt.op)].settled && !state.residue {
        return Err(format!("J: a late {:?} had an effect after the verdict", stmt.action));
    }
    Ok(())
}

fn judge_swap(state: &State, stmt: &Stmt, target: u8, candidate: u8) -> Judged<()> {
    not_settled(state, stmt)?;
    let predecessor = state.operations[usize::from(stmt.op)].predecessor.unwrap_or(0);
    let bound = (predecessor, real::desired(stmt.op));
    if (target, candidate) == bound || (state.residue && (candidate, target) == bound) {
        return Ok(());
    }
    Err(format!("an EXCHANGE hit generations {target} and {candidate}"))
}

fn judge_move(state: &State, stmt: &Stmt, moved: u8) -> Judged<()> {
    not_settled(state, stmt)?;
    let predecessor = state.operations[usize::from(stmt.op)].predecessor;
    let right = match stmt.action {
        // A person's own.
        Action::Bootstrap => true,
        Action::Publish => moved == real::desired(stmt.op),
        _ => Some(moved) == predecessor || (state.residue && moved == real::desired(stmt.op)),
    };
    if right { Ok(()) } else { Err(format!("a RENAME of {:?} hit generation {moved}", stmt.action)) }
}

/// Zero drop of an unproven generation: also when servers lose or repeat effects.
fn judge_drop(engine: &Engine, state: &State, stmt: &Stmt, dropped: u8) -> Judged<()> {
    not_settled(state, stmt)?;
    let op = usize::from(stmt.op);
    if Some(dropped) != state.operations[op].predecessor {
        return Err(format!("a DROP hit generation {dropped}"));
    }
    if !state.residue && !served(engine, state, op) {
        return Err("a DROP ran while a member does not serve the desired generation".into());
    }
    Ok(())
}
