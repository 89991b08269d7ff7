//! B-1, B-2, A-5: the expected members of one shard, and agreement among them.

use crate::canonical::{Canonical, Digest};
use crate::identity::ServerUuid;
use crate::limits::MEMBERS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One expected replica.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// `system.clusters.shard_num`.
    pub shard: u32,
    /// `system.clusters.replica_num`.
    pub replica: u32,
    /// `system.clusters.host_name`: also the join key with the DDL queue.
    pub host: String,
    /// Native port.
    pub port: u16,
    /// `serverUUID()`: rows are attributed by it, never by order.
    pub server_uuid: ServerUuid,
}

/// How a member is named to people, in every message and on every screen.
pub fn member_name(host: &str, port: u16, replica: u32) -> String {
    format!("{host}:{port} (replica {replica})")
}

impl Member {
    /// How it is named to people.
    pub fn name(&self) -> String {
        member_name(&self.host, self.port, self.replica)
    }

    /// Host and native port: what names it in the DDL queue.
    pub fn endpoint(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// The members of one shard, ordered by replica number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inventory {
    /// Cluster name.
    pub cluster: String,
    /// All of them.
    pub members: Vec<Member>,
}

/// One row of one member's `system.clusters`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterRow {
    /// Shard number.
    pub shard: u32,
    /// Replica number.
    pub replica: u32,
    /// Host name as configured.
    pub host: String,
    /// Native port.
    pub port: u16,
    /// Whether the member takes this row for itself.
    pub is_local: bool,
    /// None where the server's version lacks the column.
    pub internal_replication: Option<bool>,
}

/// What one server that answered says of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberView {
    /// Who answered.
    pub server_uuid: ServerUuid,
    /// Its `system.clusters`, this cluster only.
    pub rows: Vec<ClusterRow>,
}

/// Why views give no inventory (B-1, B-2); each names what to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum InventoryError {
    /// No server knows the cluster.
    #[error("no member's system.clusters has the cluster {0}; check clusterName and remote_servers")]
    UnknownCluster(String),
    /// Not exactly one shard.
    #[error("{0} shards; exactly one is supported (B-1)")]
    Shards(usize),
    /// Too few or too many replicas.
    #[error("{0} replicas; 2 to {MEMBERS_MAX} are supported (B-1)")]
    Replicas(usize),
    /// Two rows share replica number or endpoint.
    #[error("{0} is listed twice, by number or by endpoint (B-1)")]
    DuplicateReplica(String),
    /// Replicas would be written one by one.
    #[error(
        "internal_replication is off or unknown (B-1); set it in remote_servers, or declare it where the server has no such column"
    )]
    InternalReplication,
    /// A server's view differs from the others'.
    #[error("{0} sees another system.clusters than the others (B-1)")]
    ViewsDiffer(String),
    /// A server knows itself not at all, or as several rows: it would never pick up its queue entry (K07).
    #[error(
        "{server} takes {count} rows of the cluster for itself, one expected (B-1); check is_local, host names and ports"
    )]
    NotExactlyOneLocal {
        /// Which, as far as the views tell.
        server: String,
        /// How many rows.
        count: usize,
    },
    /// One server answered for two members (K09).
    #[error("server {0} answers twice: two rows or endpoints reach one server (B-2)")]
    SameServerTwice(String),
    /// Somebody is missing.
    #[error("{answered} of {expected} members answered (B-2)")]
    Incomplete {
        /// Rows in system.clusters.
        expected: usize,
        /// Distinct servers.
        answered: usize,
    },
}

impl InventoryError {
    /// Whether the shape is unsupported (against: incomplete).
    pub fn is_topology(&self) -> bool {
        matches!(
            self,
            Self::Shards(_) | Self::Replicas(_) | Self::DuplicateReplica(_) | Self::InternalReplication
        )
    }
}

impl Inventory {
    /// Forms the inventory that every member's own view agrees on (B-1, B-2).
    ///
    /// `declared_internal_replication` counts only where the catalog lacks the column.
    ///
    /// # Errors
    /// The first rule that fails; a partial answer is never evidence.
    pub fn agree(
        cluster: &str,
        views: &[MemberView],
        declared_internal_replication: bool,
    ) -> Result<Self, InventoryError> {
        let mut by_server = BTreeMap::new();
        for view in views {
            if by_server.insert(&view.server_uuid, shape(&view.rows)).is_some() {
                return Err(InventoryError::SameServerTwice(view.server_uuid.to_string()));
            }
        }
        // K07: a server that knows nothing of the cluster is named, not taken for the standard.
        let Some(rows) = by_server.values().find(|rows| !rows.is_empty()) else {
            return Err(InventoryError::UnknownCluster(cluster.to_owned()));
        };
        if let Some((server, _)) = by_server.iter().find(|(_, other)| *other != rows) {
            return Err(InventoryError::ViewsDiffer(who(views, server)));
        }
        check_shape(rows, declared_internal_replication)?;
        if by_server.len() != rows.len() && !planted!(PartialInventory) {
            return Err(InventoryError::Incomplete { expected: rows.len(), answered: by_server.len() });
        }
        Self::attribute(cluster, views)
    }

