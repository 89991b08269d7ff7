//! From Kubernetes objects to what the protocol asks for: access, facade root, names, connection. The controller and
//! the commands share it, so that `plan` says what the operator would do.

pub(crate) mod credentials;
pub(crate) mod examination;

use crate::api::{self, ClusterPublication, ConditionType, PublicationCluster, is_true};
use credentials::deadlines;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use publication_protocol::identity::{
    Invocation, NameError, Names, RootId, RowExpectation, operation_id, plan_digest,
};
use publication_protocol::intent::Intent;
use publication_protocol::preflight::DependentKind;
use publication_protocol::record::Owner;
use std::collections::BTreeMap;

/// Longest `spec.invocationId`: in characters as the schema counts them, and in bytes.
const INVOCATION_CHARS_MAX: usize = 256;
const INVOCATION_BYTES_MAX: usize = 512;

/// The platform lets this object publish there.
pub(crate) async fn admitted(
    client: &Client,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
) -> Result<(), Finding> {
    let own = object.namespace().unwrap_or_default();
    let namespace = cluster.namespace().unwrap_or_default();
    let database = &object.spec.database;
    let rules = &cluster.spec.access;
    let labels = if rules.iter().any(|rule| rule.namespaces.needs_labels()) {
        labels(client, &own).await?
    } else {
        BTreeMap::new()
    };
    if rules.iter().any(|rule| rule.admits(&namespace, &own, &labels, database)) {
        return Ok(());
    }
    let message = format!(
        "clusterRef: {namespace}/{} does not let namespace {own} publish database {database}; the platform grants it in spec.access",
        cluster.name_any()
    );
    Err(Finding::block(ErrorCode::ReferenceDenied, "api", message))
}

/// What is said of a reference to nothing.
pub(crate) fn no_cluster(namespace: &str, name: &str) -> Finding {
    let message = format!("clusterRef: PublicationCluster {namespace}/{name} does not exist");
    Finding::block(ErrorCode::ReferenceNotFound, "api", message)
}

async fn labels(client: &Client, namespace: &str) -> Result<BTreeMap<String, String>, Finding> {
    let api: Api<Namespace> = Api::all(client.clone());
    match api.get_metadata_opt(namespace).await {
        Ok(found) => Ok(found.and_then(|n| n.metadata.labels).unwrap_or_default()),
        Err(_) => {
            let message = format!("clusterRef: the labels of namespace {namespace} cannot be read");
            Err(Finding::wait(ErrorCode::ReferenceDenied, "api", message))
        }
    }
}

/// Root of a cluster whose facade is ready; otherwise what stands against it.
pub(crate) fn root(cluster: &PublicationCluster) -> Result<RootId, Finding> {
    let status = cluster.status.clone().unwrap_or_default();
    // What a probe said of another spec says nothing of this one: its members may be another cluster's.
    if status.observed_generation != cluster.metadata.generation {
        return Err(unprobed(cluster));
    }
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
        _ => unprobed(cluster),
    }
}

fn unprobed(cluster: &PublicationCluster) -> Finding {
    let message = format!("PublicationCluster {} has not been probed yet as it is now", cluster.name_any());
    Finding::wait(ErrorCode::AuthorityUnavailable, "B-5", message)
}

/// the names of an object.
pub(crate) fn names(object: &ClusterPublication, cluster_name: &str) -> Result<Names, Finding> {
    let spec = &object.spec;
    Names::new(cluster_name, &spec.database, &spec.target, &spec.candidate).map_err(|error| {
        let code = match error {
            NameError::TooLong { .. } => ErrorCode::NameTooLong,
            _ => ErrorCode::SpecInvalid,
        };
        Finding::block(code, "A-8", error.to_string())
    })
}

fn is_invocation(id: &str) -> bool {
    let fits = id.len() <= INVOCATION_BYTES_MAX && id.chars().count() <= INVOCATION_CHARS_MAX;
    fits && !id.is_empty() && !id.chars().any(char::is_control)
}

