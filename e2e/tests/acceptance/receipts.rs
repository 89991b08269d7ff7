//! Receipts of real runs: kept beside the PublicationCluster, found by name, verified offline and against the cluster.

use crate::Case;
use crate::cli::{run, text as shown};
use crate::looks::{TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use crate::verdicts::{applied, ends, partial};
use publication_e2e::Result;
use publication_e2e::error::Context;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{PLATFORM, Publication};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("receipt_of_a_publication", 2, |s| Box::pin(of_a_publication(s))),
    ("receipt_of_a_verdict", 2, |s| Box::pin(of_a_verdict(s))),
    ("receipts_are_bounded", 2, |s| Box::pin(bounded(s))),
];

async fn receipt(s: &Stage, name: &str, more: &[&str]) -> Result<Value> {
    let mut args = vec!["receipt", name, "-n", SPACE, "-o", "json"];
    args.extend(more);
    let output = run(s.env.control_plane.kubeconfig(), &args, "").await?;
    expect(&shown(&output), &output.status.code(), &Some(0))?;
    serde_json::from_slice(&output.stdout).context("receipt -o json")
}

/// The verdict and the names of the findings.
async fn verified(s: &Stage, receipt: &Value, live: bool, code: i32) -> Result<Vec<String>> {
    let mut args = vec!["verify-receipt", "-", "-o", "json"];
    args.extend(live.then_some("--live"));
    let output = run(s.env.control_plane.kubeconfig(), &args, &receipt.to_string()).await?;
    expect(&shown(&output), &output.status.code(), &Some(code))?;
    let report: Value = serde_json::from_slice(&output.stdout).context("verify-receipt -o json")?;
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    Ok(findings.iter().map(|finding| text(&finding["name"]).to_owned()).collect())
}

fn words(receipt: &Value, field: &str) -> Vec<String> {
    let history = receipt["history"].as_array().cloned().unwrap_or_default();
    history.iter().map(|look| look[field].as_str().unwrap_or("-").to_owned()).collect()
}

// proves: D-6, G-5, C-1
async fn of_a_publication(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.publish(&s.publication(5)).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    let receipt_before = receipt(s, &s.name(), &[]).await?;
    let slot = s.slot().await?;
    let told = (&receipt_before["accountDigest"], receipt_before["recordVersion"].as_i64());
    expect("what Keeper holds", &told, &(&slot.payload["receipt"], Some(slot.version.into())))?;
    let members = receipt_before["observed"]["members"].as_array().cloned().unwrap_or_default();
    expect("members", &members.len(), &2)?;
    for member in &members {
        expect("before", &member["before"]["uuid"], &json!(generations.old))?;
        expect("after", &member["after"]["uuid"], &json!(generations.new))?;
    }
    let phases = ["PREPARED", "DISPATCHING", "RETIRE_DISPATCHING", "DROP_DISPATCHING", "COMPLETED"];
    let passed: Vec<String> =
        words(&receipt_before, "phase").into_iter().filter(|p| phases.contains(&p.as_str())).collect();
    expect("history", &passed.iter().map(String::as_str).collect::<Vec<_>>(), &phases.to_vec())?;
    let whole = receipt_before.to_string();
    for dispatch in slot.payload["dispatches"].as_array().into_iter().flatten() {
        expect("tokens told", &whole.contains(text(&dispatch["token"])), &false)?;
    }
    expect("password told", &whole.contains(s.env.cluster.publisher_password()), &false)?;
    expect("offline", &verified(s, &receipt_before, false, 0).await?, &vec![])?;
    expect("live", &verified(s, &receipt_before, true, 0).await?, &vec![])?;
    let mut spoilt = receipt_before.clone();
    spoilt["account"]["rowCount"] = json!(6);
    let found = verified(s, &spoilt, true, 1).await?;
    expect("changed", &found.contains(&"DigestMismatch".to_owned()), &true)?;

    // It outlives the object.
    s.env.control_plane.delete(Kind::Publication, SPACE, &s.name()).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &s.name(), SOON).await?;
    let platform = ["--platform-namespace", PLATFORM];
    expect("kept", &(receipt(s, &s.name(), &platform).await? == receipt_before), &true)?;

    // Somebody takes the table away on one member.
    let away = format!("RENAME TABLE {db}.{TARGET} TO {db}.away", db = s.database);
    s.env.cluster.sql(1, &away).await?;
    expect("drift", &verified(s, &receipt_before, true, 2).await?, &vec!["IdentityDrift".to_owned()])?;
    expect("offline", &verified(s, &receipt_before, false, 0).await?, &vec![])
}

/// Blocked, then decided by a person: one receipt tells both.
// proves: J-1, F-3
async fn of_a_verdict(s: &mut Stage) -> Result<()> {
    partial(s).await?;
    let blocked = receipt(s, &s.name(), &[]).await?;
    expect("classification", &text(&blocked["observed"]["classification"]), &"PartialTerminal")?;
    expect("blocked", &verified(s, &blocked, true, 0).await?, &vec![])?;
    s.run_sql("private-name", 0).await?;
    s.run_sql("swap", 1).await?;
    applied(s, "committed").await?;
    ends(s, "Succeeded", "COMPLETED").await?;
    let decided = receipt(s, &s.name(), &[]).await?;
    expect("verdict", &text(&decided["account"]["verdicts"][0]["decision"]), &"Committed")?;
    let classes = words(&decided, "classification");
    expect("history", &classes.contains(&"PartialTerminal".to_owned()), &true)?;
    expect("decided", &verified(s, &decided, true, 0).await?, &vec![])?;
    // The one from before holds, and is no longer the last word.
    expect("moved on", &verified(s, &blocked, true, 2).await?, &vec!["RecordMovedOn".to_owned()])
}

async fn bounded(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.table_with_rows(&s.database, "items__pub_1", 5, 100).await?;
    s.platform(|cluster| cluster["spec"]["history"] = json!({"receiptsMax": 1})).await?;
    s.env.publish(&s.publication(5)).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    receipt(s, &s.name(), &[]).await?;
    let other = Publication::new(SPACE, &format!("{}-items", s.name()), &s.database, "items", 5);
    s.env.publish(&other).await?;
    s.env.wait_outcome(SPACE, &other.name, "Succeeded", SOON).await?;
    receipt(s, &other.name, &[]).await?;
    let first = s.name();
    let output = run(s.env.control_plane.kubeconfig(), &["receipt", &first, "-n", SPACE], "").await?;
    expect(&shown(&output), &output.status.code(), &Some(3))?;
    expect("says where to look", &shown(&output).contains("receiptsMax"), &true)
}
