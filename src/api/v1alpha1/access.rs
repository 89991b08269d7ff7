//! Who may publish into which databases: pairs, not a product of two lists.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use kube::core::{Selector, SelectorExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// These namespaces may publish these databases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// Namespaces whose ClusterPublications this rule admits; only this PublicationCluster's own when absent.
    #[serde(default, skip_serializing_if = "NamespacePolicy::is_default")]
    pub namespaces: NamespacePolicy,
    /// Databases this rule opens to them.
    #[schemars(length(min = 1, max = 64))]
    pub databases: Vec<DatabasePattern>,
}

/// Which namespaces an access rule admits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.from == 'Selector') == has(self.selector)").message(
    "namespaces: selector goes with from: Selector and with nothing else: set both, or neither for the namespace of this PublicationCluster"
))]
pub struct NamespacePolicy {
    /// `Same` admits the namespace of this PublicationCluster, `Selector` those whose labels match.
    #[serde(default)]
    pub from: NamespaceFrom,
    /// Label selector on namespaces, with `from: Selector`. An empty selector matches every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Where the admitted namespaces come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespaceFrom {
    /// The namespace of the PublicationCluster.
    #[default]
    Same,
    /// Every namespace whose labels match.
    Selector,
}

/// One database, or all whose name begins with a prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.name) != has(self.prefix)").message(
    "databases: each item has exactly one of name and prefix: split it into two items, or remove one"
))]
pub struct DatabasePattern {
    /// The database of exactly this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name: Option<String>,
    /// Every database whose name begins with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub prefix: Option<String>,
}

impl AccessRule {
    /// Whether a publication from `namespace` (with these labels) may publish `database`, for a
    /// PublicationCluster in `own_namespace`.
    pub fn admits(
        &self,
        own_namespace: &str,
        namespace: &str,
        namespace_labels: &BTreeMap<String, String>,
        database: &str,
    ) -> bool {
        self.namespaces.matches(own_namespace, namespace, namespace_labels)
            && self.databases.iter().any(|pattern| pattern.matches(database))
    }
}

impl NamespacePolicy {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the answer depends on the labels of the namespace, which take a read of their own.
    pub fn needs_labels(&self) -> bool {
        self.from == NamespaceFrom::Selector
    }

    fn matches(&self, own_namespace: &str, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        match (self.from, &self.selector) {
            (NamespaceFrom::Same, _) => own_namespace == namespace,
            // A selector that cannot be read admits nobody.
            (NamespaceFrom::Selector, Some(selector)) => {
                Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
            }
            (NamespaceFrom::Selector, None) => false,
        }
    }
}

impl DatabasePattern {
    /// Exactly one of the two fields decides; with none or both, nothing matches.
    pub fn matches(&self, database: &str) -> bool {
        match (&self.name, &self.prefix) {
            (Some(name), None) => name == database,
            (None, Some(prefix)) => !prefix.is_empty() && database.starts_with(prefix.as_str()),
            (None, None) | (Some(_), Some(_)) => false,
        }
    }
}
