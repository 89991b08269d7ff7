//! What users and the API server see: schemas and rules, budgets of calls, columns, conditions, rights.

use crate::Case;
use crate::looks::{TARGET, text, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use publication_e2e::error::Context;
use publication_e2e::evidence::{reads, writes};
use publication_e2e::kubernetes::{GROUP, Kind};
use publication_e2e::manifests::{PLATFORM, SECRET, condition};
use publication_e2e::{Error, Result, paths};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

pub const CASES: &[(&str, usize, Case)] = &[
    ("manifests_good_and_bad", 2, |s| Box::pin(manifests_good_and_bad(s))),
    ("api_budget_and_idle_objects", 2, |s| Box::pin(api_budget_and_idle_objects(s))),
    ("columns_and_conditions", 2, |s| Box::pin(columns_and_conditions(s))),
    ("rights_of_the_operator", 2, |s| Box::pin(rights_of_the_operator(s))),
    ("kind_manifests_are_accepted", 2, |s| Box::pin(kind_manifests(s))),
];

const FIXTURES: &str = "fixtures";

fn fixtures(kind: &str) -> Result<Vec<(PathBuf, String)>> {
    let dir = paths::root().join("e2e/fixtures/api").join(kind);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&dir).context(dir.display().to_string())? {
        let path = entry.context("fixture")?.path();
        let text = std::fs::read_to_string(&path).context(path.display().to_string())?;
        files.push((path, text));
    }
    files.sort();
    Ok(files)
}

fn documents(text: &str) -> Result<Vec<DynamicObject>> {
    let document = |d| DynamicObject::deserialize(d).context("a document of a fixture");
    serde_yaml::Deserializer::from_str(text).map(document).collect()
}

fn api(s: &Stage, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let kind = match object.types.as_ref().map(|types| types.kind.as_str()) {
        Some("ClusterPublication") => Kind::Publication,
        Some("PublicationCluster") => Kind::Cluster,
        Some("PublicationVerdict") => Kind::Verdict,
        other => return Err(Error::other("fixture", format!("{other:?}"))),
    };
    Ok(s.env.control_plane.api(kind, FIXTURES))
}

/// The pods of kind/ cannot be started here; the API server judges their manifests, and stores nothing.
async fn kind_manifests(s: &mut Stage) -> Result<()> {
    const DRY_RUN: &str = "kubectl apply --server-side --dry-run=server --validate=strict -o name";
    let kind = paths::root().join("kind");
    s.env.namespace("clickhouse").await?;
    let said = s.shell(&format!("{DRY_RUN} -k {}", kind.join("clickhouse").display())).await?;
    for object in ["service/ch", "service/keeper", "statefulset.apps/ch", "statefulset.apps/keeper"] {
        expect(object, &said.lines().any(|line| line == object), &true)?;
    }
    expect("config maps", &said.lines().filter(|line| line.starts_with("configmap/")).count(), &4)?;
    let cluster = kind.join("publication-cluster.yaml");
    let said = s.shell(&format!("{DRY_RUN} -f {}", cluster.display())).await?;
    expect("cluster", &said.trim(), &"publicationcluster.clickhouse.dpone.dev/analytics")?;
    s.shell("kubectl delete namespace clickhouse --wait=false").await.map(|_| ())
}

// proves: A-8
async fn manifests_good_and_bad(s: &mut Stage) -> Result<()> {
    s.env.namespace(FIXTURES).await?;
    // Judged, not stored: the operator has nothing to do with them.
    let judged = PostParams { dry_run: true, ..PostParams::default() };
    let mut wrong = Vec::new();
    let good = fixtures("good")?;
    for (path, text) in &good {
        for object in documents(text)? {
            if let Err(error) = api(s, &object)?.create(&judged, &object).await {
                wrong.push(format!("{}: {error}", path.display()));
            }
        }
    }
    let bad = fixtures("bad")?;
    for (path, text) in &bad {
        let expected = text.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        let expected = expected.context(format!("{}: # expect", path.display()))?;
        if let Some(trouble) = refused(s, &judged, documents(text)?, expected).await? {
            wrong.push(format!("{}: {trouble}", path.display()));
        }
    }
    expect("fixtures", &(good.len() >= 20, bad.len() >= 60), &(true, true))?;
    expect("wrong answers", &wrong, &Vec::new())
}

