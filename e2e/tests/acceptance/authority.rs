//! B-5, B-6, F-2: whose facade it is, what happens when it is lost or older than it was, and how the loss is accepted.

use crate::Case;
use crate::admission::{OTHER, other_name_refused};
use crate::looks::{CANDIDATE, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use crate::verdicts::PRIVATE;
use publication_e2e::environment::FACADE_KEY;
use publication_e2e::error::Context;
use publication_e2e::evidence::Slot;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, PLATFORM, Publication, condition};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("authority_facade_is_not_left_on_foreign_servers", 2, |s| Box::pin(not_filled(s))),
    ("authority_binding_is_read_at_each_admission", 2, |s| Box::pin(bound_elsewhere(s))),
    ("authority_restored_from_an_older_state", 2, |s| Box::pin(restored_older(s))),
    ("authority_lost_and_accepted", 2, |s| Box::pin(lost_and_accepted(s))),
];

const FACADE: &str = "publication.publication_authority";

impl Stage {
    async fn cluster_as(&self, what: &str, mut is: impl FnMut(&Value) -> bool + Send) -> Result<Value> {
        let found = |object: &Value| is(object).then(|| object.clone());
        self.env.wait_for(Kind::Cluster, PLATFORM, CLUSTER_OBJECT, SOON, what, found).await
    }

    /// Waits until a condition of the PublicationCluster has this status and reason; its message.
    pub async fn cluster_says(&self, kind: &str, status: &str, reason: &str) -> Result<String> {
        let is = |object: &Value| {
            condition(object, kind).is_some_and(|c| c["status"] == status && c["reason"] == reason)
        };
        let object = self.cluster_as(&format!("{kind}={status} {reason}"), is).await?;
        Ok(text(&condition(&object, kind).context("the condition")?["message"]).to_owned())
    }

    /// How many facades a member has.
    async fn facades_of(&self, member: usize) -> Result<String> {
        let count = "SELECT count() FROM system.tables WHERE name = 'publication_authority'";
        Ok(self.env.cluster.sql(member, count).await?.trim().to_owned())
    }

    /// The statement fails everywhere: unresolved, dispatched, and nothing moved. The root that the object has shown.
    async fn failed_unchanged(&self, publication: &Publication) -> Result<String> {
        for member in 0..self.env.cluster.members.len() {
            self.env.cluster.member(member)?.ddl_fail("EXCHANGE", 48, "not here", 1).await?;
        }
        self.env.publish(publication).await?;
        let blocked = |o: &Value| (o["status"]["error"]["code"] == "FAILED_UNCHANGED").then(|| o.clone());
        let object = self.wait(&publication.name, "FAILED_UNCHANGED", blocked).await?;
        Ok(text(&object["status"]["facadeRoot"]).to_owned())
    }

    /// Another target of the case's database with a candidate for it.
    async fn second(&self) -> Result<Publication> {
        let cluster = &self.env.cluster;
        cluster.table_with_rows(&self.database, "items", 2, 0).await?;
        cluster.table_with_rows(&self.database, "items__pub_1", 4, 100).await?;
        Ok(Publication::new(SPACE, &format!("{}-items", self.database), &self.database, "items", 4))
    }

    /// Objects of other cases are unresolved on purpose; they would stand against what these accept.
    pub async fn alone(&self) -> Result<()> {
        let all = "kubectl get clusterpublications -A --no-headers \
                   -o custom-columns=S:.metadata.namespace,N:.metadata.name";
        let forget = "kubectl -n \"$space\" delete clusterpublication \"$name\" --wait=false --ignore-not-found; \
                      kubectl -n \"$space\" patch clusterpublication \"$name\" --type merge \
                      -p '{\"metadata\":{\"finalizers\":[]}}' || true";
        self.shell(&format!("{all} | while read -r space name; do {forget}; done")).await.map(|_| ())
    }

    async fn accept_nothing(&mut self) -> Result<()> {
        self.platform(|cluster| cluster["spec"]["acceptAuthorityLoss"] = json!("")).await
    }

    /// The new table's rows, published after all.
    async fn published_after_all(&self) -> Result<()> {
        let fresh = format!("RENAME TABLE {0}.{PRIVATE} TO {0}.orders__pub_2", self.database);
        for member in 0..self.env.cluster.members.len() {
            self.env.cluster.sql(member, &fresh).await?;
        }
        let again = Publication { name: format!("{}-again", self.name()), ..self.publication(5) };
        self.env.publish(&again.candidate("orders__pub_2")).await?;
        self.env.wait_outcome(SPACE, &format!("{}-again", self.name()), "Succeeded", SOON).await?;
        let counts = self.env.cluster.counts(&self.database, TARGET).await?;
        expect("rows of the target by member", &counts, &vec![5; counts.len()])
    }
}

