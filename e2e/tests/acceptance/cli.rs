//! Commands for people: `plan`, `status`, `explain`, as a person runs them. Nothing that they do writes.

use crate::Case;
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::error::Context;
use publication_e2e::evidence::{authority_mutations, dispatches};
use publication_e2e::manifests::{Publication, condition};
use publication_e2e::{Error, Result, paths};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Output, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

pub const CASES: &[(&str, usize, Case)] = &[
    ("plan_admissible_and_what_then_runs", 2, |s| Box::pin(admissible(s))),
    ("plan_absent_target", 2, |s| Box::pin(absent_target(s))),
    ("plan_candidate_missing_on_a_member", 2, |s| Box::pin(candidate_missing(s))),
    ("plan_candidate_unhealthy", 2, |s| Box::pin(candidate_unhealthy(s))),
    ("plan_member_unreachable", 2, |s| Box::pin(member_unreachable(s))),
    ("plan_slot_held", 2, |s| Box::pin(slot_held(s))),
    ("plan_bad_manifest", 2, |s| Box::pin(bad_manifest(s))),
    ("plan_by_someone_who_may_not", 2, |s| Box::pin(may_not(s))),
    ("status_follows_to_the_end", 2, |s| Box::pin(status(s))),
    ("explain_offline", 2, |s| Box::pin(explain(s))),
];

/// Runs the operator's binary with this kubeconfig.
pub async fn run(kubeconfig: &Path, args: &[&str], stdin: &str) -> Result<Output> {
    let what = format!("publication-operator {}", args.join(" "));
    let mut child = Command::new(paths::operator()?)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context(what.clone())?;
    if let Some(mut pipe) = child.stdin.take() {
        // A command that does not read it may have closed it.
        let _ = pipe.write_all(stdin.as_bytes()).await;
    }
    child.wait_with_output().await.context(what)
}

pub fn text(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}{err}", String::from_utf8_lossy(&output.stdout))
}

/// Slots as they lie in Keeper, all of them.
async fn slots(s: &Stage) -> Result<Vec<(String, i32)>> {
    let mut slots: Vec<(String, i32)> =
        s.env.slots().await?.into_iter().map(|slot| (slot.target_key, slot.version)).collect();
    slots.sort();
    Ok(slots)
}

/// The report of `plan -f - -o json` and its exit code. Whatever it says, nothing was written.
async fn plan(s: &Stage, publication: &Publication, code: i32) -> Result<Value> {
    let (slots_before, entries) = (slots(s).await?, s.env.ddl_entries().await?.len());
    let log = s.env.records().len();
    let manifest = publication.manifest().to_string();
    let kubeconfig = s.env.control_plane.kubeconfig();
    let output = run(kubeconfig, &["plan", "-f", "-", "-o", "json"], &manifest).await?;
    let shown = text(&output);
    expect(&format!("exit code of\n{shown}"), &output.status.code(), &Some(code))?;
    let records = s.env.records().split_off(log);
    expect("authority mutations", &authority_mutations(&records).len(), &0)?;
    expect("distributed statements", &dispatches(&records, None).len(), &0)?;
    expect("slots", &slots(s).await?, &slots_before)?;
    expect("entries in Keeper", &s.env.ddl_entries().await?.len(), &entries)?;
    let object =
        s.env.control_plane.object(publication_e2e::kubernetes::Kind::Publication, SPACE, &publication.name);
    expect("the object was created", &object.await?.is_some(), &false)?;
    serde_json::from_slice(&output.stdout).context(shown)
}

fn steps(report: &Value) -> Vec<String> {
    let statements = report["statements"].as_array().cloned().unwrap_or_default();
    statements.iter().map(|s| s["sql"].as_str().unwrap_or_default().to_owned()).collect()
}

fn findings(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().cloned().unwrap_or_default();
    all.iter().map(|f| (text(&f["level"]), text(&f["code"]), text(&f["message"]))).collect()
}

fn said(report: &Value, level: &str, code: &str, part: &str) -> Result<()> {
    let found = findings(report);
    if found.iter().any(|(l, c, m)| l == level && c == code && m.contains(part)) {
        return Ok(());
    }
    Err(Error::other(format!("{level} {code} with {part:?}"), format!("{found:?}")))
}

