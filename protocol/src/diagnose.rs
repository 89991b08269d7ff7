//! K13, K07: why a dispatched statement does not progress, for people. Pure, and it decides nothing: whatever it says, the
//! one statement is waited for and never sent again (F).

use crate::admission::label;
use crate::identity::ServerUuid;
use crate::inventory::{Inventory, Member};
use crate::limits::STATEMENT_EXPECTED_MS;
use crate::ports::{AuthorityRead, MemberAnswer, MembersAnswer, ReadFailure};
use crate::preflight::{Backlog, EntryState};
use crate::queue::{HostResult, QueueView};
use std::collections::{BTreeMap, BTreeSet};

/// Members that a message names; the rest is counted.
const MEMBERS_NAMED_MAX: usize = 3;

/// Ages are told in steps: a status that counted seconds would be written at every look.
const AGE_STEPS: [(u64, &str); 7] = [
    (7 * 86_400, "over 7 d"),
    (86_400, "over 1 d"),
    (6 * 3_600, "over 6 h"),
    (3_600, "over 1 h"),
    (15 * 60, "over 15 min"),
    (5 * 60, "over 5 min"),
    (60, "over 1 min"),
];

/// Why a member has not finished the entry; the surest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StuckCause {
    /// It does not answer.
    Unreachable,
    /// Its own `system.clusters` does not have exactly its own row as local: it never takes the entry for its own (K07).
    HostNotLocal,
    /// It answers, but cannot read what lies in Keeper, where the entry is.
    KeeperUnreachable,
    /// Its replica of the target is read-only.
    ReadOnly,
    /// Each host runs its entries in order, and this one comes first (K13).
    OlderEntry(Blocking),
    /// It has begun the entry and is not done.
    Running,
    /// It has not begun the entry, nothing that it does comes first, and nothing else is wrong with it.
    WorkerStopped,
    /// The queue could not be read to tell, and nothing else is wrong with it.
    Unexplained,
}

/// An older entry that a member has not finished. Never its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocking {
    /// Its name.
    pub entry: String,
    /// What it is on the member that waits behind it.
    pub here: EntryState,
    /// Since its creation, by the clock of the server that was asked.
    pub age_s: u64,
    /// Every member that has not finished it.
    pub unfinished: Vec<(Member, EntryState)>,
}

impl StuckCause {
    /// CamelCase, as in `status.cause`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unreachable => "MemberUnreachable",
            Self::HostNotLocal => "HostNotLocal",
            Self::KeeperUnreachable => "KeeperUnreachable",
            Self::ReadOnly => "MemberReadOnly",
            Self::OlderEntry(_) => "OlderEntry",
            Self::Running => "StatementRunning",
            Self::WorkerStopped => "WorkerStopped",
            Self::Unexplained => "NotProgressing",
        }
    }

    /// The rule that speaks of it.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::HostNotLocal => "B-1",
            Self::Unreachable => "B-2",
            Self::KeeperUnreachable => "B-5",
            Self::ReadOnly => "B-8",
            Self::OlderEntry(_) | Self::Running | Self::WorkerStopped | Self::Unexplained => "F",
        }
    }

    /// What is the case there, in a few words.
    pub fn what(&self) -> String {
        match self {
            Self::Unreachable => "does not answer".into(),
            Self::HostNotLocal => "its system.clusters does not have exactly its own row as is_local".into(),
            Self::KeeperUnreachable => "its Keeper session does not work".into(),
            Self::ReadOnly => "its replica of the target is read-only".into(),
            Self::OlderEntry(older) => older.to_string(),
            Self::Running => "has begun the statement and is not done".into(),
            Self::WorkerStopped => "its DDL worker takes no entry".into(),
            Self::Unexplained => "unfinished, and the DDL queue could not be read for the cause".into(),
        }
    }

    /// What a person does.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreachable => "bring the server back",
            Self::HostNotLocal => "correct host names and ports in remote_servers there",
            Self::KeeperUnreachable => "restore its connection to Keeper",
            Self::ReadOnly => "see system.replicas there",
            Self::OlderEntry(_) => "see what holds that entry up",
            Self::Running => "see system.processes there",
            Self::WorkerStopped => "see the server's log for DDLWorker; a restart starts it anew",
            Self::Unexplained => "see system.distributed_ddl_queue",
        }
    }
}

