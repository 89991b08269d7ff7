//! B: what must not be published is refused with its code, naming member and object, and nothing is written for it.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET, text};
use crate::obstacles::Obstacle::{self, Denied, Everywhere, Joins, OnSecond, Shown, ShownEverywhere};
use crate::obstacles::{IN_THE_WAY, MV, POLICY, Refusal, WRONG_DATABASES, WRONG_KINDS, WRONG_TOPOLOGIES};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::cluster::OTHER_CLUSTER;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, PLATFORM, condition};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("admission_in_the_way", 2, |s| Box::pin(refusals(s, IN_THE_WAY))),
    ("admission_kinds", 2, |s| Box::pin(refusals(s, WRONG_KINDS))),
    ("admission_databases", 2, |s| Box::pin(refusals(s, WRONG_DATABASES))),
    ("admission_topologies", 2, |s| Box::pin(refusals(s, WRONG_TOPOLOGIES))),
    ("admission_accepted_dependents", 2, |s| Box::pin(accepted_dependents(s))),
    ("admission_refused_whatever_is_accepted", 2, |s| Box::pin(refused_by_the_server(s))),
    ("admission_other_name_for_the_same_servers", 2, |s| Box::pin(other_name(s))),
];

impl Stage {
    fn filled(&self, text: &str) -> String {
        let second = self.env.proxies.get(1).map(|p| p.url().replace("http://", "")).unwrap_or_default();
        // One UUID for all members, and another one for each database.
        let uuid = format!("00000000-0000-4000-8000-{:0>12}", self.database.trim_start_matches("shop"));
        text.replace("{db}", &self.database)
            .replace("{other}", &format!("{}x", self.database))
            .replace("{own}", &uuid)
            .replace("{second}", &second)
            .replace("{h2}", &self.member_name(1))
    }

    async fn run(&self, member: usize, statements: &[&str]) -> Result<()> {
        for statement in statements {
            self.env.cluster.sql(member, &self.filled(statement)).await?;
        }
        Ok(())
    }

    async fn show(&self, member: usize, table: &str, how: fn(&str) -> Value) -> Result<()> {
        let mut overlay = how(&self.database);
        overlay["table"] = json!(table);
        self.env.cluster.member(member)?.admin("POST", "/system/overlay", overlay).await.map(|_| ())
    }

    async fn arrange(&self, obstacle: Obstacle) -> Result<()> {
        let members = 0..self.env.cluster.members.len();
        match obstacle {
            Everywhere(statements) => {
                for member in members {
                    self.run(member, statements).await?;
                }
            }
            OnSecond(statements) => self.run(1, statements).await?,
            Shown(table, how) => self.show(1, table, how).await?,
            ShownEverywhere(table, how) => {
                for member in members {
                    self.show(member, table, how).await?;
                }
            }
            Denied(table) => {
                let message = "publisher: Not enough privileges.";
                let body = json!({"code": 497, "match": format!("system.{table}"), "message": message, "where": "http", "user": "publisher"});
                self.env.cluster.member(1)?.admin("POST", "/statements/fail", body).await?;
            }
            Joins(table) => {
                let path = format!(
                    "SELECT zookeeper_path FROM system.replicas WHERE database = '{}' AND table = '{table}'",
                    self.database
                );
                let path = self.env.cluster.sql(1, &path).await?;
                let create = format!(
                    "CREATE TABLE {{other}}.joined (id UInt64, value String) ENGINE = ReplicatedMergeTree('{}', 'r9') ORDER BY id",
                    path.trim()
                );
                self.run(1, &[&create]).await?;
            }
        }
        Ok(())
    }

    /// The members as they are.
    async fn clear(&self, obstacle: Obstacle) -> Result<()> {
        for member in &self.env.cluster.members {
            if let Shown(table, _) | ShownEverywhere(table, _) = obstacle {
                member.admin("POST", "/system/clear", json!({ "table": table })).await?;
            }
            member.admin("POST", "/statements/clear", json!({})).await?;
        }
        // What joined a replica set would be there for the next case as well.
        if let Joins(_) = obstacle {
            self.run(1, &["DROP TABLE {other}.joined"]).await?;
        }
        Ok(())
    }

    /// Refused with this code, in words that name all of this; and nothing was written, however often it is looked at.
    async fn refused(&self, code: &str, named: &[&str]) -> Result<()> {
        let before = (self.env.slots().await?, self.env.ddl_entries().await?.len());
        self.env.publish(&self.publication(5)).await?;
        let object = self.blocked(code).await?;
        let message = text(&object["status"]["error"]["message"]);
        for name in named {
            let name = self.filled(name);
            if !message.contains(&name) {
                return Err(Error::other(format!("{name:?} in the message"), message));
            }
        }
        self.poke().await?;
        let after = (self.env.slots().await?, self.env.ddl_entries().await?.len());
        expect("slots in Keeper", &after.0, &before.0)?;
        expect("entries in the DDL queue", &after.1, &before.1)?;
        expect("statements with an effect", &self.effects(), &0)
    }
}

