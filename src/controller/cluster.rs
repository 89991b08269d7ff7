//! One reconciliation of a PublicationCluster: probe, facade, status.

use super::bootstrap;
use super::conditions::{Conditions, is_true};
use super::context::{Context, Remembered, kube_now};
use super::credentials::connect;
use super::guard::InUse;
use super::kube_writes::{Finalizer, Version, apply_status_over, has_finalizer, set_finalizer};
use super::loss::{Accepted, Loss};
use super::resolve;
use crate::api::{
    ClusterPublication, ConditionType, MemberStatus, PublicationCluster, PublicationClusterStatus,
};
use crate::clickhouse::MemberCatalog;
use crate::clickhouse::probe::{EndpointProbe, ServerProbe, probe};
use crate::cluster_access::examination::{among_members, capabilities, inventory_of, reach, was_complete};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use publication_protocol::admission::{Finding, read_failures};
use publication_protocol::facade::FacadeMemory;
use publication_protocol::identity::RootId;
use publication_protocol::ports::Catalog;
use std::sync::Arc;
use std::time::Duration;

/// How often a cluster that is going is asked whether it is free; the caches know.
const USERS_AGAIN: Duration = Duration::from_secs(2);
/// The same where each look is an examination, because the last one failed.
const EXAMINED_AGAIN_MAX: Duration = Duration::from_secs(10);

/// What an examination found, complete or not.
#[derive(Default)]
pub(super) struct Examined {
    pub(super) members: Vec<MemberStatus>,
    pub(super) inventory_digest: Option<String>,
    pub(super) root: Option<RootId>,
    pub(super) facade_ready: bool,
    pub(super) in_use: InUse,
    /// The root was drawn in this examination: nothing was in use under it yet (B-6).
    pub(super) drawn: bool,
    /// What `FacadeReady` says beside that it is: of a loss that the platform accepts.
    pub(super) loss: Option<Accepted>,
}

/// Reconciles one object: probed on change, and again with backoff until it is ready.
pub(super) async fn reconcile(cluster: Arc<PublicationCluster>, ctx: Arc<Context>) -> kube::Result<Action> {
    // B-6 asks whether a publication ever showed a root: an empty cache would say no.
    if !ctx.ready.is_ready() {
        return Ok(Action::requeue(Duration::from_millis(200)));
    }
    let version = Version::of(cluster.as_ref());
    let in_use = InUse::of(&cluster, &ctx.publications.state());
    if let Some(action) = guarded(&cluster, &ctx, &in_use, &version).await? {
        return Ok(action);
    }
    let mut examined = Examined { in_use, ..Examined::default() };
    let result = examine(&cluster, &ctx, &version, &mut examined).await;
    let uid = cluster.uid().unwrap_or_default();
    let mut remembered: Remembered = ctx.remembered(&uid);
    let settled = result.is_ok() && !examined.loss.as_ref().is_some_and(Accepted::is_open);
    remembered.memory.attempt = if settled { 0 } else { remembered.memory.attempt.saturating_add(1) };
    let backoff = Duration::from_millis((500_u64 << remembered.memory.attempt.min(7)).min(60_000));
    ctx.remember(&uid, remembered);
    if result.is_ok() && cluster.metadata.deletion_timestamp.is_none() && !has_finalizer(cluster.as_ref()) {
        // Before the status says that something can be published on it; what was never ready may go at once.
        set_finalizer(&ctx.client, cluster.as_ref(), Finalizer::Add, &version).await?;
    }
    let new = project(&cluster, &examined, result.as_ref().err());
    if Some(&new) != cluster.status.as_ref() {
        apply_status_over(&ctx.client, cluster.as_ref(), &new, &version).await?;
    }
    Ok(match result {
        Err(_) if examined.in_use.deletion().is_some() => Action::requeue(backoff.min(EXAMINED_AGAIN_MAX)),
        Err(_) => Action::requeue(backoff),
        Ok(()) if !settled => Action::requeue(backoff),
        Ok(()) if examined.in_use.deletion().is_some() => Action::requeue(USERS_AGAIN),
        Ok(()) => Action::await_change(),
    })
}

