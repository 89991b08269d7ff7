//! Publications that go well.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::error::Context;
use publication_e2e::evidence::{authority_mutations, check_one_shot, dispatches, queue_scans};
use publication_e2e::proxy::StatementKind;
use std::collections::BTreeMap;
use uuid::Uuid;

pub const CASES: &[(&str, usize, Case)] = &[
    ("existing_target", 2, |s| Box::pin(existing_target(s))),
    ("absent_target", 2, |s| Box::pin(absent_target(s))),
    ("empty_candidate", 2, |s| Box::pin(empty_candidate(s))),
    ("three_members", 3, |s| Box::pin(existing_target(s))),
];

/// The desired generation is the target, alone, on every member; and the record says so, one version for each write of it
/// (a late answer costs a write more).
pub async fn completed(s: &Stage, desired: Uuid, epoch: u64) -> Result<()> {
    let live = BTreeMap::from([(TARGET.to_owned(), desired)]);
    s.expect_tables(&vec![live; s.env.cluster.members.len()]).await?;
    let slot = s.slot().await?;
    let (phase, bound) = (slot.phase.as_str(), slot.payload["desired"].to_string());
    expect("phase and epoch in Keeper", &(phase, slot.dispatch_epoch), &("COMPLETED", epoch))?;
    let writes = s.requests(StatementKind::Insert).len() + s.requests(StatementKind::Update).len();
    expect("_version in Keeper, from 0", &usize::try_from(slot.version + 1).unwrap_or_default(), &writes)?;
    expect(&format!("desired in Keeper: {bound}"), &bound.contains(&desired.to_string()), &true)
}

// proves: F, G-3, G-5, C-4, S01
async fn existing_target(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.clear_faults().await?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)?;
    expect("RENAME entries in Keeper", &s.entries("RENAME").await?, &1)?;
    expect("DROP entries in Keeper", &s.entries("DROP").await?, &1)?;
    s.expect_executed(1, 1, 1).await?;
    completed(s, generations.new, 3).await?;
    let records = s.env.records();
    check_one_shot(&records)?;
    expect("authority mutations", &authority_mutations(&records).len(), &5)?;
    expect("distributed statements", &dispatches(&records, None).len(), &3)?;
    expect("queue scans", &queue_scans(&records).len(), &3)
}

// proves: F, G-5, S01
async fn absent_target(s: &mut Stage) -> Result<()> {
    s.tables(false, 5).await?;
    let new = s.tables_of(0).await?.get(CANDIDATE).copied().context("the candidate")?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &0)?;
    expect("RENAME entries in Keeper", &s.entries("RENAME").await?, &1)?;
    expect("DROP entries in Keeper", &s.entries("DROP").await?, &0)?;
    s.expect_executed(0, 1, 0).await?;
    completed(s, new, 1).await
}

async fn empty_candidate(s: &mut Stage) -> Result<()> {
    s.tables(true, 0).await?;
    let publication = s.publication(0);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(0).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)
}
