//! J-4, J-5: what a verdict changes of what an operation is bound to. Its phase stays.

use super::{Afresh, complete, refuse};
use crate::admission::{Finding, label};
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::generation::{GenerationIdentity, TableFact};
use crate::inventory::{Inventory, Member};
use crate::limits::RECORD_BYTES_MAX;
use crate::record::Record;
use crate::replica::{MemberState, observe};

/// J-4: whether the members as they are now are exactly the inventory that the verdict names.
///
/// # Errors
/// The finding that stands against it.
pub fn named_inventory(wanted: &Digest, now: &Result<Inventory, Finding>) -> Result<Inventory, Finding> {
    match now {
        // Not the verdict's fault, and a refusal is final: it waits until the members can be read and agree.
        Err(finding) => {
            let message = format!("the members form no inventory: {}", finding.message);
            Err(Finding::wait(finding.code, "J-4", message))
        }
        Ok(inventory) if inventory.digest() != *wanted => {
            let found = inventory.digest();
            Err(refuse("J-4", format!("the inventory is {found} now, not the one that the verdict names")))
        }
        Ok(inventory) => Ok(inventory.clone()),
    }
}

/// J-4: replaces the inventory and what follows from it, nothing else.
pub(super) fn rebound(afresh: &Afresh, wanted: &Digest) -> Result<Record, Finding> {
    let record = &afresh.slot.record;
    let inventory = named_inventory(wanted, &afresh.inventory)?;
    if inventory == record.payload.inventory {
        return Err(refuse("J-4", "the slot is bound to this inventory already"));
    }
    let mut next = record.clone();
    keep_host_sets(&mut next, &inventory);
    next.payload.inventory_digest = inventory.digest();
    next.payload.inventory = inventory;
    no_member_is_unclear(afresh, &next)?;
    let host_bytes: usize = next
        .payload
        .dispatches
        .iter()
        .flat_map(|d| d.hosts.iter().flatten())
        .map(|host| host.len() + 3)
        .sum();
    if next.worst_case_bytes() + host_bytes > RECORD_BYTES_MAX {
        return Err(refuse("C-9", "the record could outgrow its limit with this inventory"));
    }
    Ok(next)
}

/// An entry without a receipt is judged by the hosts that it was sent to.
fn keep_host_sets(next: &mut Record, inventory: &Inventory) {
    let hosts = |inventory: &Inventory| -> Vec<String> {
        let mut hosts: Vec<String> = inventory.members.iter().map(Member::endpoint).collect();
        hosts.sort();
        hosts
    };
    let before = hosts(&next.payload.inventory);
    if before == hosts(inventory) {
        return;
    }
    for dispatch in next.payload.dispatches.iter_mut().filter(|d| d.receipt.is_none() && d.hosts.is_none()) {
        dispatch.hosts = Some(before.clone());
    }
}

/// No member of the new inventory may be UNKNOWN or UNOBSERVED. A final operation says nothing about tables any more.
fn no_member_is_unclear(afresh: &Afresh, next: &Record) -> Result<(), Finding> {
    let (states, drift) = observe(next, &afresh.members);
    if let Some(drift) = drift {
        return Err(refuse("J-4", drift.0));
    }
    for member in &next.payload.inventory.members {
        match states.get(&member.server_uuid) {
            None | Some(MemberState::Unobserved) => {
                let message = format!("{} does not answer; Rebound needs every member", label(member));
                return Err(Finding::wait(ErrorCode::VerdictStale, "J-4", message));
            }
            Some(MemberState::Unknown(mismatch)) if !next.phase.is_final() && !planted!(ReboundUnclear) => {
                let message = format!(
                    "{} has the wrong table under {} ({:?}); give it the tables of this operation first",
                    label(member),
                    mismatch.name,
                    mismatch.found
                );
                return Err(refuse("J-4", message));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// J-5.
pub(super) fn rebaselined(afresh: &Afresh) -> Result<Record, Finding> {
    complete(afresh)?;
    let mut next = afresh.slot.record.clone();
    let mut changed = false;
    let mut rebase = |recorded: &mut GenerationIdentity| {
        let identities =
            afresh.members.members.iter().flat_map(|m| m.tables.values()).filter_map(TableFact::identity);
        let mut same: Vec<&GenerationIdentity> =
            identities.filter(|found| found.same_table(recorded)).collect();
        same.sort();
        same.dedup();
        match same.as_slice() {
            [] => Ok(()),
            [one] => {
                changed |= *one != recorded;
                *recorded = (*one).clone();
                Ok(())
            }
            _ => Err(refuse(
                "J-5",
                "members print the same table differently; bring them to one version first",
            )),
        }
    };
    rebase(&mut next.payload.desired)?;
    if let Some(predecessor) = &mut next.payload.predecessor {
        rebase(predecessor)?;
    }
    let states = observe(&next, &afresh.members).0;
    if !changed || states.values().any(|s| matches!(s, MemberState::Unknown(_))) {
        return Err(refuse(
            "J-5",
            "the members differ from the record in more than how a definition is printed",
        ));
    }
    Ok(next)
}
