//! What a pass would say of an intent before its first write, all of it at once: `plan` shows it. Pure.

use super::authority_read::judge;
use super::prepare::abandoned;
use crate::admission::{Bound, Finding, admit};
use crate::authority::Now;
use crate::code::ErrorCode;
use crate::facade::bound_to;
use crate::identity::{Names, Random};
use crate::intent::Intent;
use crate::phase::Phase;
use crate::ports::{AuthorityRead, MemberAnswer, MembersAnswer, MembersAsk, Scope};
use crate::preflight::{self, PreflightAnswer};
use crate::record::{Ending, Slot};

/// Whether the slot is there to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It may be taken.
    Free,
    /// Another operation holds it.
    Held,
    /// This very operation holds it: there is nothing to admit any more.
    UnderWay,
    /// The operation is over: asked again, nothing is performed (H-2, H-3).
    Over(Ending),
    /// It could not be read.
    Unread,
}

/// An intent seen against the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Review {
    /// The slot as every member reads it; none = no record yet, or [`Standing::Unread`].
    pub slot: Option<Slot>,
    /// Whose it is.
    pub standing: Standing,
    /// What PREPARED would bind.
    pub bound: Option<Bound>,
    /// Everything that was found, worst first; [`crate::admission::Severity::Warn`] stands against nothing.
    pub findings: Vec<Finding>,
}

/// What an admission reads of every member (B-7, B-8).
pub fn admission_ask(names: &Names) -> MembersAsk {
    MembersAsk {
        scope: Scope::Cluster,
        cluster: names.cluster.clone(),
        database: names.database.clone(),
        names: vec![names.target.clone(), names.candidate.clone()],
        health_of: Some(names.candidate.clone()),
        count_of: Some(names.candidate.clone()),
    }
}

/// Judges everything; a pass stops at the first thing that stands against it. `owner_gone`: C-11, of the slot's owner.
/// `preflight`: once it is known what would be bound, see [`preflight::ask`].
pub fn review(
    intent: &Intent,
    read: &AuthorityRead,
    owner_gone: Option<bool>,
    answer: &MembersAnswer,
    preflight: Option<&PreflightAnswer>,
) -> Review {
    let mut findings = Vec::new();
    let (slot, standing) = match judge(intent, read, 0) {
        Ok(found) => {
            findings.extend(found.missing);
            let standing = standing(intent, found.slot.as_ref(), owner_gone, &mut findings);
            (found.slot, standing)
        }
        Err(finding) => {
            findings.push(finding);
            (None, Standing::Unread)
        }
    };
    if let Standing::Over(_) | Standing::UnderWay = standing {
        let own = slot.as_ref().filter(|slot| slot.record.operation == intent.operation);
        if standing == Standing::Over(Ending::Completed) {
            findings.extend(own.and_then(|slot| drifted(slot, answer)));
        }
        return Review { slot, standing, bound: None, findings };
    }
    findings.extend(expired(intent));
    let bound = match admit(&intent.names, intent.rows, intent.declared_internal_replication, answer) {
        Ok(bound) => Some(bound),
        Err(found) => {
            findings.extend(found);
            None
        }
    };
    if let (Some(bound), true) = (&bound, standing != Standing::Unread) {
        findings.extend(bound_to(&bound.inventory, &read.facades).err());
    }
    if let (Some(bound), Some(answer)) = (&bound, preflight) {
        findings.extend(preflight::judge(&intent.names, &intent.accepted_dependents, bound, answer));
    }
    if standing == Standing::Free {
        findings.extend(refused(intent, slot.as_ref(), bound.clone()));
    }
    let mut seen = Vec::new();
    findings.retain(|finding| {
        let new = !seen.contains(finding);
        seen.push(finding.clone());
        new
    });
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Review { slot, standing, bound, findings }
}

/// As [`super::Driver`] takes it: own, foreign or free.
fn standing(
    intent: &Intent,
    slot: Option<&Slot>,
    owner_gone: Option<bool>,
    findings: &mut Vec<Finding>,
) -> Standing {
    let Some(slot) = slot else { return Standing::Free };
    let record = &slot.record;
    let own = record.operation == intent.operation;
    let listed = record.payload.recent.iter().rev().find(|r| r.operation == intent.operation);
    let ending = match (own, record.phase) {
        (true, Phase::Completed) => Some(Ending::Completed),
        (true, Phase::Abandoned) => Some(Ending::Abandoned),
        (true, _) => None,
        (false, _) => listed.map(|recent| recent.ending).filter(|ending| *ending != Ending::Released),
    };
    match ending {
        Some(ending) => {
            if ending == Ending::Abandoned {
                findings.push(abandoned());
            }
            return Standing::Over(ending);
        }
        None if record.phase.is_final() => return Standing::Free,
        None => {}
    }
    let orphaned = record.phase == Phase::Prepared
        && record.payload.owner.kube_uid == intent.owner.kube_uid
        && owner_gone == Some(true);
    if !own && orphaned {
        return Standing::Free;
    }
    if own {
        findings.push(under_way(slot));
        return Standing::UnderWay;
    }
    findings.push(held_by(slot));
    Standing::Held
}

/// H-2: the target no longer is what a completed operation published.
pub(super) fn drifted(slot: &Slot, answer: &MembersAnswer) -> Option<Finding> {
    let payload = &slot.record.payload;
    let target = &payload.names.target;
    let is = |member: &MemberAnswer| {
        member.tables.get(target).and_then(|fact| fact.identity()) == Some(&payload.desired)
    };
    if answer.members.iter().all(is) {
        return None;
    }
    let message = format!("target: {target} is no longer the generation that this operation published");
    Some(Finding::block(ErrorCode::IdentityDrift, "H-2", message))
}

fn under_way(slot: &Slot) -> Finding {
    let message = format!("this very operation holds the slot ({}); see its status", slot.record.phase);
    Finding::wait(ErrorCode::AuthorityConflict, "C-8", message)
}

/// api: nothing was dispatched in time.
pub(super) fn expired(intent: &Intent) -> Option<Finding> {
    let message = "admissionDeadlineSeconds passed before dispatch; create a new object";
    intent.deadline_passed.then(|| Finding::block(ErrorCode::AdmissionDeadline, "api", message))
}

/// C-8: who holds the slot, for people.
pub(super) fn held_by(slot: &Slot) -> Finding {
    let owner = &slot.record.payload.owner;
    let message = format!(
        "the slot is held by {}/{} (operation {}, {})",
        owner.namespace,
        owner.name,
        slot.record.operation.short(),
        slot.record.phase
    );
    Finding::wait(ErrorCode::AuthorityConflict, "C-8", message)
}

/// B-7 (m), C-9, api: what the slot's history and the record's size refuse.
fn refused(intent: &Intent, slot: Option<&Slot>, bound: Option<Bound>) -> Option<Finding> {
    // A record's size depends on no clock and no token's value.
    let (now, random) = (Now { boot_ms: 0, wall_ms: 0 }, Random([0; 32]));
    match bound {
        None => intent.check_slot(slot).err(),
        // A slot that is taken over by C-11 is PREPARED; the next record is as long over a final one.
        Some(bound) => intent.check_slot(slot).err().or_else(|| {
            let over = slot.filter(|slot| slot.record.phase.is_final());
            intent.prepare(over, bound, now, &random).err()
        }),
    }
}
