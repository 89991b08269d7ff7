//! A namespace is deleted at every stage of a publication in it (api "tenancy and lifecycle", C-10, H): what was never
//! dispatched is released, what was is carried through, what fails closed stays until a person decides.

use crate::Case;
use crate::looks::{Generations, TARGET, text, truth};
use crate::operators::{BOUNDARIES, at, harmless};
use crate::stage::{SOON, SPACE, Stage, expect};
use crate::verdicts::{applied, slot_is};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use publication_e2e::error::Context;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::Publication;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, Installed, Outcome, Record, StatementKind};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};
use std::time::Duration;

pub const CASES: &[(&str, usize, Case)] = &[
    ("namespace_goes_at_every_statement", 2, |s| Box::pin(at_every_statement(s))),
    ("namespace_goes_at_every_standstill", 2, |s| Box::pin(at_every_standstill(s))),
    ("namespace_goes_before_a_new_operator", 2, |s| Box::pin(before_a_new_operator(s))),
];

/// On a slow machine a permit may run out while an answer is held: a step of the cleanup that was not sent is then
/// looked for as long as the statement timeout demands (D-5), and goes on.
const LOOKED_FOR: Duration = Duration::from_secs(300);
/// The object's name in a namespace of its own.
pub const OBJECT: &str = "orders";

impl Stage {
    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.env.control_plane.client())
    }

    /// Asks for it; what is in it is not waited for.
    pub async fn delete_namespace(&self, space: &str) -> Result<()> {
        let asked = self.namespaces().delete(space, &DeleteParams::default()).await;
        asked.map(|_| ()).context(format!("delete the namespace {space}"))
    }

    pub async fn namespace_gone(&self, space: &str) -> Result<()> {
        let what = format!("namespace {space} is gone");
        let waited = eventually(LOOKED_FOR, &what, || async {
            let found = self.namespaces().get_opt(space).await.context("namespace")?;
            Ok(Seen::when(found.is_none(), format!("{:?}", found.and_then(|n| n.status))))
        });
        waited.await.map_err(|e| self.env.explain(&e))
    }

    pub async fn in_space<T>(
        &self,
        space: &str,
        what: &str,
        found: impl FnMut(&Value) -> Option<T> + Send,
    ) -> Result<T> {
        self.env.wait_for(Kind::Publication, space, OBJECT, SOON, what, found).await
    }

    /// Publishes the case's tables from a namespace of their own; its name.
    async fn publish_in_a_space(&self) -> Result<String> {
        let space = format!("{}-goes", self.database);
        self.env.namespace(&space).await?;
        self.env.publish(&Publication::new(&space, OBJECT, &self.database, TARGET, 5)).await?;
        Ok(space)
    }

    /// The namespace is being deleted, its object with it; both are still there.
    pub async fn going(&self, space: &str) -> Result<()> {
        self.delete_namespace(space).await?;
        let deleted = |o: &Value| (!o["metadata"]["deletionTimestamp"].is_null()).then(|| o.clone());
        let object = self.in_space(space, "being deleted", deleted).await?;
        let ours = &object["metadata"]["finalizers"];
        expect("our finalizer", ours, &json!(["clickhouse.dpone.dev/slot"]))
    }

    /// Going, and staying: fail-closed with this code, and said to be why.
    pub async fn stays_blocked(&self, space: &str, code: &str) -> Result<Value> {
        self.going(space).await?;
        let why = |o: &Value| (truth(o, "DeletionBlocked") == Some("True")).then(|| o.clone());
        let object = self.in_space(space, "DeletionBlocked", why).await?;
        expect("code", &text(&object["status"]["error"]["code"]), &code)?;
        let found = self.namespaces().get_opt(space).await.context("namespace")?;
        expect("the namespace is there", &found.is_some(), &true)?;
        Ok(object)
    }

    /// A person says that something was done.
    pub async fn touched(&self, space: &str) -> Result<()> {
        let patch = json!({"metadata": {"labels": {"recovered": "yes"}}});
        self.env.control_plane.merge_patch(Kind::Publication, space, OBJECT, &patch).await
    }

    /// Not begun: nothing was sent, every table is where it was, and the slot is free for the next one.
    async fn never_was(&self, before: &Generations) -> Result<()> {
        slot_is(self, "RELEASED").await?;
        self.expect_entries(0, 0, 0).await?;
        self.expect_tables(&vec![before.before(); self.env.cluster.members.len()]).await
    }

    /// Carried through: swapped once, cleaned up, and recorded.
    async fn carried_through(&self) -> Result<()> {
        slot_is(self, "COMPLETED").await?;
        self.published(5).await?;
        self.expect_entries(1, 1, 1).await
    }

    /// The same tables, published by somebody else afterwards.
    async fn next_one_publishes(&self) -> Result<()> {
        self.env.publish(&self.publication(5)).await?;
        self.env.wait_outcome(SPACE, &self.name(), "Succeeded", SOON).await?;
        self.carried_through().await
    }
}

