//! A statement that does not progress (K13): status names who is waited for and why, nothing is sent again, and the one
//! statement goes through once the member is well. Member 1 is replica 2.

use crate::Case;
use crate::looks::{Generations, replica, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::error::Context;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::manifests::condition;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::StatementKind;
use publication_e2e::{Error, Result};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("stuck_worker_is_named", 2, |s| Box::pin(worker(s))),
    ("stuck_running_statement_is_named", 2, |s| Box::pin(running(s))),
    ("stuck_older_entry_is_named", 2, |s| Box::pin(older_entry(s))),
    ("stuck_keeper_is_named", 2, |s| Box::pin(keeper(s))),
    ("stuck_dead_member_is_named", 2, |s| Box::pin(dead(s))),
    ("stuck_host_that_is_not_local_is_named", 2, |s| Box::pin(not_local(s))),
];

/// Made ON CLUSTER, hence before a worker is stopped.
async fn prepared(s: &Stage) -> Result<Generations> {
    s.tables(true, 5).await?;
    s.generations().await
}

async fn publish(s: &Stage) -> Result<()> {
    s.env.publish(&s.publication(5)).await
}

async fn own_entry(s: &Stage) -> Result<String> {
    let own = s.own_entries().await?.into_iter().find(|entry| entry.kind() == "EXCHANGE");
    Ok(own.context("the EXCHANGE in the queue")?.name)
}

/// Status says it in each of its places; nothing else happens, however often it is looked at.
async fn named(s: &Stage, cause: &str, member: usize, said: &[&str]) -> Result<Value> {
    let object = s.status(&format!("cause {cause}"), |o| o["status"]["cause"] == cause).await?;
    expect("Reconciling", &truth(&object, "Reconciling"), &Some("True"))?;
    expect("Stalled", &truth(&object, "Stalled"), &None)?;
    expect("error", &object["status"]["error"], &Value::Null)?;
    let reconciling = condition(&object, "Reconciling").context("Reconciling")?;
    expect("reason", &text(&reconciling["reason"]), &cause)?;
    let (line, message) =
        (text(&object["status"]["replicas"][member]["message"]), text(&reconciling["message"]));
    let entry = own_entry(s).await?;
    let who = format!("(replica {})", member + 1);
    for part in [entry.as_str(), who.as_str(), "never sent again"].iter().chain(said) {
        expect(&format!("{part} in {message}"), &message.contains(part), &true)?;
    }
    for part in said {
        expect(&format!("{part} in {line}"), &line.contains(part), &true)?;
    }
    let other = &object["status"]["replicas"][1 - member];
    expect("the member that is done", &other["message"], &Value::Null)?;
    for shown in ["EXCHANGE", "CREATE DATABASE", "chpub"] {
        expect(&format!("{shown} in {message}"), &message.contains(shown), &false)?;
    }
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    Ok(object)
}

async fn goes_through(s: &Stage) -> Result<()> {
    s.exchange_ends().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &1)?;
    let object = s.env.publication(SPACE, &s.name()).await?;
    expect("cause in the end", &object["status"]["cause"], &Value::Null)?;
    check_one_shot(&s.env.records())
}

/// Named also by an operator that starts in the middle of it.
// proves: K13, F
async fn worker(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    publish(s).await?;
    let object = named(s, "WorkerStopped", 1, &["its DDL worker takes no entry"]).await?;
    expect("replica 2", &replica(&object, 1), &("Pending", "InProgress"))?;
    s.forget().await?;
    named(s, "WorkerStopped", 1, &["its DDL worker takes no entry"]).await?;
    s.expect_tables(&[generations.after(), generations.before()]).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    goes_through(s).await
}

// proves: K13, F
async fn running(s: &mut Stage) -> Result<()> {
    prepared(s).await?;
    s.env.cluster.member(1)?.ddl_hold("EXCHANGE").await?;
    publish(s).await?;
    named(s, "StatementRunning", 1, &["has begun the statement and is not done"]).await?;
    s.env.cluster.member(1)?.ddl_release("EXCHANGE").await?;
    goes_through(s).await
}

