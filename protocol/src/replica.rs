//! F: the state of one member, from the identities under every name of the operation.

use crate::generation::{GenerationIdentity, TableFact};
use crate::identity::ServerUuid;
use crate::inventory::{Inventory, InventoryError, MemberView};
use crate::ports::MembersAnswer;
use crate::record::Record;
use std::collections::BTreeMap;

/// State of one member. Not a phase, not a queue result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// Target is the predecessor (or absent), candidate is the desired generation.
    Pending,
    /// Target is the desired generation; the candidate's name has the predecessor (or nothing).
    Committed,
    /// Target is the desired generation; this retired name has the predecessor.
    Retired(String),
    /// Target is the desired generation; no other name of the operation exists.
    Cleaned,
    /// It did not answer.
    Unobserved,
    /// Anything else; says which name is wrong.
    Unknown(Mismatch),
}

/// What makes a member UNKNOWN.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mismatch {
    /// The first name that bears what it should not.
    pub name: String,
    /// What was found there.
    pub found: Found,
}

/// What was found under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A known generation in the wrong place.
    Misplaced,
    /// The right table, printed differently (J-5).
    TextDrift,
    /// A generation that the record does not know.
    Foreign,
    /// No replicated table.
    NoGeneration,
}

impl MemberState {
    /// CamelCase, as in status.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Committed => "Committed",
            Self::Retired(_) => "Retired",
            Self::Cleaned => "Cleaned",
            Self::Unobserved => "Unobserved",
            Self::Unknown(_) => "Unknown",
        }
    }

    /// Whether the member serves the desired generation.
    pub fn is_published(&self) -> bool {
        matches!(self, Self::Committed | Self::Retired(_) | Self::Cleaned)
    }
}

/// F, per member. Total. An answer that does not speak of every name of the operation is none (B-2).
pub fn member_state(record: &Record, tables: &BTreeMap<String, TableFact>) -> MemberState {
    if record.all_names().iter().any(|name| !tables.contains_key(name)) {
        return MemberState::Unobserved;
    }
    let names = &record.payload.names;
    let at = |name: &str| tables.get(name).unwrap_or(&TableFact::Absent);
    let (target, candidate) = (at(&names.target), at(&names.candidate));
    let desired = Some(&record.payload.desired);
    let predecessor = record.payload.predecessor.as_ref();
    let retired: Vec<&str> =
        record.retired_names().map(|(name, _)| name).filter(|name| at(name) != &TableFact::Absent).collect();
    let absent = |fact: &TableFact| fact == &TableFact::Absent;
    // With an absent target "is the predecessor" means "is nothing".
    let is_old = |fact: &TableFact| match predecessor {
        Some(old) => fact.identity() == Some(old),
        None => absent(fact),
    };
    match retired.as_slice() {
        [] if is_old(target) && candidate.identity() == desired => MemberState::Pending,
        [] if target.identity() == desired && is_old(candidate) => MemberState::Committed,
        [] if target.identity() == desired && absent(candidate) => MemberState::Cleaned,
        [one]
            if target.identity() == desired
                && absent(candidate)
                && (is_old(at(one)) || planted!(DropByName)) =>
        {
            MemberState::Retired((*one).to_owned())
        }
        _ => MemberState::Unknown(mismatch(record, tables)),
    }
}

/// The name to look at first: a foreign table weighs more than a misplaced one.
fn mismatch(record: &Record, tables: &BTreeMap<String, TableFact>) -> Mismatch {
    let known: Vec<&GenerationIdentity> =
        record.payload.predecessor.iter().chain(std::iter::once(&record.payload.desired)).collect();
    let judge = |name: &String| {
        let found = match tables.get(name) {
            None | Some(TableFact::Absent) => Found::Nothing,
            Some(TableFact::Other(_)) => Found::NoGeneration,
            Some(TableFact::Generation { identity, .. }) if known.contains(&identity) => Found::Misplaced,
            Some(TableFact::Generation { identity, .. }) if known.iter().any(|k| k.same_table(identity)) => {
                Found::TextDrift
            }
            Some(TableFact::Generation { .. }) => Found::Foreign,
        };
        Mismatch { name: name.clone(), found }
    };
    let all: Vec<Mismatch> = record.all_names().iter().map(judge).collect();
    let first = Mismatch { name: record.payload.names.target.clone(), found: Found::Nothing };
    // `max_by_key` keeps the last of equals; reversed, so that the target is named before the rest.
    all.into_iter().rev().max_by_key(|m| m.found).unwrap_or(first)
}

/// The bound inventory no longer describes the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Drift(pub String);

/// States of all bound members and whether the inventory drifted, from answers that may be partial.
pub fn observe(
    record: &Record,
    answer: &MembersAnswer,
) -> (BTreeMap<ServerUuid, MemberState>, Option<Drift>) {
    let bound = &record.payload.inventory;
    let mut states: BTreeMap<ServerUuid, MemberState> =
        bound.members.iter().map(|m| (m.server_uuid.clone(), MemberState::Unobserved)).collect();
    let mut drift = None;
    let mut answered = std::collections::BTreeSet::new();
    for member in &answer.members {
        let view = MemberView { server_uuid: member.server_uuid.clone(), rows: member.view.clone() };
        let found = if answered.insert(&member.server_uuid) {
            agrees(bound, &view)
        } else {
            Err(Drift(InventoryError::SameServerTwice(member.server_uuid.to_string()).to_string()))
        };
        if let Err(found) = found {
            drift = drift.or(Some(found));
        }
        if let Some(state) = states.get_mut(&member.server_uuid) {
            *state = member_state(record, &member.tables);
        }
    }
    (states, drift)
}

/// Whether one member's own view is exactly the bound inventory, with itself local.
fn agrees(bound: &Inventory, view: &MemberView) -> Result<(), Drift> {
    let Some(member) = bound.by_uuid(&view.server_uuid) else {
        return Err(Drift(format!("server {} is not a member that PREPARED bound", view.server_uuid)));
    };
    let endpoints: Vec<_> = {
        let mut rows: Vec<_> =
            view.rows.iter().map(|r| (r.shard, r.replica, r.host.as_str(), r.port)).collect();
        rows.sort_unstable();
        rows
    };
    let mut expected: Vec<_> =
        bound.members.iter().map(|m| (m.shard, m.replica, m.host.as_str(), m.port)).collect();
    expected.sort_unstable();
    if endpoints != expected {
        return Err(Drift(format!("{} sees another system.clusters than PREPARED bound", member.name())));
    }
    let local: Vec<u32> = view.rows.iter().filter(|r| r.is_local).map(|r| r.replica).collect();
    if local != [member.replica] {
        return Err(Drift(format!("{} no longer takes exactly its own row as local", member.name())));
    }
    Ok(())
}
