//! The objects that most cases apply. They are JSON: a case changes what it is about before it applies them.

use serde_json::{Value, json};

use crate::cluster::{CLUSTER, PUBLISHER};
use crate::kubernetes::GROUP;

pub const PLATFORM: &str = "platform";
pub const CLUSTER_OBJECT: &str = "analytics";
pub const SECRET: &str = "ch-publisher";
pub const CONTROL_DATABASE: &str = "publication";

/// What one ClusterPublication asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Publication {
    pub namespace: String,
    pub name: String,
    pub database: String,
    pub target: String,
    pub candidate: String,
    pub rows: Value,
}

impl Publication {
    /// Of `<target>__pub_1`, with a row count that must be exact.
    pub fn new(namespace: &str, name: &str, database: &str, target: &str, rows: u64) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            database: database.to_owned(),
            target: target.to_owned(),
            candidate: format!("{target}__pub_1"),
            rows: json!({ "exact": rows }),
        }
    }

    pub fn candidate(mut self, candidate: &str) -> Self {
        self.candidate = candidate.to_owned();
        self
    }

    pub fn manifest(&self) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1alpha1"),
            "kind": "ClusterPublication",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "clusterRef": {"name": CLUSTER_OBJECT, "namespace": PLATFORM},
                "database": self.database,
                "target": self.target,
                "candidate": self.candidate,
                "rows": self.rows,
            },
        })
    }
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// The Secret that the PublicationCluster names: the operator's user with this password.
pub fn secret(password: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": PLATFORM},
        "stringData": {"username": PUBLISHER, "password": password},
    })
}

/// A PublicationCluster that lets every namespace publish databases called `shop…`.
pub fn publication_cluster(endpoints: &[String]) -> Value {
    let members: Vec<Value> = endpoints.iter().map(|endpoint| json!({ "endpoint": endpoint })).collect();
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "PublicationCluster",
        "metadata": {"name": CLUSTER_OBJECT, "namespace": PLATFORM},
        "spec": {
            "clusterName": CLUSTER,
            "controlDatabase": CONTROL_DATABASE,
            "members": members,
            "auth": {"secretRef": {"name": SECRET}},
            "access": [{
                "namespaces": {"from": "Selector", "selector": {"matchLabels": {}}},
                "databases": [{"prefix": "shop"}],
            }],
            "declare": {"noRetryingProxy": true},
        },
    })
}

/// A condition of an object's status by type.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}
