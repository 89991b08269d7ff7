//! A PublicationCluster is edited while a publication that it carries is in flight: whatever it says meanwhile, nothing
//! is sent again, nothing is sent elsewhere, and with the old words back the one statement is carried through.

use crate::Case;
use crate::looks::{TARGET, text, truth};
use crate::stage::{SOON, Stage, expect};
use publication_e2e::cluster::{ClickHouseCluster, Lane, PUBLISHER};
use publication_e2e::evidence::check_one_shot;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, CONTROL_DATABASE, PLATFORM, condition};
use publication_e2e::proxy::StatementKind;
use publication_e2e::zookeeper::ZooKeeper;
use publication_e2e::{Error, Result};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("cluster_edited_while_in_use", 2, |s| Box::pin(edited(s))),
    ("cluster_repointed_while_in_use", 2, |s| Box::pin(repointed(s))),
    ("cluster_of_another_control_table", 2, |s| Box::pin(another_control_table(s))),
];

/// Dispatched, with one member that has not run the statement yet.
async fn in_flight(s: &Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.publish(&s.publication(5)).await?;
    s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await.map(|_| ())
}

/// The publication says this code, keeps what it showed, and stays as it is however often it is looked at.
async fn says(s: &Stage, what: &str, code: &str) -> Result<()> {
    let object = s.status(&format!("{what}: {code}"), |o| o["status"]["error"]["code"] == code).await?;
    expect(&format!("{what}: Dispatched"), &truth(&object, "Dispatched"), &Some("True"))?;
    let state = |at: usize| text(&object["status"]["replicas"][at]["state"]).to_owned();
    let states = (state(0), state(1));
    expect(&format!("{what}: states"), &states, &("Committed".to_owned(), "Pending".to_owned()))?;
    s.nudge().await?;
    s.expect_entries(1, 0, 0).await
}

async fn goes_through(s: &mut Stage) -> Result<()> {
    s.platform(|_| ()).await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.exchange_ends().await?;
    s.env.wait_outcome(crate::stage::SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    expect("EXCHANGE requests", &s.requests(StatementKind::Exchange).len(), &1)?;
    check_one_shot(&s.env.records())
}

// proves: C-14, F-2, F-3, K30
async fn edited(s: &mut Stage) -> Result<()> {
    in_flight(s).await?;
    let wrong = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "edited-wrong", "namespace": PLATFORM},
        "stringData": {"username": PUBLISHER, "password": "no"},
    });
    s.env.apply(&wrong).await?;
    let slot = s.slot().await?;
    type Edit = fn(&mut Value);
    let edits: [(&str, &str, Edit); 3] = [
        ("no such Secret", "REFERENCE_NOT_FOUND", |c| c["spec"]["auth"]["secretRef"]["name"] = "none".into()),
        ("another Secret", "ACCESS_DENIED", |c| {
            c["spec"]["auth"]["secretRef"]["name"] = "edited-wrong".into();
        }),
        ("access taken away", "REFERENCE_DENIED", |c| {
            c["spec"]["access"] = json!([{"databases": [{"name": "elsewhere"}]}]);
        }),
    ];
    for (what, code, edit) in edits {
        s.platform(edit).await?;
        says(s, what, code).await?;
        expect(what, &s.slot().await?, &slot)?;
    }
    // A member that cannot be read is waited for, as one that is down (F).
    s.platform(|cluster| cluster["spec"]["members"][1]["endpoint"] = "http://127.0.0.1:1".into()).await?;
    s.status("MemberUnreachable", |o| o["status"]["cause"] == "MemberUnreachable").await?;
    s.expect_entries(1, 0, 0).await?;
    // Names of the cluster and of its control table are no edit at all.
    for (field, words) in [
        ("clusterName", "clusterName is immutable: create another PublicationCluster for another cluster"),
        ("controlDatabase", "controlDatabase is immutable: the facade and its records stay where they are"),
    ] {
        let mut cluster = s.env.publication_cluster();
        cluster["spec"][field] = "another".into();
        let refused = s.env.apply(&cluster).await.err().map(|e| e.to_string()).unwrap_or_default();
        expect(&format!("{field}: {refused}"), &refused.contains(words), &true)?;
    }
    // The same servers in another order are the same cluster.
    s.platform(|cluster| {
        if let Some(members) = cluster["spec"]["members"].as_array_mut() {
            members.reverse();
        }
    })
    .await?;
    s.status("no error", |o| o["status"]["error"].is_null() && truth(o, "Reconciling") == Some("True"))
        .await?;
    goes_through(s).await
}

