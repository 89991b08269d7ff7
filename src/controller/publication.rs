//! One reconciliation of a ClusterPublication: a page of named steps.

use super::conditions::is_true;
use super::context::{Context, Remembered, kube_now};
use super::credentials::connect;
use super::environment::{System, now};
use super::kube_writes::{Finalizer, Version, apply_status_over, has_finalizer, set_finalizer};
use super::owners::ObjectOwners;
use super::{events, expiry, receipts, resolve, status};
use crate::api::{ClusterPublication, ConditionType, ORPHAN_ANNOTATION, PublicationCluster};
use crate::clickhouse::{Authority, DistributedDdl, MemberCatalog};
use crate::cluster_access::{deadline_ms, deadline_passed};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use publication_protocol::admission::{Finding, Severity};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Report, Requeue, troubled};
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use publication_protocol::limits::STALLED_REOBSERVE_MS;
use publication_protocol::ports::Environment;
use publication_protocol::publisher::{Ports, pass};
use publication_protocol::receipt::merged;
use std::sync::Arc;
use std::time::Duration;

/// How soon caches are looked at that have no first list yet.
const CACHES_AGAIN: Duration = Duration::from_millis(200);
/// A deadline is over when more than its whole seconds are.
const DEADLINE_SLACK_MS: u64 = 50;

/// What a pass was about, as far as it could be resolved.
#[derive(Default)]
struct Resolved {
    operation: Option<String>,
    root: Option<RootId>,
    version: Version,
}

/// Reconciles one object.
pub(super) async fn reconcile(object: Arc<ClusterPublication>, ctx: Arc<Context>) -> kube::Result<Action> {
    // An empty cache would say that there is no such cluster, and nobody else in the queue.
    if !ctx.ready.is_ready() {
        return Ok(Action::requeue(CACHES_AGAIN));
    }
    let deleted = object.metadata.deletion_timestamp.is_some();
    // An object that says it is finished causes no query.
    if resolve::is_finished(&object) || (deleted && !has_finalizer(object.as_ref())) {
        retire(&object, &ctx, &Version::of(object.as_ref())).await?;
        return expiry::settle(&object, &ctx).await;
    }
    if !has_finalizer(object.as_ref()) {
        // The write comes back as a change of the object, which starts the pass.
        let version = Version::of(object.as_ref());
        set_finalizer(&ctx.client, object.as_ref(), Finalizer::Add, &version).await?;
        return Ok(Action::await_change());
    }
    // A deadline that passes during the pass is the next one's: this one has read the slot without it.
    let begun_ms = now().wall_ms;
    let (resolved, report, scans) = observe(&object, &ctx).await;
    let (report, pending) = late(&object, report, begun_ms);
    ctx.metrics.record(&report, scans);
    if report.end == End::Halted {
        ctx.halt();
    }
    if pending && resolve::release_pending(&object) {
        return Ok(next_look(report.requeue, None));
    }
    project(&object, &ctx, &resolved, &report, pending).await?;
    if pending {
        return Ok(next_look(report.requeue, None));
    }
    probe_cluster(&object, &ctx, &report);
    if matches!(report.end, End::Gone | End::Succeeded | End::Failed) {
        wake_next(&object, &ctx);
        return retire(&object, &ctx, &resolved.version).await;
    }
    if deleted && report.end == End::Stalled && is_orphan(&object, &ctx, resolved.operation.as_deref()) {
        tracing::warn!(operation = ?resolved.operation, "an unresolved object goes, as the platform allowed; its record stays");
        return retire(&object, &ctx, &resolved.version).await;
    }
    let to_come = deadline_ms(&object).filter(|at| begun_ms <= *at);
    Ok(next_look(report.requeue, to_come.map(|at| at.saturating_sub(now().wall_ms))))
}

/// B-5: the cluster's status says of its facade what the last probe saw. A pass that saw otherwise has it probed again,
/// once for each change of mind.
fn probe_cluster(object: &ClusterPublication, ctx: &Context, report: &Report) {
    let of_facade = |f: &&Finding| {
        f.code == ErrorCode::AuthorityLost
            || (f.rule == "B-5"
                && matches!(f.code, ErrorCode::AuthorityConflict | ErrorCode::IncompleteInventory))
    };
    let Some(finding) = report.findings.iter().find(of_facade) else { return };
    let shown = object.status.as_ref().and_then(|s| s.error.as_ref()).map(|e| e.code.as_str());
    if shown != Some(finding.code.as_str()) {
        let own = object.namespace().unwrap_or_default();
        let reference = &object.spec.cluster_ref;
        // The receiver lives as long as the controller.
        let _ =
            ctx.probe.unbounded_send(ObjectRef::new(&reference.name).within(reference.namespace_or(&own)));
    }
}

