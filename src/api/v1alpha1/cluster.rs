//! `PublicationCluster`: how to reach one existing ClickHouse cluster, and who may publish what there.

// Clippy compares the arguments of all printcolumn(...) lists with each other.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::AccessRule;
use super::common::SecretRef;
use super::rules;

/// How to reach one existing ClickHouse cluster and who may publish there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "clickhouse.dpone.dev",
    version = "v1alpha1",
    kind = "PublicationCluster",
    plural = "publicationclusters",
    shortname = "pubc",
    category = "publication",
    namespaced,
    status = "PublicationClusterStatus",
    derive = "PartialEq",
    doc = "How to reach one existing ClickHouse cluster, and who may publish what there. Written by the platform team.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Control-DB", type_ = "string", json_path = ".spec.controlDatabase", priority = 1),
    printcolumn(name = "Root", type_ = "string", json_path = ".status.facadeRoot", priority = 1)
)]
#[x_kube(validation = Rule::new("!has(self.tls) || self.members.all(m, m.endpoint.startsWith('https://'))").message(
    "members: every endpoint must use https:// when spec.tls is set: change the endpoints, or remove spec.tls"
))]
pub struct PublicationClusterSpec {
    /// Name of the cluster in `system.clusters`. Immutable.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = rules::printable("clusterName"))]
    #[x_kube(validation = rules::immutable("clusterName", "create another PublicationCluster for another cluster"))]
    pub cluster_name: String,
    /// Existing `Atomic` database that holds the operator's KeeperMap facade. Immutable.
    #[schemars(length(min = 1, max = 200))]
    #[x_kube(validation = rules::printable("controlDatabase"))]
    #[x_kube(validation = rules::immutable("controlDatabase", "the facade and its records stay where they are"))]
    pub control_database: String,
    /// The servers of the cluster, one endpoint each. Clusters of fewer than two are answered UNSUPPORTED_TOPOLOGY.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["endpoint".into()]))]
    pub members: Vec<Member>,
    /// Credentials of the operator on these servers.
    pub auth: Auth,
    /// TLS towards the servers. Without `caRef` an https endpoint's certificate must come from a public authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Who may publish what: pairs of namespaces and databases. Empty: nobody may publish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub access: Vec<AccessRule>,
    /// Risks the platform takes knowingly, by kind.
    #[serde(default, skip_serializing_if = "Accept::is_empty")]
    pub accept: Accept,
    /// How long finished objects are kept. Unresolved ones are kept in any case.
    #[serde(default, skip_serializing_if = "History::is_default")]
    pub history: History,
    /// Longest time one statement may take, in seconds.
    #[serde(default = "statement_timeout_seconds_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub statement_timeout_seconds: i64,
    /// What the platform vouches for because no catalog can show it.
    #[serde(default, skip_serializing_if = "Declare::is_empty")]
    pub declare: Declare,
    /// Root id of a facade whose records are lost for good, as named by an AUTHORITY_LOST error. The
    /// unresolved publications that relied on it then end Failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub accept_authority_loss: String,
    /// True: nothing new is dispatched, for example during a ClickHouse upgrade. What is in flight is still resolved.
    #[serde(default)]
    pub suspend: bool,
}

/// One server of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// URL of the server's HTTP interface, `https://HOST:PORT`. It reaches one server, always the same, never a load balancer.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(validation = rules::endpoint::scheme())]
    #[x_kube(validation = rules::endpoint::userinfo())]
    #[x_kube(validation = rules::endpoint::query_or_fragment())]
    #[x_kube(validation = rules::endpoint::host_and_port())]
    pub endpoint: String,
}

/// Credentials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// Secret in the same namespace with the keys `username` and `password`. Read when needed, never cached.
    pub secret_ref: SecretRef,
}

/// TLS towards the servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Certificate authority that signed the servers' certificates; the only one that is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_ref: Option<CaRef>,
    /// Secret in the same namespace with the keys `tls.crt` and `tls.key`: the operator's client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<SecretRef>,
}

/// A PEM bundle in a ConfigMap or Secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// Kind of the object that holds the bundle.
    #[serde(default)]
    pub kind: CaRefKind,
    /// Name of that object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key of the bundle in that object.
    #[serde(default = "ca_key_default")]
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Kind of the object that holds a CA bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CaRefKind {
    /// A ConfigMap.
    #[default]
    ConfigMap,
    /// A Secret.
    Secret,
}

/// Risks the platform takes knowingly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accept {
    /// Kinds of objects that may depend on a target or candidate without blocking its publication.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub dependents: Vec<DependentKind>,
    /// ClickHouse versions outside the tested range that are accepted all the same, as `MAJOR.MINOR`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 3, max = 32), regex(pattern = r"^[0-9]+\.[0-9]+(\.[0-9]+)*$"))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub untested_versions: Vec<String>,
}

/// Kind of an object that depends on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum DependentKind {
    /// A materialized view that reads from or writes to the table.
    MaterializedView,
    /// A plain view over the table.
    View,
    /// A dictionary whose source is the table.
    Dictionary,
    /// A row policy on the table.
    RowPolicy,
    /// A grant on columns of the table.
    ColumnGrant,
}

/// Retention of finished objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Seconds after which a finished ClusterPublication is removed; 0 keeps them. Stalled ones stay.
    #[serde(rename = "publicationTTLSeconds", default = "publication_ttl_seconds_default")]
    #[schemars(range(min = 0, max = 315_360_000))]
    pub publication_ttl_seconds: i64,
    /// Number of receipts kept in the namespace of this PublicationCluster.
    #[serde(default = "receipts_max_default")]
    #[schemars(range(min = 0, max = 10_000))]
    pub receipts_max: i64,
}

/// What the platform vouches for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Declare {
    /// The cluster has `internal_replication` on. Counts only where the server version cannot show it (B-1).
    #[serde(default)]
    pub internal_replication: bool,
    /// No proxy or service mesh between the operator and the servers repeats a request by itself.
    #[serde(default)]
    pub no_retrying_proxy: bool,
}

/// What the last probe of the cluster found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublicationClusterStatus {
    /// Generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Keeper root of the facade, ending in the id drawn at its bootstrap. Another one is drawn only after `acceptAuthorityLoss`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub facade_root: Option<String>,
    /// The members as the cluster itself lists them, by replica number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub members: Vec<MemberStatus>,
    /// Digest of the inventory all members agree on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub inventory_digest: Option<String>,
    /// `Ready` (a publication would be admitted; else the member and the rule it fails), `FacadeReady`, `Suspended`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// One member as observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Replica number in `system.clusters`.
    pub replica: i64,
    /// Host name in `system.clusters`.
    #[schemars(length(max = 256))]
    pub host: String,
    /// Native port in `system.clusters`.
    pub port: i32,
    /// `serverUUID()` of the server that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub server_uuid: Option<String>,
    /// Version of the server that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub server_version: Option<String>,
    /// Whether it answered the last probe.
    #[serde(default)]
    pub reachable: bool,
}

fn statement_timeout_seconds_default() -> i64 {
    180
}

fn ca_key_default() -> String {
    "ca.crt".to_owned()
}

fn publication_ttl_seconds_default() -> i64 {
    604_800
}

fn receipts_max_default() -> i64 {
    200
}

impl Default for History {
    fn default() -> Self {
        Self {
            publication_ttl_seconds: publication_ttl_seconds_default(),
            receipts_max: receipts_max_default(),
        }
    }
}

impl History {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Accept {
    fn is_empty(&self) -> bool {
        self.dependents.is_empty() && self.untested_versions.is_empty()
    }
}

impl Declare {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