// proves: B-1, B-3, B-4, B-7, B-9, K04, K07, K08, K17, K18, K19, K21, K27
async fn refusals(s: &mut Stage, refusals: &[Refusal]) -> Result<()> {
    let mut wrong = Vec::new();
    for (at, refusal) in refusals.iter().enumerate() {
        s.fresh_database().await?;
        s.env.cluster.create_database(&format!("{}x", s.database)).await?;
        if refusal.candidate {
            s.env.cluster.table_with_rows(&s.database, CANDIDATE, 5, 100).await?;
        }
        if refusal.target {
            s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
        }
        let found = match s.arrange(refusal.obstacle).await {
            Ok(()) => s.refused(refusal.code, refusal.named).await,
            Err(error) => Err(error),
        };
        // First the object: without the obstacle it would publish.
        if s.env.control_plane.object(Kind::Publication, SPACE, &s.name()).await?.is_some() {
            s.env.control_plane.delete(Kind::Publication, SPACE, &s.name()).await?;
            s.env.control_plane.wait_gone(Kind::Publication, SPACE, &s.name(), SOON).await?;
        }
        s.clear(refusal.obstacle).await?;
        // All are tried: one run says everything that is wrong.
        if let Err(error) = found {
            let said = error.to_string().chars().take(700).collect::<String>();
            wrong.push(format!("case {at} ({}): {said}", refusal.code));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Error::other("refusals", wrong.join("\n"))) }
}

// proves: B-9, K17
async fn accepted_dependents(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.arrange(MV).await?;
    s.arrange(POLICY).await?;
    s.refused("DEPENDENTS_PRESENT", &["orders"]).await?;
    let accepted =
        |kinds: Value| move |cluster: &mut Value| cluster["spec"]["accept"] = json!({"dependents": kinds});
    // One of two kinds is not enough.
    s.platform(accepted(json!(["MaterializedView"]))).await?;
    s.status("the row policy alone", |o| {
        text(&o["status"]["error"]["message"]).contains("row policy tenant")
    })
    .await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &0)?;
    s.platform(accepted(json!(["MaterializedView", "RowPolicy"]))).await?;
    let object = s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.clear(POLICY).await?;
    s.expect_entries(1, 1, 1).await?;
    let admitted = condition(&object, "Admitted").cloned().unwrap_or_default();
    expect("reason of Admitted", &text(&admitted["reason"]), &"AdmittedWithWarnings")?;
    for said in ["orders_mv reads orders", "row policy tenant"] {
        expect(said, &text(&admitted["message"]).contains(said), &true)?;
    }
    let rows = s.env.cluster.counts(&s.database, TARGET).await?;
    expect("rows of the target by member", &rows, &vec![5; rows.len()])
}

// proves: B-9
async fn refused_by_the_server(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let dictionary = "CREATE DICTIONARY {db}.lookup (id UInt64, value String) PRIMARY KEY id \
                      SOURCE(CLICKHOUSE(DB '{db}' TABLE 'orders__pub_1')) LAYOUT(FLAT()) LIFETIME(0)";
    s.run(0, &[dictionary]).await?;
    s.platform(|cluster| cluster["spec"]["accept"] = json!({"dependents": ["Dictionary"]})).await?;
    s.refused("DEPENDENTS_PRESENT", &["dictionary {db}.lookup reads orders__pub_1", "630", "replica 1"])
        .await?;
    // It is right about the server: a rename under a dictionary is refused.
    let rename = format!("RENAME TABLE {0}.{CANDIDATE} TO {0}.moved", s.database);
    match s.env.cluster.sql(0, &rename).await {
        Err(Error::Sql { code: Some(630), .. }) => {}
        other => return Err(Error::other("630 of the server", format!("{other:?}"))),
    }
    s.run(0, &["DROP DICTIONARY {db}.lookup"]).await?;
    s.poke().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await
}

pub const OTHER: &str = "analytics-again";

/// A PublicationCluster over the same servers under another cluster name: its `Ready`, once it is refused.
pub async fn other_name_refused(s: &Stage) -> Result<Value> {
    let mut cluster = s.env.publication_cluster();
    cluster["metadata"]["name"] = json!(OTHER);
    cluster["spec"]["clusterName"] = json!(OTHER_CLUSTER);
    s.env.apply(&cluster).await?;
    let refused = |object: &Value| {
        let ready = condition(object, "Ready")?;
        (ready["status"] == "False" && ready["reason"] == "AuthorityConflict").then(|| ready.clone())
    };
    s.env.wait_for(Kind::Cluster, PLATFORM, OTHER, SOON, "refused", refused).await
}

// proves: B-5
async fn other_name(s: &mut Stage) -> Result<()> {
    let slots = s.env.slots().await?;
    let refused = other_name_refused(s).await;
    let facades = s.env.keeper().keeper_map_roots().await?;
    s.env.control_plane.delete(Kind::Cluster, PLATFORM, OTHER).await?;
    let ready = refused?;
    expect("names the cluster that was there first", &text(&ready["message"]).contains("main"), &true)?;
    expect("facades in Keeper", &facades.len(), &1)?;
    expect("slots in Keeper", &s.env.slots().await?, &slots)?;
    // The first is untouched by that.
    let first =
        s.env.control_plane.object(Kind::Cluster, PLATFORM, CLUSTER_OBJECT).await?.unwrap_or_default();
    let ready = condition(&first, "Ready").cloned().unwrap_or_default();
    expect("Ready of the first", &text(&ready["status"]), &"True")
}
