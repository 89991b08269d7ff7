//! Status of a `ClusterPublication`: a bounded projection of evidence. It decides nothing.
//!
//! Phases, classifications and states are plain strings (values in [`crate::api::vocabulary`]): an older
//! operator must be able to read an object that a newer one wrote.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::ErrorStatus;

/// What became of the publication.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPublicationStatus {
    /// Generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Succeeded` and `Failed` are final; `Blocked` is fail-closed and may still change. Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Phase of the operation's authority record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase: Option<String>,
    /// What the evidence of the last observation means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub classification: Option<String>,
    /// Why the classification is unknown or blocked, or a statement in progress does not progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub cause: Option<String>,
    /// Identity of the operation, stable across restarts and retries of the same intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub operation_id: Option<String>,
    /// Digest of the evidence, which a PublicationVerdict must quote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub evidence_digest: Option<String>,
    /// Digest of the inventory the operation is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub inventory_digest: Option<String>,
    /// Number of dispatches of this operation so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_epoch: Option<i64>,
    /// Keeper root of the facade that holds the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub facade_root: Option<String>,
    /// Newest `_version` of the record seen; with `facadeRoot` the witness against a lost authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_version: Option<i64>,
    /// Generation that the target named before. Absent when the target did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<GenerationStatus>,
    /// Generation that the target is to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<GenerationStatus>,
    /// Statement that publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<StatementStatus>,
    /// Latest statement of the cleanup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<StatementStatus>,
    /// Replicas on which the publication is committed, of all, as `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub replicas_committed: Option<String>,
    /// Evidence by replica, ordered by replica number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub replicas: Vec<ReplicaStatus>,
    /// Why the publication waits, is blocked or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorStatus>,
    /// When the operator first saw the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the publishing statement was dispatched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch_time: Option<Time>,
    /// When the outcome became final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// `Admitted`, `CandidateConverged`, `SlotAcquired`, `Dispatched`, `ReplicasCommitted`, `CleanedUp`, `Succeeded`,
    /// and `Ready`, `Reconciling`, `Stalled` (the last two only while true).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// How a publication ended, or that it cannot go on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Outcome {
    /// The target names the desired generation on every replica and the predecessor is gone. Final.
    Succeeded,
    /// The publication did not and will not take place. Final.
    Failed,
    /// Fail-closed: nothing more is done until the evidence changes or a person decides.
    Blocked,
}

/// Identity of one generation of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationStatus {
    /// UUID of the table.
    #[schemars(length(max = 64))]
    pub uuid: String,
    /// Digest of its UUID, engine, schema and replication path.
    #[schemars(length(max = 128))]
    pub digest: String,
}

/// One distributed statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatementStatus {
    /// What it does: `Publish`, `Retire` (rename the predecessor away) or `Drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub action: Option<String>,
    /// Its entry in the distributed DDL queue, once bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub entry: Option<String>,
    /// Digest of its normalised query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub query_digest: Option<String>,
    /// Its result over all replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub result: Option<String>,
}

/// Evidence on one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Replica number.
    pub replica: i64,
    /// Host name in `system.clusters`.
    #[schemars(length(max = 256))]
    pub host: String,
    /// Native port in `system.clusters`.
    pub port: i32,
    /// Which generations the names have on this replica.
    #[schemars(length(max = 64))]
    pub state: String,
    /// Result of the publishing statement on this replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub statement: Option<String>,
    /// Error code of ClickHouse, when the publishing statement failed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception_code: Option<i32>,
    /// What became of the latest statement of the cleanup here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<ReplicaStatementStatus>,
    /// What is wrong on this replica, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub message: Option<String>,
}

/// A statement of the cleanup on one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatementStatus {
    /// `Retire` (rename the predecessor away) or `Drop`.
    #[schemars(length(max = 64))]
    pub action: String,
    /// Its result on this replica.
    #[schemars(length(max = 64))]
    pub result: String,
    /// Error code of ClickHouse, when it failed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exception_code: Option<i32>,
}
