//! What stands against a publication is said in its status at once, writes nothing, and is not asked in a hot loop.

use crate::Case;
use crate::looks::{CANDIDATE, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use futures::StreamExt;
use publication_e2e::cluster::PUBLISHER;
use publication_e2e::error::Context;
use publication_e2e::evidence::writes;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{PLATFORM, condition};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub const CASES: &[(&str, usize, Case)] = &[
    ("errors_of_clusters", 2, |s| Box::pin(errors_of_clusters(s))),
    ("errors_of_publications", 2, |s| Box::pin(errors_of_publications(s))),
    ("unhealthy_candidate_recovers", 2, |s| Box::pin(unhealthy_candidate_recovers(s))),
];

/// A few periods of the backoff, which begins at a quarter of a second and doubles.
const WINDOW: Duration = Duration::from_secs(8);
/// Passes that one object may have in the window: 0.25 + 0.5 + 1 + 2 + 4 s lie between six.
const PASSES_MAX: u64 = 6;
/// Requests of one examination of this cluster, generously.
const REQUESTS_MAX: usize = 40;

/// An object, and the code that it must show.
struct Refused {
    name: String,
    code: &'static str,
}

/// The first error that the object ever shows.
async fn first_error(s: &Stage, refused: &Refused) -> Result<()> {
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
    let ready = condition(&object, "Ready").cloned().unwrap_or_default();
    let reason = text(&ready["reason"]).to_uppercase();
    expect(&format!("{name}: reason of Ready"), &reason, &refused.code.replace('_', ""))
}

/// Everything that a publication could change, besides its own status.
async fn traces(s: &Stage) -> Result<(usize, usize, usize)> {
    let records = s.env.records();
    let effects = records.iter().filter(|r| r.statement.kind.is_mutation()).count();
    Ok((s.env.slots().await?.len(), s.env.ddl_entries().await?.len(), effects))
}

/// Some periods of backoff go by: few passes, few requests, no write of an object that has nothing new to say.
async fn no_hot_loop(s: &Stage, refused: &[Refused], clusters: usize) -> Result<()> {
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
async fn removed(s: &Stage, refused: &[Refused]) -> Result<()> {
    for Refused { name, .. } in refused {
        s.env.control_plane.delete(Kind::Publication, SPACE, name).await?;
    }
    for Refused { name, .. } in refused {
        s.env.control_plane.wait_gone(Kind::Publication, SPACE, name, SOON).await?;
    }
    Ok(())
}

async fn secret(s: &Stage, name: &str, data: Value) -> Result<()> {
    let metadata = json!({"name": name, "namespace": PLATFORM});
    s.env
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}))
        .await
}

// proves: B-1, B-2
async fn errors_of_clusters(s: &mut Stage) -> Result<()> {
    secret(s, "wrong", json!({"username": PUBLISHER, "password": "no"})).await?;
    secret(s, "half", json!({ "username": PUBLISHER })).await?;
    s.tables(true, 5).await?;
    type Change = fn(&mut Value);
    let clusters: [(&str, Change, &'static str); 5] = [
        (
            "unreachable",
            |spec| spec["members"][1]["endpoint"] = "http://127.0.0.1:1".into(),
            "ENDPOINT_UNAVAILABLE",
        ),
        ("wrong-password", |spec| spec["auth"]["secretRef"]["name"] = "wrong".into(), "ACCESS_DENIED"),
        ("no-secret", |spec| spec["auth"]["secretRef"]["name"] = "nowhere".into(), "REFERENCE_NOT_FOUND"),
        ("no-key", |spec| spec["auth"]["secretRef"]["name"] = "half".into(), "CREDENTIALS_INVALID"),
        ("unknown-cluster", |spec| spec["clusterName"] = "nope".into(), "UNSUPPORTED_TOPOLOGY"),
    ];
    let before = traces(s).await?;
    for (name, change, code) in clusters {
        let mut cluster = s.env.publication_cluster();
        cluster["metadata"]["name"] = name.into();
        change(&mut cluster["spec"]);
        s.env.apply(&cluster).await?;
        let said = |o: &Value| Some(text(&condition(o, "Ready")?["reason"]).to_uppercase());
        let said = s.env.wait_for(Kind::Cluster, PLATFORM, name, SOON, "a verdict", said).await?;
        expect(&format!("{name}: reason of Ready"), &said, &code.replace('_', ""))?;
    }
    let mut refused = Vec::new();
    for (cluster, _, code) in clusters {
        let mut publication = s.publication(5);
        publication.name = format!("{}-{cluster}", s.database);
        let mut object = publication.manifest();
        object["spec"]["clusterRef"]["name"] = cluster.into();
        s.env.apply(&object).await?;
        refused.push(Refused { name: publication.name, code });
    }
    for refused in &refused {
        first_error(s, refused).await?;
    }
    no_hot_loop(s, &refused, clusters.len()).await?;
    expect("slots, entries, effects", &traces(s).await?, &before)?;
    removed(s, &refused).await?;
    for (name, ..) in clusters {
        s.env.control_plane.delete(Kind::Cluster, PLATFORM, name).await?;
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
    let mut add = |s: &Stage, what: &str, code, change: fn(&mut Value)| {
        let mut publication = s.publication(5);
        publication.name = format!("{}-{what}", s.database);
        let mut object = publication.manifest();
        change(&mut object["spec"]);
        objects.push(object);
        refused.push(Refused { name: publication.name, code });
    };
    add(s, "no-cluster", "REFERENCE_NOT_FOUND", |spec| spec["clusterRef"]["name"] = "nowhere".into());
    add(s, "namespace", "REFERENCE_DENIED", |spec| spec["clusterRef"]["name"] = "closed".into());
    add(s, "database", "REFERENCE_DENIED", |spec| spec["database"] = "private".into());
    add(s, "no-database", "TARGET_INVALID", |spec| spec["database"] = "shop_nowhere".into());
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    add(s, "no-candidate", "CANDIDATE_INVALID", |_| ());
    s.fresh_database().await?;
    s.tables(true, 6).await?;
    add(s, "rows", "ROW_COUNT_MISMATCH", |_| ());
    s.fresh_database().await?;
    let plain = format!(
        "CREATE TABLE {}.{CANDIDATE} ON CLUSTER main (id UInt64) ENGINE = MergeTree ORDER BY id",
        s.database
    );
    s.env.cluster.sql(0, &plain).await?;
    add(s, "merge-tree", "CANDIDATE_INVALID", |_| ());
    s.fresh_database().await?;
    s.tables(true, 5).await?;
    s.env.cluster.sql(1, &format!("DROP TABLE {}.{TARGET}", s.database)).await?;
    add(s, "half-a-target", "TARGET_INVALID", |_| ());
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
    let refused = Refused { name: s.name(), code: "CANDIDATE_NOT_CONVERGED" };
    first_error(s, &refused).await?;
    let object = s.env.publication(SPACE, &refused.name).await?;
    let message = text(&object["status"]["error"]["message"]);
    expect(
        "names field and member",
        &message.contains(&format!("queue_size = 3 on {}", s.member_name(1))),
        &true,
    )?;
    expect("statements with an effect", &s.effects(), &0)?;
    s.env.cluster.member(1)?.replica_clear().await?;
    s.env.wait_outcome(SPACE, &refused.name, "Succeeded", SOON).await?;
    s.published(5).await
}
