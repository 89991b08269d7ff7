//! A PublicationCluster in the namespace of those who use it: what goes with it, and what it holds back.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET, text, truth};
use crate::namespaces::OBJECT;
use crate::stage::{SOON, Stage, expect};
use crate::verdicts::{applied, slot_is};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use publication_e2e::Result;
use publication_e2e::error::Context;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, Publication, SECRET, condition};
use publication_e2e::proxy::StatementKind;
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("namespace_goes_with_its_references", 2, |s| Box::pin(with_its_references(s))),
    ("namespace_goes_with_its_cluster_in_use", 2, |s| Box::pin(with_its_cluster_in_use(s))),
    ("given_up_cluster_goes_before_its_publication", 2, |s| Box::pin(given_up(s))),
];

impl Stage {
    /// A namespace of this case with a PublicationCluster and its Secret; its name.
    pub async fn space_with_a_cluster(&self, name: &str) -> Result<String> {
        let space = format!("{}-{name}", self.database);
        self.env.namespace(&space).await?;
        let mut secret = publication_e2e::manifests::secret(self.env.cluster.publisher_password());
        secret["metadata"]["namespace"] = space.as_str().into();
        self.env.apply(&secret).await?;
        let mut cluster = self.env.publication_cluster();
        cluster["metadata"]["namespace"] = space.as_str().into();
        cluster["spec"]["access"] = json!([{"databases": [{"prefix": "shop"}]}]);
        self.env.apply(&cluster).await?;
        Ok(space)
    }
}

/// A namespace with a PublicationCluster of its own, and a publication that cannot begin.
async fn undispatched_in(s: &Stage, name: &str) -> Result<String> {
    let space = s.space_with_a_cluster(name).await?;
    s.env.apply(&of_its_own_cluster(s, &space)).await?;
    let refused = |o: &Value| (o["status"]["error"]["code"] == "CANDIDATE_INVALID").then_some(());
    s.in_space(&space, "CANDIDATE_INVALID", refused).await?;
    Ok(space)
}

fn of_its_own_cluster(s: &Stage, space: &str) -> Value {
    let mut publication = Publication::new(space, OBJECT, &s.database, TARGET, 5).manifest();
    publication["spec"]["clusterRef"] = json!({ "name": CLUSTER_OBJECT });
    publication
}

// proves: K30
async fn with_its_references(s: &mut Stage) -> Result<()> {
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    let spaces = [undispatched_in(s, "no-secret").await?, undispatched_in(s, "no-cluster").await?];
    let secrets: Api<Secret> = Api::namespaced(s.env.control_plane.client(), &spaces[0]);
    secrets.delete(SECRET, &DeleteParams::default()).await.context("delete the Secret")?;
    s.env.control_plane.delete(Kind::Cluster, &spaces[1], CLUSTER_OBJECT).await?;
    for space in &spaces {
        s.delete_namespace(space).await?;
    }
    for space in &spaces {
        s.namespace_gone(space).await?;
    }
    expect("statements with an effect", &s.effects(), &0)
}

