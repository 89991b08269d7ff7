//! What stands against a publication is said in its status at once, writes nothing, and is not asked in a hot loop.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use futures::StreamExt;
use publication_e2e::error::Context;
use publication_e2e::evidence::writes;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{PLATFORM, condition};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub const CASES: &[(&str, usize, Case)] = &[
    ("errors_of_publications", 2, |s| Box::pin(errors_of_publications(s))),
    ("unhealthy_candidate_recovers", 2, |s| Box::pin(unhealthy_candidate_recovers(s))),
];

/// A few periods of the backoff, which begins at a quarter of a second and doubles.
const WINDOW: Duration = Duration::from_secs(8);
/// Passes that one object may have in the window: 0.25 + 0.5 + 1 + 2 + 4 s lie between six.
const PASSES_MAX: u64 = 6;
/// Requests of one examination of this cluster, generously.
const REQUESTS_MAX: usize = 40;

/// An object, and what it must show.
pub struct Refused {
    pub name: String,
    pub code: &'static str,
    /// The whole message.
    pub message: String,
}

/// The first error that the object ever shows.
pub async fn first_error(s: &Stage, refused: &Refused) -> Result<()> {
    let name = &refused.name;
    let mut states = s.env.control_plane.watch(Kind::Publication, SPACE, name).await?;
    let found = tokio::time::timeout(SOON, async {
        while let Some(object) = states.next().await {
            let object = object?;
            if !object["status"]["error"].is_null() {
                return Ok(object);
            }
        }
        Err(Error::other(name, "the watch ended"))
    });
    let object = found.await.context(format!("{name}: {}", refused.code))??;
    let status = &object["status"];
    let said = text(&status["error"]["code"]);
    if said != refused.code {
        return Err(Error::other(name, format!("said {}, not {}", status["error"], refused.code)));
    }
    expect(&format!("{name}: message"), &text(&status["error"]["message"]), &refused.message.as_str())?;
    let ready = condition(&object, "Ready").cloned().unwrap_or_default();
    let reason = text(&ready["reason"]).to_uppercase();
    expect(&format!("{name}: reason of Ready"), &reason, &refused.code.replace('_', ""))
}

/// Everything that a publication could change, besides its own status.
pub async fn traces(s: &Stage) -> Result<(usize, usize, usize)> {
    let records = s.env.records();
    let effects = records.iter().filter(|r| r.statement.kind.is_mutation()).count();
    Ok((s.env.slots().await?.len(), s.env.ddl_entries().await?.len(), effects))
}

/// Some periods of backoff go by: few passes, few requests, no write of an object that has nothing new to say.
pub async fn no_hot_loop(s: &Stage, refused: &[Refused], clusters: usize) -> Result<()> {
    let user = s.env.operator_user();
    let written = || -> Result<usize> {
        let calls = s.env.control_plane.api_calls()?;
        Ok(refused.iter().map(|r| writes(&calls, &user, "clusterpublications", &r.name).len()).sum())
    };
    let before = (s.passes().await?, s.env.records().len(), written()?);
    let start = Instant::now();
    eventually(WINDOW * 2, "some periods of backoff", || async {
        Ok(Seen::when(start.elapsed() > WINDOW, "not over"))
    })
    .await?;
    let passes = s.passes().await? - before.0;
    let objects = refused.len() + clusters;
    expect("writes of unchanged objects", &(written()? - before.2), &0)?;
    let most = PASSES_MAX * u64::try_from(refused.len()).unwrap();
    if passes > most {
        return Err(Error::other("hot loop", format!("{passes} passes, at most {most} expected")));
    }
    let requests = s.env.records().len() - before.1;
    let most = usize::try_from(PASSES_MAX).unwrap() * objects * REQUESTS_MAX;
    if requests > most {
        return Err(Error::other("hot loop", format!("{requests} requests, at most {most} expected")));
    }
    Ok(())
}

/// Stays out of the way of later cases.
pub async fn removed(s: &Stage, refused: &[Refused]) -> Result<()> {
    for Refused { name, .. } in refused {
        s.env.control_plane.delete(Kind::Publication, SPACE, name).await?;
    }
    for Refused { name, .. } in refused {
        s.env.control_plane.wait_gone(Kind::Publication, SPACE, name, SOON).await?;
    }
    Ok(())
}