/// What is wrong with the answer to the last document, if anything.
async fn refused(
    s: &Stage,
    judged: &PostParams,
    mut objects: Vec<DynamicObject>,
    expected: &str,
) -> Result<Option<String>> {
    let last = objects.pop().context("a document")?;
    let api = api(s, &last)?;
    let name = last.metadata.name.clone().unwrap_or_default();
    let answer = if objects.is_empty() {
        api.create(judged, &last).await
    } else {
        for object in &objects {
            api.create(&PostParams::default(), object).await.context(format!("create {name}"))?;
        }
        let answer = replaced(&api, &name, judged, last).await?;
        api.delete(&name, &kube::api::DeleteParams::default()).await.context("delete")?;
        answer
    };
    Ok(match answer {
        Ok(_) => Some("accepted".to_owned()),
        Err(kube::Error::Api(status)) if status.message.contains(expected) => None,
        Err(error) => Some(format!("refused, but not with {expected:?}: {error}")),
    })
}

/// The answer to a replacement over the object of now: the operator may write its finalizer or
/// status between our read and our write, and that conflict says nothing of the manifest.
async fn replaced(
    api: &Api<DynamicObject>,
    name: &str,
    judged: &PostParams,
    mut next: DynamicObject,
) -> Result<kube::Result<DynamicObject>> {
    const CONFLICT: u16 = 409;
    loop {
        next.metadata.resource_version = api.get(name).await.context("get")?.metadata.resource_version;
        match api.replace(name, judged, &next).await {
            Err(kube::Error::Api(status)) if status.code == CONFLICT => {}
            answer => return Ok(answer),
        }
    }
}

/// Statements about this case's object: its tables, its slot, its operation.
fn about(s: &Stage, key: &str, operation: &str) -> usize {
    let names = |text: &str| text.contains(&s.database) || text.contains(key) || text.contains(operation);
    s.env.records().iter().filter(|r| names(&r.statement.text)).count()
}

// proves: C-14, F-2
async fn api_budget_and_idle_objects(s: &mut Stage) -> Result<()> {
    const WRITES_MAX: usize = 5;
    s.tables(true, 5).await?;
    let user = s.env.operator_user();
    let lists_and_gets = || -> Result<usize> {
        let calls = s.env.control_plane.api_calls()?;
        // A GET of another case's owner (C-11) is not this object's.
        Ok(reads(&calls, &user).iter().filter(|c| c.verb == "list" || c.name == s.name()).count())
    };
    let written = || -> Result<usize> {
        let calls = s.env.control_plane.api_calls()?;
        Ok(writes(&calls, &user, "clusterpublications", &s.name()).len())
    };
    let read_before = lists_and_gets()?;
    s.env.publish(&s.publication(5)).await?;
    let object = s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    let released = |o: &Value| o["metadata"]["finalizers"].is_null().then_some(());
    s.wait(&s.name(), "without finalizer", released).await?;
    let count = written()?;
    if count > WRITES_MAX {
        return Err(Error::other("writes of the object", format!("{count}, at most {WRITES_MAX}")));
    }
    expect("GETs and LISTs", &lists_and_gets()?, &read_before)?;

    // Finished: whatever happens to the object, nobody is asked and nothing is written.
    let (key, operation) = (s.slot().await?.target_key, text(&object["status"]["operationId"]).to_owned());
    let asked = about(s, &key, &operation);
    let patch = json!({"metadata": {"annotations": {"e2e/poke": "1"}, "labels": {"e2e": "poke"}}});
    s.env.control_plane.merge_patch(Kind::Publication, SPACE, &s.name(), &patch).await?;
    // One watch brings both: when the second object was judged, the first was looked at.
    let mut fence = s.publication(5).manifest();
    let name = format!("{}-fence", s.name());
    fence["metadata"]["name"] = name.as_str().into();
    fence["spec"]["clusterRef"]["name"] = "nowhere".into();
    s.env.apply(&fence).await?;
    s.wait(&name, "judged", |o| (o["status"]["error"]["code"] == "REFERENCE_NOT_FOUND").then_some(()))
        .await?;
    expect("statements for an idle object", &about(s, &key, &operation), &asked)?;
    expect("writes of an idle object", &written()?, &count)?;
    expect("GETs and LISTs", &lists_and_gets()?, &read_before)?;
    s.env.control_plane.delete(Kind::Publication, SPACE, &name).await?;
    // It may go at once, and leaves its slot.
    s.env.control_plane.delete(Kind::Publication, SPACE, &s.name()).await?;
    s.env.control_plane.wait_gone(Kind::Publication, SPACE, &s.name(), SOON).await?;
    expect("phase", &s.slot().await?.phase.as_str(), &"COMPLETED")
}

