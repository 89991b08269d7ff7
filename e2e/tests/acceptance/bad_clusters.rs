//! A PublicationCluster that is no good says so itself, in the same words as every publication that wants it; and
//! nothing is written because of it.

use crate::Case;
use crate::errors::{Refused, first_error, no_hot_loop, removed, traces};
use crate::looks::text;
use crate::stage::{SOON, Stage, expect};
use publication_e2e::Result;
use publication_e2e::cluster::PUBLISHER;
use publication_e2e::error::Context;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{PLATFORM, condition};
use publication_e2e::misbehaving::{Manner, Misbehaving};
use publication_e2e::proxy::{FaultProxy, Tls};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("errors_of_clusters", 2, |s| Box::pin(errors_of_clusters(s))),
    ("errors_of_control_tables", 2, |s| Box::pin(errors_of_control_tables(s))),
];

/// A PublicationCluster with one fault, and what it must say.
struct Bad {
    name: &'static str,
    spec: Value,
    code: &'static str,
    message: String,
}

/// The usual PublicationCluster, changed.
fn bad(
    s: &Stage,
    name: &'static str,
    code: &'static str,
    message: impl Into<String>,
    change: impl FnOnce(&mut Value),
) -> Bad {
    let mut spec = s.env.publication_cluster()["spec"].take();
    change(&mut spec);
    Bad { name, spec, code, message: message.into() }
}

async fn apply(s: &Stage, bad: &Bad) -> Result<()> {
    let mut cluster = s.env.publication_cluster();
    cluster["metadata"]["name"] = bad.name.into();
    cluster["spec"] = bad.spec.clone();
    s.env.apply(&cluster).await
}

/// Says exactly this. A slow machine may say of a member first that it did not answer.
async fn told(s: &Stage, bad: &Bad) -> Result<()> {
    let reason = bad.code.replace('_', "");
    let exactly = |o: &Value| {
        let ready = condition(o, "Ready")?;
        let says =
            text(&ready["reason"]).to_uppercase() == reason && ready["message"] == bad.message.as_str();
        says.then_some(())
    };
    let what = format!("Ready: {} {}", bad.code, bad.message);
    s.env.wait_for(Kind::Cluster, PLATFORM, bad.name, SOON, &what, exactly).await
}

/// The publication that wants it is refused for the same reason.
async fn wanted(s: &Stage, bad: &Bad) -> Result<Refused> {
    let mut publication = s.publication(5);
    publication.name = format!("{}-{}", s.database, bad.name);
    let mut object = publication.manifest();
    object["spec"]["clusterRef"]["name"] = bad.name.into();
    s.env.apply(&object).await?;
    let message = format!("PublicationCluster {}: {} (B-5)", bad.name, bad.message);
    Ok(Refused { name: publication.name, code: bad.code, message })
}

async fn core(s: &Stage, kind: &str, name: &str, data: Value) -> Result<()> {
    let mut object =
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": PLATFORM}});
    let data = data.as_object().cloned().unwrap_or_default();
    data.into_iter().for_each(|(field, value)| object[field.as_str()] = value);
    s.env.apply(&object).await
}

const USER: &str = "auth.secretRef";

