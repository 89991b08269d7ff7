//! From an object and its cluster to an intent: references, access, names, turn. No ClickHouse here.

use super::conditions::is_true;
use super::context::Context;
use super::credentials::deadlines;
use crate::api::{ClusterPublication, ConditionType, Outcome, PublicationCluster};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use publication_protocol::identity::{
    Invocation, NameError, Names, RootId, RowExpectation, operation_id, plan_digest,
};
use publication_protocol::intent::Intent;
use publication_protocol::record::Owner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest `spec.invocationId`, in bytes.
const INVOCATION_BYTES_MAX: usize = 512;

/// The cluster that an object names, if the platform lets it.
pub(super) async fn cluster(
    ctx: &Context,
    object: &ClusterPublication,
) -> Result<Arc<PublicationCluster>, Finding> {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let namespace = reference.namespace_or(&own).to_owned();
    let found = ctx.clusters.get(&ObjectRef::new(&reference.name).within(&namespace)).ok_or_else(|| {
        let message = format!("clusterRef: PublicationCluster {namespace}/{} does not exist", reference.name);
        Finding::block(ErrorCode::ReferenceNotFound, "api", message)
    })?;
    let database = &object.spec.database;
    let labels = if found.spec.access.iter().any(|rule| rule.namespaces.needs_labels()) {
        labels(ctx, &own).await?
    } else {
        BTreeMap::new()
    };
    if !found.spec.access.iter().any(|rule| rule.admits(&namespace, &own, &labels, database)) {
        let message = format!(
            "clusterRef: {namespace}/{} does not let namespace {own} publish database {database}; the platform grants it in spec.access",
            reference.name
        );
        return Err(Finding::block(ErrorCode::ReferenceDenied, "api", message));
    }
    Ok(found)
}

async fn labels(ctx: &Context, namespace: &str) -> Result<BTreeMap<String, String>, Finding> {
    let api: Api<Namespace> = Api::all(ctx.client.clone());
    match api.get_metadata_opt(namespace).await {
        Ok(found) => Ok(found.and_then(|n| n.metadata.labels).unwrap_or_default()),
        Err(_) => {
            let message = format!("clusterRef: the labels of namespace {namespace} cannot be read");
            Err(Finding::wait(ErrorCode::ReferenceDenied, "api", message))
        }
    }
}

/// Root of a cluster whose facade is ready; otherwise what stands against it.
pub(super) fn root(cluster: &PublicationCluster) -> Result<RootId, Finding> {
    let status = cluster.status.clone().unwrap_or_default();
    let root = status.facade_root.clone().and_then(|root| RootId::try_from(root).ok());
    match root {
        Some(root) if is_true(&status.conditions, ConditionType::FacadeReady) => Ok(root),
        _ => Err(not_ready(cluster)),
    }
}

/// The cluster's own trouble is the publication's: same code, same words.
fn not_ready(cluster: &PublicationCluster) -> Finding {
    let conditions = cluster.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == ConditionType::Ready.as_str());
    let code = ready.and_then(|c| ErrorCode::ALL.iter().find(|code| code.reason() == c.reason));
    match (ready, code) {
        (Some(condition), Some(code)) => Finding::block(
            *code,
            "B-5",
            format!("PublicationCluster {}: {}", cluster.name_any(), condition.message),
        ),
        _ => Finding::wait(
            ErrorCode::AuthorityUnavailable,
            "B-5",
            format!("PublicationCluster {} has not been probed yet", cluster.name_any()),
        ),
    }
}