/// A member lost its facade, and another PublicationCluster names the same servers otherwise: it creates nothing.
// proves: B-5, B-6, S12
async fn not_filled(s: &mut Stage) -> Result<()> {
    s.env.cluster.sql(1, &format!("DROP TABLE {FACADE} SYNC")).await?;
    let refused = other_name_refused(s).await;
    let left = s.facades_of(1).await?;
    s.env.control_plane.delete(Kind::Cluster, PLATFORM, OTHER).await?;
    expect("names whose it is", &text(&refused?["message"]).contains("main"), &true)?;
    expect("facades of the member", &left.as_str(), &"0")?;
    // The cluster whose facade it is fills it again, under the same root.
    s.platform(|cluster| cluster["spec"]["statementTimeoutSeconds"] = json!(179)).await?;
    s.env.wait_cluster_ready(SOON).await?;
    expect("facades of the member", &s.facades_of(1).await?.as_str(), &"1")?;
    expect("facades in Keeper", &s.env.keeper().keeper_map_roots().await?.len(), &1)
}

/// The PublicationCluster was Ready when somebody bound its facade to another cluster name.
// proves: B-5
async fn bound_elsewhere(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let read = format!("SELECT payload FROM {FACADE} WHERE target_key = '{FACADE_KEY}'");
    let bound = s.env.cluster.sql(0, &read).await?.trim().to_owned();
    let elsewhere = bound.replace("\"main\"", "\"elsewhere\"");
    expect("the row names the cluster", &(bound == elsewhere), &false)?;
    let bind = |payload: &str| {
        format!(
            "ALTER TABLE {FACADE} UPDATE payload = '{payload}', payload_sha256 = lower(hex(SHA256('{payload}'))) \
             WHERE target_key = '{FACADE_KEY}'"
        )
    };
    let slots = s.env.slots().await?;
    s.env.cluster.sql(0, &bind(&elsewhere)).await?;
    s.env.publish(&s.publication(5)).await?;
    let object = s.blocked("AUTHORITY_CONFLICT").await?;
    let message = text(&object["status"]["error"]["message"]).to_owned();
    expect(&format!("names the other name: {message}"), &message.contains("elsewhere"), &true)?;
    // What the pass saw is what the cluster says by now.
    s.cluster_says("FacadeReady", "False", "AuthorityConflict").await?;
    expect("slots in Keeper", &s.env.slots().await?, &slots)?;
    expect("statements with an effect", &s.effects(), &0)?;
    s.env.cluster.sql(0, &bind(&bound)).await?;
    s.run_sh("look-at-cluster", &[("recovered=yes", "recovered=bound")]).await?;
    s.cluster_says("FacadeReady", "True", "Agreed").await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await
}

/// Keeper came back from before one publication; another one's record is as new as it was.
// proves: F-2, B-6
async fn restored_older(s: &mut Stage) -> Result<()> {
    s.alone().await?;
    s.tables(true, 5).await?;
    let root = s.failed_unchanged(&s.publication(5)).await?;
    let second = s.second().await?;
    s.failed_unchanged(&second).await?;
    let keeper = s.env.keeper();
    let at = format!("/publication/{root}");
    for row in keeper.keeper_map_rows(&at).await?.iter().filter(|row| row.key != FACADE_KEY) {
        let names = &Slot::decode(row)?.payload["names"];
        if names["database"] == s.database.as_str() && names["target"] == TARGET {
            keeper.forget_row(&at, row).await?;
        }
    }
    s.nudge().await?;
    s.blocked("AUTHORITY_LOST").await?;
    let entries = s.env.ddl_entries().await?.len();
    // Too early: a late statement could still move the candidate.
    s.run_sh("accept-loss", &[("ROOT", &root)]).await?;
    let message = s.cluster_says("FacadeReady", "True", "LossNotHonoured").await?;
    for part in [format!("{}.{CANDIDATE}", s.database), s.name(), "replica 2".into()] {
        expect(&format!("{part} in {message}"), &message.contains(&part), &true)?;
    }
    s.blocked("AUTHORITY_LOST").await?;
    expect("entries in the queue", &s.env.ddl_entries().await?.len(), &entries)?;
    s.run_sql("private-name", 0).await?;
    s.run_sh("look-at-cluster", &[("recovered=yes", "recovered=older")]).await?;
    let ended = s.env.wait_outcome(SPACE, &s.name(), "Failed", SOON).await?;
    expect("code", &text(&ended["status"]["error"]["code"]), &"AUTHORITY_LOST")?;
    let cluster = s.env.wait_cluster_ready(SOON).await?;
    expect("the root stays", &text(&cluster["status"]["facadeRoot"]), &root.as_str())?;
    // Whose record is not lost is not given up.
    let other = s.env.publication(SPACE, &second.name).await?;
    expect("the other's outcome", &text(&other["status"]["outcome"]), &"Blocked")?;
    expect("the other's code", &text(&other["status"]["error"]["code"]), &"FAILED_UNCHANGED")?;
    s.published_after_all().await?;
    s.accept_nothing().await
}

