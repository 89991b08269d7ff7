//! `doctor`: a PublicationCluster examined from a person's side. What it writes is counted from outside.

use crate::Case;
use crate::cli::{run, text};
use crate::stage::{Stage, expect};
use publication_e2e::ddl::{DdlEntry, count_kind};
use publication_e2e::error::Context;
use publication_e2e::evidence::{authority_mutations, dispatches};
use publication_e2e::manifests::{CLUSTER_OBJECT, CONTROL_DATABASE, PLATFORM};
use publication_e2e::proxy::{Fault, Rule, StatementKind};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};
use std::path::Path;

pub const CASES: &[(&str, usize, Case)] = &[
    ("doctor_healthy_writes_nothing", 2, |s| Box::pin(healthy(s))),
    ("doctor_blocked", 2, |s| Box::pin(blocked(s))),
    ("doctor_self_test", 2, |s| Box::pin(self_test(s))),
    ("doctor_self_test_fails_and_cleans_up", 2, |s| Box::pin(self_test_fails(s))),
];

const AT: [&str; 5] = ["doctor", "--cluster", CLUSTER_OBJECT, "-n", PLATFORM];

/// Whatever lies in Keeper: slots with their versions, and entries of the queue.
async fn keeper(s: &Stage) -> Result<(Vec<(String, i32)>, usize)> {
    let mut slots: Vec<(String, i32)> =
        s.env.slots().await?.into_iter().map(|slot| (slot.target_key, slot.version)).collect();
    slots.sort();
    Ok((slots, s.env.ddl_entries().await?.len()))
}

/// The report of `doctor -o json` and its exit code, with nothing written.
async fn doctor(s: &Stage, code: i32) -> Result<Value> {
    let (before, log) = (keeper(s).await?, s.env.records().len());
    let report = told(s, &[], code).await?;
    let records = s.env.records().split_off(log);
    expect("authority mutations", &authority_mutations(&records).len(), &0)?;
    expect("distributed statements", &dispatches(&records, None).len(), &0)?;
    let effects = records.iter().filter(|record| record.statement.kind.is_mutation()).count();
    expect("statements with an effect", &effects, &0)?;
    expect("slots and entries in Keeper", &keeper(s).await?, &before)?;
    Ok(report)
}

async fn told(s: &Stage, more: &[&str], code: i32) -> Result<Value> {
    let args = [&AT[..], &["-o", "json"], more].concat();
    let output = run(s.env.control_plane.kubeconfig(), &args, "").await?;
    let shown = text(&output);
    expect(&format!("exit code of\n{shown}"), &output.status.code(), &Some(code))?;
    serde_json::from_slice(&output.stdout).context(shown)
}

fn said(report: &Value, level: &str, check: &str, part: &str) -> Result<()> {
    let checks = report["checks"].as_array().cloned().unwrap_or_default();
    let found = checks.iter().any(|found| {
        let evidence = found["evidence"].as_str().unwrap_or_default();
        found["level"] == level && found["check"] == check && evidence.contains(part)
    });
    let wanted = format!("{level} {check}: {part}");
    if found { Ok(()) } else { Err(Error::other(wanted, format!("not in {report:#}"))) }
}

/// Tables of a self-test, on any member.
async fn scratch(s: &Stage) -> Result<Vec<String>> {
    let list = format!(
        "SELECT name FROM system.tables WHERE database = '{CONTROL_DATABASE}' AND startsWith(name, 'publication_selftest')"
    );
    let mut found = Vec::new();
    for member in 0..s.env.cluster.members.len() {
        found.extend(s.env.cluster.sql(member, &list).await?.lines().map(str::to_owned));
    }
    Ok(found)
}

/// Entries that came after these.
async fn since(s: &Stage, before: &[DdlEntry]) -> Result<Vec<DdlEntry>> {
    let mut all = s.env.ddl_entries().await?;
    all.retain(|entry| before.iter().all(|old| old.name != entry.name));
    Ok(all)
}

// proves: B-1, B-2, B-3, B-4, B-5
async fn healthy(s: &mut Stage) -> Result<()> {
    let report = doctor(s, 0).await?;
    expect("verdict", &report["verdict"], &json!("healthy"))?;
    for (check, part) in [
        ("endpoints", "2 endpoints answer"),
        ("topology", "one shard, 2 replicas"),
        ("facade", "is the same on every member"),
        ("binding", "bound to cluster main"),
        ("grants", "what every publication takes"),
    ] {
        said(&report, "ok", check, part)?;
    }
    for (member, seen) in report["members"].as_array().cloned().unwrap_or_default().iter().enumerate() {
        expect("control database", &seen["controlDatabase"], &json!("Atomic"))?;
        let known = (0..2).any(|index| seen["member"] == json!(s.member_name(index)));
        expect(&format!("name of member {member}: {seen}"), &known, &true)?;
    }
    let output = run(s.env.control_plane.kubeconfig(), &AT, "").await?;
    let shown = text(&output);
    expect(&shown, &shown.contains("Nothing was written. (exit code 0)"), &true)?;
    // What the platform has not declared is a warning, and no more.
    s.platform(|cluster| cluster["spec"]["declare"] = json!({})).await?;
    said(&doctor(s, 0).await?, "warn", "no retrying proxy", "declare.noRetryingProxy")
}

