//! One reconciliation of a ClusterPublication: a page of named steps.

use super::conditions::is_true;
use super::context::{Context, Remembered, kube_now};
use super::credentials::connect;
use super::environment::{System, now};
use super::kube_writes::{Finalizer, Version, apply_status_over, has_finalizer, set_finalizer};
use super::owners::ObjectOwners;
use super::{events, resolve, status};
use crate::api::{ClusterPublication, ConditionType, ORPHAN_ANNOTATION, PublicationCluster};
use crate::clickhouse::{Authority, DistributedDdl, MemberCatalog};
use crate::cluster_access::deadline_passed;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use publication_protocol::admission::{Finding, Severity};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Memory, Report, Requeue};
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use publication_protocol::limits::{STALLED_REOBSERVE_MS, UNOBSERVED_GRACE_MS};
use publication_protocol::publisher::{Ports, pass};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a pass was about, as far as it could be resolved.
#[derive(Default)]
struct Resolved {
    operation: Option<String>,
    root: Option<RootId>,
    version: Version,
}

/// Reconciles one object.
pub(super) async fn reconcile(object: Arc<ClusterPublication>, ctx: Arc<Context>) -> kube::Result<Action> {
    let deleted = object.metadata.deletion_timestamp.is_some();
    // An object that says it is finished causes no query.
    if resolve::is_finished(&object) || (deleted && !has_finalizer(object.as_ref())) {
        return retire(&object, &ctx, Finalizer::Remove).await;
    }
    if !has_finalizer(object.as_ref()) {
        // The write comes back as a change of the object, which starts the pass.
        set_finalizer(&ctx.client, object.as_ref(), Finalizer::Add).await?;
        return Ok(Action::await_change());
    }
    let (resolved, report, scans) = observe(&object, &ctx).await;
    ctx.metrics.record(&report, scans);
    if report.end == End::Halted {
        ctx.halt();
    }
    project(&object, &ctx, &resolved, &report).await?;
    if matches!(report.end, End::Gone | End::Succeeded | End::Failed) {
        wake_next(&object, &ctx);
        let gone = report.end == End::Gone;
        let how = if gone { Finalizer::RemoveUnchanged } else { Finalizer::Remove };
        return retire(&object, &ctx, how).await;
    }
    if deleted && report.end == End::Stalled && is_orphan(&object, &ctx, resolved.operation.as_deref()) {
        tracing::warn!(operation = ?resolved.operation, "an unresolved object goes, as the platform allowed; its record stays");
        return retire(&object, &ctx, Finalizer::Remove).await;
    }
    Ok(next_look(report.requeue))
}

/// The platform, not the author, lets a fail-closed object go: its operation is listed on the PublicationCluster. The
/// record stays, and a verdict can still end the operation.
fn is_orphan(object: &ClusterPublication, ctx: &Context, operation: Option<&str>) -> bool {
    let shown = object.status.as_ref().and_then(|s| s.operation_id.as_deref());
    let Some(operation) = operation.or(shown) else { return false };
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let cluster = ctx.clusters.get(&ObjectRef::new(&reference.name).within(reference.namespace_or(&own)));
    cluster.is_some_and(|cluster| {
        let listed = cluster.annotations().get(ORPHAN_ANNOTATION);
        listed.is_some_and(|list| list.split(',').any(|id| id.trim() == operation))
    })
}

/// The story is over: the object may go whenever somebody deletes it.
async fn retire(object: &ClusterPublication, ctx: &Context, how: Finalizer) -> kube::Result<Action> {
    ctx.forget(&object.uid().unwrap_or_default());
    if has_finalizer(object) {
        set_finalizer(&ctx.client, object, how).await?;
    }
    Ok(Action::await_change())
}

/// Resolves, connects, and runs one pass of the protocol.
async fn observe(object: &Arc<ClusterPublication>, ctx: &Arc<Context>) -> (Resolved, Report, u64) {
    let mut resolved = Resolved { version: Version::of(object.as_ref()), ..Resolved::default() };
    match prepare(object, ctx, &mut resolved).await {
        Ok((cluster, intent)) => {
            let (report, scans) = run(object, ctx, &cluster, intent, &resolved.version).await;
            (resolved, report, scans)
        }
        Err(finding) => (resolved, refused(object, ctx, finding), 0),
    }
}

async fn prepare(
    object: &Arc<ClusterPublication>,
    ctx: &Arc<Context>,
    resolved: &mut Resolved,
) -> Result<(Arc<PublicationCluster>, Intent), Finding> {
    let cluster = resolve::cluster(ctx, object).await?;
    let root = resolve::root(&cluster)?;
    let intent = resolve::intent(ctx, object, &cluster, root, now().wall_ms)?;
    resolved.operation = Some(intent.operation.to_string());
    resolved.root = Some(root);
    Ok((cluster, intent))
}

