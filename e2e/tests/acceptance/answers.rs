//! Answers that never come, come in part, or come from something that is no ClickHouse.

use crate::Case;
use crate::basics::completed;
use crate::looks::{Generations, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::evidence::{authority_mutations, check_one_shot};
use publication_e2e::proxy::{Fault, Installed, Outcome, StatementKind};
use publication_e2e::{Error, Result};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

pub const CASES: &[(&str, usize, Case)] = &[
    ("exchange_answer_lost", 2, |s| Box::pin(exchange_took_effect(s, Fault::DropAnswer))),
    ("exchange_answer_truncated", 2, |s| Box::pin(exchange_took_effect(s, Fault::TruncateBody))),
    ("exchange_answered_500", 2, |s| Box::pin(exchange_took_effect(s, Fault::StatusAfterEffect(500)))),
    ("exchange_then_a_refused_status_write", 2, |s| Box::pin(status_write_refused(s))),
    ("exchange_cut_before_sent", 2, |s| Box::pin(exchange_cut_before_sent(s))),
    ("exchange_answered_503", 2, |s| Box::pin(exchange_not_sent_on(s, Fault::Status(503)))),
    ("exchange_redirected", 2, |s| Box::pin(exchange_redirected(s))),
    ("exchange_sent_twice", 2, |s| Box::pin(exchange_sent_twice(s))),
    ("prepared_answer_lost", 2, |s| Box::pin(prepared_answer_lost(s))),
    ("dispatching_answer_lost", 2, |s| Box::pin(dispatching_answer_lost(s))),
    ("dispatching_answered_503", 2, |s| Box::pin(dispatching_without_effect(s, Fault::Status(503)))),
    ("dispatching_redirected", 2, |s| Box::pin(dispatching_redirected(s))),
    ("cleanup_answers_lost", 2, |s| Box::pin(cleanup_answers_lost(s))),
];

/// Tables, a rule for the EXCHANGE, and the publication.
async fn publish_with(s: &mut Stage, rule: publication_e2e::proxy::Rule) -> Result<(Generations, Installed)> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    let rule = s.env.rule(rule)?;
    s.env.publish(&s.publication(5)).await?;
    Ok((generations, rule))
}

/// One request, which was never forwarded; nothing in Keeper; both generations where they were; and so it stays.
async fn nothing_arrived(s: &mut Stage, generations: &Generations) -> Result<()> {
    s.stays_as_it_is().await?;
    let requests = s.requests(StatementKind::Exchange);
    expect("EXCHANGE requests", &requests.len(), &1)?;
    expect("forwarded", &requests[0].forwarded, &0)?;
    s.expect_entries(0, 0, 0).await?;
    s.expect_tables(&[generations.before(), generations.before()]).await?;
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &"DISPATCHING")?;
    expect("epoch in Keeper", &s.slot().await?.dispatch_epoch, &1)?;
    check_one_shot(&s.env.records())
}

// proves: D-3, C-4, K14, S02
async fn exchange_took_effect(s: &mut Stage, fault: Fault) -> Result<()> {
    let rule = s.fault(fault, StatementKind::Exchange);
    let (generations, rule) = publish_with(s, rule).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    expect("answers withheld", &rule.hits(), &1)?;
    let requests = s.requests(StatementKind::Exchange);
    expect("EXCHANGE requests", &requests.len(), &1)?;
    expect("its answer", &matches!(requests[0].outcome, Outcome::Withheld { .. }), &true)?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    s.expect_executed(1, 1, 1).await?;
    completed(s, generations.new, 3).await?;
    check_one_shot(&s.env.records())
}

/// The object changes under the pass that sent the statement, so that its status write is a conflict (409).
// proves: F-2, K29
async fn status_write_refused(s: &mut Stage) -> Result<()> {
    let (generations, rule) = publish_with(s, s.fault(Fault::HoldAnswer, StatementKind::Exchange)).await?;
    rule.reached(1, SOON).await?;
    s.nudge().await?;
    rule.release();
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.expect_entries(1, 1, 1).await?;
    s.expect_executed(1, 1, 1).await?;
    completed(s, generations.new, 3).await?;
    let user = s.env.operator_user();
    let calls = s.env.control_plane.api_calls()?;
    let conflicts = calls.iter().filter(|c| c.user == user && c.name == s.name() && c.code == 409).count();
    expect("a status write was refused", &(conflicts > 0), &true)?;
    check_one_shot(&s.env.records())
}

// proves: D-5, F-3, C-4
async fn exchange_cut_before_sent(s: &mut Stage) -> Result<()> {
    // 10 s for the permit, 1 + 30 s to send, 5 s of slack.
    let visibility_wait = Duration::from_secs(46);
    s.statement_timeout(1).await?;
    let rule = s.fault(Fault::CutBeforeSend, StatementKind::Exchange);
    let (generations, rule) = publish_with(s, rule).await?;
    rule.reached(1, SOON).await?;
    let cut = Instant::now();
    s.entry_not_found().await?;
    nothing_arrived(s, &generations).await?;
    // As long as the entry may still appear, nobody is alarmed.
    let rest = visibility_wait.saturating_sub(cut.elapsed());
    let stalled = |object: &serde_json::Value| {
        let status = &object["status"];
        (status["outcome"] == "Blocked" || truth(object, "Stalled").is_some()).then(|| status.clone())
    };
    let kind = publication_e2e::kubernetes::Kind::Publication;
    let early = s.env.control_plane.wait_for(kind, SPACE, &s.name(), rest, "Stalled", stalled).await;
    match early {
        Err(Error::Timeout { .. }) => {}
        other => return Err(Error::other("stalled within the visibility wait", format!("{other:?}"))),
    }
    s.nudged_until("Blocked", SOON, |o| o["status"]["outcome"] == "Blocked").await?;
    let object = s.blocked("OUTCOME_UNKNOWN").await?;
    expect("cause", &text(&object["status"]["cause"]), &"EntryNotFound")?;
    nothing_arrived(s, &generations).await
}

