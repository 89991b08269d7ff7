//! Publications that go well.

use crate::Case;
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::evidence::{authority_mutations, check_one_shot, dispatches, queue_scans};

pub const CASES: &[(&str, usize, Case)] = &[
    ("existing_target", 2, |s| Box::pin(existing_target(s))),
    ("absent_target", 2, |s| Box::pin(absent_target(s))),
    ("empty_candidate", 2, |s| Box::pin(empty_candidate(s))),
    ("three_members", 3, |s| Box::pin(existing_target(s))),
];

// proves: F, G-3, G-5, C-4
async fn existing_target(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.clear_faults().await?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)?;
    expect("RENAME entries in Keeper", &s.entries("RENAME").await?, &1)?;
    expect("DROP entries in Keeper", &s.entries("DROP").await?, &1)?;
    let records = s.env.records();
    check_one_shot(&records)?;
    expect("authority mutations", &authority_mutations(&records).len(), &5)?;
    expect("distributed statements", &dispatches(&records, None).len(), &3)?;
    expect("queue scans", &queue_scans(&records).len(), &3)
}

async fn absent_target(s: &mut Stage) -> Result<()> {
    s.tables(false, 5).await?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &0)?;
    expect("RENAME entries in Keeper", &s.entries("RENAME").await?, &1)?;
    expect("DROP entries in Keeper", &s.entries("DROP").await?, &0)
}

async fn empty_candidate(s: &mut Stage) -> Result<()> {
    s.tables(true, 0).await?;
    let publication = s.publication(0);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(0).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)
}
