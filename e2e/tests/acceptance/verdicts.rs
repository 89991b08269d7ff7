//! Verdicts: every way out of docs/recovery.md, by its own commands, judged from outside. Member 1 is replica 2.

use crate::Case;
use crate::looks::{CANDIDATE, Generations, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use kube::ResourceExt;
use kube::api::ListParams;
use publication_e2e::Result;
use publication_e2e::error::Context;
use publication_e2e::kubernetes::{GROUP, Kind};
use publication_e2e::manifests::{CLUSTER_OBJECT, PLATFORM, condition};
use publication_e2e::proxy::{Fault, StatementKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

pub const CASES: &[(&str, usize, Case)] = &[
    ("verdict_stale_or_too_early", 2, |s| Box::pin(stale_or_too_early(s))),
    ("verdict_partial_finished", 2, |s| Box::pin(partial_finished(s))),
    ("verdict_partial_reverted", 2, |s| Box::pin(partial_reverted(s))),
    ("verdict_partial_finished_in_place", 2, |s| Box::pin(partial_finished_in_place(s))),
    ("verdict_absent_target", 2, |s| Box::pin(absent_target(s))),
    ("verdict_failed_unchanged", 2, |s| Box::pin(failed_unchanged(s))),
    ("verdict_outcome_unknown", 2, |s| Box::pin(outcome_unknown(s))),
];

/// With a statement timeout of 1 s the deadlines of a dispatch are past after 46 s.
const DEADLINES: Duration = Duration::from_secs(120);
pub const PRIVATE: &str = "orders_private";

pub async fn partial(s: &mut Stage) -> Result<Generations> {
    s.statement_timeout(1).await?;
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
    s.env.publish(&s.publication(5)).await?;
    s.blocked("PARTIAL_TERMINAL").await?;
    Ok(generations)
}

pub fn spec(s: &Stage, object: &Value, decision: &str, evidence: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "PublicationVerdict",
        "metadata": {"generateName": "test-", "namespace": PLATFORM},
        "spec": {
            "clusterRef": {"name": CLUSTER_OBJECT}, "database": s.database, "target": TARGET,
            "operationId": object["status"]["operationId"], "decision": decision, "evidenceDigest": evidence,
            "reason": "a test",
        },
    })
}

/// Waits until a verdict is applied or refused; the condition's type, reason and message.
pub async fn settled(s: &Stage, name: &str) -> Result<(String, String, String)> {
    let found = |object: &Value| {
        ["Applied", "Refused"].iter().find_map(|kind| {
            let condition = condition(object, kind).filter(|c| c["status"] == "True")?;
            let word = |field: &str| text(&condition[field]).to_owned();
            Some(((*kind).to_owned(), word("reason"), word("message")))
        })
    };
    s.env.wait_for(Kind::Verdict, PLATFORM, name, DEADLINES, "applied or refused", found).await
}

async fn decided(
    s: &Stage,
    object: &Value,
    decision: &str,
    evidence: &str,
) -> Result<(String, String, String)> {
    let made =
        s.env.control_plane.create(Kind::Verdict, PLATFORM, spec(s, object, decision, evidence)).await?;
    settled(s, text(&made["metadata"]["name"])).await
}

/// Runs a command of the page that creates a verdict, and waits until it took effect.
pub async fn applied(s: &Stage, block: &str) -> Result<String> {
    let before = verdicts(s).await?;
    let shown = s.run_sh(block, &[]).await?;
    let name = verdicts(s).await?.into_iter().find(|name| !before.contains(name)).context("a new verdict")?;
    expect("names the object", &shown.contains(&name), &true)?;
    let (kind, reason, message) = settled(s, &name).await?;
    expect(&format!("{block}: {reason} {message}"), &kind.as_str(), &"Applied")?;
    Ok(shown)
}

pub async fn verdicts(s: &Stage) -> Result<Vec<String>> {
    let api = s.env.control_plane.api(Kind::Verdict, PLATFORM);
    let all = api.list(&ListParams::default()).await.context("list verdicts")?;
    Ok(all.items.iter().map(ResourceExt::name_any).collect())
}

pub async fn target_is(s: &Stage, wanted: Uuid) -> Result<()> {
    for member in 0..s.env.cluster.members.len() {
        let found = s.tables_of(member).await?.get(TARGET).copied();
        expect(&format!("target of member {member}"), &found, &Some(wanted))?;
    }
    Ok(())
}

pub async fn slot_is(s: &Stage, phase: &str) -> Result<()> {
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &phase)
}

/// Ends as this outcome, with as many statements as before.
pub async fn ends(s: &Stage, outcome: &str, phase: &str) -> Result<()> {
    s.env.wait_outcome(SPACE, &s.name(), outcome, SOON).await?;
    slot_is(s, phase).await
}

/// The evidence digest that `inspect` shows.
pub async fn inspected(s: &Stage) -> Result<Value> {
    let command = format!(
        "publication-operator inspect --cluster {CLUSTER_OBJECT} -n {PLATFORM} --database {} --target {TARGET} -o json",
        s.database
    );
    serde_json::from_str(&s.shell(&command).await?).context("inspect -o json")
}

