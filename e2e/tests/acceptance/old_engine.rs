//! The same operator on the 24.8 engine.
//!
//! On this engine no DROP of a replicated table gets as far as Keeper: the table leaves the catalog at once, which is
//! all that the protocol asks for (G-3 has no SYNC), and its Keeper nodes stay for good. So a publication succeeds
//! here as anywhere; that the old data is gone in the end is shown on the other engine alone.

use crate::Case;
use crate::basics::completed;
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::evidence::{authority_mutations, check_one_shot};
use publication_e2e::proxy::{Fault, StatementKind};

pub const CASES: &[(&str, usize, Case)] = &[
    ("old_engine_existing_target", 2, |s| Box::pin(existing_target(s))),
    ("old_engine_absent_target", 2, |s| Box::pin(absent_target(s))),
    ("old_engine_answer_lost", 2, |s| Box::pin(answer_lost(s))),
];

async fn is_old(s: &Stage) -> Result<()> {
    for member in 0..2 {
        let version = s.env.cluster.sql(member, "SELECT version()").await?;
        expect(version.trim(), &version.starts_with("24.8."), &true)?;
    }
    Ok(())
}

// proves: B-4, F, G-3, G-5, S01
async fn existing_target(s: &mut Stage) -> Result<()> {
    is_old(s).await?;
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.publish(&s.publication(5)).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    completed(s, generations.new, 3).await?;
    s.expect_entries(1, 1, 1).await?;
    s.expect_executed(1, 1, 1).await?;
    expect("authority mutations", &authority_mutations(&s.env.records()).len(), &5)?;
    check_one_shot(&s.env.records())
}

// proves: F, G-5, S01
async fn absent_target(s: &mut Stage) -> Result<()> {
    s.tables(false, 5).await?;
    s.env.publish(&s.publication(5)).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(0, 1, 0).await
}

/// Its queue table and its errors are read rightly too.
// proves: D-3, C-7, S02, S04
async fn answer_lost(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
    let lost = s.env.rule(s.fault(Fault::DropAnswer, StatementKind::Exchange))?;
    s.env.publish(&s.publication(5)).await?;
    let object = s.blocked("PARTIAL_TERMINAL").await?;
    expect("answers dropped", &lost.hits(), &1)?;
    expect("code", &object["status"]["replicas"][1]["exceptionCode"], &serde_json::json!(48))?;
    s.stays_as_it_is().await?;
    expect("EXCHANGE executed by member", &s.executed("EXCHANGE").await?, &vec![1, 0])?;
    s.expect_entries(1, 0, 0).await
}