// proves: B-3, B-7, B-8
async fn errors_of_publications(s: &mut Stage) -> Result<()> {
    let mut closed = s.env.publication_cluster();
    closed["metadata"]["name"] = "closed".into();
    closed["spec"]["access"] = json!([{"databases": [{"prefix": "shop"}]}]);
    s.env.apply(&closed).await?;
    let mut refused = Vec::new();
    let mut objects = Vec::new();
    let mut add = |s: &Stage, what: &str, (code, message): (&'static str, &str), change: fn(&mut Value)| {
        let mut publication = s.publication(5);
        publication.name = format!("{}-{what}", s.database);
        let mut object = publication.manifest();
        change(&mut object["spec"]);
        objects.push(object);
        // What holds on both members is said of both.
        let (said, rule) = message.rsplit_once(" (").unwrap_or((message, ""));
        let members = if said.contains("{h}") { 0..2 } else { 0..1 };
        let each: Vec<String> = members.map(|m| said.replace("{h}", &s.member_name(m))).collect();
        let message = format!("{} ({rule}", each.join("; "))
            .replace("{db}", &s.database)
            .replace("{h2}", &s.member_name(1));
        refused.push(Refused { name: publication.name, code, message });
    };
    let nowhere = "clusterRef: PublicationCluster platform/nowhere does not exist (api)";
    add(s, "no-cluster", ("REFERENCE_NOT_FOUND", nowhere), |spec| {
        spec["clusterRef"]["name"] = "nowhere".into();
    });
    let closed = "clusterRef: platform/closed does not let namespace shop publish database {db}; the platform grants it in spec.access (api)";
    add(s, "namespace", ("REFERENCE_DENIED", closed), |spec| spec["clusterRef"]["name"] = "closed".into());
    let private = "clusterRef: platform/analytics does not let namespace shop publish database private; the platform grants it in spec.access (api)";
    add(s, "database", ("REFERENCE_DENIED", private), |spec| spec["database"] = "private".into());
    let no_database = "database: shop_nowhere does not exist on {h}; it must be Atomic on every member (B-3)";
    add(s, "no-database", ("TARGET_INVALID", no_database), |spec| spec["database"] = "shop_nowhere".into());
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    let missing = "candidate: orders__pub_1 is missing on {h} (B-7)";
    add(s, "no-candidate", ("CANDIDATE_INVALID", missing), |_| ());
    s.fresh_database().await?;
    s.tables(true, 6).await?;
    let rows = "rows: 6 counted on {h}, expected exactly 5 (B-8)";
    add(s, "rows", ("ROW_COUNT_MISMATCH", rows), |_| ());
    s.fresh_database().await?;
    let plain = format!(
        "CREATE TABLE {}.{CANDIDATE} ON CLUSTER main (id UInt64) ENGINE = MergeTree ORDER BY id",
        s.database
    );
    s.env.cluster.sql(0, &plain).await?;
    let kind =
        "candidate: orders__pub_1 is a MergeTree, not of the Replicated*MergeTree family, on {h} (B-7)";
    add(s, "merge-tree", ("CANDIDATE_INVALID", kind), |_| ());
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    s.env.cluster.sql(1, &format!("DROP TABLE {}.{TARGET}", s.database)).await?;
    add(s, "half-a-target", ("TARGET_INVALID", "target: orders is missing on {h2} (B-7)"), |_| ());
    let before = traces(s).await?;
    for object in &objects {
        s.env.apply(object).await?;
    }
    for refused in &refused {
        first_error(s, refused).await?;
    }
    no_hot_loop(s, &refused, 0).await?;
    expect("slots, entries, effects", &traces(s).await?, &before)?;
    removed(s, &refused).await?;
    s.env.control_plane.delete(Kind::Cluster, PLATFORM, "closed").await
}

// proves: B-8, K25
async fn unhealthy_candidate_recovers(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.member(1)?.replica_fault(&s.database, CANDIDATE, "queue_size", json!(3)).await?;
    s.env.publish(&s.publication(5)).await?;
    let message = format!("candidate: queue_size = 3 on {} (B-8)", s.member_name(1));
    let refused = Refused { name: s.name(), code: "CANDIDATE_NOT_CONVERGED", message };
    first_error(s, &refused).await?;
    expect("statements with an effect", &s.effects(), &0)?;
    s.env.cluster.member(1)?.replica_clear().await?;
    s.env.wait_outcome(SPACE, &refused.name, "Succeeded", SOON).await?;
    s.published(5).await
}
