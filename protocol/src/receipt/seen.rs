//! What a receipt says of the members: their identities before and after.

use super::Account;
use crate::canonical::Digest;
use crate::generation::GenerationIdentity;
use crate::identity::{ServerUuid, TableUuid};
use crate::phase::Phase;
use crate::record::Record;
use crate::replica::{Found, MemberState, Mismatch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The last look at the members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// Wall clock.
    pub at_ms: u64,
    /// `_version` of the record that was looked at; a later one means that the look led to it.
    pub version: u64,
    /// F.
    pub classification: Option<String>,
    /// F-3.
    pub cause: Option<String>,
    /// J-1.
    pub evidence: Option<Digest>,
    /// Every bound member.
    pub members: Vec<SeenMember>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeenMember {
    /// Which.
    pub server_uuid: ServerUuid,
    /// F.
    pub state: String,
    /// What the target was when the operation was bound; none = absent.
    pub before: Option<Identity>,
    /// What the target is; none = absent, or not known where `state` is Unobserved or Unknown.
    pub after: Option<Identity>,
    /// RETIRED: the name that has the predecessor.
    pub retired_as: Option<String>,
    /// UNKNOWN: which name has what it should not.
    pub mismatch: Option<String>,
}

/// A generation in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Identity {
    /// UUID of the table.
    pub uuid: TableUuid,
    /// digest of all five parts.
    pub digest: Digest,
}

impl Identity {
    /// Of a generation.
    pub fn of(generation: &GenerationIdentity) -> Self {
        Self { uuid: generation.uuid.clone(), digest: generation.digest() }
    }
}

/// What the target is on a member in this state; `None` = not known.
pub(super) fn target_in(account: &Account, state: &MemberState) -> Option<Identity> {
    match state {
        MemberState::Pending => account.predecessor.as_ref().map(Identity::of),
        MemberState::Committed | MemberState::Retired(_) | MemberState::Cleaned => {
            Some(Identity::of(&account.desired))
        }
        MemberState::Unobserved | MemberState::Unknown(_) => None,
    }
}

/// States of all members; of a completed record they follow from its own proof (G-5, J-2), whoever looked when.
pub(super) fn states(
    record: &Record,
    seen: &BTreeMap<ServerUuid, MemberState>,
) -> Option<BTreeMap<ServerUuid, MemberState>> {
    if record.phase == Phase::Completed {
        let state = match record.payload.predecessor {
            Some(_) => MemberState::Cleaned,
            None => MemberState::Committed,
        };
        let members = &record.payload.inventory.members;
        return Some(members.iter().map(|m| (m.server_uuid.clone(), state.clone())).collect());
    }
    (!seen.is_empty()).then(|| seen.clone())
}

pub(super) fn seen_member(account: &Account, server: &ServerUuid, state: &MemberState) -> SeenMember {
    SeenMember {
        server_uuid: server.clone(),
        state: state.as_str().to_owned(),
        before: account.predecessor.as_ref().map(Identity::of),
        after: target_in(account, state),
        retired_as: match state {
            MemberState::Retired(name) => Some(name.clone()),
            _ => None,
        },
        mismatch: match state {
            MemberState::Unknown(mismatch) => Some(mismatch_text(mismatch)),
            _ => None,
        },
    }
}

fn mismatch_text(mismatch: &Mismatch) -> String {
    format!("{}: {:?}", mismatch.name, mismatch.found)
}

/// The state that a document names; none = there is no such state.
pub(super) fn state_of(member: &SeenMember) -> Option<MemberState> {
    Some(match (member.state.as_str(), &member.retired_as, &member.mismatch) {
        ("Pending", None, None) => MemberState::Pending,
        ("Committed", None, None) => MemberState::Committed,
        ("Cleaned", None, None) => MemberState::Cleaned,
        ("Unobserved", None, None) => MemberState::Unobserved,
        ("Retired", Some(name), None) => MemberState::Retired(name.clone()),
        ("Unknown", None, Some(text)) => {
            let (name, _) = text.rsplit_once(": ")?;
            let found =
                [Found::Nothing, Found::Misplaced, Found::TextDrift, Found::Foreign, Found::NoGeneration];
            let mismatch = |found| Mismatch { name: name.to_owned(), found };
            MemberState::Unknown(found.map(mismatch).into_iter().find(|m| mismatch_text(m) == *text)?)
        }
        _ => return None,
    })
}
