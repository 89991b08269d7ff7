//! J: what a person's verdict may change, judged from the record and the evidence alone. It sends no statement.

mod bound;
mod ended;

pub use bound::named_inventory;

use crate::admission::{Finding, label};
use crate::authority::Now;
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::evidence;
use crate::inventory::Inventory;
use crate::limits::VERDICTS_MAX;
use crate::phase::{Actor, Edge, Phase, edge};
use crate::ports::MembersAnswer;
use crate::queue::QueueRow;
use crate::record::{Ending, Record, Slot, VerdictNote};
use crate::replica::{MemberState, observe};
use bound::{rebaselined, rebound};
use ended::{cleared, ended};

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// J-2: every target is the desired generation.
    Committed,
    /// J-2: no target is; on PREPARED: release.
    NotApplied,
    /// J-3: no late statement can move this name any more.
    NameCleared(String),
    /// J-4: members changed for good; this is the digest of the inventory as it is now.
    Rebound(Digest),
    /// J-5: same tables, printed differently.
    Rebaselined,
}

impl Decision {
    /// As in the manifest.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Committed => "Committed",
            Self::NotApplied => "NotApplied",
            Self::NameCleared(_) => "NameCleared",
            Self::Rebound(_) => "Rebound",
            Self::Rebaselined => "Rebaselined",
        }
    }
}

/// A verdict on one operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Verdict {
    /// UID of the object.
    pub uid: String,
    /// The operation that it names.
    pub operation: Digest,
    /// What was decided.
    pub decision: Decision,
    /// The evidence that the person saw.
    pub evidence: Digest,
}

/// Everything read afresh for one verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Afresh {
    /// The slot.
    pub slot: Slot,
    /// Queue rows of [`evidence::tokens`]; none = unreadable.
    pub rows: Option<Vec<QueueRow>>,
    /// Every member, each at its own endpoint.
    pub members: MembersAnswer,
    /// J-4: the inventory that all members agree on now, or why there is none.
    pub inventory: Result<Inventory, Finding>,
    /// J-3: whether a member still runs a statement of the fence; none = not all could say.
    pub running: Option<bool>,
    /// D-5: the deadlines of every dispatched epoch are past, by this observer's monotonic clock.
    pub deadlines_past: bool,
}

impl Afresh {
    /// J-1.
    pub fn digest(&self) -> Digest {
        evidence::digest(&self.slot, evidence::queue_digest(self.rows.as_deref()), &self.members)
    }
}

/// J-1..J-5: the record to store, or why the verdict is refused. A `Wait` finding may pass by itself.
///
/// # Errors
/// The finding.
pub fn judge(verdict: &Verdict, afresh: &Afresh, now: Now) -> Result<Record, Finding> {
    let record = &afresh.slot.record;
    if record.operation != verdict.operation {
        return Err(over(record, verdict.operation));
    }
    if afresh.digest() != verdict.evidence && !planted!(VerdictWithoutEvidence) {
        // A verdict is immutable and its refusal final: trouble that passes must not cost it.
        if afresh.rows.is_none() || !afresh.members.failures.is_empty() {
            let message = "not everything could be read; looking again";
            return Err(Finding::wait(ErrorCode::VerdictStale, "J-1", message));
        }
        let message = "the evidence is no longer what the verdict names; look again and decide anew";
        return Err(Finding::block(ErrorCode::VerdictStale, "J-1", message));
    }
    let mut next = match &verdict.decision {
        Decision::Committed | Decision::NotApplied if record.phase == Phase::Prepared => {
            prepared(record, &verdict.decision)?
        }
        Decision::Committed => ended(afresh, Phase::Completed)?,
        Decision::NotApplied => ended(afresh, Phase::Abandoned)?,
        Decision::NameCleared(name) => cleared(afresh, name)?,
        Decision::Rebound(inventory) => rebound(afresh, inventory)?,
        Decision::Rebaselined => rebaselined(afresh)?,
    };
    if edge(Actor::Verdict, record.phase, next.phase) != Some(Edge::Verdict) {
        return Err(refuse("H-1", "this decision does not fit the phase of the operation"));
    }
    next.payload.updated_ms = now.wall_ms;
    next.payload.error = None;
    next.payload.verdicts.push(VerdictNote {
        uid: verdict.uid.clone(),
        decision: verdict.decision.as_str().to_owned(),
        evidence: verdict.evidence,
        at_ms: now.wall_ms,
    });
    let surplus = next.payload.verdicts.len().saturating_sub(VERDICTS_MAX);
    next.payload.verdicts.drain(..surplus);
    Ok(next)
}

fn refuse(rule: &'static str, message: impl Into<String>) -> Finding {
    Finding::block(ErrorCode::VerdictStale, rule, message)
}

/// The operation does not hold the slot: says what is known of it.
fn over(record: &Record, operation: Digest) -> Finding {
    let listed = record.payload.recent.iter().rev().find(|recent| recent.operation == operation);
    refuse(
        "J-1",
        match listed.map(|recent| recent.ending) {
            Some(Ending::Completed) => "the operation is over: COMPLETED; another one holds the slot",
            Some(Ending::Released) => "the operation is over: RELEASED; another one holds the slot",
            Some(Ending::Abandoned) => "the operation is over: ABANDONED; another one holds the slot",
            None => "the slot is held by another operation, and this one is not listed in it",
        },
    )
}

fn prepared(record: &Record, decision: &Decision) -> Result<Record, Finding> {
    if *decision != Decision::NotApplied {
        return Err(refuse("J-2", "nothing was dispatched; NotApplied releases the slot"));
    }
    Ok(Record { phase: Phase::Released, ..record.clone() })
}

/// Every bound member answered, once, and the inventory is the bound one.
fn complete(afresh: &Afresh) -> Result<(), Finding> {
    let record = &afresh.slot.record;
    let (states, drift) = observe(record, &afresh.members);
    if let Some(drift) = drift {
        return Err(refuse("J-4", format!("{}; bind the new inventory first (Rebound)", drift.0)));
    }
    let silent = record
        .payload
        .inventory
        .members
        .iter()
        .find(|m| states.get(&m.server_uuid) == Some(&MemberState::Unobserved));
    match silent {
        Some(member) => {
            let message = format!("{} does not answer; a verdict needs every member", label(member));
            Err(Finding::wait(ErrorCode::VerdictStale, "J-2", message))
        }
        None => Ok(()),
    }
}