    fn attribute(cluster: &str, views: &[MemberView]) -> Result<Self, InventoryError> {
        let mut members: BTreeMap<u32, Member> = BTreeMap::new();
        // By server, not as the answers came: each look names the same one.
        let ordered: BTreeMap<&ServerUuid, &MemberView> = views.iter().map(|v| (&v.server_uuid, v)).collect();
        for view in ordered.into_values() {
            let local: Vec<&ClusterRow> = view.rows.iter().filter(|row| row.is_local).collect();
            let [own] = local.as_slice() else {
                let server = who(views, &view.server_uuid);
                return Err(InventoryError::NotExactlyOneLocal { server, count: local.len() });
            };
            let member = Member {
                shard: own.shard,
                replica: own.replica,
                host: own.host.clone(),
                port: own.port,
                server_uuid: view.server_uuid.clone(),
            };
            // Two servers that take one row for themselves: the other row's member never answered.
            if let Some(other) = members.insert(own.replica, member)
                && !planted!(TwoServersOneRow)
            {
                return Err(InventoryError::SameServerTwice(other.server_uuid.to_string()));
            }
        }
        Ok(Self { cluster: cluster.to_owned(), members: members.into_values().collect() })
    }

    /// independent of row order and of resolved addresses.
    pub fn digest(&self) -> Digest {
        let ordered: BTreeSet<&Member> = self.members.iter().collect();
        ordered
            .into_iter()
            .fold(Canonical::new("inventory/v1").text(&self.cluster), |digest, m| {
                digest
                    .number(m.shard.into())
                    .number(m.replica.into())
                    .text(&m.host)
                    .number(m.port.into())
                    .text(m.server_uuid.as_str())
            })
            .digest()
    }

    /// The member with this identity.
    pub fn by_uuid(&self, uuid: &ServerUuid) -> Option<&Member> {
        self.members.iter().find(|m| &m.server_uuid == uuid)
    }

    /// The member that a queue row is about.
    pub fn by_endpoint(&self, host: &str, port: u16) -> Option<&Member> {
        self.members.iter().find(|m| m.host == host && m.port == port)
    }
}

/// A server for people: by the row that is its own, or that nobody else takes for itself; and by its UUID.
fn who(views: &[MemberView], server: &ServerUuid) -> String {
    let own = |view: &MemberView| -> Vec<(u32, String, u16)> {
        let local = view.rows.iter().filter(|row| row.is_local);
        local.map(|row| (row.replica, row.host.clone(), row.port)).collect()
    };
    let (its, others): (Vec<&MemberView>, Vec<&MemberView>) =
        views.iter().partition(|view| view.server_uuid == *server);
    let local: Vec<_> = its.iter().flat_map(|view| own(view)).collect();
    let taken: BTreeSet<_> = others.iter().flat_map(|view| own(view)).collect();
    let rows = views.iter().flat_map(|view| &view.rows);
    let left: BTreeSet<_> =
        rows.map(|r| (r.replica, r.host.clone(), r.port)).filter(|row| !taken.contains(row)).collect();
    let named = match (local.as_slice(), left.first()) {
        ([row], _) => Some(row),
        (_, Some(row)) if left.len() == 1 => Some(row),
        _ => None,
    };
    named.map_or_else(
        || format!("server {server}"),
        |(replica, host, port)| format!("{host}:{port} (replica {replica}, server {server})"),
    )
}

/// Sorted, duplicates kept: a replica listed twice must be seen.
type Shape = Vec<(u32, u32, String, u16, Option<bool>)>;

fn shape(rows: &[ClusterRow]) -> Shape {
    let mut shape: Shape =
        rows.iter().map(|r| (r.shard, r.replica, r.host.clone(), r.port, r.internal_replication)).collect();
    shape.sort_unstable();
    shape
}

fn check_shape(
    rows: &[(u32, u32, String, u16, Option<bool>)],
    declared_internal_replication: bool,
) -> Result<(), InventoryError> {
    let shards: BTreeSet<u32> = rows.iter().map(|r| r.0).collect();
    if shards.len() != 1 {
        return Err(InventoryError::Shards(shards.len()));
    }
    if !(2..=MEMBERS_MAX).contains(&rows.len()) {
        return Err(InventoryError::Replicas(rows.len()));
    }
    let (mut numbers, mut endpoints) = (BTreeSet::new(), BTreeSet::new());
    for (_, replica, host, port, _) in rows {
        if !numbers.insert(replica) || !endpoints.insert((host, port)) {
            return Err(InventoryError::DuplicateReplica(member_name(host, *port, *replica)));
        }
    }
    if !rows.iter().all(|r| r.4.unwrap_or(declared_internal_replication)) {
        return Err(InventoryError::InternalReplication);
    }
    Ok(())
}
