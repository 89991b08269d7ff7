//! Members that are slow, dead, or run the statement in a way of their own. Member 1 is replica 2.

use crate::Case;
use crate::answers::only_retired_names_are_dropped;
use crate::looks::{CANDIDATE, Generations, TARGET, replica, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::error::Context;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::proxy::StatementKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

pub const CASES: &[(&str, usize, Case)] = &[
    ("worker_paused", 2, |s| Box::pin(worker_paused(s))),
    ("worker_holds_the_entry", 2, |s| Box::pin(worker_holds_the_entry(s))),
    ("all_workers_paused", 2, |s| Box::pin(all_workers_paused(s))),
    ("member_killed", 2, |s| Box::pin(member_killed(s))),
    ("one_of_three_killed", 3, |s| Box::pin(member_killed(s))),
    ("one_member_fails", 2, |s| Box::pin(one_member_fails(s))),
    ("one_of_three_fails", 3, |s| Box::pin(one_member_fails(s))),
    ("all_members_fail", 2, |s| Box::pin(all_members_fail(s))),
    ("drop_fails_on_one_member", 2, |s| Box::pin(drop_fails_on_one_member(s))),
    ("member_runs_it_twice", 2, |s| Box::pin(member_runs_it_twice(s))),
    ("member_reverts_before_cleanup", 2, |s| Box::pin(member_reverts_before_cleanup(s))),
    ("member_reverts_during_cleanup", 2, |s| Box::pin(member_reverts_during_cleanup(s))),
];

async fn publish(s: &Stage) -> Result<()> {
    s.env.publish(&s.publication(5)).await
}

async fn prepared(s: &Stage) -> Result<Generations> {
    s.tables(true, 5).await?;
    s.generations().await
}

/// The one statement reached every member in the end.
async fn succeeds_with_one_exchange(s: &Stage) -> Result<()> {
    s.exchange_ends().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &1)?;
    check_one_shot(&s.env.records())
}

/// All members but the last one have it, and the last one is in this state.
fn last_is(object: &Value, state: &str) -> bool {
    let replicas = object["status"]["replicas"].as_array().map_or(0, Vec::len);
    let (last, others) = ((replicas.wrapping_sub(1)), 0..replicas.saturating_sub(1));
    replicas > 0
        && replica(object, last).0 == state
        && others.into_iter().all(|i| replica(object, i).0 == "Committed")
}

async fn partial_in_progress(s: &Stage, state: &str) -> Result<Value> {
    let object = s
        .status(&format!("PartialInProgress, last member {state}"), |o| {
            o["status"]["classification"] == "PartialInProgress" && last_is(o, state)
        })
        .await?;
    expect("Reconciling", &truth(&object, "Reconciling"), &Some("True"))?;
    expect("Stalled", &truth(&object, "Stalled"), &None)?;
    Ok(object)
}

// proves: F, D-3, K13
async fn worker_paused(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    publish(s).await?;
    let object = partial_in_progress(s, "Pending").await?;
    expect("replica 1", &replica(&object, 0), &("Committed", "TerminalSuccess"))?;
    expect("replica 2", &replica(&object, 1), &("Pending", "InProgress"))?;
    let entry = &s.own_entries().await?.into_iter().find(|e| e.kind() == "EXCHANGE").context("an entry")?;
    expect("entry", &text(&object["status"]["publication"]["entry"]), &entry.name.as_str())?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[generations.after(), generations.before()]).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    succeeds_with_one_exchange(s).await
}

/// Active instead of Inactive, and on the member that the statement was sent to.
// proves: F, K13
async fn worker_holds_the_entry(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(0)?.ddl_hold("EXCHANGE").await?;
    publish(s).await?;
    let object =
        s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await?;
    expect("replica 1", &replica(&object, 0), &("Pending", "InProgress"))?;
    expect("replica 2", &replica(&object, 1), &("Committed", "TerminalSuccess"))?;
    s.stays_as_it_is().await?;
    s.expect_tables(&[generations.before(), generations.after()]).await?;
    s.env.cluster.member(0)?.ddl_release("EXCHANGE").await?;
    succeeds_with_one_exchange(s).await
}

/// Nobody has begun: in flight all the same, also for an operator that starts in the middle of it.
// proves: F, F-2, K13
async fn all_workers_paused(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    for member in &s.env.cluster.members {
        member.ddl_pause().await?;
    }
    publish(s).await?;
    let in_progress = |o: &Value| o["status"]["classification"] == "InProgress";
    s.status("InProgress", in_progress).await?;
    s.forget().await?;
    s.stays_as_it_is().await?;
    let object = s.status("InProgress", in_progress).await?;
    expect("replica 1", &replica(&object, 0), &("Pending", "InProgress"))?;
    expect("replica 2", &replica(&object, 1), &("Pending", "InProgress"))?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[generations.before(), generations.before()]).await?;
    for member in &s.env.cluster.members {
        member.ddl_resume().await?;
    }
    succeeds_with_one_exchange(s).await
}

