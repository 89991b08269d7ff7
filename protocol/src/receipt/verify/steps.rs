//! Missing, repeated and impossible steps among the dispatches.

use super::Flaws;
use crate::identity::{Action, ServerUuid};
use crate::limits::CLEANUP_EPOCHS_MAX;
use crate::phase::Phase;
use crate::receipt::{Account, Sent};
use std::collections::BTreeSet;

pub(super) fn check(account: &Account, flaws: &mut Flaws) {
    epochs(account, flaws);
    phase(account, flaws);
    unique(account, flaws);
    names(account, flaws);
    results(account, flaws);
    verdicts(account, flaws);
}

fn epochs(account: &Account, flaws: &mut Flaws) {
    let consecutive = account.dispatches.iter().map(|d| d.epoch).eq(1..=account.epoch);
    flaws.unless(consecutive && account.epoch <= CLEANUP_EPOCHS_MAX + 1, "EpochMissing", || {
        format!("the dispatches are not epochs 1 to {} one after the other (C, G-4)", account.epoch)
    });
    let publish_first =
        account.dispatches.iter().enumerate().all(|(at, d)| (at == 0) == (d.action == Action::Publish));
    let known = account.dispatches.iter().all(|d| d.action != Action::Bootstrap);
    flaws.unless(publish_first && known, "ActionOrder", || {
        "a publication is dispatched first and once, cleanup after it (D, G-3)".into()
    });
}

/// H: the phase must be one that the last dispatch can lead to.
fn phase(account: &Account, flaws: &mut Flaws) {
    let last = account.dispatches.last().map(|d| d.action);
    let fits = match account.phase {
        Phase::Prepared => last.is_none(),
        Phase::Released => account.epoch <= 1,
        Phase::Dispatching | Phase::InProgress | Phase::Committed => account.epoch == 1,
        Phase::RetireDispatching | Phase::RetirePending => last == Some(Action::Retire),
        Phase::DropDispatching | Phase::DropPending => last == Some(Action::Drop),
        Phase::Completed | Phase::Abandoned => last.is_some(),
    };
    flaws.unless(fits, "PhaseContradicted", || {
        format!("{} does not follow from the dispatches (H)", account.phase)
    });
    let bound = account.dispatches.last().is_some_and(|d| d.entry.is_some());
    let pending = matches!(account.phase, Phase::InProgress | Phase::RetirePending | Phase::DropPending);
    flaws.unless(bound || !pending, "EntryMissing", || {
        format!("{} needs the bound entry of its dispatch (D-4)", account.phase)
    });
}

/// A-6, D-4: each dispatch has a token and an entry of its own; G-3: each retire a name of its own.
fn unique(account: &Account, flaws: &mut Flaws) {
    let dispatches = &account.dispatches;
    let tokens: BTreeSet<_> = dispatches.iter().map(|d| d.token_digest).collect();
    flaws.unless(tokens.len() == dispatches.len(), "TokenRepeated", || {
        "two dispatches share a token (A-6)".into()
    });
    let entries: Vec<_> = dispatches.iter().filter_map(|d| d.entry.as_ref()).map(|b| &b.entry).collect();
    let distinct: BTreeSet<_> = entries.iter().collect();
    flaws.unless(distinct.len() == entries.len(), "EntryRepeated", || {
        "two dispatches are bound to one entry (D-4)".into()
    });
    let retired: Vec<_> = retires(account).filter_map(|d| d.to.as_ref()).collect();
    let distinct: BTreeSet<_> = retired.iter().collect();
    flaws.unless(distinct.len() == retired.len(), "RetiredNameRepeated", || {
        "two epochs gave one retired name (G-3)".into()
    });
}

fn retires(account: &Account) -> impl Iterator<Item = &Sent> {
    account.dispatches.iter().filter(|d| d.action == Action::Retire)
}

