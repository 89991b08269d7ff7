//! `ClusterPublication`: one operation on one target, like a Job.

// Clippy compares the arguments of all printcolumn(...) lists with each other.
#![allow(clippy::duplicated_attributes)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::publication_status::ClusterPublicationStatus;
use super::rules;

/// One publication. Immutable: to try again, create another object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "clickhouse.dpone.dev",
    version = "v1alpha1",
    kind = "ClusterPublication",
    plural = "clusterpublications",
    shortname = "cpub",
    category = "publication",
    namespaced,
    status = "ClusterPublicationStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "One publication: replaces what a table name points to by a fully built and replicated candidate, on every replica of one ClickHouse cluster. Runs once, like a Job.",
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Outcome", type_ = "string", json_path = ".status.outcome"),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.replicasCommitted"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Classification",
        type_ = "string",
        json_path = ".status.classification",
        priority = 1
    ),
    printcolumn(name = "Operation", type_ = "string", json_path = ".status.operationId", priority = 1),
    printcolumn(name = "Entry", type_ = "string", json_path = ".status.publication.entry", priority = 1),
    printcolumn(name = "Error", type_ = "string", json_path = ".status.error.code", priority = 1)
)]
#[x_kube(validation = rules::immutable("spec", "create a new ClusterPublication with the changed values"))]
#[x_kube(validation = Rule::new("self.candidate.startsWith(self.target + '__pub_')").field_path(".candidate").message(
    "candidate: must begin with the target's name followed by '__pub_' (A-8): build the new table as TARGET__pub_SUFFIX"
))]
#[x_kube(validation = Rule::new(
    "!self.candidate.startsWith(self.target + '__pub_') || self.candidate.substring(size(self.target) + 6).matches('^[\\\\p{L}\\\\p{N}]')"
).field_path(".candidate").message(
    "candidate: the suffix after '__pub_' must begin with a letter or a digit (A-8): use for example a date or a counter"
))]
pub struct ClusterPublicationSpec {
    /// The PublicationCluster to publish on.
    pub cluster_ref: ClusterRef,
    /// Database of both tables.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = rules::printable("database"))]
    pub database: String,
    /// Name under which the data is read. It need not exist yet.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = rules::printable("target"))]
    #[x_kube(validation = Rule::new("!self.contains('__pub_') && !self.contains('__retired_')").message(
        "target: must contain neither '__pub_' nor '__retired_' (A-8), which mark candidates and retired tables: name the published table itself"
    ))]
    pub target: String,
    /// Fully built table that takes the target's place: `<target>__pub_<suffix>`, each name used once.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = rules::printable("candidate"))]
    pub candidate: String,
    /// Number of rows the candidate must have on every replica: `exact`, or `min` and `max` of which one may be
    /// left out. `{exact: 0}` says that empty is meant.
    pub rows: RowExpectation,
    /// Identity of the run that asks, for example of a scheduler. Objects with the same identity, plan and
    /// target are one operation, performed once. The object's UID when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = rules::printable("invocationId"))]
    pub invocation_id: Option<String>,
    /// Seconds after creation after which a publication that was never dispatched fails instead of waiting on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub admission_deadline_seconds: Option<i64>,
}

/// A PublicationCluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRef {
    /// Name of the PublicationCluster.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; the namespace of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Number of rows: `exact`, or bounds of which one may be left out. `exact: 0` says that empty is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.exact) != (has(self.min) || has(self.max))").message(
    "rows: give either exact or bounds (min, max), not both and not nothing: use {exact: 0} if an empty table is meant"
))]
#[x_kube(validation = Rule::new("!has(self.min) || !has(self.max) || self.min <= self.max").message(
    "rows: min must not be greater than max: swap or correct the bounds"
))]
pub struct RowExpectation {
    /// Exactly this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub exact: Option<i64>,
    /// At least this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min: Option<i64>,
    /// At most this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max: Option<i64>,
}

impl ClusterRef {
    /// The namespace meant, for a publication in `own_namespace`.
    pub fn namespace_or<'a>(&'a self, own_namespace: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(own_namespace)
    }
}

impl RowExpectation {
    /// Inclusive bounds, the upper one optional; `None` when the object breaks the schema's rules, which an
    /// object stored under an older schema can.
    pub fn bounds(&self) -> Option<(u64, Option<u64>)> {
        let unsigned = |value: Option<i64>| value.map(u64::try_from).transpose().ok();
        match (unsigned(self.exact)?, unsigned(self.min)?, unsigned(self.max)?) {
            (Some(exact), None, None) => Some((exact, Some(exact))),
            (None, Some(min), max) if max.is_none_or(|max| min <= max) => Some((min, max)),
            (None, None, Some(max)) => Some((0, Some(max))),
            _ => None,
        }
    }
}