async fn columns_and_conditions(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.publish(&s.publication(5)).await?;
    let object = s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    for kind in [
        "Admitted",
        "CandidateConverged",
        "SlotAcquired",
        "Dispatched",
        "ReplicasCommitted",
        "CleanedUp",
        "Succeeded",
        "Ready",
    ] {
        expect(kind, &truth(&object, kind), &Some("True"))?;
        let seen = condition(&object, kind).map(|c| &c["observedGeneration"]);
        expect(kind, &seen, &Some(&object["metadata"]["generation"]))?;
    }
    for kind in ["Reconciling", "Stalled", "DeletionBlocked"] {
        expect(kind, &truth(&object, kind), &None)?;
    }
    let status = &object["status"];
    let entries = s.own_entries().await?;
    let exchange = entries.iter().find(|e| e.kind() == "EXCHANGE").context("the EXCHANGE entry")?;
    expect("entry", &text(&status["publication"]["entry"]), &exchange.name.as_str())?;
    for replica in status["replicas"].as_array().context("replicas")? {
        expect("state of a replica", &text(&replica["state"]), &"Cleaned")?;
    }
    let wide = ["get", "cpub", &s.name(), "--namespace", SPACE, "--output", "wide"].map(str::to_owned);
    let shown = s.env.control_plane.kubectl(&wide).await?;
    let rows: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let [head, row] = rows.as_slice() else { return Err(Error::other("kubectl get", shown)) };
    let columns = "NAME TARGET PHASE OUTCOME REPLICAS REASON AGE CLASSIFICATION OPERATION ENTRY ERROR";
    expect("columns", &head.join(" ").as_str(), &columns)?;
    expect("what they show", &row[1..6].join(" "), &format!("{TARGET} Completed Succeeded 2/2 Published"))?;
    let narrow = s.env.control_plane.kubectl(&wide[..5]).await?;
    let head: Vec<&str> = narrow.lines().next().unwrap_or_default().split_whitespace().collect();
    expect("columns", &head.join(" ").as_str(), &"NAME TARGET PHASE OUTCOME REPLICAS REASON AGE")?;
    // Who never got a slot has no phase and no replicas; the reason is there all the same.
    let mut spent = s.publication(5).manifest();
    let name = format!("{}-spent", s.name());
    spent["metadata"]["name"] = name.as_str().into();
    s.env.apply(&spent).await?;
    s.wait(&name, "Blocked", |o| (o["status"]["outcome"] == "Blocked").then_some(())).await?;
    let narrow = ["get", "cpub", &name, "--namespace", SPACE].map(str::to_owned);
    let shown = s.env.control_plane.kubectl(&narrow).await?;
    let row: Vec<&str> = shown.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    let (told, _age) = row[1..].split_at(row.len() - 2);
    // Its candidate is gone, and so is the name.
    expect(&shown, &told.first().copied(), &Some(TARGET))?;
    let reason = told.last().copied().unwrap_or_default();
    expect(&shown, &["CandidateInvalid", "CandidateNameSpent"].contains(&reason), &true)?;
    s.env.control_plane.delete(Kind::Publication, SPACE, &name).await
}

async fn rights_of_the_operator(s: &mut Stage) -> Result<()> {
    let config = Kubeconfig::read_from(&s.env.operator_kubeconfig).context("kubeconfig")?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.context("kubeconfig")?).context("client")?;
    let table = [
        ("get", "", "secrets", true),
        ("list", "", "secrets", false),
        ("watch", "", "secrets", false),
        ("update", "", "secrets", false),
        ("list", "", "configmaps", false),
        // Receipts.
        ("create", "", "configmaps", true),
        ("patch", "", "configmaps", true),
        ("delete", "", "configmaps", true),
        ("update", "", "configmaps", false),
        ("list", "", "namespaces", false),
        ("create", "", "pods", false),
        ("watch", GROUP, "clusterpublications", true),
        ("create", GROUP, "clusterpublications", false),
        // Finished ones, after their time.
        ("delete", GROUP, "clusterpublications", true),
        ("deletecollection", GROUP, "clusterpublications", false),
        ("update", GROUP, "clusterpublications", false),
        ("patch", GROUP, "publicationclusters", true),
        ("delete", GROUP, "publicationclusters", false),
        ("create", GROUP, "publicationverdicts", false),
        ("patch", GROUP, "publicationverdicts", false),
        ("escalate", "rbac.authorization.k8s.io", "clusterroles", false),
    ];
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    for (verb, group, resource, allowed) in table {
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            namespace: Some(PLATFORM.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec =
            SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        let answer = reviews.create(&PostParams::default(), &review).await.context("access review")?;
        let said = answer.status.is_some_and(|status| status.allowed);
        expect(&format!("{verb} {resource}"), &said, &allowed)?;
    }
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client, PLATFORM);
    secrets.get(SECRET).await.context("get the Secret by name")?;
    match secrets.list(&kube::api::ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => return Err(Error::other("list Secrets", format!("{:?}", other.map(|l| l.items.len())))),
    }
    // Nor has it tried.
    let user = s.env.operator_user();
    let calls = s.env.control_plane.api_calls()?;
    let tried = calls.iter().filter(|c| c.user == user && c.resource == "secrets" && c.verb == "watch");
    expect("watches of Secrets", &tried.count(), &0)
}