/// api: held back while unresolved publications use it; what they need of it goes on as before. Some = nothing to examine.
async fn guarded(
    cluster: &PublicationCluster,
    ctx: &Context,
    in_use: &InUse,
    version: &Version,
) -> kube::Result<Option<Action>> {
    let deleted = cluster.metadata.deletion_timestamp.is_some();
    let guarded = has_finalizer(cluster);
    if deleted && (in_use.is_free() || !guarded) {
        if guarded {
            set_finalizer(&ctx.client, cluster, Finalizer::Remove, version).await?;
        }
        ctx.forget(&cluster.uid().unwrap_or_default());
        return Ok(Some(Action::await_change()));
    }
    // While it is held back the caches alone are looked at, as long as they say the same.
    Ok(in_use.deletion().filter(|text| is_shown(cluster, text)).map(|_| Action::requeue(USERS_AGAIN)))
}

fn is_shown(cluster: &PublicationCluster, deletion: &str) -> bool {
    let status = cluster.status.clone().unwrap_or_default();
    let shown = status.conditions.iter().find(|c| c.type_ == ConditionType::DeletionBlocked.as_str());
    status.observed_generation == cluster.metadata.generation
        && is_true(&status.conditions, ConditionType::Ready)
        && shown.is_some_and(|c| c.message == deletion)
}

/// B-1..B-6 as far as a cluster alone can show them.
async fn examine(
    cluster: &PublicationCluster,
    ctx: &Context,
    version: &Version,
    examined: &mut Examined,
) -> Result<(), Finding> {
    let known = cluster.status.as_ref().and_then(|s| s.facade_root.clone());
    examined.root = known.and_then(|root| RootId::try_from(root).ok());
    let connection = Arc::new(connect(&ctx.client, cluster).await?);
    let probes = probe(&connection).await;
    examined.members = members(&probes);
    let servers = answered(&probes)?;
    let direct = inventory_of(cluster, &servers)?;
    let through = MemberCatalog::new(Arc::clone(&connection)).members(&reach(cluster)).await;
    among_members(cluster, &direct, &through)?;
    examined.inventory_digest = Some(direct.digest().to_string());
    if let Some(finding) = capabilities(cluster, &servers).into_iter().next() {
        return Err(finding);
    }
    let memory = FacadeMemory { root: examined.root, was_ready: was_ready(cluster, ctx, examined.root) };
    let known = (cluster, version);
    let root = bootstrap::facade(ctx, known, &connection, &direct, &servers, memory, examined).await?;
    examined.root = Some(root);
    let loss = Loss { ctx, cluster, connection: &connection, inventory: &direct };
    examined.loss = loss.end_lost(root).await;
    let given_up = cluster.spec.accept_authority_loss == root.to_string()
        && !examined.loss.as_ref().is_some_and(Accepted::is_open);
    let fresh = !memory.was_ready || examined.drawn;
    bootstrap::binding(&connection, &direct, fresh || given_up).await?;
    examined.facade_ready = true;
    Ok(())
}

fn answered(probes: &[EndpointProbe]) -> Result<Vec<ServerProbe>, Finding> {
    let failed = |probe: &EndpointProbe| Some((probe.label.clone(), probe.answer.as_ref().err().copied()?));
    let failures: Vec<_> = probes.iter().filter_map(failed).collect();
    match read_failures(&failures) {
        Some(finding) => Err(finding),
        None => Ok(probes.iter().filter_map(|probe| probe.answer.clone().ok()).collect()),
    }
}

