//! Reads for `plan`, with the caller's rights: Kubernetes objects, then the ports that an admission reads. No port
//! that writes is ever built here.

use super::assemble::{Seen, note};
use super::manifest;
use super::report::{Level, Note};
use crate::api::{ClusterPublication, ConditionType, PublicationCluster};
use crate::clickhouse::{Authority, Connection, MemberCatalog};
use crate::cluster_access::credentials::connect_as_caller;
use crate::cluster_access::{self, admitted, no_cluster, root};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use publication_protocol::admission::{Finding, Severity, admit};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Review, Standing, admission_ask, review};
use publication_protocol::intent::Intent;
use publication_protocol::phase::Phase;
use publication_protocol::ports::{Catalog, ControlTable, MembersAnswer, MembersAsk, Scope};
use publication_protocol::preflight::{self, PreflightAsk};
use publication_protocol::record::Owner;
use std::sync::Arc;

/// Reads everything about an object; a finding ends only what depends on it.
pub(super) async fn gather(client: Option<&Client>, mut object: ClusterPublication) -> Seen {
    let spec = object.spec.clone();
    let publication = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
    let mut seen =
        Seen { publication, tables: Some([spec.database, spec.target, spec.candidate]), ..Seen::default() };
    seen.rows = cluster_access::rows(&object).ok();
    let wrong = manifest::check(&object);
    if !wrong.is_empty() {
        seen.notes.extend(wrong.iter().map(|finding| note(finding, false)));
        return seen;
    }
    let Some(client) = client else {
        seen.notes.push(unread("the Kubernetes API", "no kubeconfig could be used"));
        return seen;
    };
    live(client, &mut object, &mut seen).await;
    if let Some(cluster) = cluster(client, &object, &mut seen).await {
        members(client, &object, &cluster, &mut seen).await;
    }
    seen
}

/// An object that exists already: its identity and age are the operation's.
async fn live(client: &Client, object: &mut ClusterPublication, seen: &mut Seen) {
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<ClusterPublication> = Api::namespaced(client.clone(), &namespace);
    let found = match object.metadata.name.clone() {
        Some(name) => api.get_opt(&name).await.unwrap_or_default(),
        None => None,
    };
    match found {
        Some(found) if found.spec == object.spec => *object = found,
        Some(_) => {
            let message = "metadata.name: an object of this name exists with another spec, and specs are immutable; choose another name";
            seen.notes.push(note(&Finding::block(ErrorCode::SpecInvalid, "api", message), false));
        }
        // What is created later is newer than everything that was published.
        None => object.metadata.creation_timestamp = Some(Time(Timestamp::now())),
    }
}

async fn cluster(
    client: &Client,
    object: &ClusterPublication,
    seen: &mut Seen,
) -> Option<PublicationCluster> {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let namespace = reference.namespace_or(&own);
    let api: Api<PublicationCluster> = Api::namespaced(client.clone(), namespace);
    let found = match api.get_opt(&reference.name).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            seen.notes.push(note(&no_cluster(namespace, &reference.name), false));
            return None;
        }
        Err(error) => {
            let what = format!("clusterRef: PublicationCluster {namespace}/{}", reference.name);
            seen.notes.push(unread(&what, &said(&error)));
            return None;
        }
    };
    seen.cluster = Some(format!("{namespace}/{} ({})", reference.name, found.spec.cluster_name));
    if let Err(finding) = admitted(client, object, &found).await {
        seen.notes.push(note(&finding, finding.severity == Severity::Wait));
    }
    seen.notes.extend(suspended(&found).into_iter().chain(not_ready(&found)));
    Some(found)
}

async fn members(
    client: &Client,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
    seen: &mut Seen,
) {
    let names = match cluster_access::names(object, &cluster.spec.cluster_name) {
        Ok(names) => names,
        Err(finding) => return seen.notes.push(note(&finding, false)),
    };
    let connection = match connect_as_caller(client, cluster).await {
        Ok(connection) => Arc::new(connection),
        // What the caller may not read, the operator may.
        Err(finding) => {
            let own = finding.severity == Severity::Wait || finding.code == ErrorCode::ReferenceDenied;
            return seen.notes.push(note(&finding, own));
        }
    };
    seen.names = Some(names.clone());
    let ask = admission_ask(&names);
    let catalog = MemberCatalog::new(Arc::clone(&connection));
    let intent = match intent(client, object, cluster, seen).await {
        Ok(intent) => intent,
        Err(finding) => {
            seen.notes.push(note(&finding, false));
            let answer = catalog.members(&ask).await;
            let declared = cluster.spec.declare.internal_replication;
            let judged = seen.rows.map(|rows| admit(&names, rows, declared, &answer));
            if answer.failures.is_empty() {
                seen.notes.extend(judged.and_then(Result::err).iter().flatten().map(|f| note(f, false)));
            }
            return keep(seen, &catalog, &ask, answer).await;
        }
    };
    judge(client, &intent, &connection, seen).await;
    if let Some(answer) = seen.answer.take() {
        keep(seen, &catalog, &ask, answer).await;
    }
}

