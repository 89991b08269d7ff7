//! One reconciliation of a PublicationCluster: probe, facade, status.

use super::bootstrap;
use super::conditions::{Conditions, is_true};
use super::context::{Context, Remembered, kube_now};
use super::credentials::connect;
use super::kube_writes::{Version, apply_status_over};
use crate::api::{ConditionType, MemberStatus, PublicationCluster, PublicationClusterStatus};
use crate::clickhouse::probe::{EndpointProbe, ServerProbe, probe};
use crate::clickhouse::{Connection, MemberCatalog};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use publication_protocol::admission::{Finding, inventory, label, read_failures};
use publication_protocol::code::ErrorCode;
use publication_protocol::facade::FacadeMemory;
use publication_protocol::identity::RootId;
use publication_protocol::inventory::Inventory;
use publication_protocol::ports::{Catalog, MemberAnswer, MembersAnswer, MembersAsk, Scope};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What an examination found, complete or not.
#[derive(Default)]
pub(super) struct Examined {
    pub(super) members: Vec<MemberStatus>,
    pub(super) inventory_digest: Option<String>,
    pub(super) root: Option<RootId>,
    pub(super) facade_ready: bool,
}

/// Reconciles one object: probed on change, and again with backoff until it is ready.
pub(super) async fn reconcile(cluster: Arc<PublicationCluster>, ctx: Arc<Context>) -> kube::Result<Action> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // B-6 asks whether a publication ever showed a root: an empty cache would say no.
    if !ctx.ready.is_ready() {
        return Ok(Action::requeue(Duration::from_millis(200)));
    }
    let mut examined = Examined::default();
    let version = Version::of(cluster.as_ref());
    let result = examine(&cluster, &ctx, &version, &mut examined).await;
    let uid = cluster.uid().unwrap_or_default();
    let mut remembered: Remembered = ctx.remembered(&uid);
    remembered.memory.attempt = if result.is_ok() { 0 } else { remembered.memory.attempt.saturating_add(1) };
    let backoff = Duration::from_millis((500_u64 << remembered.memory.attempt.min(7)).min(60_000));
    ctx.remember(&uid, remembered);
    let new = project(&cluster, &examined, result.as_ref().err());
    if Some(&new) != cluster.status.as_ref() {
        apply_status_over(&ctx.client, cluster.as_ref(), &new, &version).await?;
    }
    Ok(if result.is_ok() { Action::await_change() } else { Action::requeue(backoff) })
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
    let declared = cluster.spec.declare.internal_replication;
    let direct = inventory_of(cluster, &servers)?;
    among_members(&connection, cluster, &direct, declared).await?;
    examined.inventory_digest = Some(direct.digest().to_string());
    capabilities(cluster, &direct, &servers)?;
    let memory = FacadeMemory { root: examined.root, was_ready: was_ready(cluster, ctx) };
    let root = bootstrap::facade(ctx, (cluster, version), &connection, &direct, &servers, memory).await?;
    examined.root = Some(root);
    bootstrap::binding(&connection, &direct).await?;
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

/// B-1, B-2, from what the endpoints' servers say.
fn inventory_of(cluster: &PublicationCluster, servers: &[ServerProbe]) -> Result<Inventory, Finding> {
    let declared = cluster.spec.declare.internal_replication;
    inventory(&cluster.spec.cluster_name, declared, &as_answer(servers))
}

fn as_answer(servers: &[ServerProbe]) -> MembersAnswer {
    let members = servers
        .iter()
        .map(|server| MemberAnswer {
            server_uuid: server.server_uuid.clone(),
            server_version: server.version.clone(),
            view: server.view.clone(),
            database_engine: server.control_database_engine.clone(),
            tables: BTreeMap::new(),
            health: None,
            count: None,
        })
        .collect();
    MembersAnswer { members, failures: Vec::new() }
}