/// References, credentials and names.
async fn references(s: &Stage) -> Result<Vec<Bad>> {
    // "ÿþ" in base64 is no UTF-8.
    let binary = json!({"data": {"username": "cHVibGlzaGVy", "password": "//4A"}});
    core(s, "Secret", "wrong", json!({"stringData": {"username": PUBLISHER, "password": "no"}})).await?;
    core(s, "Secret", "half", json!({"stringData": { "username": PUBLISHER }})).await?;
    core(s, "Secret", "keyless", json!({})).await?;
    core(s, "Secret", "binary", binary).await?;
    core(s, "ConfigMap", "no-ca", json!({"data": {"ca.crt": "not a certificate"}})).await?;
    let both = format!("{}, {}", s.env.proxy(0)?.address(), s.env.proxy(1)?.address());
    let secret = |name: &'static str| move |spec: &mut Value| spec["auth"]["secretRef"]["name"] = name.into();
    let invalid = "CREDENTIALS_INVALID";
    Ok(vec![
        bad(
            s,
            "wrong-password",
            "ACCESS_DENIED",
            format!("{both}: user or password refused; check the Secret of {USER}"),
            secret("wrong"),
        ),
        bad(
            s,
            "no-secret",
            "REFERENCE_NOT_FOUND",
            format!("{USER}: Secret platform/nowhere does not exist; create it"),
            secret("nowhere"),
        ),
        bad(s, "no-key", invalid, format!("{USER}: the key password is missing; add it"), secret("half")),
        bad(s, "no-keys", invalid, format!("{USER}: the key username is missing; add it"), secret("keyless")),
        bad(
            s,
            "binary",
            invalid,
            format!("{USER}: the key password is not text; store it as UTF-8 without control characters"),
            secret("binary"),
        ),
        bad(
            s,
            "bad-ca",
            invalid,
            "tls.caRef: the bundle holds no usable PEM certificate; store the authority's certificates as PEM",
            |spec| {
                encrypted(spec);
                spec["tls"] = json!({"caRef": {"kind": "ConfigMap", "name": "no-ca", "key": "ca.crt"}});
            },
        ),
        bad(
            s,
            "unknown-cluster",
            "UNSUPPORTED_TOPOLOGY",
            "no member's system.clusters has the cluster nope; check clusterName and remote_servers",
            |spec| spec["clusterName"] = "nope".into(),
        ),
    ])
}

/// Endpoints as `https`, whatever is there.
fn encrypted(spec: &mut Value) {
    for member in spec["members"].as_array_mut().into_iter().flatten() {
        member["endpoint"] = text(&member["endpoint"]).replace("http://", "https://").into();
    }
}

/// Something else than one ClickHouse server at the first endpoint.
async fn endpoints(s: &Stage) -> Result<(Vec<Bad>, Vec<Misbehaving>, FaultProxy)> {
    let (first, second) = (s.env.proxy(0)?, s.env.proxy(1)?);
    let mut clusters = Vec::new();
    let mut servers = Vec::new();
    let unusable = "no usable answer; check the endpoint, its TLS settings and the member";
    let manners = [
        ("hangs", Manner::Hangs, "ENDPOINT_UNAVAILABLE", unusable),
        ("page", Manner::page(), "ENDPOINT_UNAVAILABLE", unusable),
        ("noise", Manner::noise(), "ENDPOINT_UNAVAILABLE", unusable),
        ("closes", Manner::closes_in_the_body(), "ENDPOINT_UNAVAILABLE", unusable),
        // To where it would be answered, with the password that it would take along.
        ("redirects", Manner::redirects(&first.url()), "ENDPOINT_UNAVAILABLE", unusable),
    ];
    for (name, manner, code, words) in manners {
        let server = Misbehaving::start(manner).await?;
        let label = server.label();
        clusters.push(bad(s, name, code, format!("{label}: {words}"), |spec| {
            spec["members"][0]["endpoint"] = format!("http://{label}").into();
        }));
        servers.push(server);
    }
    let tls = FaultProxy::start_tls(0, s.env.cluster.member(0)?.spec.http(), &Tls::new(false)?).await?;
    let label = tls.address().to_string();
    clusters.push(bad(s, "http-on-https", "ENDPOINT_UNAVAILABLE", format!("{label}: {unusable}"), |spec| {
        spec["members"][0]["endpoint"] = format!("http://{label}").into();
    }));
    let message = format!("{}, {}: {unusable}", first.address(), second.address());
    clusters.push(bad(s, "https-on-http", "ENDPOINT_UNAVAILABLE", message, encrypted));
    let nobody = format!("127.0.0.1:1: {unusable}");
    clusters.push(bad(s, "nobody", "ENDPOINT_UNAVAILABLE", nobody, |spec| {
        spec["members"][1]["endpoint"] = "http://127.0.0.1:1".into();
    }));
    Ok((clusters, servers, tls))
}