/// B-6 (m): the root was in use, by this object's own word or by a publication's. One that was drawn since, because the
/// loss of another was accepted, was shown by none.
fn was_ready(cluster: &PublicationCluster, ctx: &Context, root: Option<RootId>) -> bool {
    let shown = |o: &Arc<ClusterPublication>| {
        resolve::is_of(o, cluster)
            && resolve::shown(o).is_some_and(|shown| root.is_none_or(|root| root == shown))
    };
    cluster.status.as_ref().is_some_and(was_complete) || ctx.publications.state().iter().any(shown)
}

fn members(probes: &[EndpointProbe]) -> Vec<MemberStatus> {
    let mut members: Vec<MemberStatus> = probes
        .iter()
        .map(|probe| match &probe.answer {
            Ok(server) => {
                let own = server.view.iter().find(|row| row.is_local);
                MemberStatus {
                    replica: own.map_or(0, |row| row.replica.into()),
                    host: own.map_or_else(|| probe.label.clone(), |row| row.host.clone()),
                    port: own.map_or_else(|| server.tcp_port.into(), |row| row.port.into()),
                    server_uuid: Some(server.server_uuid.to_string()),
                    server_version: Some(server.version.clone()),
                    reachable: true,
                }
            }
            Err(_) => {
                let (host, port) = probe.label.rsplit_once(':').unwrap_or((&probe.label, "0"));
                MemberStatus {
                    host: host.to_owned(),
                    port: port.parse().unwrap_or(0),
                    reachable: false,
                    ..MemberStatus::default()
                }
            }
        })
        .collect();
    members.sort_by(|a, b| (a.replica, &a.host, a.port).cmp(&(b.replica, &b.host, b.port)));
    members
}

/// The whole new status, a pure function of (old, examined, finding, now).
pub(super) fn project(
    cluster: &PublicationCluster,
    examined: &Examined,
    finding: Option<&Finding>,
) -> PublicationClusterStatus {
    let old = cluster.status.clone().unwrap_or_default();
    let mut c = Conditions::new(&old.conditions, cluster.metadata.generation, kube_now());
    let (reason, message) = finding.map_or(("Admitted", ""), |f| (f.code.reason(), f.message.as_str()));
    c.set(ConditionType::Ready, finding.is_none(), reason, message);
    let never = !is_true(&old.conditions, ConditionType::FacadeReady)
        && old
            .conditions
            .iter()
            .find(|c| c.type_ == ConditionType::FacadeReady.as_str())
            .is_none_or(|c| c.reason == bootstrap::BOOTSTRAPPING);
    if examined.facade_ready {
        const AGREED: &str = "identical on every member";
        let (reason, message) = examined
            .loss
            .as_ref()
            .map_or(("Agreed", AGREED.to_owned()), |loss| (loss.reason(), format!("{AGREED}; {loss}")));
        c.set(ConditionType::FacadeReady, true, reason, &message);
    } else if never || examined.drawn {
        // Kept until the facade was complete once: it tells an unfinished bootstrap from a lost authority (B-6).
        c.set(ConditionType::FacadeReady, false, bootstrap::BOOTSTRAPPING, message);
    } else if finding.is_some_and(|f| f.rule == "B-5" || f.rule == "B-6") {
        c.set(ConditionType::FacadeReady, false, reason, message);
    } else {
        // Nothing new is known of the facade, and publications that are under way must find their root.
        c.keep(ConditionType::FacadeReady);
    }
    examined.in_use.show(&mut c, examined.inventory_digest.as_deref());
    if cluster.spec.suspend {
        c.set(ConditionType::Suspended, true, "SpecSuspend", "nothing new is dispatched");
    }
    PublicationClusterStatus {
        observed_generation: cluster.metadata.generation,
        facade_root: examined.root.map(|root| root.to_string()).or(old.facade_root),
        members: if examined.members.is_empty() { old.members } else { examined.members.clone() },
        inventory_digest: examined.inventory_digest.clone().or(old.inventory_digest),
        conditions: c.finish(),
    }
}