/// what identifies the run that asks.
pub(crate) fn invocation(object: &ClusterPublication) -> Result<Invocation, Finding> {
    match &object.spec.invocation_id {
        Some(id) if !is_invocation(id) => {
            let message = format!(
                "invocationId: must have 1 to {INVOCATION_CHARS_MAX} characters in at most {INVOCATION_BYTES_MAX} bytes, and no control characters"
            );
            Err(Finding::block(ErrorCode::SpecInvalid, "A-2", message))
        }
        Some(id) => Ok(Invocation::Given(id.clone())),
        None => Ok(Invocation::Object(object.uid().unwrap_or_default())),
    }
}

/// the operation that an object asks for.
pub(crate) fn intent(
    kube_uid: &str,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
    root: RootId,
    now_ms: u64,
) -> Result<Intent, Finding> {
    let spec = &object.spec;
    let names = names(object, &cluster.spec.cluster_name)?;
    let rows = rows(object)?;
    let plan = plan_digest(&spec.candidate, rows);
    let invocation = invocation(object)?;
    let namespace = object.namespace().unwrap_or_default();
    let created_ms = created_ms(object);
    let status = object.status.clone().unwrap_or_default();
    let shown_root = status.facade_root.and_then(|root| RootId::try_from(root).ok());
    let shown_version = status.authority_version.and_then(|v| u64::try_from(v).ok());
    let uid = object.uid().unwrap_or_default();
    Ok(Intent {
        operation: operation_id(kube_uid, &namespace, &invocation, plan, root, &names),
        root,
        names,
        rows,
        plan,
        owner: Owner { kube_uid: kube_uid.to_owned(), namespace, name: object.name_any(), uid, created_ms },
        declared_internal_replication: cluster.spec.declare.internal_replication,
        accepted_dependents: cluster.spec.accept.dependents.iter().map(|kind| accepted(*kind)).collect(),
        deadlines: deadlines(cluster),
        deleted: object.metadata.deletion_timestamp.is_some(),
        deadline_passed: deadline_passed(object, now_ms),
        suspended: cluster.spec.suspend,
        behind: None,
        witnessed: shown_root.zip(shown_version),
        changed: false,
    })
}

/// B-9: the platform's word for a kind of dependents, as the protocol's.
fn accepted(kind: api::DependentKind) -> DependentKind {
    match kind {
        api::DependentKind::MaterializedView => DependentKind::MaterializedView,
        api::DependentKind::View => DependentKind::View,
        api::DependentKind::Dictionary => DependentKind::Dictionary,
        api::DependentKind::RowPolicy => DependentKind::RowPolicy,
        api::DependentKind::ColumnGrant => DependentKind::ColumnGrant,
    }
}

/// When `admissionDeadlineSeconds` is over, wall clock.
pub(crate) fn deadline_ms(object: &ClusterPublication) -> Option<u64> {
    let seconds = object.spec.admission_deadline_seconds.and_then(|s| u64::try_from(s).ok());
    seconds.map(|s| created_ms(object) + s * 1000)
}

/// `admissionDeadlineSeconds` is over.
pub(crate) fn deadline_passed(object: &ClusterPublication, now_ms: u64) -> bool {
    deadline_ms(object).is_some_and(|at| now_ms > at)
}

/// The row expectation of an object.
pub(crate) fn rows(object: &ClusterPublication) -> Result<RowExpectation, Finding> {
    let bounds = object.spec.rows.bounds().ok_or_else(|| {
        let message = "rows: give exact, or min and max with min <= max, none negative";
        Finding::block(ErrorCode::SpecInvalid, "A-2", message)
    })?;
    Ok(match (object.spec.rows.exact.is_some(), bounds) {
        (true, (exact, _)) => RowExpectation::Exact(exact),
        (false, (min, max)) => RowExpectation::Between { min, max },
    })
}

/// Creation time, wall clock; 0 for what was never created.
pub(crate) fn created_ms(object: &ClusterPublication) -> u64 {
    let created = object.creation_timestamp().map_or(0, |t| t.0.as_millisecond());
    u64::try_from(created).unwrap_or(0)
}