impl std::fmt::Display for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let on: Vec<String> = self
            .unfinished
            .iter()
            .take(MEMBERS_NAMED_MAX)
            .map(|(member, state)| format!("replica {} {}", member.replica, state.as_str()))
            .collect();
        let more = more(self.unfinished.len());
        write!(f, "waits behind {} (created {} ago; {}{more})", self.entry, age(self.age_s), on.join(", "))
    }
}

/// A member that is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waited {
    /// Who.
    pub member: Member,
    /// Likely causes, the surest first; never empty.
    pub causes: Vec<StuckCause>,
}

impl Waited {
    /// For the member's line of a status: the causes, then what to do about the surest.
    pub fn line(&self) -> String {
        let what: Vec<String> = self.causes.iter().map(StuckCause::what).collect();
        let remedy = self.causes.first().map_or("", StuckCause::remedy);
        format!("{}: {remedy}", what.join("; "))
    }
}

/// A statement that does not progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stuck {
    /// Its entry.
    pub entry: String,
    /// By replica number; never empty.
    pub members: Vec<Waited>,
}

impl Stuck {
    /// The surest of all causes.
    pub fn cause(&self) -> Option<&StuckCause> {
        self.members.iter().filter_map(|waited| waited.causes.first()).min()
    }

    /// One member's part.
    pub fn of(&self, server: &ServerUuid) -> Option<&Waited> {
        self.members.iter().find(|waited| waited.member.server_uuid == *server)
    }

    /// The whole of it in one line.
    pub fn message(&self) -> String {
        let each: Vec<String> = self
            .members
            .iter()
            .take(MEMBERS_NAMED_MAX)
            .map(|waited| {
                let rule = waited.causes.first().map_or("F", StuckCause::rule);
                format!("{} {} ({rule})", label(&waited.member), waited.line())
            })
            .collect();
        let (all, each) = (self.members.len(), each.join(", "));
        let who = if all > MEMBERS_NAMED_MAX { format!("{all} members: {each}, …") } else { each };
        format!("{} does not progress; it is waited for, never sent again; waits for {who}", self.entry)
    }
}

/// The entry that is waited for, and by whom it is not finished. None = nothing is in progress.
pub fn waited_for(queues: &BTreeMap<u64, QueueView>) -> Option<(&str, BTreeSet<&ServerUuid>)> {
    let views = queues.values().rev();
    views.into_iter().find_map(|view| match view {
        QueueView::InProgress { binding, hosts } => {
            let unfinished = hosts.iter().filter(|(_, result)| **result == HostResult::InProgress);
            Some((binding.entry.as_str(), unfinished.map(|(server, _)| server).collect()))
        }
        _ => None,
    })
}

/// Whether it takes longer than a healthy cluster needs.
pub fn is_overdue(seen_for_ms: u64) -> bool {
    seen_for_ms > STATEMENT_EXPECTED_MS
}

/// What the members' own answers tell, without the queue. `read` is of the authority, which lies in Keeper like the
/// queue: who answers but cannot read it has no Keeper.
pub fn signs(
    inventory: &Inventory,
    answer: &MembersAnswer,
    read: &AuthorityRead,
) -> BTreeMap<ServerUuid, StuckCause> {
    // A missing right, or a missing table, is no missing Keeper.
    let silent = |(_, why): &(String, ReadFailure)| {
        matches!(why, ReadFailure::KeeperUnavailable | ReadFailure::NotActivated | ReadFailure::Unavailable)
    };
    let some_silent = read.failures.iter().any(silent);
    let no_keeper = |server: &ServerUuid| some_silent && read.rows.iter().all(|(who, _)| who != server);
    let sign = |member: &Member| {
        let Some(found) = answer.members.iter().find(|m| m.server_uuid == member.server_uuid) else {
            return Some(StuckCause::Unreachable);
        };
        if !is_local(found, member) {
            return Some(StuckCause::HostNotLocal);
        }
        let health = found.health.as_ref();
        let no_session = health.is_some_and(|h| h.session_expired || h.keeper_exception);
        if no_session || no_keeper(&member.server_uuid) {
            return Some(StuckCause::KeeperUnreachable);
        }
        health.is_some_and(|h| h.readonly).then_some(StuckCause::ReadOnly)
    };
    let signs = inventory.members.iter().map(|member| (member, sign(member)));
    signs.filter_map(|(member, sign)| Some((member.server_uuid.clone(), sign?))).collect()
}

