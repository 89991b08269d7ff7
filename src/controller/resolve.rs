//! What the caches know of an object: its cluster, its turn. No ClickHouse here.

use super::conditions::is_true;
use super::context::Context;
use super::stages::{self, RELEASE_PENDING};
use crate::api::{ClusterPublication, ConditionType, Outcome, PublicationCluster};
use crate::cluster_access::{self, admitted, created_ms, no_cluster};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use std::sync::Arc;

pub(super) use cluster_access::root;

/// The cluster that an object names, if the platform lets it.
pub(super) async fn cluster(
    ctx: &Context,
    object: &ClusterPublication,
) -> Result<Arc<PublicationCluster>, Finding> {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let namespace = reference.namespace_or(&own).to_owned();
    let found = ctx
        .clusters
        .get(&ObjectRef::new(&reference.name).within(&namespace))
        .ok_or_else(|| no_cluster(&namespace, &reference.name))?;
    admitted(&ctx.client, object, &found).await?;
    Ok(found)
}

/// the operation that an object asks for, in its turn.
pub(super) fn intent(
    ctx: &Context,
    object: &ClusterPublication,
    cluster: &PublicationCluster,
    root: RootId,
    now_ms: u64,
) -> Result<Intent, Finding> {
    let intent = cluster_access::intent(&ctx.kube_uid, object, cluster, root, now_ms)?;
    Ok(Intent { behind: behind(ctx, object), ..intent })
}

/// J: the root that the status shows, ready or not: a verdict may be what makes it ready again (J-4).
pub(super) fn shown_root(cluster: &PublicationCluster) -> Result<RootId, Finding> {
    let shown = cluster.status.as_ref().and_then(|s| s.facade_root.clone());
    // Without one the reason is the cluster's own.
    shown.and_then(|shown| RootId::try_from(shown).ok()).map_or_else(|| root(cluster), Ok)
}

/// Whether an object names this cluster.
pub(super) fn is_of(object: &ClusterPublication, cluster: &PublicationCluster) -> bool {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    reference.name == cluster.name_any()
        && reference.namespace_or(&own) == cluster.namespace().unwrap_or_default()
}

/// C-14: the root under which an object has shown a version; none = nothing of it was ever dispatched.
pub(super) fn shown(object: &ClusterPublication) -> Option<RootId> {
    let status = object.status.as_ref()?;
    status.authority_version?;
    RootId::try_from(status.facade_root.clone()?).ok()
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

/// C-14: the object shows a witness, and no release after it: its operation was dispatched, or may be about to.
pub(super) fn holds(object: &ClusterPublication) -> bool {
    object.status.as_ref().is_some_and(stages::holds)
}

/// A cluster that is going takes nothing new; what was dispatched there is carried through.
pub(super) fn not_going(object: &ClusterPublication, cluster: &PublicationCluster) -> Result<(), Finding> {
    if cluster.metadata.deletion_timestamp.is_none() || holds(object) {
        return Ok(());
    }
    let message = format!(
        "clusterRef: PublicationCluster {}/{} is being deleted and takes nothing new",
        cluster.namespace().unwrap_or_default(),
        cluster.name_any()
    );
    Err(Finding::block(ErrorCode::ReferenceNotFound, "api", message))
}

/// The deadline ended it, and a slot that it may have prepared is not known to be released.
pub(super) fn release_pending(object: &ClusterPublication) -> bool {
    let conditions = object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == ConditionType::SlotAcquired.as_str() && c.reason == RELEASE_PENDING)
}

/// Whether an object's story is over: nothing is read or written for it any more.
pub(super) fn is_finished(object: &ClusterPublication) -> bool {
    let outcome = object.status.as_ref().and_then(|s| s.outcome);
    matches!(outcome, Some(Outcome::Succeeded | Outcome::Failed)) && !release_pending(object)
}