/// D-3, G-3: what each statement moves, and where to.
fn names(account: &Account, flaws: &mut Flaws) {
    let names = &account.names;
    let retired_prefix = format!("{}{}", names.target, crate::identity::RETIRED_INFIX);
    for (at, sent) in account.dispatches.iter().enumerate() {
        let given = |name: &String| {
            account.dispatches[..at].iter().any(|d| d.action == Action::Retire && d.to.as_ref() == Some(name))
        };
        let fits = match (sent.action, &sent.to) {
            (Action::Publish, Some(to)) => sent.from == names.candidate && *to == names.target,
            (Action::Retire, Some(to)) => {
                (sent.from == names.candidate || given(&sent.from)) && to.starts_with(&retired_prefix)
            }
            (Action::Drop, None) => given(&sent.from),
            _ => false,
        };
        flaws.unless(fits, "NameNotGiven", || {
            format!("epoch {} names a table that no step before it can have given (G-3)", sent.epoch)
        });
        let cleans_up = sent.action == Action::Publish || account.predecessor.is_some();
        flaws.unless(cleans_up, "NothingToClean", || {
            format!("epoch {} cleans up although nothing was replaced (G)", sent.epoch)
        });
    }
}

/// D-6, G-1, G-3: a step is taken only over the stored result of the one before it.
fn results(account: &Account, flaws: &mut Flaws) {
    let rebound = account.may_have_decided("Rebound");
    let members: BTreeSet<&ServerUuid> = account.members.iter().map(|m| &m.server_uuid).collect();
    for sent in &account.dispatches {
        let Some(result) = &sent.result else { continue };
        flaws.unless(sent.entry.is_some(), "ResultWithoutEntry", || {
            format!("epoch {} has a result and no entry that gave it (D-4)", sent.epoch)
        });
        let complete = match result.folded {
            Some(_) => result.codes.is_empty() && sent.action != Action::Publish,
            None => rebound || result.codes.keys().collect::<BTreeSet<_>>() == members,
        };
        flaws.unless(
            complete && (result.folded.is_some() || !result.codes.is_empty()),
            "ResultIncomplete",
            || format!("the result of epoch {} is not that of every member (E-1, D-6)", sent.epoch),
        );
    }
    let published = account.dispatches.first().is_some_and(|d| d.result.is_some());
    let needs = account.epoch > 1
        || account.phase == Phase::Committed
        || (account.phase == Phase::Completed && !account.may_have_decided("Committed"));
    flaws.unless(published || !needs, "ResultMissing", || {
        "nothing goes on, or is completed, without the publication's stored result (G-1)".into()
    });
    for dropped in account.dispatches.iter().filter(|d| d.action == Action::Drop) {
        let unaccounted =
            retires(account).any(|d| d.to.as_ref() == Some(&dropped.from) && d.result.is_none());
        flaws.unless(!unaccounted, "ResultMissing", || {
            format!("epoch {} drops a name whose retire is not accounted for (G-3)", dropped.epoch)
        });
    }
}

/// J: an end by a person needs the person's verdict, and a verdict is one of five.
fn verdicts(account: &Account, flaws: &mut Flaws) {
    let known = ["Committed", "NotApplied", "NameCleared", "Rebound", "Rebaselined"];
    let all_known = account.verdicts.iter().all(|v| known.contains(&v.decision.as_str()));
    flaws.unless(all_known, "VerdictUnknown", || "a verdict decides what none can (J)".into());
    let abandoned = account.phase == Phase::Abandoned;
    flaws.unless(!abandoned || account.may_have_decided("NotApplied"), "VerdictMissing", || {
        "ABANDONED comes from a verdict NotApplied only (J-2)".into()
    });
    let contradicted = (account.decided("Committed") && account.phase != Phase::Completed)
        || (account.decided("NotApplied") && !matches!(account.phase, Phase::Abandoned | Phase::Released));
    flaws.unless(!contradicted, "VerdictContradicted", || {
        format!("{} is not what the verdict led to (J-2)", account.phase)
    });
    let cleared = account.dispatches.iter().any(|d| d.cleared);
    flaws.unless(!cleared || account.may_have_decided("NameCleared"), "VerdictMissing", || {
        "a fence is ended by a verdict NameCleared only (J-3)".into()
    });
    let others = account.dispatches.iter().any(|d| d.hosts.is_some());
    flaws.unless(!others || account.may_have_decided("Rebound"), "VerdictMissing", || {
        "hosts other than the inventory's come from a verdict Rebound only (J-4)".into()
    });
}