fn is_local(found: &MemberAnswer, member: &Member) -> bool {
    let mut local = found.view.iter().filter(|row| row.is_local);
    local.next().is_some_and(|row| row.host == member.host && row.port == member.port)
        && local.next().is_none()
}

/// The diagnosis. `backlog` = unfinished rows of the whole queue, ours among them; none = unreadable. None is returned
/// when nobody is waited for any more.
pub fn diagnose(
    inventory: &Inventory,
    entry: &str,
    unfinished: &BTreeSet<ServerUuid>,
    signs: &BTreeMap<ServerUuid, StuckCause>,
    backlog: Option<&[Backlog]>,
) -> Option<Stuck> {
    let waited = inventory.members.iter().filter(|m| unfinished.contains(&m.server_uuid));
    let members: Vec<Waited> = waited
        .filter_map(|member| {
            let mut causes: Vec<StuckCause> = signs.get(&member.server_uuid).cloned().into_iter().collect();
            match backlog {
                // What it does not explain by itself, the queue may.
                Some(rows) => causes.extend(of_queue(inventory, entry, member, causes.is_empty(), rows)?),
                None if causes.is_empty() => causes.push(StuckCause::Unexplained),
                None => {}
            }
            Some(Waited { member: member.clone(), causes })
        })
        .collect();
    (!members.is_empty()).then(|| Stuck { entry: entry.to_owned(), members })
}

/// None when the member has finished meanwhile. `alone`: nothing else explains it.
fn of_queue(
    inventory: &Inventory,
    entry: &str,
    member: &Member,
    alone: bool,
    rows: &[Backlog],
) -> Option<Vec<StuckCause>> {
    let here: Vec<&Backlog> =
        rows.iter().filter(|row| row.host == member.host && row.port == member.port).collect();
    let own = here.iter().find(|row| row.entry == entry)?;
    let older = here.iter().filter(|row| comes_before(&row.entry, entry));
    // The one that is being run holds the others up; if none is, the first in line is waited for.
    let blocking = older.min_by_key(|row| (row.state != EntryState::Active, number(&row.entry)));
    let stopped =
        own.state == EntryState::Inactive && blocking.is_none_or(|older| older.state == EntryState::Inactive);
    let mut causes: Vec<StuckCause> = blocking
        .map(|older| StuckCause::OlderEntry(blocking_entry(inventory, older, rows)))
        .into_iter()
        .collect();
    match own.state {
        EntryState::Inactive if stopped && alone => causes.push(StuckCause::WorkerStopped),
        EntryState::Active if causes.is_empty() && alone => causes.push(StuckCause::Running),
        EntryState::Unclear if causes.is_empty() && alone => causes.push(StuckCause::Unexplained),
        _ => {}
    }
    Some(causes)
}

fn blocking_entry(inventory: &Inventory, older: &Backlog, rows: &[Backlog]) -> Blocking {
    let on = rows.iter().filter(|row| row.entry == older.entry);
    let mut unfinished: Vec<(Member, EntryState)> =
        on.filter_map(|row| Some((inventory.by_endpoint(&row.host, row.port)?.clone(), row.state))).collect();
    unfinished.sort_by_key(|(member, _)| member.replica);
    unfinished.dedup();
    Blocking { entry: older.entry.clone(), here: older.state, age_s: older.age_s, unfinished }
}

/// `query-0000000012`: the sequence number, which Keeper gives in order.
fn number(entry: &str) -> Option<u64> {
    entry.rsplit_once('-').and_then(|(_, digits)| digits.parse().ok())
}

fn comes_before(other: &str, entry: &str) -> bool {
    matches!((number(other), number(entry)), (Some(other), Some(entry)) if other < entry)
}

fn age(seconds: u64) -> &'static str {
    AGE_STEPS.iter().find(|(from, _)| seconds >= *from).map_or("under 1 min", |(_, text)| text)
}

fn more(all: usize) -> String {
    match all.saturating_sub(MEMBERS_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}