// proves: F, F-2, B-2, S03
async fn member_killed(s: &mut Stage) -> Result<()> {
    prepared(s).await?;
    let last = s.env.cluster.members.len() - 1;
    s.env.cluster.member(last)?.ddl_pause().await?;
    publish(s).await?;
    let object = partial_in_progress(s, "Pending").await?;
    let bound = object["status"]["publication"]["entry"].clone();
    expect("an entry is bound", &bound.is_string(), &true)?;
    s.env.kill_member(last).await?;
    let object = partial_in_progress(s, "Unobserved").await?;
    let dead = &object["status"]["replicas"][last];
    expect("replica", &dead["replica"], &json!(last + 1))?;
    expect("message", &text(&dead["message"]), &"does not answer")?;
    let effects = s.effects();
    s.poke().await?;
    expect("statements sent while a member is dead", &s.effects(), &effects)?;
    s.expect_entries(1, 0, 0).await?;
    s.env.restart_member(last).await?;
    succeeds_with_one_exchange(s).await?;
    s.expect_executed(1, 1, 1).await?;
    let object = s.env.publication(SPACE, &s.name()).await?;
    expect("the original entry", &object["status"]["publication"]["entry"], &bound)
}

// proves: F, G-5, K11, K29, S04
async fn one_member_fails(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    let last = s.env.cluster.members.len() - 1;
    let long = format!("not here\0\n{}\r\n", "a row's value\n".repeat(2_300));
    s.env.cluster.member(last)?.ddl_fail("EXCHANGE", 48, &long, 1).await?;
    publish(s).await?;
    let object = s.blocked("PARTIAL_TERMINAL").await?;
    expect("classification", &text(&object["status"]["classification"]), &"PartialTerminal")?;
    let message = text(&object["status"]["error"]["message"]);
    let named = message.contains(&s.member_name(last)) && message.contains("(code 48)");
    expect(message, &named, &true)?;
    let shown = object.to_string();
    expect(
        "the server's text is shown",
        &(shown.contains("not here") || shown.contains("a row's value")),
        &false,
    )?;
    expect("its state", &replica(&object, last), &("Pending", "TerminalFailure"))?;
    expect("its code", &object["status"]["replicas"][last]["exceptionCode"], &json!(48))?;
    expect("the others", &replica(&object, 0), &("Committed", "TerminalSuccess"))?;
    s.stays_as_it_is().await?;
    // Neither does a new operator with no memory do anything about it.
    s.forget().await?;
    s.stays_as_it_is().await?;
    s.blocked("PARTIAL_TERMINAL").await?;
    s.expect_entries(1, 0, 0).await?;
    let mut ran = vec![1; last];
    ran.push(0);
    expect("EXCHANGE executed by member", &s.executed("EXCHANGE").await?, &ran)?;
    let mut tables = vec![generations.after(); last];
    tables.push(generations.before());
    s.expect_tables(&tables).await?;
    let slot = s.slot().await?;
    expect("phase in Keeper", &slot.phase.as_str(), &"IN_PROGRESS")?;
    expect("receipt in Keeper", &slot.payload["dispatches"][0]["receipt"].is_object(), &true)
}

// proves: F, G-5
async fn all_members_fail(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    for member in &s.env.cluster.members {
        member.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
    }
    publish(s).await?;
    let object = s.blocked("FAILED_UNCHANGED").await?;
    expect("classification", &text(&object["status"]["classification"]), &"FailedUnchanged")?;
    for member in 0..2 {
        expect("replica", &replica(&object, member), &("Pending", "TerminalFailure"))?;
    }
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[generations.before(), generations.before()]).await
}

/// Too large to drop, say: published all the same, and tried again only when somebody has done something.
// proves: G-4, K21
async fn drop_fails_on_one_member(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(1)?.ddl_fail("DROP TABLE", 359, "too large", 0).await?;
    publish(s).await?;
    let object = s.blocked("CLEANUP_BLOCKED").await?;
    expect("cause", &text(&object["status"]["cause"]), &"DropFailed")?;
    let message = text(&object["status"]["error"]["message"]);
    expect(message, &(message.contains(&s.member_name(1)) && message.contains("(code 359)")), &true)?;
    expect("replica 1", &replica(&object, 0), &("Cleaned", "TerminalSuccess"))?;
    // The publication's own result stays; what failed is named.
    expect("replica 2", &replica(&object, 1), &("Retired", "TerminalSuccess"))?;
    let cleanup = json!({"action": "Drop", "result": "TerminalFailure", "exceptionCode": 359});
    expect("cleanup of replica 2", &object["status"]["replicas"][1]["cleanup"], &cleanup)?;
    expect("cleanup", &text(&object["status"]["cleanup"]["action"]), &"Drop")?;
    expect("published", &text(&object["status"]["replicasCommitted"]), &"2/2")?;
    let counts = s.env.cluster.counts(&s.database, TARGET).await?;
    expect("rows served", &counts, &vec![5, 5])?;
    // A look alone is no reason: the new operator remembers nothing and sees the same object.
    let before = s.own_entries().await?.len();
    s.forget().await?;
    expect("entries", &s.own_entries().await?.len(), &before)?;
    s.expect_entries(1, 1, 1).await?;
    let live = BTreeMap::from([(TARGET.to_owned(), generations.new)]);
    expect("tables of member 0", &s.tables_of(0).await?, &live)?;
    expect("predecessor on member 1", &retired(&s.tables_of(1).await?), &Some(generations.old))?;
    // The limit is raised, and somebody says so.
    s.env.cluster.member(1)?.ddl_clear().await?;
    let patch = json!({"metadata": {"labels": {"limit": "raised"}}});
    let kind = publication_e2e::kubernetes::Kind::Publication;
    s.env.control_plane.merge_patch(kind, SPACE, &s.name(), &patch).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 2).await?;
    only_retired_names_are_dropped(s).await?;
    check_one_shot(&s.env.records())
}

