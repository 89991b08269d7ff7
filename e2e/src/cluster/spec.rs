//! The spec file that tells each member process who the cluster is (see `node/README.md`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use crate::error::Result;
use crate::keeper::{DDL_QUEUE, KEEPER_MAP_PREFIX};
use crate::ports;

pub const CLUSTER: &str = "main";
/// A second name for the same servers.
pub const OTHER_CLUSTER: &str = "again";
/// The operator's user. The harness has its own, so that rotating this one leaves the tests in.
pub const PUBLISHER: &str = "publisher";
pub(crate) const HARNESS: &str = "harness";
pub(crate) const HARNESS_PASSWORD: &str = "harness";

/// Which engine the members run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    V26_9,
    V24_8,
}

impl Lane {
    /// The engine's line.
    pub fn name(self) -> &'static str {
        match self {
            Self::V26_9 => "26.9",
            Self::V24_8 => "24.8",
        }
    }

    pub(crate) fn venv(self) -> &'static str {
        match self {
            Self::V26_9 => ".tools/venv",
            Self::V24_8 => ".tools/venv-24.8",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct MemberSpec {
    pub host: String,
    pub tcp_port: u16,
    pub http_port: u16,
    pub admin_port: u16,
    pub replica: String,
    pub shard: String,
    pub dir: String,
    pub server_uuid: Uuid,
}

impl MemberSpec {
    /// As the operator names it to people.
    pub fn shown(&self) -> String {
        format!("{}:{} (replica {})", self.host, self.tcp_port, self.replica.trim_start_matches('r'))
    }

    pub fn http(&self) -> SocketAddr {
        ports::loopback(self.http_port)
    }

    pub fn admin(&self) -> SocketAddr {
        ports::loopback(self.admin_port)
    }

    /// As ClickHouse writes this host in DDL entries: `.` and `-` escaped.
    pub fn ddl_host_id(&self) -> String {
        format!("{}:{}", self.host.replace('.', "%2E").replace('-', "%2D"), self.tcp_port)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct User {
    pub password: String,
}

#[derive(Debug, Clone, Serialize)]
pub struct ClusterSpec {
    pub cluster: String,
    /// Further clusters by name: `{"internal_replication": …, "endpoints": [{"shard","replica","host","port"}]}`.
    pub extra_clusters: BTreeMap<String, serde_json::Value>,
    pub zookeeper: String,
    pub keeper_map_prefix: String,
    pub ddl_queue: String,
    pub members: Vec<MemberSpec>,
    pub users: BTreeMap<String, User>,
    pub internal_replication: bool,
}

impl ClusterSpec {
    /// N members on free loopback ports, one shard.
    pub fn new(members: usize, zookeeper: String, dir: &Path) -> Result<Self> {
        let member = |i: usize| -> Result<MemberSpec> {
            Ok(MemberSpec {
                host: "127.0.0.1".to_owned(),
                tcp_port: ports::free()?,
                http_port: ports::free()?,
                admin_port: ports::free()?,
                replica: format!("r{}", i + 1),
                shard: "01".to_owned(),
                dir: dir.join(format!("member-{i}")).display().to_string(),
                server_uuid: Uuid::new_v4(),
            })
        };
        let user = |password: String| User { password };
        let members = (0..members).map(member).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            cluster: CLUSTER.to_owned(),
            extra_clusters: BTreeMap::from([(OTHER_CLUSTER.to_owned(), same_members(&members))]),
            zookeeper,
            keeper_map_prefix: KEEPER_MAP_PREFIX.to_owned(),
            ddl_queue: DDL_QUEUE.to_owned(),
            members,
            users: BTreeMap::from([
                (PUBLISHER.to_owned(), user(Uuid::new_v4().to_string())),
                (HARNESS.to_owned(), user(HARNESS_PASSWORD.to_owned())),
            ]),
            internal_replication: true,
        })
    }
}

fn same_members(members: &[MemberSpec]) -> serde_json::Value {
    let endpoint = |m: &MemberSpec| serde_json::json!({"shard": m.shard, "replica": m.replica, "host": m.host, "port": m.tcp_port});
    serde_json::json!({
        "internal_replication": true,
        "endpoints": members.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