/// A statement with an effect is on its way, or its answer is, when the namespace goes.
// proves: C-10, F-2, G-5, H
async fn at_every_statement(s: &mut Stage) -> Result<()> {
    let mut played = Vec::new();
    for boundary in BOUNDARIES {
        for fault in [Fault::HoldRequest, Fault::HoldAnswer] {
            let what = format!("deleted at {} ({fault:?})", boundary.0);
            s.fresh_database().await?;
            s.tables(true, 5).await?;
            let before = s.generations().await?;
            let rule = s.env.rule(at(s, fault, boundary))?;
            let space = s.publish_in_a_space().await?;
            rule.reached(1, SOON).await.map_err(|e| Error::other(&what, e))?;
            s.going(&space).await.map_err(|e| Error::other(&what, e))?;
            harmless(s, &what).await?;
            rule.release();
            played.push((what, boundary.0, s.database.clone(), space, before));
        }
    }
    // The namespace controller's waits go by side by side.
    for (what, boundary, database, space, before) in played {
        s.database = database;
        let ended = async {
            s.namespace_gone(&space).await?;
            harmless(s, "at the end").await?;
            // No witness was written over an object that had changed meanwhile (C-14).
            // C-12: a permit that ran out while the CAS's answer was held sends nothing.
            let unsent = boundary == "CAS to DISPATCHING" && s.slot().await?.phase == "RELEASED";
            if unsent || boundary == "create PREPARED" {
                s.never_was(&before).await
            } else {
                s.carried_through().await
            }
        };
        ended.await.map_err(|e| Error::other(what, e))?;
    }
    check_one_shot(&s.env.records())
}

/// Something holds the publication up when the namespace goes.
// proves: C-10, F, G-5, H
async fn at_every_standstill(s: &mut Stage) -> Result<()> {
    // In admission: there is no candidate.
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    let space = s.publish_in_a_space().await?;
    let refused = |o: &Value| (o["status"]["error"]["code"] == "CANDIDATE_INVALID").then_some(());
    s.in_space(&space, "CANDIDATE_INVALID", refused).await?;
    s.delete_namespace(&space).await?;
    s.namespace_gone(&space).await?;
    expect("a slot", &s.slot().await.is_ok(), &false)?;
    s.expect_entries(0, 0, 0).await?;

    partial_in_progress(s).await?;
    partial_terminal(s).await?;
    drop_failed(s).await?;

    // Through: an object that is finished holds nothing.
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    let space = s.publish_in_a_space().await?;
    s.env.wait_outcome(&space, OBJECT, "Succeeded", SOON).await?;
    let (slot, effects) = (s.slot().await?, s.effects());
    s.delete_namespace(&space).await?;
    s.namespace_gone(&space).await?;
    expect("the slot", &s.slot().await?, &slot)?;
    expect("statements with an effect", &s.effects(), &effects)?;
    s.carried_through().await
}

/// It waits for the original entry, then goes.
async fn partial_in_progress(s: &mut Stage) -> Result<()> {
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    let before = s.generations().await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    let space = s.publish_in_a_space().await?;
    let partly = |o: &Value| (o["status"]["classification"] == "PartialInProgress").then_some(());
    s.in_space(&space, "PartialInProgress", partly).await?;
    s.going(&space).await?;
    let passes = s.passes().await?;
    s.touched(&space).await?;
    eventually(SOON, "looked at again", || async { Ok(Seen::when(s.passes().await? > passes, "no")) })
        .await?;
    let object = s.env.publication(&space, OBJECT).await?;
    expect("outcome", &object["status"]["outcome"], &Value::Null)?;
    expect("DeletionBlocked", &truth(&object, "DeletionBlocked"), &None)?;
    s.expect_tables(&[before.after(), before.before()]).await?;
    s.expect_entries(1, 0, 0).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.namespace_gone(&space).await?;
    s.carried_through().await
}

/// It stays, both generations with it, until a person has finished the member that failed.
async fn partial_terminal(s: &mut Stage) -> Result<()> {
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    let before = s.generations().await?;
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE TABLES", 48, "not here", 1).await?;
    let space = s.publish_in_a_space().await?;
    let blocked = |o: &Value| (o["status"]["error"]["code"] == "PARTIAL_TERMINAL").then_some(());
    s.in_space(&space, "PARTIAL_TERMINAL", blocked).await?;
    s.stays_blocked(&space, "PARTIAL_TERMINAL").await?;
    s.expect_tables(&[before.after(), before.before()]).await?;
    s.expect_entries(1, 0, 0).await?;
    s.run_sql("finish-in-place", 1).await?;
    s.touched(&space).await?;
    s.namespace_gone(&space).await?;
    s.carried_through().await
}

