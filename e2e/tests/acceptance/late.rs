//! Statements that the network holds back and delivers when nobody waits for them any more.

use crate::Case;
use crate::answers::only_retired_names_are_dropped;
use crate::looks::{CANDIDATE, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::ddl::DdlEntry;
use publication_e2e::error::Context;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::manifests::Publication;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, Installed, StatementKind};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

pub const CASES: &[(&str, usize, Case)] = &[
    ("exchange_arrives_late", 2, |s| Box::pin(exchange_arrives_late(s))),
    ("retire_arrives_late", 2, |s| Box::pin(retire_arrives_late(s))),
];

/// With a statement timeout of 1 s a missing entry counts as missing after 46 s.
const MISSING: Duration = Duration::from_secs(46);

/// Publishes, and ends the operator when the proxy has this statement of it: the network still does, and will deliver
/// it. The new operator, which begins at the given time, knows only what the record says.
async fn held_back(s: &mut Stage, kind: StatementKind) -> Result<(Installed, Instant)> {
    s.statement_timeout(1).await?;
    let rule = s.env.rule(s.fault(Fault::HoldRequest, kind))?;
    s.env.publish(&s.publication(5)).await?;
    rule.reached(1, SOON).await?;
    s.env.operator(0)?.kill9().await?;
    let begun = Instant::now();
    s.env.operator(0)?.restart().await?;
    Ok((rule, begun))
}

/// The record is the same when the entry appears at last, and the operation goes on from there.
// proves: D-3, D-5, F-2
async fn exchange_arrives_late(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let (rule, _) = held_back(s, StatementKind::Exchange).await?;
    s.entry_not_found().await?;
    s.stays_as_it_is().await?;
    s.expect_entries(0, 0, 0).await?;
    rule.release();
    eventually(SOON, "an EXCHANGE entry", || async {
        Ok(Seen::when(s.entries("EXCHANGE").await? == 1, "none"))
    })
    .await?;
    s.exchange_ends().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &1)?;
    check_one_shot(&s.env.records())
}

/// A retire that was not found for long enough is sent again, to a name of its own. When the first one comes after
/// all, even after a new candidate was built under a fresh name, there is nothing left that it could move.
// proves: G-3, G-4, G-5, D-5, B-7
async fn retire_arrives_late(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    let (rule, begun) = held_back(s, StatementKind::Rename).await?;
    let succeeded = |o: &serde_json::Value| o["status"]["outcome"] == "Succeeded";
    let object = s.nudged_until("Succeeded", MISSING + SOON, succeeded).await?;
    expect("waited for the first retire", &(begun.elapsed() >= MISSING), &true)?;
    expect("epochs", &object["status"]["dispatchEpoch"], &serde_json::json!(4))?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    only_retired_names_are_dropped(s).await?;
    let retires = s.requests(StatementKind::Rename);
    let names: Vec<_> = retires.iter().filter_map(|r| retired_name(&r.statement.text)).collect();
    expect("retire requests", &names.len(), &2)?;
    expect("each to a name of its own", &(names[0] != names[1]), &true)?;

    // While the first one is on its way, its candidate's name may not be used again.
    s.env.cluster.table_with_rows(&s.database, CANDIDATE, 7, 200).await?;
    let again = Publication::new(SPACE, &format!("{}-again", s.database), &s.database, TARGET, 7);
    s.env.publish(&again).await?;
    let kind = publication_e2e::kubernetes::Kind::Publication;
    let blocked = |o: &serde_json::Value| (o["status"]["outcome"] == "Blocked").then(|| o.clone());
    let refused = s.env.wait_for(kind, SPACE, &again.name, SOON, "Blocked", blocked).await?;
    expect("code", &text(&refused["status"]["error"]["code"]), &"CANDIDATE_NAME_SPENT")?;
    let spent = s.tables_of(0).await?.get(CANDIDATE).copied().context("second candidate")?;

    rule.release();
    let late = eventually(SOON, "the late RENAME ends", || async {
        let entries = s.own_entries().await?;
        let mut renames = entries.iter().filter(|e| e.kind() == "RENAME" && e.is_terminal_everywhere());
        Ok(Seen::from(renames.nth(1).cloned()))
    })
    .await?;
    expect("results of the late RENAME", &codes(&late), &vec![0, 0])?;
    // It took the table that was built, against the rule, under a name that was never free; the published
    // generation is where it was.
    for member in 0..2 {
        let tables = s.tables_of(member).await?;
        expect("target", &tables.get(TARGET), &Some(&generations.new))?;
        let elsewhere: BTreeMap<_, _> = tables.iter().filter(|(name, _)| *name != TARGET).collect();
        expect("the other table", &elsewhere.into_values().collect::<Vec<_>>(), &vec![&spent])?;
    }
    s.expect_entries(1, 2, 1).await?;
    check_one_shot(&s.env.records())
}

fn retired_name(text: &str) -> Option<String> {
    let at = text.find("orders__retired_")?;
    Some(text[at..].chars().take_while(|c| *c != '`').collect())
}

fn codes(entry: &DdlEntry) -> Vec<i32> {
    entry.finished.values().map(|(code, _)| *code).collect()
}
