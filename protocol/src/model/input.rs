//! Inputs of the driver as small data, and the real inputs that they stand for.

use super::engine::{CallData, Engine};
use super::real;
use super::state::State;
use crate::authority::{MutationAnswer, MutationOutcome};
use crate::driver::{self, Input};
use crate::facade::FacadeSeen;
use crate::identity::CorrelationToken;
use crate::ports::{AuthorityRead, MembersAnswer, MembersAsk, ReadFailure, Scope};
use crate::preflight::FailedRead;
use crate::queue::{ExceptionText, QueueRow};

/// What one host has done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Exec {
    Pending,
    /// The effect is there, the entry not yet marked: a restart runs it again.
    Applied(u16),
    Finished(u16),
}

/// What became of a statement, as its sender knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sent {
    Answered,
    Unknown,
    TooLate,
    NotWritten,
}

/// An answer, by the numbers of [`Engine`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum InputKey {
    Begin,
    /// By member: does not answer, or its row; and how many members the facade is bound to.
    Slot(Vec<Option<Option<u32>>>, u8),
    /// The pending call, and by member: does not answer, or its tables.
    Members(u32, Vec<Option<u32>>),
    Preflight(u32, Vec<Option<u32>>),
    /// Statement and hosts of each entry.
    Scan(Option<Vec<(u32, u8, Vec<Exec>)>>),
    /// Words of a report only: always unreadable.
    Backlog,
    Mutated(MutationOutcome),
    Exact(Option<(u8, Option<u32>)>),
    Witnessed(bool),
    OwnerGone(Option<bool>),
    Sent(u32, Sent),
}

/// Time and randomness of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tick {
    pub(crate) late: bool,
    pub(crate) worker: u8,
    pub(crate) nonce: u8,
    pub(crate) version: u64,
}

impl Tick {
    pub(crate) fn real(self) -> driver::Tick {
        driver::Tick {
            now: real::now(self.late),
            random: real::random(self.worker, self.nonce, self.version),
            stopping: false,
        }
    }
}

pub(crate) fn real(engine: &mut Engine, key: &InputKey) -> Result<Input, String> {
    Ok(match key {
        InputKey::Begin => Input::Begin,
        InputKey::Slot(rows, bound) => Input::Slot(slot(engine, rows, *bound)?),
        InputKey::Members(call, found) => match &*engine.calls.get(*call) {
            CallData::Members(ask) => Input::Members(members(engine, ask, found)?),
            _ => return Err("members without a question".into()),
        },
        InputKey::Preflight(call, found) => match &*engine.calls.get(*call) {
            CallData::Preflight(ask) => {
                let has = |id: &u32| engine.tables.get(*id).iter().any(|(name, _)| name == &ask.target);
                let target = found.iter().flatten().all(has);
                let mut answer = real::unobstructed(ask, found.len(), target);
                for (at, _) in found.iter().enumerate().filter(|(_, f)| f.is_none()) {
                    answer.failures.push(FailedRead {
                        endpoint: real::label(at),
                        failure: ReadFailure::Unavailable,
                        needs: "SELECT",
                    });
                }
                Input::Preflight(answer)
            }
            _ => return Err("preflight without a question".into()),
        },
        InputKey::Scan(None) => Input::Scan(Err(ReadFailure::Unavailable)),
        InputKey::Scan(Some(entries)) => {
            Input::Scan(Ok(entries.iter().flat_map(|entry| entry_rows(engine, entry)).collect()))
        }
        InputKey::Backlog => Input::Backlog(Err(ReadFailure::Unavailable)),
        InputKey::Mutated(outcome) => {
            Input::Mutated(MutationAnswer { outcome: *outcome, transport_calls: 1 })
        }
        InputKey::Exact(read) => Input::Exact(match read {
            Some((at, row)) => {
                let row = row.map(|id| (*engine.rows.get(id)).clone());
                Some((real::server(usize::from(*at)).ok_or("no such server")?, row))
            }
            None => None,
        }),
        InputKey::Witnessed(shown) => Input::Witnessed(*shown),
        InputKey::OwnerGone(gone) => Input::OwnerGone(*gone),
        InputKey::Sent(call, sent) => Input::Sent(engine.sent(*call, *sent)?),
    })
}

fn slot(engine: &Engine, rows: &[Option<Option<u32>>], bound: u8) -> Result<AuthorityRead, String> {
    let mut read = AuthorityRead::default();
    let inventory = real::inventory(usize::from(bound)).ok_or("no such server")?;
    for (at, row) in rows.iter().enumerate() {
        match row {
            Some(row) => {
                let server = real::server(at).ok_or("no such server")?;
                read.facades.push((server.clone(), FacadeSeen::of("p", real::root(), &inventory)));
                read.rows.push((server, row.map(|id| (*engine.rows.get(id)).clone())));
            }
            None => read.failures.push((real::label(at), ReadFailure::Unavailable)),
        }
    }
    Ok(read)
}

pub(super) fn members(
    engine: &Engine,
    ask: &MembersAsk,
    found: &[Option<u32>],
) -> Result<MembersAnswer, String> {
    let mut answer = MembersAnswer::default();
    for (at, tables) in found.iter().enumerate() {
        let Some(tables) = tables else {
            answer.failures.push((real::label(at), ReadFailure::Unavailable));
            continue;
        };
        let tables = engine.tables.get(*tables);
        let at_name = |name: &String| tables.iter().find(|(n, _)| n == name).map(|(_, g)| *g);
        let there = |name: &Option<String>| name.as_ref().is_some_and(|n| at_name(n).is_some());
        let mut member = real::answer(found.len(), at).ok_or("no such server")?;
        member.tables = ask.names.iter().map(|name| (name.clone(), real::fact(at_name(name), at))).collect();
        member.health = there(&ask.health_of).then(|| real::healthy(found.len()));
        member.count = there(&ask.count_of).then_some(10);
        answer.members.push(member);
    }
    if ask.scope == Scope::Cluster && !answer.failures.is_empty() {
        answer.members.clear();
    }
    Ok(answer)
}

/// The rows of the entries with these tokens.
pub(super) fn scanned(engine: &Engine, state: &State, tokens: &[CorrelationToken]) -> Vec<QueueRow> {
    let entries = state.queue.iter().enumerate().filter(|(_, entry)| {
        let token = &engine.stmts.get(entry.stmt).token;
        !entry.gone && tokens.iter().any(|t| t.as_str() == token)
    });
    entries.flat_map(|(at, entry)| entry_rows(engine, &(entry.stmt, at as u8, entry.hosts.clone()))).collect()
}

fn entry_rows(engine: &Engine, (stmt, number, hosts): &(u32, u8, Vec<Exec>)) -> Vec<QueueRow> {
    let stmt = engine.stmts.get(*stmt);
    let row = |(at, exec): (usize, &Exec)| {
        let code = if let Exec::Finished(code) = exec { Some(*code) } else { None };
        QueueRow {
            entry: format!("query-{number:010}"),
            token: stmt.token.clone(),
            cluster: stmt.statement.cluster.clone(),
            query: real::render(&stmt.statement),
            host: Some(real::host(at)),
            port: Some(9000),
            status: Some(
                match exec {
                    Exec::Pending => "Inactive",
                    Exec::Applied(_) => "Active",
                    Exec::Finished(_) => "Finished",
                }
                .into(),
            ),
            exception_code: code.map(i64::from),
            exception_text: match code {
                None => ExceptionText::Null,
                Some(0) => ExceptionText::Empty,
                Some(_) => ExceptionText::Some,
            },
        }
    };
    hosts.iter().enumerate().map(row).collect()
}