/// Published, and a member refuses the drop: it stays until somebody says that the cause is gone.
async fn drop_failed(s: &mut Stage) -> Result<()> {
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_fail("DROP TABLE", 359, "too large", 1).await?;
    let space = s.publish_in_a_space().await?;
    let blocked = |o: &Value| (o["status"]["error"]["code"] == "CLEANUP_BLOCKED").then_some(());
    s.in_space(&space, "CLEANUP_BLOCKED", blocked).await?;
    s.stays_blocked(&space, "CLEANUP_BLOCKED").await?;
    s.expect_entries(1, 1, 1).await?;
    s.touched(&space).await?;
    s.namespace_gone(&space).await?;
    slot_is(s, "COMPLETED").await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 2).await
}

/// The operator dies at a statement, and the one that starts next finds the namespace going.
// proves: C-7, C-10, C-11, D-3, D-5, H, J-2
async fn before_a_new_operator(s: &mut Stage) -> Result<()> {
    s.statement_timeout(1).await?;
    let (create, cas, exchange) = (BOUNDARIES[0], BOUNDARIES[1], BOUNDARIES[2]);

    // The row comes when nobody owns it any more: the next one takes it (C-11).
    let (space, rule, _) = left_at(s, Fault::HoldRequest, create).await?;
    s.namespace_gone(&space).await?;
    expect("a slot", &s.slot().await.is_ok(), &false)?;
    rule.release();
    eventually(SOON, "the late row is there", || async { Ok(Seen::when(s.slot().await.is_ok(), "no")) })
        .await?;
    slot_is(s, "PREPARED").await?;
    s.next_one_publishes().await?;

    // PREPARED and witnessed: released, and the late CAS finds another version.
    let (space, rule, before) = left_at(s, Fault::HoldRequest, cas).await?;
    s.namespace_gone(&space).await?;
    s.never_was(&before).await?;
    let slot = s.slot().await?;
    rule.release();
    eventually(SOON, "the late CAS is over", || async {
        let over = |r: &Record| r.fault.is_some() && r.outcome != Outcome::InFlight;
        Ok(Seen::when(s.cas_requests("DISPATCHING").iter().any(over), "in flight"))
    })
    .await?;
    expect("the slot after a late CAS", &s.slot().await?, &slot)?;
    s.next_one_publishes().await?;

    // The statement itself is late: found by its token, and carried through.
    let (space, rule, _) = left_at(s, Fault::HoldRequest, exchange).await?;
    rule.release();
    s.namespace_gone(&space).await?;
    s.carried_through().await?;

    // Dispatching is recorded, its only sender is dead: nobody knows, so it stays until a person decides.
    let (space, rule, before) = left_at(s, Fault::HoldAnswer, cas).await?;
    rule.release();
    s.stays_blocked_by_nobody_knows(&space).await?;
    s.expect_tables(&[before.before(), before.before()]).await?;
    s.run_sql("private-name", 0).await?;
    applied(s, "not-applied").await?;
    s.namespace_gone(&space).await?;
    slot_is(s, "ABANDONED").await?;
    s.expect_entries(0, 1, 0).await?;
    expect("rows of the target", &s.env.cluster.counts(&s.database, TARGET).await?, &vec![3, 3])?;
    check_one_shot(&s.env.records())
}

impl Stage {
    /// Deleted before: its entry is looked for as long as it takes, then it is fail-closed.
    pub async fn stays_blocked_by_nobody_knows(&self, space: &str) -> Result<()> {
        let why = |o: &Value| (truth(o, "DeletionBlocked") == Some("True")).then(|| o.clone());
        let what = "DeletionBlocked";
        let object = self.env.wait_for(Kind::Publication, space, OBJECT, SOON * 2, what, why).await?;
        expect("code", &text(&object["status"]["error"]["code"]), &"OUTCOME_UNKNOWN")?;
        expect("cause", &text(&object["status"]["cause"]), &"EntryNotFound")
    }
}

/// Tables of their own, a publication that is held there, its operator dead, its namespace going, and a new operator.
async fn left_at(
    s: &mut Stage,
    fault: Fault,
    boundary: (&'static str, StatementKind, &'static str),
) -> Result<(String, Installed, Generations)> {
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    let before = s.generations().await?;
    let rule = s.env.rule(at(s, fault, boundary))?;
    let space = s.publish_in_a_space().await?;
    rule.reached(1, SOON).await?;
    s.env.operator(0)?.kill9().await?;
    s.going(&space).await?;
    s.env.operator(0)?.restart().await?;
    Ok((space, rule, before))
}