/// The slot first, then the members, then preflight: as a pass reads them, but for the queue's backlog, which only
/// `plan` asks for.
async fn judge(client: &Client, intent: &Intent, connection: &Arc<Connection>, seen: &mut Seen) {
    let read = Authority::new(Arc::clone(connection)).read_all(&intent.key().to_string()).await;
    let catalog = MemberCatalog::new(Arc::clone(connection));
    let answer = catalog.members(&admission_ask(&intent.names)).await;
    let first = review(intent, &read, None, &answer, None);
    let gone = match orphan(intent, &first) {
        Some(owner) => gone(client, &owner).await,
        None => None,
    };
    let facts = match &first.bound {
        Some(bound) => {
            let ask = PreflightAsk { backlog: true, ..preflight::ask(&intent.names, bound) };
            Some(catalog.preflight(&ask).await)
        }
        None => None,
    };
    seen.review = Some(review(intent, &read, gone, &answer, facts.as_ref()));
    seen.read = Some(read);
    seen.answer = Some(answer);
    seen.facts = facts;
}

/// B-2 is all or nothing; a person wants to know who of them did not answer.
async fn keep(seen: &mut Seen, catalog: &MemberCatalog, ask: &MembersAsk, answer: MembersAnswer) {
    if !answer.failures.is_empty() {
        let ask = MembersAsk { scope: Scope::Each, ..ask.clone() };
        seen.each = Some(catalog.members(&ask).await);
    }
    seen.answer = Some(answer);
}

async fn intent(
    client: &Client,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
    seen: &mut Seen,
) -> Result<Intent, Finding> {
    let root = root(cluster)?;
    let system = Api::<Namespace>::all(client.clone()).get_metadata("kube-system").await;
    let kube_uid = system.ok().and_then(|system| system.uid());
    if kube_uid.is_none() {
        let message =
            "the UID of kube-system cannot be read: whether a newer object was published is not checked";
        seen.notes.push(plain(Level::Warn, message));
    }
    let now_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    let intent =
        cluster_access::intent(kube_uid.as_deref().unwrap_or_default(), object, cluster, root, now_ms)?;
    if kube_uid.is_some() && (object.uid().is_some() || object.spec.invocation_id.is_some()) {
        seen.operation = Some(intent.operation.to_string());
    }
    Ok(intent)
}

/// C-11: the owner to ask for, if the slot is only PREPARED.
fn orphan(intent: &Intent, shown: &Review) -> Option<Owner> {
    let record = &shown.slot.as_ref()?.record;
    let owner = &record.payload.owner;
    let ours = owner.kube_uid == intent.owner.kube_uid;
    (shown.standing == Standing::Held && record.phase == Phase::Prepared && ours).then(|| owner.clone())
}

async fn gone(client: &Client, owner: &Owner) -> Option<bool> {
    let api: Api<ClusterPublication> = Api::namespaced(client.clone(), &owner.namespace);
    let found = api.get_opt(&owner.name).await.ok()?;
    Some(found.and_then(|o| o.uid()).as_deref() != Some(owner.uid.as_str()))
}

fn suspended(cluster: &PublicationCluster) -> Option<Note> {
    let message = "the PublicationCluster is suspended; nothing new is dispatched until the platform sets spec.suspend to false";
    cluster.spec.suspend.then(|| plain(Level::Wait, message))
}

/// Trouble of the cluster that does not keep its facade from being used.
fn not_ready(cluster: &PublicationCluster) -> Option<Note> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let not =
        |kind: ConditionType| conditions.iter().find(|c| c.type_ == kind.as_str() && c.status == "False");
    // Without a facade the operator itself says why.
    let ready = not(ConditionType::Ready).filter(|_| not(ConditionType::FacadeReady).is_none())?;
    let message = format!("the PublicationCluster is not ready: {}", ready.message);
    Some(plain(Level::Warn, &message))
}

fn unread(what: &str, why: &str) -> Note {
    plain(Level::Unknown, &format!("{what} cannot be read: {why}"))
}

/// What has no public code.
fn plain(level: Level, message: &str) -> Note {
    Note { level, code: None, rule: "api", member: None, message: message.to_owned(), remedy: None }
}

/// Kubernetes' own words; they quote nothing but what was asked for.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => "the API server does not answer".to_owned(),
    }
}