/// Two servers behind one endpoint. Whose turn it is decides which endpoint is found to be no member of its own, so
/// its words may change from look to look; the code and the remedy do not.
async fn balancer(s: &Stage) -> Result<()> {
    const CODE: &str = "INCOMPLETE_INVENTORY";
    const REMEDY: &str = "list one URL per server, no load balancer";
    let servers = vec![s.env.proxy(0)?.address(), s.env.proxy(1)?.address()];
    let server = Misbehaving::start(Manner::Balances(servers)).await?;
    let cluster = bad(s, "balances", CODE, "", |spec| {
        spec["members"][0]["endpoint"] = format!("http://{}", server.label()).into();
    });
    apply(s, &cluster).await?;
    let publication = wanted(s, &cluster).await?;
    let says = |o: &Value| {
        let ready = condition(o, "Ready")?;
        let reason = text(&ready["reason"]).to_uppercase() == CODE.replace('_', "");
        (reason && text(&ready["message"]).contains(REMEDY)).then_some(())
    };
    s.env.wait_for(Kind::Cluster, PLATFORM, cluster.name, SOON, "no load balancer", says).await?;
    let says = |o: &Value| {
        let error = &o["status"]["error"];
        (error["code"] == CODE && text(&error["message"]).contains(REMEDY)).then_some(())
    };
    s.wait(&publication.name, "no load balancer", says).await?;
    removed(s, &[publication]).await?;
    s.env.control_plane.delete(Kind::Cluster, PLATFORM, cluster.name).await
}

// proves: B-1, B-2
async fn errors_of_clusters(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let mut clusters = references(s).await?;
    let (more, _servers, _tls) = endpoints(s).await?;
    clusters.extend(more);
    let before = traces(s).await?;
    for cluster in &clusters {
        apply(s, cluster).await?;
    }
    let mut refused = Vec::new();
    for cluster in &clusters {
        told(s, cluster).await?;
        refused.push(wanted(s, cluster).await?);
    }
    for refused in &refused {
        first_error(s, refused).await?;
    }
    no_hot_loop(s, &refused, clusters.len()).await?;
    balancer(s).await?;
    expect("slots, entries, effects", &traces(s).await?, &before)?;
    removed(s, &refused).await?;
    for cluster in &clusters {
        s.env.control_plane.delete(Kind::Cluster, PLATFORM, cluster.name).await?;
    }
    Ok(())
}

/// The control table as the second member shows it.
// proves: B-5, S12
async fn errors_of_control_tables(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let root = s.env.keeper().keeper_map_roots().await?.pop().context("a facade's root")?;
    let root = root.rsplit('/').next().unwrap_or_default().to_owned();
    let other = "0".repeat(31) + "1";
    let second = s.member_name(1);
    let tables = [
        (
            "other-schema",
            "replaceOne(create_table_query, 'dispatch_epoch', 'epoch')".to_owned(),
            format!(
                "{second}: publication_authority has another schema than this operator's; run the operator version that made it"
            ),
        ),
        (
            "other-root",
            format!("replaceOne(create_table_query, '{root}', '{other}')"),
            format!(
                "{second}: publication_authority has the Keeper root {other}, another member has {root}; drop the one that is not this cluster's"
            ),
        ),
        (
            "no-root-of-ours",
            format!("replaceOne(create_table_query, '/publication/{root}', '/elsewhere')"),
            format!(
                "{second}: publication_authority has a Keeper root that no operator drew; rename or drop it"
            ),
        ),
    ];
    let before = traces(s).await?;
    for (name, shown, message) in tables {
        let shown = format!("if(name = 'publication_authority', {shown}, create_table_query)");
        let overlay = json!({"table": "tables", "replace": {"create_table_query": shown}});
        s.env.cluster.member(1)?.admin("POST", "/system/overlay", overlay).await?;
        let cluster = bad(s, name, "CAPABILITY_MISSING", message, |_| ());
        apply(s, &cluster).await?;
        told(s, &cluster).await?;
        let refused = [wanted(s, &cluster).await?];
        first_error(s, &refused[0]).await?;
        removed(s, &refused).await?;
        s.env.control_plane.delete(Kind::Cluster, PLATFORM, name).await?;
        s.env.control_plane.wait_gone(Kind::Cluster, PLATFORM, name, SOON).await?;
        s.env.cluster.member(1)?.admin("POST", "/system/clear", json!({"table": "tables"})).await?;
    }
    expect("slots, entries, effects", &traces(s).await?, &before)
}