/// B-2: members must reach each other as the endpoints reach them.
async fn among_members(
    connection: &Arc<Connection>,
    cluster: &PublicationCluster,
    direct: &Inventory,
    declared: bool,
) -> Result<(), Finding> {
    let ask = MembersAsk {
        scope: Scope::Cluster,
        cluster: cluster.spec.cluster_name.clone(),
        database: cluster.spec.control_database.clone(),
        names: Vec::new(),
        health_of: None,
        count_of: None,
    };
    let through = MemberCatalog::new(Arc::clone(connection)).members(&ask).await;
    let seen = inventory(&cluster.spec.cluster_name, declared, &through)?;
    if seen.digest() == direct.digest() {
        return Ok(());
    }
    let message = "members: the endpoints reach other servers than the cluster's own definition; list one URL for each member";
    Err(Finding::block(ErrorCode::IncompleteInventory, "B-2", message))
}

/// B-3 for the control database, B-4.
fn capabilities(
    cluster: &PublicationCluster,
    inventory: &Inventory,
    servers: &[ServerProbe],
) -> Result<(), Finding> {
    const ENTRY_FORMAT_MIN: u64 = 2;
    let block = |message: String| Err(Finding::block(ErrorCode::CapabilityMissing, "B-4", message));
    for server in servers {
        let member = inventory.by_uuid(&server.server_uuid).map(label).unwrap_or_default();
        let database = &cluster.spec.control_database;
        match server.control_database_engine.as_deref() {
            Some("Atomic") => {}
            Some(engine) => {
                return block(format!(
                    "controlDatabase: {database} has the engine {engine} on {member}; it must be Atomic"
                ));
            }
            None => {
                return block(format!(
                    "controlDatabase: {database} does not exist on {member}, or the user cannot see it; create it as Atomic and grant it"
                ));
            }
        }
        if server.ddl_entry_format_version.is_none_or(|version| version < ENTRY_FORMAT_MIN) {
            return block(format!(
                "distributed_ddl_entry_format_version is below {ENTRY_FORMAT_MIN} on {member}; raise it"
            ));
        }
        if !is_tested(&server.version) && !accepts(cluster, &server.version) {
            return block(format!(
                "server version {} on {member} was not tested; the platform may take it in accept.untestedVersions",
                server.version
            ));
        }
    }
    Ok(())
}

/// Release lines between the two engines that the project's tests run on.
fn is_tested(version: &str) -> bool {
    let mut parts = version.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(year)), Some(Ok(month))) => ((24, 8)..=(26, 9)).contains(&(year, month)),
        _ => false,
    }
}

fn accepts(cluster: &PublicationCluster, version: &str) -> bool {
    let under = |named: &String| version == named || version.starts_with(&format!("{named}."));
    cluster.spec.accept.untested_versions.iter().any(under)
}

/// B-6 (m): the root was in use, by this object's own word or by a publication's.
fn was_ready(cluster: &PublicationCluster, ctx: &Context) -> bool {
    let status = cluster.status.clone().unwrap_or_default();
    let facade = status.conditions.iter().find(|c| c.type_ == ConditionType::FacadeReady.as_str());
    let latched = facade.is_some_and(|c| c.reason != bootstrap::BOOTSTRAPPING);
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    latched
        || ctx.publications.state().iter().any(|o| {
            let reference = &o.spec.cluster_ref;
            let own = o.namespace().unwrap_or_default();
            reference.name == name
                && reference.namespace_or(&own) == namespace
                && o.status.as_ref().is_some_and(|s| s.authority_version.is_some())
        })
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
        c.set(ConditionType::FacadeReady, true, "Agreed", "identical on every member");
    } else if never {
        // Kept until the facade was complete once: it tells an unfinished bootstrap from a lost authority (B-6).
        c.set(ConditionType::FacadeReady, false, bootstrap::BOOTSTRAPPING, message);
    } else if finding.is_some_and(|f| f.rule == "B-5" || f.rule == "B-6") {
        c.set(ConditionType::FacadeReady, false, reason, message);
    } else {
        // Nothing new is known of the facade, and publications that are under way must find their root.
        c.keep(ConditionType::FacadeReady);
    }
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
