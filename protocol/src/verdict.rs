//! J: what a person's verdict may change, judged from the record and the evidence alone. It sends no statement.

use crate::admission::{Finding, label};
use crate::authority::Now;
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::evidence;
use crate::generation::{GenerationIdentity, TableFact};
use crate::limits::VERDICTS_MAX;
use crate::phase::{Actor, Edge, Phase, edge};
use crate::ports::MembersAnswer;
use crate::queue::{HostResult, QueueRow, QueueView, Sought, host_result, view};
use crate::record::{Record, Slot, VerdictNote};
use crate::replica::{MemberState, observe};

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Decision {
    /// J-2: every target is the desired generation.
    Committed,
    /// J-2: no target is; on PREPARED: release.
    NotApplied,
    /// J-3: no late statement can move this name any more.
    NameCleared(String),
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
        return Err(refuse(
            "J-1",
            "the slot is held by another operation; the verdict is about one that is over",
        ));
    }
    if afresh.digest() != verdict.evidence {
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

fn prepared(record: &Record, decision: &Decision) -> Result<Record, Finding> {
    if *decision != Decision::NotApplied {
        return Err(refuse("J-2", "nothing was dispatched; NotApplied releases the slot"));
    }
    Ok(Record { phase: Phase::Released, ..record.clone() })
}

/// J-2 (m).
fn ended(afresh: &Afresh, to: Phase) -> Result<Record, Finding> {
    let mut next = afresh.slot.record.clone();
    absorb_receipts(&mut next, afresh);
    next.phase = to;
    complete(afresh)?;
    if to == Phase::Abandoned && nothing_moved(afresh, &next) {
        return Ok(next);
    }
    names_are_gone(afresh)?;
    nothing_unfinished(afresh)?;
    if !afresh.deadlines_past {
        let message = "the deadlines of the last dispatch are not past yet; looking again";
        return Err(Finding::wait(ErrorCode::VerdictStale, "J-2", message));
    }
    let targets = targets(afresh);
    let desired = &next.payload.desired;
    let fits = match to {
        Phase::Completed => targets.iter().all(|t| *t == Some(desired)),
        _ => targets.iter().all(|t| t == &targets[0] && *t != Some(desired)),
    };
    if !fits || has_other_tables(afresh) {
        return Err(refuse(
            "J-2",
            match to {
                Phase::Completed => {
                    "Committed needs the desired generation as target on every member; finish the pending members first"
                }
                _ => {
                    "NotApplied needs one target, the same on every member (or none) and not the desired one; revert the members first"
                }
            },
        ));
    }
    Ok(next)
}

/// D-6: a receipt that is there now is kept: it decides what stays fenced.
fn absorb_receipts(next: &mut Record, afresh: &Afresh) {
    let base = next.clone();
    for dispatch in next.payload.dispatches.iter_mut().filter(|d| d.receipt.is_none()) {
        let sought = Sought {
            token: &dispatch.token,
            statement: &base.statement(dispatch),
            bound: dispatch.entry.as_ref(),
            inventory: &base.payload.inventory,
        };
        if let QueueView::Terminal { binding, receipt } =
            view(afresh.rows.as_deref().unwrap_or_default(), sought)
        {
            dispatch.entry = Some(binding);
            dispatch.receipt = Some(receipt);
        }
    }
}

/// The exception of J-2: one entry, terminal on every member, everything pending: nothing can be late.
fn nothing_moved(afresh: &Afresh, absorbed: &Record) -> bool {
    let record = &afresh.slot.record;
    let accounted = absorbed.last_dispatch().is_some_and(crate::record::Dispatch::is_accounted);
    let (states, drift) = observe(record, &afresh.members);
    record.phase.is_dispatched()
        && accounted
        && drift.is_none()
        && states.values().all(|state| *state == MemberState::Pending)
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

/// J-2 (m): the candidate's name and every retired name are absent on every member.
fn names_are_gone(afresh: &Afresh) -> Result<(), Finding> {
    let record = &afresh.slot.record;
    let target = &record.payload.names.target;
    for answer in &afresh.members.members {
        for name in record.all_names().iter().filter(|name| *name != target) {
            if !matches!(answer.tables.get(name), None | Some(TableFact::Absent)) {
                let member =
                    record.payload.inventory.by_uuid(&answer.server_uuid).map(label).unwrap_or_default();
                let message = format!(
                    "{name} still exists on {member}; a late statement could move it: rename it ON CLUSTER to a private name first"
                );
                return Err(refuse("J-2", message));
            }
        }
    }
    Ok(())
}

/// J-2: no entry of the operation is unfinished on a member of the bound inventory.
fn nothing_unfinished(afresh: &Afresh) -> Result<(), Finding> {
    let Some(rows) = &afresh.rows else {
        return Err(Finding::wait(ErrorCode::VerdictStale, "J-2", "the queue cannot be read"));
    };
    let finished = |row: &QueueRow| {
        let result = host_result(row.status.as_deref(), row.exception_code, row.exception_text);
        matches!(result, HostResult::TerminalSuccess | HostResult::TerminalFailure(_))
    };
    match rows.iter().find(|row| !finished(row)) {
        Some(row) => {
            let message =
                format!("entry {} is unfinished on {}", row.entry, row.host.as_deref().unwrap_or("a host"));
            Err(Finding::wait(ErrorCode::VerdictStale, "J-2", message))
        }
        None => Ok(()),
    }
}

fn targets(afresh: &Afresh) -> Vec<Option<&GenerationIdentity>> {
    let target = &afresh.slot.record.payload.names.target;
    afresh.members.members.iter().map(|m| m.tables.get(target).and_then(TableFact::identity)).collect()
}

/// Something under the target's name that is no generation at all.
fn has_other_tables(afresh: &Afresh) -> bool {
    let target = &afresh.slot.record.payload.names.target;
    afresh.members.members.iter().any(|m| matches!(m.tables.get(target), Some(TableFact::Other(_))))
}

/// J-3.
fn cleared(afresh: &Afresh, name: &str) -> Result<Record, Finding> {
    let record = &afresh.slot.record;
    if !record.phase.is_final() {
        return Err(refuse("J-3", "the slot is not final; end the operation first"));
    }
    if !record.fences().iter().any(|fence| fence.name == name) {
        return Err(refuse("J-3", format!("{name} is not fenced in this slot")));
    }
    complete(afresh)?;
    nothing_unfinished(afresh)?;
    match (afresh.running, afresh.deadlines_past) {
        (Some(false), true) => {}
        (Some(true), _) => {
            return Err(Finding::wait(
                ErrorCode::VerdictStale,
                "J-3",
                "a member still runs a statement of that epoch",
            ));
        }
        _ => {
            let message = "the deadlines are not past yet, or not every member could say what it runs";
            return Err(Finding::wait(ErrorCode::VerdictStale, "J-3", message));
        }
    }
    let mut next = record.clone();
    next.payload.fenced.retain(|fence| fence.name != name);
    for dispatch in next.payload.dispatches.iter_mut().filter(|d| d.from == name) {
        dispatch.cleared = true;
    }
    Ok(next)
}

/// J-5.
fn rebaselined(afresh: &Afresh) -> Result<Record, Finding> {
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