async fn run(
    object: &Arc<ClusterPublication>,
    ctx: &Arc<Context>,
    cluster: &PublicationCluster,
    mut intent: Intent,
    version: &Version,
) -> (Report, u64) {
    let connection = match connect(&ctx.client, cluster).await {
        Ok(connection) => Arc::new(connection),
        Err(finding) => return (refused(object, ctx, finding), 0),
    };
    let uid = object.uid().unwrap_or_default();
    let remembered = ctx.remembered(&uid);
    let inputs = inputs(object, cluster);
    intent.changed = remembered.inputs.as_ref().is_some_and(|before| *before != inputs);
    let ddl = DistributedDdl::new(Arc::clone(&connection), Arc::new(now));
    let owners = ObjectOwners {
        client: ctx.client.clone(),
        object: Arc::clone(object),
        operation: intent.operation.to_string(),
        version: version.clone(),
        now: kube_now,
    };
    let ports = Ports {
        control: &Authority::new(Arc::clone(&connection)),
        catalog: &MemberCatalog::new(connection),
        ddl: &ddl,
        owners: &owners,
        environment: &System,
    };
    let report = pass(intent, remembered.memory, &ports, || ctx.is_stopping()).await;
    ctx.remember(&uid, Remembered { memory: report.memory.clone(), inputs: Some(inputs) });
    (report, ddl.scans())
}

/// G-4: what a person can change to have a failed drop tried again.
fn inputs(object: &ClusterPublication, cluster: &PublicationCluster) -> String {
    format!("{:?}/{:?}/{:?}", object.annotations(), object.labels(), cluster.metadata.generation)
}

/// A report for what is refused before ClickHouse is asked.
fn refused(object: &ClusterPublication, ctx: &Context, finding: Finding) -> Report {
    let uid = object.uid().unwrap_or_default();
    let mut remembered = ctx.remembered(&uid);
    let attempt = remembered.memory.attempt;
    remembered.memory.attempt = attempt.saturating_add(1);
    let since = *remembered.memory.trouble_since.get_or_insert(now().boot_ms);
    ctx.remember(&uid, remembered);
    // F-3: an endpoint that stays unreachable beyond its grace is no longer only waited for.
    let unreachable = finding.code == ErrorCode::EndpointUnavailable
        && now().boot_ms.saturating_sub(since) > UNOBSERVED_GRACE_MS;
    // C-14: an object that never showed a version never had anything dispatched, so it may go (C-11 frees the slot).
    let undispatched = object.status.as_ref().is_none_or(|s| s.authority_version.is_none());
    let gone = object.metadata.deletion_timestamp.is_some() && undispatched;
    // Another object with the same invocation may have dispatched it: then only the record knows.
    let alone = object.spec.invocation_id.is_none();
    let expired = undispatched && alone && deadline_passed(object, now().wall_ms);
    let finding = if expired { too_late(&finding) } else { finding };
    let blocked = finding.severity == Severity::Block || unreachable;
    let end = match (gone, expired, blocked) {
        (true, ..) => End::Gone,
        (false, true, _) => End::Failed,
        (false, false, true) => End::Stalled,
        (false, false, false) => End::Waiting,
    };
    // Trouble that passes does not cost an object its place among those that wait for one target.
    let shown = object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let converged = finding.severity == Severity::Wait && is_true(shown, ConditionType::CandidateConverged);
    let backoff_ms = (500_u64 << attempt.min(6)).min(32_000);
    Report {
        end,
        slot: None,
        class: None,
        findings: vec![finding],
        warnings: Vec::new(),
        states: BTreeMap::new(),
        queues: BTreeMap::new(),
        stuck: None,
        evidence: None,
        held: None,
        converged,
        passed: Vec::new(),
        requeue: Requeue::AfterMs(if blocked { backoff_ms.max(5_000) } else { backoff_ms }),
        memory: Memory::default(),
    }
}

fn too_late(finding: &Finding) -> Finding {
    let message = format!("admissionDeadlineSeconds passed before dispatch: {}", finding.message);
    Finding::block(ErrorCode::AdmissionDeadline, "api", message)
}

/// Writes the status if, and only if, it says something new.
async fn project(
    object: &Arc<ClusterPublication>,
    ctx: &Context,
    resolved: &Resolved,
    report: &Report,
) -> kube::Result<()> {
    let old = object.status.clone().unwrap_or_default();
    if report.end == End::Gone {
        return Ok(());
    }
    let facts = status::Facts {
        generation: object.metadata.generation,
        deleted: object.metadata.deletion_timestamp.is_some(),
        operation: resolved.operation.clone(),
        root: resolved.root,
        report,
    };
    let new = status::project(&old, &facts, &kube_now());
    let written = if new == old {
        Ok(())
    } else {
        apply_status_over(&ctx.client, object.as_ref(), &new, &resolved.version).await
    };
    // Phases that were passed are told even when the status has to wait.
    events::publish(ctx, object, &old, report).await;
    written
}

/// Objects that waited for this one are looked at now, not at the end of their backoff.
fn wake_next(object: &ClusterPublication, ctx: &Context) {
    let waiting = |o: &Arc<ClusterPublication>| {
        o.uid() != object.uid() && !resolve::is_finished(o) && resolve::same_target(o, object)
    };
    for other in ctx.publications.state().iter().filter(|o| waiting(o)) {
        // The receiver lives as long as the controller.
        let _ = ctx.wake.unbounded_send(ObjectRef::from_obj(other.as_ref()));
    }
}

fn next_look(requeue: Requeue) -> Action {
    match requeue {
        Requeue::Now => Action::requeue(Duration::from_millis(50)),
        Requeue::AfterMs(ms) => Action::requeue(Duration::from_millis(ms.min(STALLED_REOBSERVE_MS))),
        Requeue::Never => Action::await_change(),
    }
}
