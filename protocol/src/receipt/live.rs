//! A receipt against the cluster as it is: what Keeper says of the operation, and what the members serve.

use super::{Document, Flaw, account};
use crate::generation::TableFact;
use crate::limits::RECENT_OPERATIONS_MAX;
use crate::phase::Phase;
use crate::ports::MembersAnswer;
use crate::record::{Ending, Recent, Slot};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// Keeper says something else: the receipt is not of this cluster, or was changed.
    pub contradicted: Vec<Flaw>,
    /// The receipt holds, and the cluster has gone on since.
    pub drifted: Vec<Flaw>,
}

/// Compares. `slot`: of the receipt's target; none = Keeper has no such record.
pub fn compare(document: &Document, slot: Option<&Slot>, members: &MembersAnswer) -> Live {
    let mut live = Live::default();
    match slot {
        None => live.contradicted.push(Flaw::new("RecordMissing", "Keeper has no record of this target")),
        Some(slot) if slot.record.operation == document.account.operation => own(document, slot, &mut live),
        Some(slot) => listed(document, slot, &mut live),
    }
    if document.account.phase == Phase::Completed {
        served(document, members, &mut live);
    }
    live
}

/// The operation still holds the slot.
fn own(document: &Document, slot: &Slot, live: &mut Live) {
    let told = document.record_version;
    if slot.version > told {
        let message =
            format!("the record is at version {}, the receipt tells of version {told}", slot.version);
        live.drifted.push(Flaw::new("RecordMovedOn", message));
    } else if slot.version < told || account(&slot.record).digest() != document.account_digest {
        let message = format!("version {} of the record says something else than the receipt", slot.version);
        live.contradicted.push(Flaw::new("RecordDiffers", message));
    }
}

/// Another operation holds the slot: its record lists the last ones.
fn listed(document: &Document, slot: &Slot, live: &mut Live) {
    let recent = &slot.record.payload.recent;
    let operation = document.account.operation;
    let Some(own) = recent.iter().rev().find(|r| r.operation == operation) else {
        let message = "another operation holds the slot, and its record does not list this one";
        let flaw = Flaw::new("NotListed", message);
        // A full list may have lost it.
        let full = recent.len() >= RECENT_OPERATIONS_MAX;
        if full { &mut live.drifted } else { &mut live.contradicted }.push(flaw);
        return;
    };
    if own.final_version > document.record_version {
        let message = format!("the operation ended at version {}, after this receipt", own.final_version);
        live.drifted.push(Flaw::new("RecordMovedOn", message));
    } else if !is_of(document, own) {
        let message = "the slot's history says something else of this operation than the receipt";
        live.contradicted.push(Flaw::new("RecordDiffers", message));
    }
    let later =
        recent.iter().rev().find(|r| r.ending == Ending::Completed && r.final_version > own.final_version);
    let ended = slot.record.phase == Phase::Completed;
    if let Some(operation) = if ended { Some(slot.record.operation) } else { later.map(|r| r.operation) } {
        let message = format!("operation {} has published there since", operation.short());
        live.drifted.push(Flaw::new("Superseded", message));
    }
}

fn is_of(document: &Document, recent: &Recent) -> bool {
    let account = &document.account;
    let ending = match account.phase {
        Phase::Completed => Ending::Completed,
        Phase::Abandoned => Ending::Abandoned,
        _ => Ending::Released,
    };
    account.phase.is_final()
        && recent.ending == ending
        && recent.final_version == document.record_version
        && recent.desired == account.desired.digest()
        && recent.candidate == account.names.candidate
        && recent.receipt.is_none_or(|digest| digest == document.account_digest)
}

/// H-2: every member of the receipt still serves what was published.
fn served(document: &Document, members: &MembersAnswer, live: &mut Live) {
    let account = &document.account;
    for member in &account.members {
        let answers = members.members.iter().find(|answer| answer.server_uuid == member.server_uuid);
        let fact = answers.and_then(|answer| answer.tables.get(&account.names.target));
        let found = match fact {
            Some(fact) if fact.identity() == Some(&account.desired) => continue,
            None => ("MemberSilent", "does not answer".to_owned()),
            Some(TableFact::Absent) => ("IdentityDrift", "has no such table".to_owned()),
            Some(TableFact::Other(_)) => {
                ("IdentityDrift", "has something that is no replicated table".to_owned())
            }
            Some(TableFact::Generation { identity, .. }) if identity.same_table(&account.desired) => {
                ("DefinitionDrift", "has this table with another definition".to_owned())
            }
            Some(TableFact::Generation { identity, .. }) => {
                ("IdentityDrift", format!("has the table {}", identity.uuid))
            }
        };
        live.drifted.push(Flaw::new(found.0, format!("{} {}", member.name(), found.1)));
    }
}
