//! J-2, J-3: how a verdict ends an operation, or a fence.

use super::{Afresh, complete, refuse};
use crate::admission::{Finding, label};
use crate::code::ErrorCode;
use crate::generation::{GenerationIdentity, TableFact};
use crate::phase::Phase;
use crate::queue::{HostResult, QueueRow, QueueView, host_result};
use crate::record::{Dispatch, Fence, Record};
use crate::replica::{MemberState, observe};
use crate::step::fold_older;

/// J-2 (m).
pub(super) fn ended(afresh: &Afresh, to: Phase) -> Result<Record, Finding> {
    // The table lets a verdict keep a final phase (J-3..J-5); this decision is not about those.
    if afresh.slot.record.phase.is_final() {
        return Err(refuse("J-2", "the operation has ended already; there is nothing to decide"));
    }
    let mut next = afresh.slot.record.clone();
    absorb_receipts(&mut next, afresh);
    next.phase = to;
    complete(afresh)?;
    if to == Phase::Abandoned && nothing_moved(afresh, &next) {
        return Ok(next);
    }
    if !planted!(VerdictWhileCandidateExists) {
        names_are_gone(afresh)?;
    }
    nothing_unfinished(afresh, |_| !planted!(VerdictWhileUnfinished))?;
    if !afresh.deadlines_past && !planted!(VerdictBeforeDeadlines) {
        let message = "the deadlines of the last dispatch are not past yet; looking again";
        return Err(Finding::wait(ErrorCode::VerdictStale, "J-2", message));
    }
    let targets = targets(afresh);
    let desired = &next.payload.desired;
    let fits = match to {
        Phase::Completed => targets.iter().all(|t| *t == Some(desired) || planted!(CommittedWithAnyTarget)),
        // However the desired table is printed now, it is published while the target is it.
        _ => targets.iter().all(|t| Some(t) == targets.first() && t.is_none_or(|t| !t.same_table(desired))),
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
    let rows = afresh.rows.as_deref().unwrap_or_default();
    for dispatch in next.payload.dispatches.iter_mut().filter(|d| d.receipt.is_none()) {
        if let QueueView::Terminal { binding, receipt } = base.queue_view(dispatch, rows) {
            dispatch.entry = Some(binding);
            dispatch.receipt = Some(receipt);
        }
    }
    // C-9.
    fold_older(&mut next.payload.dispatches, 2);
}

/// The exception of J-2: one entry, terminal on every member, everything pending: nothing can be late.
fn nothing_moved(afresh: &Afresh, absorbed: &Record) -> bool {
    let record = &afresh.slot.record;
    let accounted = absorbed.last_dispatch().is_some_and(Dispatch::is_accounted);
    let (states, drift) = observe(record, &afresh.members);
    record.phase.is_dispatched()
        && accounted
        && drift.is_none()
        && states.values().all(|state| *state == MemberState::Pending)
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

/// J-2, J-3: no entry of interest is unfinished on a member of the bound inventory. A host that is no member any more
/// (J-4) has no say; a row without a host may be about anybody.
fn nothing_unfinished(afresh: &Afresh, of_interest: impl Fn(&QueueRow) -> bool) -> Result<(), Finding> {
    let Some(rows) = &afresh.rows else {
        return Err(Finding::wait(ErrorCode::VerdictStale, "J-2", "the queue cannot be read"));
    };
    let inventory = &afresh.slot.record.payload.inventory;
    let concerns = |row: &QueueRow| match (&row.host, row.port) {
        (Some(host), Some(port)) => inventory.by_endpoint(host, port).is_some(),
        _ => true,
    };
    let finished = |row: &QueueRow| {
        let result = host_result(row.status.as_deref(), row.exception_code, row.exception_text);
        matches!(result, HostResult::TerminalSuccess | HostResult::TerminalFailure(_))
    };
    match rows.iter().find(|row| of_interest(row) && concerns(row) && !finished(row)) {
        Some(row) => {
            let host = row.host.as_deref().unwrap_or("a host that the queue does not name");
            let message = format!("entry {} is unfinished on {host}", row.entry);
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
pub(super) fn cleared(afresh: &Afresh, name: &str) -> Result<Record, Finding> {
    let record = &afresh.slot.record;
    if !record.phase.is_final() {
        return Err(refuse("J-3", "the slot is not final; end the operation first"));
    }
    let fences: Vec<Fence> = record.fences().into_iter().filter(|fence| fence.name == name).collect();
    if fences.is_empty() {
        return Err(refuse("J-3", format!("{name} is not fenced in this slot")));
    }
    complete(afresh)?;
    let fenced = |row: &QueueRow| fences.iter().any(|fence| fence.token.as_str() == row.token);
    nothing_unfinished(afresh, |row| fenced(row) && !planted!(ClearUnfinishedFence))?;
    let why_not = match (afresh.running, afresh.deadlines_past) {
        (Some(false), true) => None,
        (_, false) => Some("the deadlines are not past yet; looking again"),
        #[cfg(planted)]
        _ if planted!(ClearRunningFence) => None,
        (Some(true), true) => Some("a member still runs a statement of that epoch"),
        (None, true) => Some("not every member says what it runs; looking again"),
    };
    if let Some(why_not) = why_not {
        return Err(Finding::wait(ErrorCode::VerdictStale, "J-3", why_not));
    }
    let mut next = record.clone();
    next.payload.fenced.retain(|fence| fence.name != name);
    for dispatch in next.payload.dispatches.iter_mut().filter(|d| d.from == name) {
        dispatch.cleared = true;
    }
    Ok(next)
}
