//! Objects that are deleted, suspended, repeated, late; Secrets that change under way.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::cluster::PUBLISHER;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{Publication, condition};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Door, Fault, StatementKind};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("deleted_before_a_slot_was_taken", 2, |s| Box::pin(deleted_before_a_slot_was_taken(s))),
    ("deleted_when_prepared", 2, |s| Box::pin(deleted_when_prepared(s))),
    ("deleted_when_prepared_and_unreachable", 2, |s| Box::pin(deleted_and_unreachable(s))),
    ("deleted_while_in_flight", 2, |s| Box::pin(deleted_while_in_flight(s))),
    ("deleted_while_fail_closed", 2, |s| Box::pin(deleted_while_fail_closed(s))),
    ("secret_rotated_under_way", 2, |s| Box::pin(secret_rotated_under_way(s))),
    ("same_invocation_again", 2, |s| Box::pin(same_invocation_again(s))),
    ("candidate_name_spent", 2, |s| Box::pin(candidate_name_spent(s))),
    ("ten_publications_in_a_row", 2, |s| Box::pin(ten_publications_in_a_row(s))),
    ("suspended_cluster", 2, |s| Box::pin(suspended_cluster(s))),
    ("deadline_when_prepared_and_unreachable", 2, |s| Box::pin(deadline_and_unreachable(s))),
    ("admission_deadline", 2, |s| Box::pin(admission_deadline(s))),
];

impl Stage {
    async fn delete(&self) -> Result<()> {
        self.env.control_plane.delete(Kind::Publication, SPACE, &self.name()).await
    }

    async fn gone(&self) -> Result<()> {
        let waited = self.env.control_plane.wait_gone(Kind::Publication, SPACE, &self.name(), SOON).await;
        waited.map_err(|e| self.env.explain(&e))
    }

    /// Asked for deletion, observed once more, and still there with our finalizer.
    async fn deleted_but_there(&mut self) -> Result<Value> {
        self.delete().await?;
        self.poke().await?;
        let object = self.env.publication(SPACE, &self.name()).await?;
        expect("is being deleted", &object["metadata"]["deletionTimestamp"].is_null(), &false)?;
        expect("our finalizer", &object["metadata"]["finalizers"], &json!(["clickhouse.dpone.dev/slot"]))?;
        Ok(object)
    }

    fn again(&self, name: &str) -> Publication {
        let mut publication = self.publication(5);
        publication.name = format!("{}-{name}", publication.name);
        publication
    }
}

// proves: C-8
async fn deleted_before_a_slot_was_taken(s: &mut Stage) -> Result<()> {
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    s.env.publish(&s.publication(5)).await?;
    s.blocked("CANDIDATE_INVALID").await?;
    s.delete().await?;
    s.gone().await?;
    expect("a slot", &s.slot().await.is_ok(), &false)?;
    expect("statements with an effect", &s.effects(), &0)
}

/// PREPARED lies in Keeper; the operator ended before it knew, and its object says nothing of it.
async fn prepared_unknowingly(s: &mut Stage) -> Result<()> {
    let rule = s.env.rule(s.fault(Fault::HoldAnswer, StatementKind::Insert))?;
    s.env.publish(&s.publication(5)).await?;
    rule.reached(1, SOON).await?;
    s.env.operator(0)?.kill9().await?;
    rule.release();
    expect("phase", &s.slot().await?.phase.as_str(), &"PREPARED")
}

// proves: C-10, H-3
async fn deleted_when_prepared(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    prepared_unknowingly(s).await?;
    // A suspended cluster keeps it so.
    let suspend = |cluster: &mut Value| cluster["spec"]["suspend"] = true.into();
    let mut cluster = s.env.publication_cluster();
    suspend(&mut cluster);
    s.env.apply(&cluster).await?;
    s.env.operator(0)?.restart().await?;
    s.platform(suspend).await?;
    s.status("held back", |o| truth(o, "SlotAcquired") == Some("True")).await?;
    s.delete().await?;
    s.gone().await?;
    expect("phase", &s.slot().await?.phase.as_str(), &"RELEASED")?;
    s.expect_entries(0, 0, 0).await?;
    // Its candidate's name is not spent.
    s.platform(|_| ()).await?;
    let next = s.again("next");
    s.env.publish(&next).await?;
    s.env.wait_outcome(SPACE, &next.name, "Succeeded", SOON).await?;
    s.published(5).await
}

