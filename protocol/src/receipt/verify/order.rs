//! Orders that the transition table does not have, and times that cannot follow each other.

use super::Flaws;
use crate::identity::Action;
use crate::phase::{Actor, Phase, edge};
use crate::receipt::{Account, Document, Look};
use std::collections::BTreeSet;

/// Clocks of two operators may differ; more than this is no clock.
const CLOCK_SKEW_MS_MAX: u64 = 300_000;

pub(super) fn check(document: &Document, flaws: &mut Flaws) {
    times(document, flaws);
    let Some(last) = document.history.last() else {
        flaws.unless(false, "HistoryMissing", || "it does not say how its last version came to be".into());
        return;
    };
    let ends_here = last.version == document.record_version && last.phase == document.account.phase;
    flaws.unless(ends_here, "HistoryMissing", || {
        format!("its history ends at version {}, the record is at {}", last.version, document.record_version)
    });
    for pair in document.history.windows(2) {
        let [from, to] = pair else { continue };
        flaws.unless(can_follow(&document.account, from, to), "ImpossibleOrder", || {
            format!(
                "{} (version {}) after {} (version {}) (H)",
                to.phase, to.version, from.phase, from.version
            )
        });
    }
    every_dispatch_is_listed(document, flaws);
}

/// H: whether the table leads from one version to the other in as many steps as there are versions between.
fn can_follow(account: &Account, from: &Look, to: &Look) -> bool {
    let Some(steps) = to.version.checked_sub(from.version) else { return false };
    if steps == 0 {
        return from.phase == to.phase;
    }
    let mut reached = BTreeSet::from([from.phase]);
    // As many steps as there are phases reach whatever can be reached.
    for _ in 0..steps.min(Phase::ALL.len() as u64) {
        let next: Vec<Phase> = Phase::ALL
            .into_iter()
            .filter(|to| reached.iter().any(|from| is_step(account, *from, *to)))
            .collect();
        if steps == 1 {
            reached.clear();
        }
        reached.extend(next);
    }
    reached.contains(&to.phase)
}

fn is_step(account: &Account, from: Phase, to: Phase) -> bool {
    let by_verdict = !account.verdicts.is_empty() && edge(Actor::Verdict, from, to).is_some();
    // H-3: the same operation again. PREPARED over anything else is another operation's.
    let again = from == Phase::Released && edge(Actor::Taker, from, to).is_some();
    edge(Actor::Own, from, to).is_some() || by_verdict || again
}

/// A version that dispatched something is accounted for by a dispatch of that kind.
fn every_dispatch_is_listed(document: &Document, flaws: &mut Flaws) {
    let kinds = [
        (Action::Publish, [Phase::Dispatching, Phase::InProgress]),
        (Action::Retire, [Phase::RetireDispatching, Phase::RetirePending]),
        (Action::Drop, [Phase::DropDispatching, Phase::DropPending]),
    ];
    // Before a release that sent nothing, the operation was another attempt.
    let begun = document.history.iter().rposition(|look| look.phase == Phase::Released);
    let present = match document.account.phase {
        Phase::Released => document.history.len(),
        _ => begun.map_or(0, |at| at + 1),
    };
    for (action, phases) in kinds {
        let seen = document.history[present..].iter().find(|look| phases.contains(&look.phase));
        let listed = document.account.dispatches.iter().any(|d| d.action == action);
        flaws.unless(seen.is_none() || listed, "StepMissing", || {
            let phase = seen.map(|look| look.phase.as_str()).unwrap_or_default();
            format!("the history has {phase}, and no {} is listed", action.as_str())
        });
    }
}

fn times(document: &Document, flaws: &mut Flaws) {
    let account = &document.account;
    let dispatched = account.dispatches.iter().map(|d| d.at_ms);
    let record: Vec<u64> =
        std::iter::once(account.prepared_ms).chain(dispatched).chain([account.updated_ms]).collect();
    let decided: Vec<u64> = account.verdicts.iter().map(|v| v.at_ms).collect();
    let in_order =
        |times: &[u64]| times.windows(2).all(|pair| pair[0] <= pair[1].saturating_add(CLOCK_SKEW_MS_MAX));
    // Looks have no such order: one who lags looks at a version long after the next one was written.
    flaws.unless(in_order(&record) && in_order(&decided), "TimeOrder", || {
        "a later step is told to have happened more than five minutes before an earlier one".into()
    });
}