// proves: C-4, D-5
async fn exchange_not_sent_on(s: &mut Stage, fault: Fault) -> Result<()> {
    let rule = s.fault(fault, StatementKind::Exchange).lasting();
    let (generations, rule) = publish_with(s, rule).await?;
    s.entry_not_found().await?;
    nothing_arrived(s, &generations).await?;
    expect("requests that met the fault", &rule.hits(), &1)
}

async fn exchange_redirected(s: &mut Stage) -> Result<()> {
    let elsewhere = format!("{}/?redirected=1", s.env.proxy(1)?.url());
    exchange_not_sent_on(s, Fault::Redirect(elsewhere)).await
}

/// A proxy that retries, which the platform declares there is none of: detected, and nothing is done about it.
// proves: D-5, S09
async fn exchange_sent_twice(s: &mut Stage) -> Result<()> {
    let rule = s.fault(Fault::SendTwice, StatementKind::Exchange);
    let (generations, _) = publish_with(s, rule).await?;
    let object = s.blocked("OUTCOME_UNKNOWN").await?;
    expect("cause", &text(&object["status"]["cause"]), &"SeveralEntries")?;
    s.stays_as_it_is().await?;
    s.expect_entries(2, 0, 0).await?;
    s.expect_tables(&[generations.before(), generations.before()]).await
}

// proves: C-5, C-7
async fn prepared_answer_lost(s: &mut Stage) -> Result<()> {
    let story = s.story().await?;
    let rule = s.fault(Fault::DropAnswer, StatementKind::Insert);
    let (_, rule) = publish_with(s, rule).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    expect("answers dropped", &rule.hits(), &1)?;
    story.told("CAS_OUTCOME_UNKNOWN").await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    // The record that was found is used: no second one is written, and each mutation goes out once.
    expect("INSERT requests", &s.requests(StatementKind::Insert).len(), &1)?;
    expect("authority mutations", &authority_mutations(&s.env.records()).len(), &5)?;
    check_one_shot(&s.env.records())
}

/// Whoever lost the answer of the dispatching CAS has no permit, even though the record is exactly as wanted.
// proves: C-7, C-5, K23, S07
async fn dispatching_answer_lost(s: &mut Stage) -> Result<()> {
    let story = s.story().await?;
    let rule = s.fault_of_cas(Fault::DropAnswer, "DISPATCHING");
    let (generations, rule) = publish_with(s, rule).await?;
    rule.reached(1, SOON).await?;
    story.told("CAS_OUTCOME_UNKNOWN").await?;
    s.entry_not_found().await?;
    s.stays_as_it_is().await?;
    let slot = s.slot().await?;
    expect("phase in Keeper", &slot.phase.as_str(), &"DISPATCHING")?;
    expect("epoch in Keeper", &slot.dispatch_epoch, &1)?;
    expect("_version in Keeper", &slot.version, &1)?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &0)?;
    let calls: Vec<usize> = s.cas_requests("DISPATCHING").iter().map(|r| r.forwarded).collect();
    expect("transport calls of the dispatching CAS", &calls, &vec![1])?;
    s.expect_executed(0, 0, 0).await?;
    s.expect_entries(0, 0, 0).await?;
    s.expect_tables(&[generations.before(), generations.before()]).await?;
    check_one_shot(&s.env.records())
}

/// Nothing was written, which only the record can tell; so the next pass may try again, with a CAS of its own.
// proves: C-4, C-5, C-7
async fn dispatching_without_effect(s: &mut Stage, fault: Fault) -> Result<()> {
    let story = s.story().await?;
    let rule = s.fault_of_cas(fault, "DISPATCHING");
    publish_with(s, rule).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    story.told("CAS_OUTCOME_UNKNOWN").await?;
    let requests = s.cas_requests("DISPATCHING");
    expect("forwarded", &requests.iter().map(|r| r.forwarded).collect::<Vec<_>>(), &vec![0, 1])?;
    let ids: BTreeSet<_> = requests.iter().map(|r| &r.statement.query_id).collect();
    expect("query_ids", &ids.len(), &2)?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    check_one_shot(&s.env.records())
}

async fn dispatching_redirected(s: &mut Stage) -> Result<()> {
    let elsewhere = format!("{}/?redirected=1", s.env.proxy(1)?.url());
    dispatching_without_effect(s, Fault::Redirect(elsewhere)).await
}

// proves: G-3, G-4, D-3, S10
async fn cleanup_answers_lost(s: &mut Stage) -> Result<()> {
    let drop = s.env.rule(s.fault(Fault::DropAnswer, StatementKind::Drop))?;
    let rule = s.fault(Fault::DropAnswer, StatementKind::Rename);
    let (generations, rename) = publish_with(s, rule).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    expect("answers dropped", &(rename.hits(), drop.hits()), &(1, 1))?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    s.expect_executed(1, 1, 1).await?;
    completed(s, generations.new, 3).await?;
    only_retired_names_are_dropped(s).await?;
    check_one_shot(&s.env.records())
}

/// No DROP names what another table could bear.
pub async fn only_retired_names_are_dropped(s: &Stage) -> Result<()> {
    for entry in s.own_entries().await?.iter().filter(|entry| entry.kind() == "DROP") {
        let plain = entry.query.replace('`', "");
        let retired = plain.contains(&format!("{}.orders__retired_", s.database));
        expect(&entry.query, &(retired && !plain.contains("__pub_")), &true)?;
    }
    Ok(())
}
