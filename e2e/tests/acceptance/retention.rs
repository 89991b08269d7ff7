//! How long objects stay: finished ones go after their time, and a PublicationCluster stays while it is used.

use crate::Case;
use crate::looks::{TARGET, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, Publication, condition};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("finished_objects_expire", 2, |s| Box::pin(finished_objects_expire(s))),
    ("used_cluster_is_not_deleted", 2, |s| Box::pin(used_cluster_is_not_deleted(s))),
];

/// Finished before their time was set or after: they go. What is blocked stays, and so does every slot.
// proves: C-1
async fn finished_objects_expire(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    // Of another target: one that is older than what was published would be superseded, which is an end.
    let name = format!("{}-missing", s.name());
    let missing = Publication::new(SPACE, &name, &s.database, "items", 5);
    s.env.publish(&missing).await?;
    let blocked = |o: &Value| (o["status"]["outcome"] == "Blocked").then_some(());
    s.wait(&missing.name, "Blocked", blocked).await?;
    s.env.publish(&s.publication(5)).await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.platform(|cluster| cluster["spec"]["history"] = json!({"publicationTTLSeconds": 1})).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &s.name(), SOON).await?;
    let mut late = s.publication(5).manifest();
    let name = format!("{}-late", s.name());
    late["metadata"]["name"] = name.as_str().into();
    late["spec"]["candidate"] = "orders__pub_9".into();
    late["spec"]["admissionDeadlineSeconds"] = 1.into();
    s.env.apply(&late).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &name, SOON).await?;
    let object = s.env.publication(SPACE, &missing.name).await?;
    expect("the blocked one", &text(&object["status"]["outcome"]), &"Blocked")?;
    expect("phase", &s.slot().await?.phase.as_str(), &"COMPLETED")?;
    s.env.control_plane.delete(Kind::Publication, SPACE, &missing.name).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &missing.name, SOON).await
}

/// Deleted while a publication is in flight: it stays and says why, that one ends, nothing new begins, then it goes.
// proves: C-14, K30
async fn used_cluster_is_not_deleted(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let space = s.space_with_a_cluster("used").await?;
    let ask = |name: &str, target: &str| {
        let mut object = Publication::new(&space, name, &s.database, target, 5).manifest();
        object["spec"]["clusterRef"] = json!({ "name": CLUSTER_OBJECT });
        object
    };
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.apply(&ask("first", TARGET)).await?;
    let dispatched = |o: &Value| (truth(o, "Dispatched") == Some("True")).then_some(());
    s.env.wait_for(Kind::Publication, &space, "first", SOON, "dispatched", dispatched).await?;
    s.env.control_plane.delete(Kind::Cluster, &space, CLUSTER_OBJECT).await?;
    let held = |o: &Value| condition(o, "DeletionBlocked").cloned();
    let held = s.env.wait_for(Kind::Cluster, &space, CLUSTER_OBJECT, SOON, "held back", held).await?;
    expect("reason", &text(&held["reason"]), &"InUse")?;
    expect("names it", &text(&held["message"]).contains(&format!("{space}/first")), &true)?;
    s.env.apply(&ask("second", "items")).await?;
    let refused = |o: &Value| (o["status"]["error"]["code"] == "REFERENCE_NOT_FOUND").then_some(());
    s.env.wait_for(Kind::Publication, &space, "second", SOON, "refused", refused).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.env.wait_outcome(&space, "first", "Succeeded", SOON).await?;
    s.env.control_plane.wait_gone(Kind::Cluster, &space, CLUSTER_OBJECT, SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await
}