// proves: B-2, B-5, B-6
async fn blocked(s: &mut Stage) -> Result<()> {
    s.env.kill_member(1).await?;
    let down = s.env.proxy(1)?.address().to_string();
    said(&doctor(s, 1).await?, "block", "endpoints", &down)?;
    s.env.restart_member(1).await?;
    // The operator does not look at a cluster that did not change: nothing is repaired meanwhile.
    let facade = format!("{CONTROL_DATABASE}.publication_authority");
    let aside = format!("{CONTROL_DATABASE}.aside");
    s.env.cluster.sql(1, &format!("RENAME TABLE {facade} TO {aside}")).await?;
    let report = doctor(s, 2).await;
    s.env.cluster.sql(1, &format!("RENAME TABLE {aside} TO {facade}")).await?;
    said(&report?, "wait", "facade", &format!("missing on {}", s.member_name(1)))?;
    doctor(s, 0).await?;
    let kubeconfig = s.env.control_plane.kubeconfig();
    let nowhere = run(kubeconfig, &["doctor", "--cluster", "nowhere", "-n", PLATFORM], "").await?;
    expect(&text(&nowhere), &nowhere.status.code(), &Some(1))?;
    let lost = run(Path::new("no-such-kubeconfig"), &AT, "").await?;
    expect(&text(&lost), &lost.status.code(), &Some(3))?;
    let usage = run(kubeconfig, &["doctor"], "").await?;
    expect(&text(&usage), &usage.status.code(), &Some(64))
}

// proves: C-2, C-3, C-4, D-3
async fn self_test(s: &mut Stage) -> Result<()> {
    let before = s.env.ddl_entries().await?;
    let (slots, _) = keeper(s).await?;
    let report = told(s, &["--self-test"], 0).await?;
    for check in ["self-test: KeeperMap", "self-test: EXCHANGE", "self-test: clean-up"] {
        said(&report, "ok", check, "")?;
    }
    let entries = since(s, &before).await?;
    for (kind, count) in [("CREATE", 3), ("EXCHANGE", 1), ("DROP", 3)] {
        expect(&format!("{kind} entries in Keeper"), &count_kind(&entries, kind, None), &count)?;
    }
    expect("entries", &entries.len(), &7)?;
    let foreign = entries.iter().filter(|entry| !entry.query.contains("publication_selftest_")).count();
    expect("entries that name other tables", &foreign, &0)?;
    // It says all that it ran: seven entries, and four mutations of the map.
    let steps = report["selfTest"].as_array().map_or(0, Vec::len);
    expect("steps that are told", &steps, &11)?;
    expect("scratch tables left", &scratch(s).await?, &Vec::<String>::new())?;
    expect("slots", &keeper(s).await?.0, &slots)
}

/// A lost answer is reported and not sent again; a statement that fails on a member ends the part. Either way the
/// tables are removed.
// proves: C-4, C-5
async fn self_test_fails(s: &mut Stage) -> Result<()> {
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
    let before = s.env.ddl_entries().await?;
    let report = told(s, &["--self-test"], 1).await?;
    said(&report, "block", "self-test: EXCHANGE", &format!("{} code 48", s.member_name(1)))?;
    said(&report, "ok", "self-test: clean-up", "gone from every member")?;
    let entries = since(s, &before).await?;
    expect("EXCHANGE entries in Keeper", &count_kind(&entries, "EXCHANGE", None), &1)?;
    expect("scratch tables left", &scratch(s).await?, &Vec::<String>::new())?;

    let installed = s.env.rule(Rule::new(Fault::DropAnswer).kind(StatementKind::Exchange))?;
    let before = s.env.ddl_entries().await?;
    let report = told(s, &["--self-test"], 0).await?;
    expect("answers lost", &installed.hits(), &1)?;
    let steps = report["selfTest"].as_array().cloned().unwrap_or_default();
    let said = steps.iter().any(|step| {
        let outcome = step["outcome"].as_str().unwrap_or_default();
        outcome.starts_with("the answer was lost; done on every member")
    });
    expect(&format!("a lost answer is told in {report:#}"), &said, &true)?;
    let entries = since(s, &before).await?;
    expect("EXCHANGE entries in Keeper", &count_kind(&entries, "EXCHANGE", None), &1)?;
    expect("scratch tables left", &scratch(s).await?, &Vec::<String>::new())
}