// proves: B-7, B-8
async fn admissible(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let publication = s.publication(5);
    let report = plan(s, &publication, 0).await?;
    expect("findings", &findings(&report), &vec![])?;
    expect("slot", &report["slot"]["standing"], &json!("free"))?;
    expect("members", &report["members"].as_array().map(Vec::len), &Some(2))?;
    let uuid = s.env.cluster.generation(1, &s.database, "orders__pub_1").await?.context("candidate")?;
    expect("candidate of the second member", &report["members"][1]["candidate"]["is"], &json!(uuid))?;
    let planned = steps(&report);
    s.env.publish(&publication).await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    // What was promised is what lies in the queue, but for the random part of the retired name.
    let mut run: Vec<String> = s.own_entries().await?.into_iter().map(|e| plain(&e.query)).collect();
    run.retain(|query| !query.starts_with("CREATE"));
    let planned: Vec<String> = planned.iter().map(|sql| plain(sql)).collect();
    expect("statements", &run, &planned)?;
    let output = run_plan_again(s, &publication).await?;
    expect("a plan of what was done", &output["verdict"], &json!("done"))
}

/// Without quotes and random part: servers quote as they like.
fn plain(sql: &str) -> String {
    let text = sql.replace('`', "");
    match text.split_once("__retired_") {
        Some((before, after)) => {
            let rest = after.split_once(' ').map(|(_, rest)| format!(" {rest}")).unwrap_or_default();
            format!("{before}__retired_*{rest}")
        }
        None => text,
    }
}

async fn run_plan_again(s: &Stage, publication: &Publication) -> Result<Value> {
    let manifest = publication.manifest().to_string();
    let output = run(s.env.control_plane.kubeconfig(), &["plan", "-f", "-", "-o", "json"], &manifest).await?;
    expect(&text(&output), &output.status.code(), &Some(0))?;
    serde_json::from_slice(&output.stdout).context("a report")
}

async fn absent_target(s: &mut Stage) -> Result<()> {
    s.tables(false, 5).await?;
    let report = plan(s, &s.publication(5), 0).await?;
    let rename = format!(
        "RENAME TABLE `{0}`.`orders__pub_1` TO `{0}`.`orders` ON CLUSTER `{1}`",
        s.database,
        publication_e2e::cluster::CLUSTER
    );
    expect("statements", &steps(&report), &vec![rename])
}

// proves: B-7
async fn candidate_missing(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let drop = format!("DROP TABLE {}.orders__pub_1 SYNC", s.database);
    s.env.cluster.sql(1, &drop).await?;
    let report = plan(s, &s.publication(5), 1).await?;
    said(
        &report,
        "block",
        "CANDIDATE_INVALID",
        &format!("orders__pub_1 is missing on {}", s.member_name(1)),
    )?;
    expect("member", &report["findings"][0]["member"], &json!(s.member_name(1)))
}

// proves: B-8
async fn candidate_unhealthy(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(0)?.replica_fault(&s.database, "orders__pub_1", "queue_size", json!(3)).await?;
    let report = plan(s, &s.publication(4), 2).await?;
    said(&report, "wait", "CANDIDATE_NOT_CONVERGED", &format!("queue_size = 3 on {}", s.member_name(0)))?;
    said(&report, "wait", "ROW_COUNT_MISMATCH", &format!("5 counted on {}", s.member_name(1)))
}

// proves: B-2
async fn member_unreachable(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.kill_member(1).await?;
    let report = plan(s, &s.publication(5), 3).await?;
    let down = s.env.proxy(1)?.address().to_string();
    said(&report, "unknown", "ENDPOINT_UNAVAILABLE", &down)?;
    expect("statements", &steps(&report), &vec![])
}

// proves: C-8
async fn slot_held(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    // Before the hold: each server runs its queue in order.
    s.env.cluster.table_with_rows(&s.database, "orders__pub_2", 7, 100).await?;
    for member in &s.env.cluster.members {
        member.ddl_hold("EXCHANGE").await?;
    }
    let first = s.publication(5);
    s.env.publish(&first).await?;
    s.wait(&first.name, "in progress", |o| (o["status"]["phase"] == "InProgress").then_some(())).await?;
    let mut second = s.publication(7).candidate("orders__pub_2");
    second.name = format!("{}-2", second.name);
    // The operator is at work meanwhile: only what is said counts here.
    let manifest = second.manifest().to_string();
    let output = run(s.env.control_plane.kubeconfig(), &["plan", "-f", "-", "-o", "yaml"], &manifest).await?;
    let shown = text(&output);
    expect(&shown, &output.status.code(), &Some(2))?;
    for part in ["standing: held", &format!("owner: {SPACE}/{}", first.name), "AUTHORITY_CONFLICT"] {
        expect(&format!("{part} in\n{shown}"), &shown.contains(part), &true)?;
    }
    for member in &s.env.cluster.members {
        member.ddl_release("EXCHANGE").await?;
    }
    s.env.wait_outcome(SPACE, &first.name, "Succeeded", SOON).await.map(|_| ())
}

