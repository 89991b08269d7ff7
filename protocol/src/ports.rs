//! The small ports behind which every effect lives. Nothing here retries; what is not surely known is `Unknown`.

use crate::authority::{DispatchPermit, Mutation, MutationAnswer, Now};
use crate::facade::FacadeSeen;
use crate::generation::TableFact;
use crate::identity::{CorrelationToken, Random, RootId, ServerUuid};
use crate::inventory::ClusterRow;
use crate::preflight::{Backlog, PreflightAnswer, PreflightAsk};
use crate::queue::QueueRow;
use crate::record::{Owner, VersionedRow};
use crate::sqltext::Statement;
use std::collections::BTreeMap;
use std::future::Future;

/// Why a read gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadFailure {
    /// No answer, or a broken one.
    Unavailable,
    /// User or password refused (`ACCESS_DENIED`).
    Credentials,
    /// A right is missing (`ACCESS_DENIED`).
    AccessDenied,
    /// The table does not exist on the server that was asked.
    NoTable,
    /// The server that was asked has no such cluster.
    UnknownCluster,
    /// The server answered something that does not decode.
    Malformed,
    /// Keeper does not answer the server.
    KeeperUnavailable,
    /// The server has the table and could not activate it: it found nothing behind it in Keeper, or no Keeper, when it
    /// started. One code says both.
    NotActivated,
    /// An endpoint reached another server than before, or one server stands behind two endpoints.
    WrongServer,
}

/// The slot as every member that answered reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AuthorityRead {
    /// By member; a row that is absent there is `None`.
    pub rows: Vec<(ServerUuid, Option<VersionedRow>)>,
    /// B-5: what was read it from, by member, of the same moment.
    pub facades: Vec<(ServerUuid, FacadeSeen)>,
    /// Endpoints that gave nothing, with why; labels are host and port.
    pub failures: Vec<(String, ReadFailure)>,
}

/// How members are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Through `clusterAllReplicas` with `skip_unavailable_shards=0`: all or nothing (B-2).
    Cluster,
    /// Each at its own endpoint: those that do not answer are named.
    Each,
}

/// What to read of every member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MembersAsk {
    /// How.
    pub scope: Scope,
    /// Cluster name.
    pub cluster: String,
    /// Database of the names.
    pub database: String,
    /// Names to identify.
    pub names: Vec<String>,
    /// Table whose replication health is wanted.
    pub health_of: Option<String>,
    /// Table whose rows are to be counted.
    pub count_of: Option<String>,
}

/// Replication health of one table on one member (B-8).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Health {
    /// `is_readonly`.
    pub readonly: bool,
    /// `is_session_expired`.
    pub session_expired: bool,
    /// `queue_size`.
    pub queue_size: u64,
    /// `lost_part_count`.
    pub lost_parts: u64,
    /// `parts_to_check`.
    pub parts_to_check: u64,
    /// `active_replicas`.
    pub active_replicas: u64,
    /// `total_replicas`.
    pub total_replicas: u64,
    /// `log_max_index`.
    pub log_max_index: u64,
    /// `log_pointer`.
    pub log_pointer: u64,
    /// `zookeeper_exception` is not empty.
    pub keeper_exception: bool,
    /// `last_queue_update_exception` is not empty.
    pub queue_exception: bool,
    /// Mutations that are not done.
    pub unfinished_mutations: u64,
}

/// What one member answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberAnswer {
    /// Who.
    pub server_uuid: ServerUuid,
    /// `version()`.
    pub server_version: String,
    /// Its own `system.clusters`.
    pub view: Vec<ClusterRow>,
    /// Engine of the database; none = no such database.
    pub database_engine: Option<String>,
    /// By asked name.
    pub tables: BTreeMap<String, TableFact>,
    /// If asked for and the table is there.
    pub health: Option<Health>,
    /// If asked for and the table is there.
    pub count: Option<u64>,
}

/// What all members answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct MembersAnswer {
    /// Every answer, duplicates kept: one server answering twice must be seen (B-2).
    pub members: Vec<MemberAnswer>,
    /// Endpoints that gave nothing, with why; labels are host and port.
    pub failures: Vec<(String, ReadFailure)>,
}

/// One statement to send, once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Order {
    /// What.
    pub statement: Statement,
}

/// What became of a dispatch. Never proof of anything but "not sent".
#[derive(Debug)]
pub enum SendOutcome {
    /// An answer arrived, good or bad: the queue tells (D-3).
    Answered,
    /// No answer: the queue tells (D-3).
    Unknown,
    /// No byte was written, or the permit was too old: it comes back (C-12).
    NotSent(DispatchPermit),
    /// C-4 was broken by the transport.
    OneShotViolation,
}

/// C: the KeeperMap table.
pub trait ControlTable {
    /// The row at every member, each at its own endpoint.
    fn read_all(&self, key: &str) -> impl Future<Output = AuthorityRead> + Send;
    /// The row at exactly this server, whose UUID is in the answer.
    fn read_exact(
        &self,
        server: &ServerUuid,
        key: &str,
    ) -> impl Future<Output = Option<(ServerUuid, Option<VersionedRow>)>> + Send;
    /// C-4: one shot.
    fn mutate(&self, server: &ServerUuid, mutation: &Mutation)
    -> impl Future<Output = MutationAnswer> + Send;
}

/// B, F: facts about members.
pub trait Catalog {
    /// Reads; several queries, no snapshot.
    fn members(&self, ask: &MembersAsk) -> impl Future<Output = MembersAnswer> + Send;
    /// What an admitted operation would run into later (B-4, B-7, B-9), each member at its own endpoint.
    fn preflight(&self, ask: &PreflightAsk) -> impl Future<Output = PreflightAnswer> + Send;
}

/// D: the distributed DDL.
pub trait Ddl {
    /// D-2: one shot, by value.
    fn send(&self, permit: DispatchPermit, order: &Order) -> impl Future<Output = SendOutcome> + Send;
    /// D-3: rows of the entries with these tokens, from one scan.
    fn scan(
        &self,
        cluster: &str,
        tokens: &[CorrelationToken],
    ) -> impl Future<Output = Result<Vec<QueueRow>, ReadFailure>> + Send;
    /// K13: what the cluster's hosts have not finished, of any token: one more scan, made only for a diagnosis.
    fn backlog(&self, cluster: &str) -> impl Future<Output = Result<Vec<Backlog>, ReadFailure>> + Send;
}

/// What the protocol asks of Kubernetes.
pub trait Owners {
    /// C-14: shows root and version in the object's status; true = the write was acknowledged.
    fn witness(&self, root: RootId, version: u64) -> impl Future<Output = bool> + Send;
    /// C-11: whether a live GET shows that the owner's UID is gone; none = could not tell.
    fn owner_gone(&self, owner: &Owner) -> impl Future<Output = Option<bool>> + Send;
}

/// J-3: what members run right now.
pub trait Processes {
    /// Whether any member runs a query with one of these ids; none = not every member could say.
    fn running(&self, query_ids: &[String]) -> impl Future<Output = Option<bool>> + Send;
}

/// Time and randomness.
pub trait Environment {
    /// Both clocks.
    fn now(&self) -> Now;
    /// From the operating system's generator.
    fn random(&self) -> Random;
}