/// The generation under the retired name, when there is exactly one such name and no candidate.
fn retired(tables: &BTreeMap<String, Uuid>) -> Option<Uuid> {
    let mut names = tables.iter().filter(|(name, _)| name.starts_with("orders__retired_"));
    let found = names.next().map(|(_, uuid)| *uuid);
    found.filter(|_| names.next().is_none() && !tables.contains_key(CANDIDATE))
}

/// Killed after it ran the entry and before it said so; restarted, it runs it again, and ends where it began.
// proves: F, K31
async fn member_runs_it_twice(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    s.env.cluster.member(1)?.ddl_crash_after_execute("EXCHANGE").await?;
    publish(s).await?;
    expect("exit code", &s.env.cluster.member_mut(1)?.wait_exit(SOON).await?, &137)?;
    s.env.restart_member(1).await?;
    s.exchange_ends().await?;
    let object = s.blocked("PARTIAL_TERMINAL").await?;
    expect("replica 1", &replica(&object, 0), &("Committed", "TerminalSuccess"))?;
    expect("replica 2", &replica(&object, 1), &("Pending", "TerminalSuccess"))?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    expect("EXCHANGE executed by member", &s.executed("EXCHANGE").await?, &vec![1, 2])?;
    s.expect_tables(&[generations.after(), generations.before()]).await
}

/// Power loss takes an acknowledged swap back on one member, before anything was cleaned up.
// proves: G-1, G-2, F-2, K16
async fn member_reverts_before_cleanup(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    // By name: the candidate's values are untouched, the published table's keep cleanup from beginning.
    let member = s.env.cluster.member(1)?;
    member.replica_fault(&s.database, TARGET, "queue_size", json!(3)).await?;
    publish(s).await?;
    s.status("Committed, not yet healthy", |o| o["status"]["phase"] == "Committed").await?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    s.swap_on(1).await?;
    s.env.cluster.member(1)?.replica_clear().await?;
    s.poke().await?;
    let object = s.blocked("CLEANUP_BLOCKED").await?;
    expect("cause", &text(&object["status"]["cause"]), &"MemberPending")?;
    expect("replica 2", &replica(&object, 1).0, &"Pending")?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[generations.after(), generations.before()]).await?;
    // The entry is terminal everywhere, so a person may finish the member under the candidate's own name.
    s.swap_on(1).await?;
    s.poke().await?;
    succeeds_with_one_exchange(s).await
}

/// It reverts between the last look and the retire statement: that one moves the new generation, and nothing is lost.
// proves: G-3, G-2, K16
async fn member_reverts_during_cleanup(s: &mut Stage) -> Result<()> {
    let generations = prepared(s).await?;
    let fault = s.fault_of_cas(publication_e2e::proxy::Fault::HoldRequest, "RETIRE_DISPATCHING");
    let rule = s.env.rule(fault)?;
    publish(s).await?;
    rule.reached(1, SOON).await?;
    s.expect_tables(&[generations.after(), generations.after()]).await?;
    s.swap_on(1).await?;
    rule.release();
    let object = s.blocked("UNSAFE_CLEANUP_IDENTITY").await?;
    expect("cause", &text(&object["status"]["cause"]), &"UnsafeIdentity")?;
    expect("replica 1", &replica(&object, 0).0, &"Retired")?;
    expect("replica 2", &replica(&object, 1).0, &"Unknown")?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 1, 0).await?;
    for (member, (live, kept)) in
        [(generations.new, generations.old), (generations.old, generations.new)].into_iter().enumerate()
    {
        let tables = s.tables_of(member).await?;
        expect("target", &tables.get(TARGET), &Some(&live))?;
        expect("under the retired name", &retired(&tables), &Some(kept))?;
    }
    Ok(())
}