/// The endpoints become those of another cluster with the same name and the same tables.
// proves: B-5, B-6, D-1, F-2
async fn repointed(s: &mut Stage) -> Result<()> {
    in_flight(s).await?;
    let slot = s.slot().await?;
    let dir = s.env.work.subdir("another")?;
    let zookeeper = ZooKeeper::start(&dir).await?;
    let mut another = ClickHouseCluster::start(2, Lane::V26_9, zookeeper.address(), &dir).await?;
    another.set_password(PUBLISHER, s.env.cluster.publisher_password()).await?;
    another.create_database(CONTROL_DATABASE).await?;
    another.table_with_rows(&s.database, TARGET, 3, 0).await?;
    another.table_with_rows(&s.database, "orders__pub_1", 5, 100).await?;
    let before = zookeeper.keeper().ddl_entries().await?;
    let there: Vec<String> = another.members.iter().map(|m| format!("http://{}", m.spec.http())).collect();
    s.platform(|cluster| {
        for (at, endpoint) in there.iter().enumerate() {
            cluster["spec"]["members"][at]["endpoint"] = endpoint.as_str().into();
        }
    })
    .await?;
    says(s, "another cluster", "AUTHORITY_LOST").await?;
    let cluster =
        s.env.control_plane.object(Kind::Cluster, PLATFORM, CLUSTER_OBJECT).await?.unwrap_or_default();
    let said = |kind: &str| condition(&cluster, kind).cloned().unwrap_or_default();
    let held = said("RepointingBlocked");
    expect("RepointingBlocked", &text(&held["reason"]), &"InUse")?;
    let named = text(&held["message"]).contains(&format!("{}/{}", crate::stage::SPACE, s.name()));
    expect(&format!("names the publication: {held}"), &named, &true)?;
    let ready = said("Ready");
    expect(&format!("Ready: {ready}"), &text(&ready["reason"]), &"AuthorityLost")?;
    let root = slot_root(&cluster)?;
    expect(&format!("names the root: {ready}"), &text(&ready["message"]).contains(root), &true)?;
    // Nothing came to the other cluster, and the record of this one is as it was.
    expect("entries there", &zookeeper.keeper().ddl_entries().await?.len(), &before.len())?;
    expect("facades there", &zookeeper.keeper().keeper_map_roots().await?, &Vec::new())?;
    expect("rows there", &another.counts(&s.database, TARGET).await?, &vec![3, 3])?;
    expect("the slot", &s.slot().await?, &slot)?;
    goes_through(s).await?;
    let cluster = s.env.wait_cluster_ready(SOON).await?;
    expect("RepointingBlocked", &condition(&cluster, "RepointingBlocked").is_none(), &true)
}

fn slot_root(cluster: &Value) -> Result<&str> {
    let root = text(&cluster["status"]["facadeRoot"]);
    if root.is_empty() { Err(Error::other("facadeRoot", cluster["status"].to_string())) } else { Ok(root) }
}

/// Another object names another control database for the same servers, while the first is in use.
// proves: B-5
async fn another_control_table(s: &mut Stage) -> Result<()> {
    const SECOND: &str = "second-control-table";
    s.env.cluster.create_database("elsewhere").await?;
    in_flight(s).await?;
    let slot = s.slot().await?;
    let mut cluster = s.env.publication_cluster();
    cluster["metadata"]["name"] = SECOND.into();
    cluster["spec"]["controlDatabase"] = "elsewhere".into();
    s.env.apply(&cluster).await?;
    let refused = |o: &Value| {
        let ready = condition(o, "Ready")?;
        (ready["reason"] == "CapabilityMissing").then(|| text(&ready["message"]).to_owned())
    };
    let said = s.env.wait_for(Kind::Cluster, PLATFORM, SECOND, SOON, "refused", refused).await?;
    let words = "publication_authority exists in database publication, not in controlDatabase elsewhere; a \
                 PublicationCluster with that controlDatabase owns it";
    let (first, second) = (s.member_name(0), s.member_name(1));
    let named = said.contains(words) && (said.contains(&first) || said.contains(&second));
    expect(&said, &named, &true)?;
    expect("facades in Keeper", &s.env.keeper().keeper_map_roots().await?.len(), &1)?;
    s.env.control_plane.delete(Kind::Cluster, PLATFORM, SECOND).await?;
    s.env.control_plane.wait_gone(Kind::Cluster, PLATFORM, SECOND, SOON).await?;
    expect("the slot", &s.slot().await?, &slot)?;
    goes_through(s).await
}
