//! What the examination of a PublicationCluster judges (B-1..B-4), pure: the controller stops at the first finding,
//! `doctor` shows them all.

use crate::api::{ConditionType, PublicationCluster, PublicationClusterStatus};
use crate::clickhouse::probe::ServerProbe;
use publication_protocol::admission::{Finding, inventory};
use publication_protocol::code::ErrorCode;
use publication_protocol::facade::FacadeFact;
use publication_protocol::inventory::{Inventory, member_name};
use publication_protocol::ports::{MemberAnswer, MembersAnswer, MembersAsk, Scope};
use std::collections::BTreeMap;

/// Reason of `FacadeReady=False` until the facade was complete for the first time.
pub(crate) const BOOTSTRAPPING: &str = "Bootstrapping";

/// B-6 (m): the object's own status says that the facade was complete once.
pub(crate) fn was_complete(status: &PublicationClusterStatus) -> bool {
    let facade = status.conditions.iter().find(|c| c.type_ == ConditionType::FacadeReady.as_str());
    facade.is_some_and(|condition| condition.reason != BOOTSTRAPPING)
}

/// How a server is named to people: by the row of the cluster that it takes for its own.
pub(crate) fn member_of(server: &ServerProbe) -> String {
    let mut own = server.view.iter().filter(|row| row.is_local);
    match (own.next(), own.next()) {
        (Some(row), None) => member_name(&row.host, row.port, row.replica),
        _ => format!("{}:{} (no member by its own view)", server.host_name, server.tcp_port),
    }
}

/// B-1, B-2, from what the endpoints' servers say.
pub(crate) fn inventory_of(
    cluster: &PublicationCluster,
    servers: &[ServerProbe],
) -> Result<Inventory, Finding> {
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

/// B-2: what is asked of the members through one of them.
pub(crate) fn reach(cluster: &PublicationCluster) -> MembersAsk {
    MembersAsk {
        scope: Scope::Cluster,
        cluster: cluster.spec.cluster_name.clone(),
        database: cluster.spec.control_database.clone(),
        names: Vec::new(),
        health_of: None,
        count_of: None,
    }
}

/// B-2: members must reach each other as the endpoints reach them.
pub(crate) fn among_members(
    cluster: &PublicationCluster,
    direct: &Inventory,
    through: &MembersAnswer,
) -> Result<(), Finding> {
    let declared = cluster.spec.declare.internal_replication;
    let seen = inventory(&cluster.spec.cluster_name, declared, through)?;
    if seen.digest() == direct.digest() {
        return Ok(());
    }
    let message = "members: the endpoints reach other servers than the cluster's own definition; list one URL for each member";
    Err(Finding::block(ErrorCode::IncompleteInventory, "B-2", message))
}

/// B-3 for the control database, B-4.
pub(crate) fn capabilities(cluster: &PublicationCluster, servers: &[ServerProbe]) -> Vec<Finding> {
    let of = |server| {
        let found = [control_database(cluster, server), entry_format(server), version(cluster, server)];
        found.into_iter().flatten()
    };
    servers.iter().flat_map(of).collect()
}

fn block(rule: &'static str, message: String) -> Option<Finding> {
    Some(Finding::block(ErrorCode::CapabilityMissing, rule, message))
}

fn control_database(cluster: &PublicationCluster, server: &ServerProbe) -> Option<Finding> {
    let (database, member) = (&cluster.spec.control_database, member_of(server));
    match server.control_database_engine.as_deref() {
        Some("Atomic") => None,
        Some(engine) => block(
            "B-3",
            format!("controlDatabase: {database} has the engine {engine} on {member}; it must be Atomic"),
        ),
        None => block(
            "B-3",
            format!(
                "controlDatabase: {database} does not exist on {member}, or the user cannot see it; create it as Atomic and grant it"
            ),
        ),
    }
}

fn entry_format(server: &ServerProbe) -> Option<Finding> {
    const ENTRY_FORMAT_MIN: u64 = 2;
    if server.ddl_entry_format_version.is_some_and(|version| version >= ENTRY_FORMAT_MIN) {
        return None;
    }
    let member = member_of(server);
    block(
        "B-4",
        format!("distributed_ddl_entry_format_version is below {ENTRY_FORMAT_MIN} on {member}; raise it"),
    )
}

fn version(cluster: &PublicationCluster, server: &ServerProbe) -> Option<Finding> {
    let version = &server.version;
    if is_tested(version) || accepts(cluster, version) {
        return None;
    }
    let member = member_of(server);
    block(
        "B-4",
        format!(
            "server version {version} on {member} was not tested; the platform may take it in accept.untestedVersions"
        ),
    )
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

/// B-5: the facades that each server has.
pub(crate) fn facade_facts(control_database: &str, servers: &[ServerProbe]) -> Vec<FacadeFact> {
    let fact = |server: &ServerProbe| FacadeFact {
        member: member_of(server),
        tables: server.facades.iter().map(|facade| facade.as_fact(control_database)).collect(),
    };
    servers.iter().map(fact).collect()
}