/// the operation that an object asks for.
pub(super) fn intent(
    ctx: &Context,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
    root: RootId,
    now_ms: u64,
) -> Result<Intent, Finding> {
    let spec = &object.spec;
    let names = Names::new(&cluster.spec.cluster_name, &spec.database, &spec.target, &spec.candidate)
        .map_err(|error| {
            let code = match error {
                NameError::TooLong { .. } => ErrorCode::NameTooLong,
                _ => ErrorCode::SpecInvalid,
            };
            Finding::block(code, "A-8", error.to_string())
        })?;
    let rows = rows(object)?;
    let plan = plan_digest(&spec.candidate, rows);
    let uid = object.uid().unwrap_or_default();
    let namespace = object.namespace().unwrap_or_default();
    let invocation = match &spec.invocation_id {
        Some(id) if id.is_empty() || id.len() > INVOCATION_BYTES_MAX || id.chars().any(char::is_control) => {
            let message =
                format!("invocationId: 1 to {INVOCATION_BYTES_MAX} bytes without control characters");
            return Err(Finding::block(ErrorCode::SpecInvalid, "A-2", message));
        }
        Some(id) => Invocation::Given(id.clone()),
        None => Invocation::Object(uid.clone()),
    };
    let created_ms = created_ms(object);
    let deadline_ms = spec.admission_deadline_seconds.and_then(|s| u64::try_from(s).ok()).map(|s| s * 1000);
    let status = object.status.clone().unwrap_or_default();
    let shown_root = status.facade_root.and_then(|root| RootId::try_from(root).ok());
    let shown_version = status.authority_version.and_then(|v| u64::try_from(v).ok());
    Ok(Intent {
        operation: operation_id(&ctx.kube_uid, &namespace, &invocation, plan, root, &names),
        root,
        names,
        rows,
        plan,
        owner: Owner { kube_uid: ctx.kube_uid.clone(), namespace, name: object.name_any(), uid, created_ms },
        declared_internal_replication: cluster.spec.declare.internal_replication,
        deadlines: deadlines(cluster),
        deleted: object.metadata.deletion_timestamp.is_some(),
        deadline_passed: deadline_ms.is_some_and(|ms| now_ms > created_ms + ms),
        suspended: cluster.spec.suspend,
        behind: behind(ctx, object),
        witnessed: shown_root.zip(shown_version),
        changed: false,
    })
}

fn rows(object: &ClusterPublication) -> Result<RowExpectation, Finding> {
    let bounds = object.spec.rows.bounds().ok_or_else(|| {
        let message = "rows: give exact, or min and max with min <= max, none negative";
        Finding::block(ErrorCode::SpecInvalid, "A-2", message)
    })?;
    Ok(match (object.spec.rows.exact.is_some(), bounds) {
        (true, (exact, _)) => RowExpectation::Exact(exact),
        (false, (min, max)) => RowExpectation::Between { min, max },
    })
}

fn created_ms(object: &ClusterPublication) -> u64 {
    let created = object.creation_timestamp().map_or(0, |t| t.0.as_millisecond());
    u64::try_from(created).unwrap_or(0)
}

/// Whether two objects are about one target.
pub(super) fn same_target(a: &ClusterPublication, b: &ClusterPublication) -> bool {
    let cluster = |o: &ClusterPublication| {
        let own = o.namespace().unwrap_or_default();
        (o.spec.cluster_ref.namespace_or(&own).to_owned(), o.spec.cluster_ref.name.clone())
    };
    cluster(a) == cluster(b) && a.spec.database == b.spec.database && a.spec.target == b.spec.target
}

/// The converged object of the same target that goes first: by creation time, then by name.
fn behind(ctx: &Context, object: &ClusterPublication) -> Option<String> {
    let place = |o: &ClusterPublication| (created_ms(o), o.namespace().unwrap_or_default(), o.name_any());
    let waits = |o: &ClusterPublication| {
        let status = o.status.clone().unwrap_or_default();
        status.outcome.is_none() && is_true(&status.conditions, ConditionType::CandidateConverged)
    };
    let own = place(object);
    let all = ctx.publications.state();
    let before =
        all.iter().filter(|o| same_target(o, object) && place(o) < own && waits(o)).map(|o| place(o)).min();
    before.map(|(_, namespace, name)| format!("{namespace}/{name}"))
}

/// Whether an object's story is over: nothing is read or written for it any more.
pub(super) fn is_finished(object: &ClusterPublication) -> bool {
    matches!(object.status.as_ref().and_then(|s| s.outcome), Some(Outcome::Succeeded | Outcome::Failed))
}
