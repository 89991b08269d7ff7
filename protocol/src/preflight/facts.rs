//! What every member is asked at admission, beyond what the names are (B-4, B-7, B-9).

use crate::identity::ServerUuid;
use crate::ports::ReadFailure;
use crate::sqltext::TableName;

/// What to read of every member, each at its own endpoint: rights and settings are those of the user there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PreflightAsk {
    /// Cluster name.
    pub cluster: String,
    /// Database of the names.
    pub database: String,
    /// Published name.
    pub target: String,
    /// Name of the new generation.
    pub candidate: String,
    /// Replication path of the candidate (K04).
    pub zookeeper_path: String,
    /// Whether to scan the DDL queue for older, unfinished entries. A scan reads the whole queue from Keeper, so an
    /// admission on the way to a dispatch does not ask: an entry that waits behind another is seen, and named, when
    /// it does not progress. `plan` asks.
    pub backlog: bool,
}

/// Kinds of objects that depend on a name (B-9), as the platform accepts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependentKind {
    /// Reads from, or writes to the name.
    MaterializedView,
    /// Reads from the name.
    View,
    /// Its source is the name.
    Dictionary,
    /// Filters readers of the name.
    RowPolicy,
    /// Names columns of the name.
    ColumnGrant,
}

impl DependentKind {
    /// As in `accept.dependents`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaterializedView => "MaterializedView",
            Self::View => "View",
            Self::Dictionary => "Dictionary",
            Self::RowPolicy => "RowPolicy",
            Self::ColumnGrant => "ColumnGrant",
        }
    }
}

/// A view or dictionary, of any database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: TableName,
    /// `system.tables.engine`.
    pub engine: String,
    /// `system.tables.create_table_query`.
    pub create_query: String,
}

/// A dictionary from a server's configuration files: it has no CREATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfiguredDictionary {
    /// Its name.
    pub name: String,
    /// `system.dictionaries.source`.
    pub source: String,
}

/// What the catalog says of target or candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableUse {
    /// Target or candidate.
    pub name: String,
    /// `total_bytes`: what a DROP is measured by.
    pub bytes: u64,
    /// `loading_dependent_*`: what a server looks at before it renames or drops the name.
    pub loading_dependents: Vec<TableName>,
}

/// A row policy on target or candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its short name.
    pub name: String,
    /// Target or candidate.
    pub table: String,
}

/// One row of `system.grants`: the user's own, by itself or by an enabled role, or one on columns of the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// User or role.
    pub grantee: String,
    /// The operator's user, or a role enabled for it.
    pub own: bool,
    /// `SELECT`, `ALTER`, …
    pub access: String,
    /// None = all.
    pub database: Option<String>,
    /// None = all.
    pub table: Option<String>,
    /// None = all.
    pub column: Option<String>,
    /// Takes a part of another grant away.
    pub revoked: bool,
    /// The last name is a prefix.
    pub wildcard: bool,
}

/// The replicas that Keeper knows of a table (K08).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Target or candidate.
    pub table: String,
    /// This member's replica.
    pub own: String,
    /// `total_replicas`.
    pub total: u64,
    /// All of them.
    pub names: Vec<String>,
}

/// Settings that make a server refuse later steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// `max_table_size_to_drop` as it holds for the user; 0 = no limit.
    pub drop_bytes_max: u64,
    /// `check_table_dependencies`.
    pub checks_loading: bool,
    /// `check_referential_table_dependencies`.
    pub checks_references: bool,
}

/// What one member answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFacts {
    /// Who.
    pub server_uuid: ServerUuid,
    /// `version()`.
    pub server_version: String,
    /// Views and dictionaries whose text may name target or candidate.
    pub definitions: Vec<Definition>,
    /// Dictionaries without a CREATE.
    pub configured: Vec<ConfiguredDictionary>,
    /// Target and candidate, where there.
    pub tables: Vec<TableUse>,
    /// On target and candidate.
    pub policies: Vec<Policy>,
    /// See [`Grant`].
    pub grants: Vec<Grant>,
    /// Whatever has the candidate's replication path, the candidate included.
    pub same_path: Vec<TableName>,
    /// Of target and candidate, where there.
    pub replicas: Vec<ReplicaSet>,
    /// See [`Limits`].
    pub limits: Limits,
}

/// A read that gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRead {
    /// Host and port.
    pub endpoint: String,
    /// Why.
    pub failure: ReadFailure,
    /// The right that this read takes.
    pub needs: &'static str,
}

/// An entry of the DDL queue that some host has not finished.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Backlog {
    /// Its name.
    pub entry: String,
    /// A host that has not finished it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What it is there.
    pub state: EntryState,
    /// Since it was created.
    pub age_s: u64,
}

/// What an unfinished entry is on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryState {
    /// Begun.
    Active,
    /// Not begun, as far as the queue shows.
    Inactive,
    /// Anything else.
    Unclear,
}

impl EntryState {
    /// From the raw status.
    pub fn of(status: &str) -> Self {
        match status {
            "Active" => Self::Active,
            "Inactive" => Self::Inactive,
            _ => Self::Unclear,
        }
    }

    /// As in the queue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "Active",
            Self::Inactive => "Inactive",
            Self::Unclear => "in an unclear state",
        }
    }
}

/// What all members answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreflightAnswer {
    /// Every answer.
    pub members: Vec<MemberFacts>,
    /// Reads that gave nothing.
    pub failures: Vec<FailedRead>,
    /// Where the authority records are: rights on it are needed too.
    pub facade: TableName,
    /// Only if asked for.
    pub backlog: Vec<Backlog>,
}