// proves: J-1, J-2
async fn stale_or_too_early(s: &mut Stage) -> Result<()> {
    partial(s).await?;
    let object = s.status("an evidence digest", |o| o["status"]["evidenceDigest"].is_string()).await?;
    let evidence = text(&object["status"]["evidenceDigest"]);
    // What the operator showed is what a person sees, and looking changes nothing.
    let effects = s.effects();
    let seen = inspected(s).await?;
    expect("digest", &text(&seen["slot"]["evidenceDigest"]), &evidence)?;
    expect("statements sent by inspect", &s.effects(), &effects)?;
    let screen = s.run_sh("inspect", &[]).await?;
    expect(&screen, &(screen.contains("Pending") && screen.contains("failed with code 48")), &true)?;
    let (kind, reason, _) = decided(s, &object, "Committed", &"0".repeat(64)).await?;
    expect("stale", &(kind.as_str(), reason.as_str()), &("Refused", "VerdictStale"))?;
    let (kind, _, message) = decided(s, &object, "Committed", evidence).await?;
    expect(
        &message,
        &(kind == "Refused" && message.contains(CANDIDATE) && message.contains("replica")),
        &true,
    )?;
    let other = json!({"status": {"operationId": "0".repeat(64)}});
    let (kind, _, _) = decided(s, &other, "Committed", evidence).await?;
    expect("another operation", &kind.as_str(), &"Refused")?;
    slot_is(s, "IN_PROGRESS").await?;
    s.expect_entries(1, 0, 0).await
}

// proves: J-1, J-2
async fn partial_finished(s: &mut Stage) -> Result<()> {
    let generations = partial(s).await?;
    s.run_sql("private-name", 0).await?;
    s.run_sql("swap", 1).await?;
    applied(s, "committed").await?;
    s.run_sh("verdicts", &[]).await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    target_is(s, generations.new).await?;
    let tables =
        BTreeMap::from([(TARGET.to_owned(), generations.new), (PRIVATE.to_owned(), generations.old)]);
    s.expect_tables(&[tables.clone(), tables]).await?;
    // The one rename is the person's.
    s.expect_entries(1, 1, 0).await
}

// proves: J-2
async fn partial_reverted(s: &mut Stage) -> Result<()> {
    let generations = partial(s).await?;
    s.run_sql("private-name", 1).await?;
    s.run_sql("swap", 0).await?;
    applied(s, "not-applied").await?;
    ends(s, "Failed", "ABANDONED").await?;
    target_is(s, generations.old).await?;
    s.expect_entries(1, 1, 0).await
}

/// The entry has ended everywhere: the operator goes on by itself.
// proves: F-2
async fn partial_finished_in_place(s: &mut Stage) -> Result<()> {
    let generations = partial(s).await?;
    s.run_sql("finish-in-place", 1).await?;
    s.nudge().await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    target_is(s, generations.new).await?;
    s.expect_entries(1, 1, 1).await
}

/// Nothing to exchange with: finished once, and in another database reverted.
// proves: J-2
async fn absent_target(s: &mut Stage) -> Result<()> {
    s.statement_timeout(1).await?;
    for (block, member, decision, outcome, phase) in [
        ("finish-absent", 1, "committed", "Succeeded", "COMPLETED"),
        ("revert-absent", 0, "not-applied", "Failed", "ABANDONED"),
    ] {
        s.fresh_database().await?;
        s.tables(false, 5).await?;
        s.env.cluster.member(1)?.ddl_fail("RENAME", 48, "not here", 1).await?;
        s.env.publish(&s.publication(5)).await?;
        s.blocked("PARTIAL_TERMINAL").await?;
        // Member 0 has no table of that name any more: its part of this rename fails, as it should.
        if let Err(error) = s.run_sql("private-name", 1).await {
            expect(&error.to_string(), &error.to_string().contains("60"), &true)?;
        }
        s.run_sql(block, member).await?;
        applied(s, decision).await?;
        ends(s, outcome, phase).await?;
    }
    Ok(())
}

// proves: J-2, B-7
async fn failed_unchanged(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    for member in &s.env.cluster.members {
        member.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
    }
    s.env.publish(&s.publication(5)).await?;
    s.blocked("FAILED_UNCHANGED").await?;
    applied(s, "failed-unchanged").await?;
    ends(s, "Failed", "ABANDONED").await?;
    s.run_sql("fresh-name", 0).await?;
    s.run_sh("retry", &[]).await?;
    s.env.wait_outcome(SPACE, &format!("{}-retry", s.name()), "Succeeded", SOON).await?;
    target_is(s, generations.new).await?;
    s.published(5).await
}

// proves: J-2, J-3, B-7, D-5
async fn outcome_unknown(s: &mut Stage) -> Result<()> {
    s.statement_timeout(1).await?;
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.rule(s.fault(Fault::CutBeforeSend, StatementKind::Exchange))?;
    s.env.publish(&s.publication(5)).await?;
    s.entry_not_found().await?;
    s.run_sql("private-name", 0).await?;
    applied(s, "not-applied").await?;
    ends(s, "Failed", "ABANDONED").await?;
    target_is(s, generations.old).await?;
    let seen = inspected(s).await?;
    expect("fences", &text(&seen["slot"]["fences"][0]["name"]), &CANDIDATE)?;
    // The same rows under the same name: refused.
    let again = format!("RENAME TABLE {0}.{PRIVATE} TO {0}.{CANDIDATE} ON CLUSTER main", s.database);
    s.env.cluster.sql(0, &again).await?;
    let mut second = s.publication(5);
    second.name.push_str("-again");
    s.env.publish(&second).await?;
    let spent = |o: &Value| (o["status"]["error"]["code"] == "CANDIDATE_NAME_SPENT").then_some(());
    s.wait(&second.name, "CANDIDATE_NAME_SPENT", spent).await?;
    applied(s, "name-cleared").await?;
    let seen = inspected(s).await?;
    expect("fences", &seen["slot"]["fences"], &json!([]))?;
    s.expect_entries(0, 2, 0).await
}
