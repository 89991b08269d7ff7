//! `PublicationVerdict`: a person's decision on a slot that cannot go on by itself (protocol J).

// Clippy compares the arguments of all printcolumn(...) lists with each other.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::LocalClusterRef;
use super::rules;

/// A decision on the slot of one target. It names the slot, not the publication object. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "clickhouse.dpone.dev",
    version = "v1alpha1",
    kind = "PublicationVerdict",
    plural = "publicationverdicts",
    shortname = "pubv",
    category = "publication",
    namespaced,
    status = "PublicationVerdictStatus",
    derive = "PartialEq",
    doc = "A person's decision on a publication that cannot go on by itself. It takes effect only if the evidence it quotes still holds, and sends no statement.",
    printcolumn(name = "Decision", type_ = "string", json_path = ".spec.decision"),
    printcolumn(name = "Database", type_ = "string", json_path = ".spec.database"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target"),
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Applied")].status"#
    ),
    printcolumn(
        name = "Refused",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Refused")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Operation", type_ = "string", json_path = ".spec.operationId", priority = 1)
)]
#[x_kube(validation = rules::immutable("spec", "create a new PublicationVerdict with the changed values"))]
#[x_kube(validation = Rule::new(
    "has(self.database) == has(self.target) && has(self.target) == has(self.operationId)"
).message(
    "spec: database, target and operationId name the slot together: give all three, or none (Rebound only)"
))]
#[x_kube(validation = Rule::new("self.decision == 'Rebound' || has(self.database) || has(self.target) || has(self.operationId)").message(
    "spec: every decision but Rebound needs database, target and operationId (J-1): copy them from the publication's status"
))]
#[x_kube(validation = Rule::new("(self.decision == 'NameCleared') == has(self.name)").field_path(".name").message(
    "name: goes with decision NameCleared and with nothing else (J-3): give the fenced name, or remove it"
))]
#[x_kube(validation = Rule::new("(self.decision == 'Rebound') == has(self.inventoryDigest)").field_path(".inventoryDigest").message(
    "inventoryDigest: goes with decision Rebound and with nothing else (J-4): give the new inventory's digest, or remove it"
))]
pub struct PublicationVerdictSpec {
    /// The PublicationCluster, in the same namespace.
    pub cluster_ref: LocalClusterRef,
    /// Database of the target. With `target` and `operationId`, or none of them (Rebound of the cluster alone).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub database: Option<String>,
    /// Target whose slot is decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub target: Option<String>,
    /// Operation that holds the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub operation_id: Option<String>,
    /// The decision.
    pub decision: Decision,
    /// The fenced table name that is clear again (NameCleared).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name: Option<String>,
    /// Digest of the inventory that takes the old one's place (Rebound).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = rules::digest("inventoryDigest", "the PublicationCluster's status"))]
    pub inventory_digest: Option<String>,
    /// Digest of the evidence the decision rests on. The verdict is refused as VERDICT_STALE when it no longer holds.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = rules::digest("evidenceDigest", "the publication's status or from `inspect`"))]
    pub evidence_digest: String,
    /// Why, for those who read the receipt later.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Decision {
    /// The publication took place: every target is the desired generation (J-2).
    Committed,
    /// The publication did not take place and never will (J-2).
    NotApplied,
    /// No late statement can touch the fenced name any more (J-3).
    NameCleared,
    /// Members were replaced, added or removed for good (J-4).
    Rebound,
    /// The tables are the same, only their textual digests differ (J-5).
    Rebaselined,
}

/// What became of the verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublicationVerdictStatus {
    /// Generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Applied` or `Refused`, with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}