// proves: K13, F
async fn older_entry(s: &mut Stage) -> Result<()> {
    const BLOCKER: &str = "CREATE DATABASE IF NOT EXISTS blocker ON CLUSTER main";
    prepared(s).await?;
    s.env.cluster.member(1)?.ddl_hold("blocker").await?;
    // Sent without waiting for the hosts, so its answer says nothing (159); the queue does.
    let _ = s.env.cluster.member(0)?.sql_with(BLOCKER, &[("distributed_ddl_task_timeout", "0")]).await;
    let blocker = eventually(SOON, "the older entry runs on member 1", || async {
        let all = s.env.ddl_entries().await?;
        let held = all.iter().find(|e| e.query.contains("blocker") && e.active.len() == 1);
        Ok(held.map_or_else(|| Seen::not_yet(format!("{all:?}")), |entry| Seen::Done(entry.name.clone())))
    })
    .await?;
    publish(s).await?;
    named(s, "OlderEntry", 1, &[&blocker, "created", "replica 2 Active"]).await?;
    s.env.cluster.member(1)?.ddl_release("blocker").await?;
    goes_through(s).await
}

/// The first endpoint, through which the queue is scanned as long as it can reach Keeper.
// proves: K13, D-3
async fn keeper(s: &mut Stage) -> Result<()> {
    prepared(s).await?;
    s.env.cluster.member(0)?.ddl_pause().await?;
    publish(s).await?;
    s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await?;
    for what in ["publication_authority", "distributed_ddl_queue"] {
        let fault = json!({"match": what, "code": 999, "where": "any"});
        s.env.cluster.member(0)?.admin("POST", "/statements/fail", fault).await?;
    }
    named(s, "KeeperUnreachable", 0, &["its Keeper session does not work"]).await?;
    s.env.cluster.member(0)?.admin("POST", "/statements/clear", json!({})).await?;
    s.env.cluster.member(0)?.ddl_resume().await?;
    goes_through(s).await
}

// proves: K13, B-2
async fn dead(s: &mut Stage) -> Result<()> {
    prepared(s).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    publish(s).await?;
    s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await?;
    s.env.kill_member(1).await?;
    let object = s.status("cause", |o| o["status"]["cause"] == "MemberUnreachable").await?;
    expect("replica 2", &text(&object["status"]["replicas"][1]["message"]), &"does not answer")?;
    let ready = condition(&object, "Ready").context("Ready")?;
    let said = text(&ready["message"]).contains("bring the server back");
    if !said {
        return Err(Error::other("Ready", ready.to_string()));
    }
    s.expect_entries(1, 0, 0).await?;
    s.env.restart_member(1).await?;
    goes_through(s).await
}

/// Its own view names nobody, as after a change of host name: fail-closed, said with the cause and what to correct.
// proves: K07, K13, B-1, F
async fn not_local(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    publish(s).await?;
    s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await?;
    let nobody = json!({"table": "clusters", "replace": {"is_local": "0"}});
    s.env.cluster.member(1)?.admin("POST", "/system/overlay", nobody).await?;
    let told = named_not_local(s, &generations).await;
    s.env.cluster.member(1)?.admin("POST", "/system/clear", json!({"table": "clusters"})).await?;
    told?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    goes_through(s).await
}

async fn named_not_local(s: &mut Stage, generations: &Generations) -> Result<()> {
    const WORDS: &str = "does not have exactly its own row as is_local";
    s.nudge().await?;
    let object = s.blocked("OUTCOME_UNKNOWN").await?;
    let message = text(&object["status"]["error"]["message"]);
    let said = format!("{} no longer takes exactly its own row as local", s.member_name(1));
    expect(message, &message.contains(&said), &true)?;
    let object = s
        .nudged_until("the member's line says why", SOON, |o| {
            text(&o["status"]["replicas"][1]["message"]).contains(WORDS)
        })
        .await?;
    let line = text(&object["status"]["replicas"][1]["message"]);
    expect(line, &line.contains("correct host names and ports in remote_servers there"), &true)?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[generations.after(), generations.before()]).await
}
