//! What PREPARED bound is no longer there when the statement is about to be sent (D-1).

use crate::Case;
use crate::looks::{CANDIDATE, Generations, Story, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::error::Context;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::proxy::{Fault, StatementKind};
use publication_e2e::{Error, Result};
use std::collections::BTreeMap;

pub const CASES: &[(&str, usize, Case)] = &[
    ("candidate_replaced_after_prepared", 2, |s| Box::pin(replaced_after_prepared(s, CANDIDATE))),
    ("target_replaced_after_prepared", 2, |s| Box::pin(replaced_after_prepared(s, TARGET))),
    ("candidate_emptied_after_prepared", 2, |s| Box::pin(candidate_emptied_after_prepared(s))),
    ("target_appears_after_prepared", 2, |s| Box::pin(target_appears_after_prepared(s))),
    ("candidate_replaced_on_one_member", 2, |s| Box::pin(candidate_replaced_on_one_member(s))),
];

const OTHER: &str = "other";

/// Publishes, and changes the world while PREPARED is in Keeper and D-1 has not yet begun; then waits until the
/// release is in Keeper, with nothing dispatched, before the operator may go on.
async fn released_when<F>(s: &mut Stage, target: bool, rows: u64, change: F) -> Result<(Story, Generations)>
where
    F: AsyncFnOnce(&Stage, Generations) -> Result<()>,
{
    s.tables(target, rows).await?;
    let tables = s.tables_of(0).await?;
    let new = tables.get(CANDIDATE).copied().context("candidate")?;
    let before = Generations { old: tables.get(TARGET).copied().unwrap_or_default(), new };
    let story = s.story().await?;
    let prepared = s.env.rule(s.fault(Fault::HoldAnswer, StatementKind::Insert))?;
    let released = s.env.rule(s.fault_of_cas(Fault::HoldAnswer, "RELEASED"))?;
    s.env.publish(&s.publication(rows)).await?;
    prepared.reached(1, SOON).await?;
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &"PREPARED")?;
    change(s, before).await?;
    prepared.release();
    released.reached(1, SOON).await?;
    let slot = s.slot().await?;
    expect("phase in Keeper", &slot.phase.as_str(), &"RELEASED")?;
    expect("epoch in Keeper", &slot.dispatch_epoch, &0)?;
    expect("dispatching CAS requests", &s.cas_requests("DISPATCHING").len(), &0)?;
    s.expect_entries(0, 0, 0).await?;
    released.release();
    Ok((story, before))
}

/// Another table of the same shape under this name, on every member, without the queue.
async fn replace(s: &Stage, name: &str, rows: u64) -> Result<()> {
    s.env.cluster.table_with_rows(&s.database, OTHER, rows, 500).await?;
    for member in 0..s.env.cluster.members.len() {
        replace_on(s, member, name).await?;
    }
    Ok(())
}

async fn replace_on(s: &Stage, member: usize, name: &str) -> Result<()> {
    let db = &s.database;
    let swap = format!("EXCHANGE TABLES {db}.{name} AND {db}.{OTHER}");
    s.env.cluster.sql(member, &swap).await.map(|_| ())
}

/// Equal in all but identity: released; then admission begins anew, with what is there now, under a new fence.
// proves: D-1, C-10, H-3, S11
async fn replaced_after_prepared(s: &mut Stage, name: &'static str) -> Result<()> {
    let rows = if name == CANDIDATE { 5 } else { 3 };
    let (story, before) = released_when(s, true, 5, async |s, _| replace(s, name, rows).await).await?;
    let released = s.slot().await?;
    let told = story.told("IDENTITY_DRIFT").await?;
    let role = if name == CANDIDATE { "candidate:" } else { "target:" };
    let message = text(&told["error"]["message"]);
    expect(message, &message.starts_with(role), &true)?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    let slot = s.slot().await?;
    expect("the same operation", &slot.operation_id, &released.operation_id)?;
    expect("a new fence", &(slot.fence_token != released.fence_token), &true)?;
    s.expect_entries(1, 1, 1).await?;
    // The table that PREPARED had bound was neither published nor dropped.
    let tables = s.tables_of(0).await?;
    let kept = if name == CANDIDATE { before.new } else { before.old };
    expect("the table that was there first", &tables.get(OTHER), &Some(&kept))?;
    let live = tables.get(TARGET).copied().context("target")?;
    expect("published", &(live == before.new), &(name == TARGET))?;
    expect("names left", &tables.len(), &2)?;
    check_one_shot(&s.env.records())
}

/// Another candidate with other rows: released, and not admitted again.
// proves: D-1, C-10, B-8
async fn candidate_emptied_after_prepared(s: &mut Stage) -> Result<()> {
    let (story, before) = released_when(s, true, 5, async |s, _| replace(s, CANDIDATE, 0).await).await?;
    let told = story.told("ROW_COUNT_MISMATCH").await?;
    let message = text(&told["error"]["message"]);
    expect(message, &message.contains("replica 1"), &true)?;
    s.stays_as_it_is().await?;
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &"RELEASED")?;
    s.expect_entries(0, 0, 0).await?;
    expect("target", &s.tables_of(1).await?.get(TARGET), &Some(&before.old))
}

/// Bound as absent, then somebody creates it: a RENAME would fail, an EXCHANGE was not bound.
// proves: D-1, C-10
async fn target_appears_after_prepared(s: &mut Stage) -> Result<()> {
    let appear = async |s: &Stage, _| s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await;
    let (story, before) = released_when(s, false, 5, appear).await?;
    story.told("IDENTITY_DRIFT").await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("target", &s.tables_of(1).await?.get(TARGET), &Some(&before.new))
}

/// On one member alone: nothing to publish until the members agree again.
// proves: D-1, C-10, B-7
async fn candidate_replaced_on_one_member(s: &mut Stage) -> Result<()> {
    let change = async |s: &Stage, _| {
        s.env.cluster.table_with_rows(&s.database, OTHER, 5, 500).await?;
        replace_on(s, 1, CANDIDATE).await
    };
    let (story, before) = released_when(s, true, 5, change).await?;
    let told = story.told("CANDIDATE_INVALID").await?;
    let message = text(&told["error"]["message"]);
    expect(message, &message.starts_with("candidate:"), &true)?;
    s.stays_as_it_is().await?;
    s.expect_entries(0, 0, 0).await?;
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &"RELEASED")?;
    replace_on(s, 1, CANDIDATE).await?;
    s.nudge().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.expect_entries(1, 1, 1).await?;
    let tables = s.tables_of(1).await?;
    let names: BTreeMap<_, _> = tables.iter().filter(|(name, _)| *name != OTHER).collect();
    if names == BTreeMap::from([(&TARGET.to_owned(), &before.new)]) {
        Ok(())
    } else {
        Err(Error::other("tables of member 1", format!("{tables:?}")))
    }
}
