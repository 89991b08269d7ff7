//! What was seen of the members, against what the record says.

use super::Flaws;
use crate::classify::{Classification, QueueSummary, classify};
use crate::identity::ServerUuid;
use crate::phase::Phase;
use crate::receipt::seen::{SeenMember, seen_member, state_of};
use crate::receipt::{Account, Document, Observed};
use crate::replica::MemberState;
use std::collections::BTreeSet;

pub(super) fn check(document: &Document, flaws: &mut Flaws) {
    let account = &document.account;
    let members: BTreeSet<&ServerUuid> = account.members.iter().map(|m| &m.server_uuid).collect();
    let strangers = document.server_versions.keys().any(|server| !members.contains(server));
    flaws.unless(!strangers, "MemberForeign", || "a server version is told of no member".into());
    let classes = document.history.iter().filter_map(|look| look.classification.as_deref());
    let mut all = classes.chain(document.observed.iter().filter_map(|o| o.classification.as_deref()));
    flaws.unless(all.all(|class| Classification::WORDS.contains(&class)), "ClassificationUnknown", || {
        "a classification is none of the table's (F)".into()
    });
    let Some(observed) = &document.observed else {
        flaws.unless(account.phase != Phase::Completed, "IdentitiesMissing", || {
            "a completed publication tells the identities of every member".into()
        });
        return;
    };
    let seen: BTreeSet<&ServerUuid> = observed.members.iter().map(|m| &m.server_uuid).collect();
    let complete = seen == members && observed.members.len() == members.len();
    flaws.unless(complete && observed.version <= document.record_version, "IdentitiesMissing", || {
        "the identities are not those of every member, once each".into()
    });
    let states: Vec<Option<MemberState>> = observed.members.iter().map(state_of).collect();
    for (member, state) in observed.members.iter().zip(&states) {
        let fits = state.as_ref().is_some_and(|state| fits(account, member, state));
        flaws.unless(fits, "IdentityContradicted", || {
            format!("what {} had and has does not follow from its state (F)", member.server_uuid)
        });
    }
    let states: Vec<MemberState> = states.into_iter().flatten().collect();
    if account.phase == Phase::Completed {
        let done = |state: &MemberState| match account.predecessor {
            Some(_) => *state == MemberState::Cleaned,
            None => *state == MemberState::Committed,
        };
        flaws.unless(states.iter().all(done), "NotPublished", || {
            "COMPLETED needs the desired generation, and it alone, on every member (G-5)".into()
        });
    }
    classification(document, observed, &states, flaws);
}

fn fits(account: &Account, member: &SeenMember, state: &MemberState) -> bool {
    let named = match state {
        MemberState::Retired(name) => account.dispatches.iter().any(|d| d.to.as_ref() == Some(name)),
        _ => true,
    };
    named && *member == seen_member(account, &member.server_uuid, state)
}

/// F: classified again, where everything that the classifier asks is in the document.
fn classification(document: &Document, observed: &Observed, states: &[MemberState], flaws: &mut Flaws) {
    let account = &document.account;
    let result = account.dispatches.last().and_then(|d| d.result.as_ref());
    let (Some(said), Some(result)) = (&observed.classification, result) else { return };
    let drift = observed.cause.as_deref() == Some("InventoryDrift");
    if observed.version != document.record_version || account.phase.is_final() {
        return;
    }
    let states: Vec<&MemberState> = states.iter().collect();
    let found = classify(account.phase, &states, QueueSummary::of_receipt(result), drift);
    // G decides further on what it cannot see: health, failed drops, limits.
    let blocked = found == Classification::Cleanup && said == "CleanupBlocked";
    flaws.unless(found.as_str() == said || blocked, "ClassificationContradicted", || {
        format!("{said} is told, and {} follows from members and queue (F)", found.as_str())
    });
}