// proves: C-10, C-11, C-14
async fn deleted_and_unreachable(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    prepared_unknowingly(s).await?;
    for proxy in &s.env.proxies {
        proxy.door(Door::Closed).await?;
    }
    s.env.operator(0)?.restart().await?;
    // The object never showed a version, so nothing was dispatched for it.
    s.delete().await?;
    s.gone().await?;
    expect("phase", &s.slot().await?.phase.as_str(), &"PREPARED")?;
    for proxy in &s.env.proxies {
        proxy.door(Door::Open).await?;
    }
    let next = s.again("next");
    s.env.publish(&next).await?;
    s.env.wait_outcome(SPACE, &next.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await
}

// proves: F-2, F-3, K30
async fn deleted_while_in_flight(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.publish(&s.publication(5)).await?;
    s.status("dispatched", |o| truth(o, "Dispatched") == Some("True")).await?;
    let object = s.deleted_but_there().await?;
    expect("outcome", &object["status"]["outcome"], &Value::Null)?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.gone().await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("phase", &s.slot().await?.phase.as_str(), &"COMPLETED")
}

// proves: F, G-5
async fn deleted_while_fail_closed(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE TABLES", 48, "not here", 1).await?;
    s.env.publish(&s.publication(5)).await?;
    s.blocked("PARTIAL_TERMINAL").await?;
    s.deleted_but_there().await?;
    let object = s.status("says why it stays", |o| truth(o, "DeletionBlocked") == Some("True")).await?;
    let blocked = condition(&object, "DeletionBlocked").cloned().unwrap_or_default();
    expect("reason", &text(&blocked["reason"]), &"PartialTerminal")?;
    expect("names the member", &text(&blocked["message"]).contains("code 48"), &true)?;
    s.stays_as_it_is().await?;
    s.expect_entries(1, 0, 0).await
}

// proves: F-2, K30
async fn secret_rotated_under_way(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.publish(&s.publication(5)).await?;
    s.status("dispatched", |o| truth(o, "Dispatched") == Some("True")).await?;
    let password = "a@^b/";
    s.env.cluster.set_password(PUBLISHER, password).await?;
    s.status("refused", |o| o["status"]["error"]["code"] == "ACCESS_DENIED").await?;
    s.env.apply_secret(password).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("EXCHANGE statements sent", &s.requests(StatementKind::Exchange).len(), &1)
}

// proves: A-2, H-2
async fn same_invocation_again(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let ask = |name: &str| {
        let mut object = s.again(name).manifest();
        object["spec"]["invocationId"] = json!(format!("airflow:{}:2026-11-30", s.database));
        (object["metadata"]["name"].as_str().unwrap_or_default().to_owned(), object)
    };
    let (first, object) = ask("first");
    s.env.apply(&object).await?;
    let done = s.env.wait_outcome(SPACE, &first, "Succeeded", SOON).await?;
    let (slot, effects) = (s.slot().await?, s.effects());
    let (second, object) = ask("second");
    s.env.apply(&object).await?;
    let again = s.env.wait_outcome(SPACE, &second, "Succeeded", SOON).await?;
    expect("operation", &again["status"]["operationId"], &done["status"]["operationId"])?;
    expect("error", &again["status"]["error"], &Value::Null)?;
    expect("replicas", &text(&again["status"]["replicas"][1]["state"]), &"Cleaned")?;
    let why = condition(&again, "Succeeded").cloned().unwrap_or_default();
    expect("reason", &text(&why["reason"]), &"AlreadyPublished")?;
    expect("who published", &text(&why["message"]).contains(&first), &true)?;
    // Somebody replaces the target by hand.
    let on = &s.env.cluster.spec.cluster;
    s.env.cluster.sql(0, &format!("DROP TABLE {}.{TARGET} ON CLUSTER {on}", s.database)).await?;
    s.env.cluster.table_with_rows(&s.database, TARGET, 7, 0).await?;
    let (third, object) = ask("third");
    s.env.apply(&object).await?;
    let drifted = s.env.wait_outcome(SPACE, &third, "Succeeded", SOON).await?;
    expect("error", &text(&drifted["status"]["error"]["code"]), &"IDENTITY_DRIFT")?;
    expect("the slot", &s.slot().await?, &slot)?;
    expect("statements with an effect", &s.effects(), &effects)
}

// proves: B-7
async fn candidate_name_spent(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let first = s.again("first");
    s.env.publish(&first).await?;
    s.env.wait_outcome(SPACE, &first.name, "Succeeded", SOON).await?;
    let (slot, effects) = (s.slot().await?, s.effects());
    s.env.cluster.table_with_rows(&s.database, CANDIDATE, 5, 300).await?;
    s.env.publish(&s.publication(5)).await?;
    s.blocked("CANDIDATE_NAME_SPENT").await?;
    // Looked at again, which is a read of the slot by each member and no more.
    let looks = || s.env.records().iter().filter(|r| r.statement.text.contains(&slot.target_key)).count();
    let before = looks();
    s.nudge().await?;
    eventually(SOON, "another look", || async { Ok(Seen::when(looks() >= before + 2, "none")) }).await?;
    expect("the slot", &s.slot().await?, &slot)?;
    expect("statements with an effect", &s.effects(), &effects)
}

// proves: C-8, H-3
async fn ten_publications_in_a_row(s: &mut Stage) -> Result<()> {
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    let mut operations = Vec::new();
    for round in 1..=10 {
        let candidate = format!("{TARGET}__pub_{round}");
        s.env.cluster.table_with_rows(&s.database, &candidate, round, 100).await?;
        let mut publication = s.publication(round).candidate(&candidate);
        publication.name = format!("{}-{round}", publication.name);
        s.env.publish(&publication).await?;
        let object = s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
        s.published(round).await?;
        let slot = s.slot().await?;
        expect("who holds the slot", &text(&object["status"]["operationId"]), &slot.operation_id.as_str())?;
        let recent = slot.payload["recent"].as_array().cloned().unwrap_or_default();
        let listed: Vec<&str> = recent.iter().map(|r| text(&r["operation"])).collect();
        expect("operations before", &listed, &operations.iter().map(String::as_str).collect())?;
        operations.push(slot.operation_id);
    }
    s.expect_entries(10, 10, 10).await
}

// proves: C-8
async fn suspended_cluster(s: &mut Stage) -> Result<()> {
    s.platform(|cluster| cluster["spec"]["suspend"] = true.into()).await?;
    s.tables(true, 5).await?;
    s.env.publish(&s.publication(5)).await?;
    let object = s.status("converged", |o| truth(o, "CandidateConverged") == Some("True")).await?;
    expect("outcome", &object["status"]["outcome"], &Value::Null)?;
    expect("Reconciling", &truth(&object, "Reconciling"), &Some("True"))?;
    expect("error", &object["status"]["error"], &Value::Null)?;
    s.stays_as_it_is().await?;
    expect("statements with an effect", &s.effects(), &0)?;
    s.platform(|_| ()).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await
}

/// PREPARED, and nobody answers when the deadline is over: it fails at once, and the slot is freed when it can be.
// proves: C-10, C-14
async fn deadline_and_unreachable(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let rule = s.env.rule(s.fault(Fault::HoldAnswer, StatementKind::Insert))?;
    let mut object = s.publication(5).manifest();
    object["spec"]["admissionDeadlineSeconds"] = 10.into();
    s.env.apply(&object).await?;
    rule.reached(1, SOON).await?;
    s.env.operator(0)?.kill9().await?;
    rule.release();
    for proxy in &s.env.proxies {
        proxy.door(Door::Closed).await?;
    }
    s.env.operator(0)?.restart().await?;
    let failed = s.env.wait_outcome(SPACE, &s.name(), "Failed", SOON).await?;
    expect("code", &text(&failed["status"]["error"]["code"]), &"ADMISSION_DEADLINE")?;
    let slot = condition(&failed, "SlotAcquired").cloned().unwrap_or_default();
    expect("the slot", &text(&slot["reason"]), &"ReleasePending")?;
    expect("phase", &s.slot().await?.phase.as_str(), &"PREPARED")?;
    for proxy in &s.env.proxies {
        proxy.door(Door::Open).await?;
    }
    s.nudge().await?;
    let released = |o: &Value| condition(o, "SlotAcquired").is_some_and(|c| c["reason"] == "Released");
    let object = s.status("released", released).await?;
    expect("outcome", &text(&object["status"]["outcome"]), &"Failed")?;
    expect("phase", &s.slot().await?.phase.as_str(), &"RELEASED")?;
    s.expect_entries(0, 0, 0).await
}

async fn admission_deadline(s: &mut Stage) -> Result<()> {
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    let mut no_candidate = s.again("no-candidate").manifest();
    let mut no_cluster = s.again("no-cluster").manifest();
    no_cluster["spec"]["clusterRef"]["name"] = "nowhere".into();
    for object in [&mut no_candidate, &mut no_cluster] {
        object["spec"]["admissionDeadlineSeconds"] = 1.into();
        s.env.apply(object).await?;
    }
    for object in [&no_candidate, &no_cluster] {
        let name = text(&object["metadata"]["name"]);
        let failed = s.env.wait_outcome(SPACE, name, "Failed", SOON).await?;
        expect(name, &text(&failed["status"]["error"]["code"]), &"ADMISSION_DEADLINE")?;
        // Nothing holds it: it may go.
        s.env.control_plane.delete(Kind::Publication, SPACE, name).await?;
        s.env.control_plane.wait_gone(Kind::Publication, SPACE, name, SOON).await?;
    }
    expect("statements with an effect", &s.effects(), &0)
}