/// The facade is gone from every member: refused and explained, accepted, and made anew.
// proves: B-6, F-2, C-14
async fn lost_and_accepted(s: &mut Stage) -> Result<()> {
    s.alone().await?;
    s.tables(true, 5).await?;
    let root = s.failed_unchanged(&s.publication(5)).await?;
    for member in 0..s.env.cluster.members.len() {
        s.run_sql("drop-facade", member).await?;
    }
    expect("facades in Keeper", &s.env.keeper().keeper_map_roots().await?, &Vec::new())?;
    s.nudge().await?;
    let object = s.blocked("AUTHORITY_LOST").await?;
    let message = text(&object["status"]["error"]["message"]).to_owned();
    expect(&format!("names the root: {message}"), &message.contains(&root), &true)?;
    let said = s.cluster_says("FacadeReady", "False", "AuthorityLost").await?;
    expect(&format!("names root and exit: {said}"), &said.contains(&root), &true)?;
    expect("names the field", &said.contains("acceptAuthorityLoss"), &true)?;
    let shown = s.run_sh("facade-state", &[]).await?;
    expect(&format!("the page's command shows it: {shown}"), &shown.contains(&said), &true)?;
    // Nothing new is published either.
    let second = s.second().await?;
    s.env.publish(&second).await?;
    let lost = |o: &Value| (o["status"]["error"]["code"] == "AUTHORITY_LOST").then_some(());
    s.wait(&second.name, "AUTHORITY_LOST", lost).await?;

    // Another root than the lost one, then too early.
    s.run_sh("accept-loss", &[("ROOT", "0123")]).await?;
    s.refused_with(&["names another root"]).await?;
    s.run_sh("accept-loss", &[("ROOT", &root)]).await?;
    s.refused_with(&[&format!("{}.{CANDIDATE}", s.database), &s.name(), "replica 1"]).await?;
    expect("facades in Keeper", &s.env.keeper().keeper_map_roots().await?, &Vec::new())?;
    s.blocked("AUTHORITY_LOST").await?;

    s.run_sql("private-name", 0).await?;
    s.run_sh("look-at-cluster", &[("recovered=yes", "recovered=lost")]).await?;
    let ended = s.env.wait_outcome(SPACE, &s.name(), "Failed", SOON).await?;
    expect("code", &text(&ended["status"]["error"]["code"]), &"AUTHORITY_LOST")?;
    expect("the witness stays", &text(&ended["status"]["facadeRoot"]), &root.as_str())?;
    let cluster = s.env.wait_cluster_ready(SOON).await?;
    let new = text(&cluster["status"]["facadeRoot"]).to_owned();
    expect("another root", &(new == root || new.is_empty()), &false)?;
    let roots = s.env.keeper().keeper_map_roots().await?;
    expect("facades in Keeper", &roots, &vec![format!("/publication/{new}")])?;
    // What waited goes on under the new root, and so does the target that was given up.
    s.env.wait_outcome(SPACE, &second.name, "Succeeded", SOON).await?;
    s.published_after_all().await?;
    s.accept_nothing().await
}

impl Stage {
    /// The PublicationCluster refuses to honour its field, in words that name all of this.
    async fn refused_with(&self, named: &[&str]) -> Result<()> {
        let says = |object: &Value| {
            let message = condition(object, "FacadeReady").map(|c| text(&c["message"])).unwrap_or_default();
            named.iter().all(|part| message.contains(part))
        };
        let cluster = self.cluster_as(&format!("refused naming {named:?}"), says).await?;
        let ready = condition(&cluster, "Ready").cloned().unwrap_or_default();
        if ready["status"] == "False" && ready["reason"] == "AuthorityLost" {
            return Ok(());
        }
        Err(Error::other("Ready=False AuthorityLost", ready))
    }
}