/// The Secret goes at once, and a namespace that is going takes no new one: what was dispatched cannot be looked at any
/// more. It stays, and the cluster with it, until the platform lets it go; the slot waits for a verdict.
// proves: F-2, C-8, J-1, K30
async fn with_its_cluster_in_use(s: &mut Stage) -> Result<()> {
    s.statement_timeout(1).await?;
    s.tables(true, 5).await?;
    let before = s.generations().await?;
    let space = s.space_with_a_cluster("own").await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.apply(&of_its_own_cluster(s, &space)).await?;
    let dispatched = |o: &Value| (truth(o, "Dispatched") == Some("True")).then_some(());
    s.in_space(&space, "dispatched", dispatched).await?;
    let object = s.stays_blocked(&space, "REFERENCE_NOT_FOUND").await?;
    let said = condition(&object, "DeletionBlocked").map(|c| text(&c["message"])).unwrap_or_default();
    expect(said, &said.contains(SECRET), &true)?;
    let operation = text(&object["status"]["operationId"]).to_owned();
    let held = |o: &Value| condition(o, "DeletionBlocked").map(|c| text(&c["message"]).to_owned());
    let said = s.env.wait_for(Kind::Cluster, &space, CLUSTER_OBJECT, SOON, "held back", held).await?;
    expect(&said, &said.contains(&format!("{space}/{OBJECT}")), &true)?;
    // The entry ends without anybody who looks.
    s.env.cluster.member(1)?.ddl_resume().await?;
    let own = format!("-n {space} annotate");
    s.run_sh("orphan", &[("OPERATION", &operation), ("-n platform annotate", &own)]).await?;
    s.namespace_gone(&space).await?;
    expect("its phase is not final", &s.slot().await?.phase.ends_with("ED"), &false)?;
    s.expect_entries(1, 0, 0).await?;
    s.expect_tables(&[before.after(), before.after()]).await?;
    // Another PublicationCluster of the same servers has the same facade.
    s.run_sql("private-name", 0).await?;
    applied(s, "committed").await?;
    slot_is(s, "COMPLETED").await?;
    expect("names left", &s.tables_of(1).await?.contains_key(CANDIDATE), &false)?;
    expect("rows of the target", &s.env.cluster.counts(&s.database, TARGET).await?, &vec![5, 5])
}

/// The platform gives an unresolved publication up and takes the cluster away: the publication says that it is gone,
/// and a new cluster of that name can let it go, or see it through.
// proves: F-2, C-14, J-1
async fn given_up(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let space = s.space_with_a_cluster("own").await?;
    s.env.cluster.member(1)?.ddl_fail("EXCHANGE TABLES", 48, "not here", 1).await?;
    s.env.apply(&of_its_own_cluster(s, &space)).await?;
    let code =
        |code: &'static str| move |o: &Value| (o["status"]["error"]["code"] == code).then(|| o.clone());
    let object = s.in_space(&space, "PARTIAL_TERMINAL", code("PARTIAL_TERMINAL")).await?;
    let operation = text(&object["status"]["operationId"]).to_owned();
    s.env.control_plane.delete(Kind::Cluster, &space, CLUSTER_OBJECT).await?;
    let held = |o: &Value| condition(o, "DeletionBlocked").map(|_| ());
    s.env.wait_for(Kind::Cluster, &space, CLUSTER_OBJECT, SOON, "held back", held).await?;
    let own = format!("-n {space} annotate");
    let orphan = [("OPERATION", operation.as_str()), ("-n platform annotate", own.as_str())];
    s.run_sh("orphan", &orphan).await?;
    s.env.control_plane.wait_gone(Kind::Cluster, &space, CLUSTER_OBJECT, SOON).await?;
    s.touched(&space).await?;
    s.in_space(&space, "REFERENCE_NOT_FOUND", code("REFERENCE_NOT_FOUND")).await?;
    s.env.control_plane.delete(Kind::Publication, &space, OBJECT).await?;
    let stays = |o: &Value| (truth(o, "DeletionBlocked") == Some("True")).then_some(());
    s.in_space(&space, "DeletionBlocked", stays).await?;
    // A cluster of that name again: the same record, the same standstill; and the platform's word lets it go.
    s.space_with_a_cluster("own").await?;
    s.in_space(&space, "PARTIAL_TERMINAL", code("PARTIAL_TERMINAL")).await?;
    s.run_sh("orphan", &orphan).await?;
    s.env.control_plane.wait_gone(Kind::Publication, &space, OBJECT, SOON).await?;
    slot_is(s, "IN_PROGRESS").await?;
    s.expect_entries(1, 0, 0).await?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &1)?;
    s.delete_namespace(&space).await?;
    s.namespace_gone(&space).await
}