/// B-6: an object whose records the platform gave up.
pub(super) async fn end_lost(
    object: &Arc<ClusterPublication>,
    ctx: &Context,
    finding: Finding,
) -> kube::Result<()> {
    let resolved = Resolved { version: Version::of(object.as_ref()), ..Resolved::default() };
    project(object, ctx, &resolved, &Report::of_nothing(End::Failed, vec![finding]), false).await?;
    // The finalizer goes with the next pass, and whoever waited for the target looks again.
    let _ = ctx.wake.unbounded_send(ObjectRef::from_obj(object.as_ref()));
    wake_next(object, ctx);
    Ok(())
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
async fn retire(object: &ClusterPublication, ctx: &Context, version: &Version) -> kube::Result<Action> {
    ctx.forget(&object.uid().unwrap_or_default());
    if has_finalizer(object) {
        set_finalizer(&ctx.client, object, Finalizer::Remove, version).await?;
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
    resolve::not_going(object, &cluster)?;
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
    let by_verdict = ctx.take_verdict(&uid);
    intent.changed = by_verdict || remembered.inputs.as_ref().is_some_and(|before| *before != inputs);
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
    let operation = intent.operation;
    let mut report = pass(intent, remembered.memory, &ports, || ctx.is_stopping()).await;
    // Another operation of the same object, under another root, has a history of its own.
    let (of, before) = remembered.history;
    let before = if of == Some(operation) { before } else { Vec::new() };
    report.history = merged(&before, &report.history);
    let history = (Some(operation), report.history.clone());
    ctx.remember(&uid, Remembered { memory: report.memory.clone(), inputs: Some(inputs), history });
    (report, ddl.scans())
}

/// G-4: what a person can change to have a failed drop tried again.
fn inputs(object: &ClusterPublication, cluster: &PublicationCluster) -> String {
    format!("{:?}/{:?}/{:?}", object.annotations(), object.labels(), cluster.metadata.generation)
}

/// A report for what is refused before ClickHouse is asked.
fn refused(object: &ClusterPublication, ctx: &Context, finding: Finding) -> Report {
    // C-14: an object that never showed a version never had anything dispatched, so it may go (C-11 frees the slot).
    let undispatched = object.status.as_ref().is_none_or(|s| s.authority_version.is_none());
    let gone = object.metadata.deletion_timestamp.is_some() && undispatched;
    let uid = object.uid().unwrap_or_default();
    let mut remembered = ctx.remembered(&uid);
    let findings = vec![finding];
    let (end, requeue) = if gone {
        (End::Gone, Requeue::Never)
    } else {
        troubled(&mut remembered.memory, &findings, now(), &System.random())
    };
    ctx.remember(&uid, remembered);
    // Trouble that passes does not cost an object its place among those that wait for one target.
    let shown = object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
    let passing = findings.iter().all(|f| f.severity == Severity::Wait);
    let converged = passing && is_true(shown, ConditionType::CandidateConverged);
    Report { requeue, converged, ..Report::of_nothing(end, findings) }
}

/// api: the deadline ends waiting although the record cannot be read; true = a slot may be left to release.
///
/// C-14: without a witness nothing was dispatched, and after this nothing will be: a witness is written over the very
/// version that this status is written over. Of an invocation that others may share only the record knows.
fn late(object: &ClusterPublication, mut report: Report, now_ms: u64) -> (Report, bool) {
    let undispatched = object.status.as_ref().is_none_or(|s| s.authority_version.is_none());
    let alone = object.spec.invocation_id.is_none();
    let unread = report.slot.is_none() && matches!(report.end, End::Waiting | End::Stalled);
    if !(undispatched && alone && unread && deadline_passed(object, now_ms)) {
        return (report, false);
    }
    let why = report.findings.first().map(|f| f.message.as_str()).unwrap_or_default();
    let message = format!("admissionDeadlineSeconds passed before dispatch: {why}");
    report.findings = vec![Finding::block(ErrorCode::AdmissionDeadline, "api", message)];
    report.end = End::Failed;
    (report, true)
}

/// Writes the status if, and only if, it says something new.
async fn project(
    object: &Arc<ClusterPublication>,
    ctx: &Context,
    resolved: &Resolved,
    report: &Report,
    release_pending: bool,
) -> kube::Result<()> {
    let old = object.status.clone().unwrap_or_default();
    if report.end == End::Gone {
        return Ok(());
    }
    let facts = status::Facts {
        generation: object.metadata.generation,
        deleted: object.metadata.deletion_timestamp.is_some(),
        release_pending,
        uid: object.uid(),
        operation: resolved.operation.clone(),
        root: resolved.root,
        report,
    };
    let new = status::project(&old, &facts, &kube_now());
    // Before the status: an object that says how it ended has its receipt.
    if new != old && new.outcome.is_some() {
        receipts::keep_of_report(object, ctx, report).await?;
    }
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

/// Rarely looked at is what stands still; a deadline that is still to come must not wait for that.
fn next_look(requeue: Requeue, deadline_in_ms: Option<u64>) -> Action {
    match requeue {
        Requeue::Now => Action::requeue(Duration::from_millis(50)),
        Requeue::AfterMs(ms) => {
            let deadline = deadline_in_ms.map_or(u64::MAX, |ms| ms + DEADLINE_SLACK_MS);
            Action::requeue(Duration::from_millis(ms.min(STALLED_REOBSERVE_MS).min(deadline)))
        }
        Requeue::Never => Action::await_change(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    // proves: F-3
    #[test]
    fn a_deadline_is_not_slept_through() {
        let after = |ms| Action::requeue(Duration::from_millis(ms));
        assert_eq!(next_look(Requeue::AfterMs(600_000), None), after(600_000));
        assert_eq!(next_look(Requeue::AfterMs(600_000), Some(1_000)), after(1_000 + DEADLINE_SLACK_MS));
        assert_eq!(next_look(Requeue::AfterMs(250), Some(1_000)), after(250), "a look before it is no loss");
        let now = after(DEADLINE_SLACK_MS);
        assert_eq!(next_look(Requeue::AfterMs(600_000), Some(0)), now, "it passed during the pass");
        assert_eq!(next_look(Requeue::Never, Some(1_000)), Action::await_change());
    }

    fn object(change: &Value) -> ClusterPublication {
        let mut object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "ClusterPublication",
            "metadata": {"name": "p", "namespace": "shop", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {
                "clusterRef": {"name": "analytics"}, "database": "shop", "target": "orders",
                "candidate": "orders__pub_1", "rows": {"exact": 1}, "admissionDeadlineSeconds": 1,
            },
            "status": {},
        });
        for (path, value) in change.as_object().into_iter().flatten() {
            let (at, field) = path.rsplit_once('/').unwrap();
            object.pointer_mut(at).unwrap()[field] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn unread(end: End) -> Report {
        let finding = Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "h1 does not answer");
        Report { requeue: Requeue::AfterMs(250), ..Report::of_nothing(end, vec![finding]) }
    }

    // proves: C-14, C-10
    #[test]
    fn a_deadline_ends_waiting_although_nothing_can_be_read() {
        for end in [End::Waiting, End::Stalled] {
            let (ended, pending) = late(&object(&json!({})), unread(end), 1_001);
            assert_eq!((ended.end, pending, ended.requeue), (End::Failed, true, Requeue::AfterMs(250)));
            assert_eq!(ended.findings[0].code, ErrorCode::AdmissionDeadline);
            assert!(ended.findings[0].message.contains("h1 does not answer"));
        }
        assert!(!late(&object(&json!({})), unread(End::Waiting), 1_000).1, "not over yet");
        let unknown = [
            // It may have been dispatched: only the record knows.
            json!({"/status/authorityVersion": 3}),
            json!({"/spec/invocationId": "airflow:1"}),
        ];
        for change in unknown {
            let (ended, pending) = late(&object(&change), unread(End::Waiting), 1_001);
            assert_eq!((ended.end, pending), (End::Waiting, false), "{change}");
        }
        for end in [End::Gone, End::Succeeded, End::Failed] {
            assert_eq!(
                late(&object(&json!({})), unread(end), 1_001).0.end,
                end,
                "what the record said stands"
            );
        }
    }

    /// It says Failed, and is looked at until its slot is known to be free.
    // proves: C-10
    #[test]
    fn an_object_whose_slot_may_be_left_is_not_finished() {
        let condition = |reason: &str| {
            json!({"/status/outcome": "Failed", "/status/conditions": [{
                "type": "SlotAcquired", "status": "Unknown", "reason": reason, "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            }]})
        };
        assert!(!resolve::is_finished(&object(&condition("ReleasePending"))));
        assert!(resolve::is_finished(&object(&condition("Released"))));
    }
}