// proves: A-8
async fn bad_manifest(s: &mut Stage) -> Result<()> {
    let report = plan(s, &s.publication(5).candidate("orders_new"), 1).await?;
    said(&report, "block", "SPEC_INVALID", "candidate: ")?;
    expect("rule", &report["findings"][0]["rule"], &json!("A-8"))?;
    let kubeconfig = s.env.control_plane.kubeconfig();
    let output = run(kubeconfig, &["plan", "-f", "-"], "kind: Secret\n").await?;
    expect(&text(&output), &output.status.code(), &Some(1))?;
    let output = run(kubeconfig, &["plan", "-f", "no-such-file"], "").await?;
    expect(&text(&output), &output.status.code(), &Some(3))?;
    let output = run(kubeconfig, &["plan"], "").await?;
    expect(&text(&output), &output.status.code(), &Some(64))
}

async fn may_not(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let name = format!("{}-author", s.database);
    s.env.control_plane.kubectl(["create", "serviceaccount", &name, "-n", SPACE]).await?;
    let token = s.env.control_plane.service_account_token(SPACE, &name).await?;
    let kubeconfig = s.env.control_plane.kubeconfig_for_token(&name, &token)?;
    let manifest = s.publication(5).manifest().to_string();
    let output = run(&kubeconfig, &["plan", "-f", "-"], &manifest).await?;
    let shown = text(&output);
    expect(&shown, &output.status.code(), &Some(3))?;
    expect(&format!("forbidden in\n{shown}"), &shown.contains("forbidden"), &true)?;
    let output = run(Path::new("no-such-kubeconfig"), &["plan", "-f", "-"], &manifest).await?;
    expect(&text(&output), &output.status.code(), &Some(3))
}

async fn status(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    let kubeconfig = s.env.control_plane.kubeconfig();
    let output = run(kubeconfig, &["status", &publication.name, "-n", SPACE, "--watch"], "").await?;
    let shown = text(&output);
    expect(&shown, &output.status.code(), &Some(0))?;
    for part in
        ["outcome         Succeeded", "Replicas (2/2 published)", "Cleaned", "proved on every replica"]
    {
        expect(&format!("{part:?} in\n{shown}"), &shown.contains(part), &true)?;
    }
    let object = s.env.publication(SPACE, &publication.name).await?;
    let args = ["status", &publication.name, "-n", SPACE, "-o", "json"];
    let output = run(kubeconfig, &args, "").await?;
    let json: Value = serde_json::from_slice(&output.stdout).context("a status")?;
    expect("replicas", &json["replicas"], &object["status"]["replicas"])?;
    expect("operation", &json["operation"], &object["status"]["operationId"])?;
    expect("ready", &condition(&object, "Ready").map(|c| c["status"].clone()), &Some(json!("True")))?;
    let output = run(kubeconfig, &["status", "nobody", "-n", SPACE], "").await?;
    expect(&text(&output), &output.status.code(), &Some(3))
}

async fn explain(_: &mut Stage) -> Result<()> {
    let nowhere = Path::new("no-such-kubeconfig");
    let output = run(nowhere, &["explain", "PartialTerminal"], "").await?;
    let shown = text(&output);
    expect(&shown, &output.status.code(), &Some(0))?;
    expect(&shown, &shown.starts_with("# PARTIAL_TERMINAL\n"), &true)?;
    let output = run(nowhere, &["explain", "B-7"], "").await?;
    expect(&text(&output), &output.status.code(), &Some(0))?;
    let output = run(nowhere, &["explain", "PARTIAL_TERMINATE"], "").await?;
    expect(&text(&output), &output.status.code(), &Some(64))?;
    let said = text(&output);
    expect(&said, &said.contains("did you mean PARTIAL_TERMINAL?"), &true)
}
