//! How receipts lie in Kubernetes: a ConfigMap for each, and one that lists them, so that nobody has to list ConfigMaps.

use crate::api::GROUP;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use publication_protocol::canonical::{Canonical, Digest};
use publication_protocol::receipt::Document;
use serde_json::{Value, json};

/// Where the document is in its ConfigMap.
pub const DOCUMENT_KEY: &str = "receipt.json";
/// Where the names are in the list, oldest first, one a line.
pub const LIST_KEY: &str = "receipts";
const PREFIX: &str = "publication-receipt";

/// On every receipt, with the value `receipt`: for those who may list ConfigMaps.
pub fn label() -> String {
    format!("{GROUP}/kind")
}

/// Namespace and name of the publication that a receipt is of.
pub fn publication_annotation() -> String {
    format!("{GROUP}/publication")
}

/// Name of the ConfigMap of an operation's receipt.
pub fn name(operation: &Digest) -> String {
    format!("{PREFIX}-{}", &operation.to_string()[..24])
}

/// Name of the list of a PublicationCluster's receipts; its own name may be as long as a name can be.
pub fn list_name(cluster: &str) -> String {
    let digest = Canonical::new("receipt-list/v1").text(cluster).digest();
    format!("{PREFIX}s-{}", digest.short())
}

/// The ConfigMap to apply.
pub fn config_map(document: &Document) -> Value {
    let owner = &document.account.owner;
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name(&document.account.operation),
            "labels": {label(): "receipt"},
            "annotations": {
                publication_annotation(): format!("{}/{}", owner.namespace, owner.name),
                format!("{GROUP}/publication-cluster"): document.publication_cluster,
                format!("{GROUP}/operation"): document.account.operation,
            },
        },
        "data": {DOCUMENT_KEY: document.to_json()},
    })
}

/// The document in a ConfigMap; none = there is none that can be read.
pub fn document(found: &ConfigMap) -> Option<Document> {
    Document::parse(found.data.as_ref()?.get(DOCUMENT_KEY)?).ok()
}

/// Names in a list.
pub fn listed(found: Option<&ConfigMap>) -> Vec<String> {
    let text = found.and_then(|list| list.data.as_ref()?.get(LIST_KEY));
    text.into_iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// The list to apply, over the version that it was read at.
pub fn list(cluster: &str, names: &[String], over: Option<&ConfigMap>) -> Value {
    let mut list = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": list_name(cluster),
            "labels": {label(): "receipts"},
            "annotations": {format!("{GROUP}/publication-cluster"): cluster},
        },
        "data": {LIST_KEY: names.join("\n")},
    });
    if let Some(version) = over.and_then(ResourceExt::resource_version) {
        list["metadata"]["resourceVersion"] = version.into();
    }
    list
}

/// What the list becomes, and what is over the limit.
pub fn with(mut names: Vec<String>, new: &str, max: usize) -> (Vec<String>, Vec<String>) {
    // What was written last goes last: a stalled operation's receipt is not the oldest one.
    names.retain(|name| name != new);
    names.push(new.to_owned());
    let surplus = names.len().saturating_sub(max);
    let dropped = names.drain(..surplus).collect();
    (names, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(with(vec![], "a", 2), (names(&["a"]), vec![]));
        assert_eq!(with(names(&["a", "b"]), "c", 2), (names(&["b", "c"]), names(&["a"])));
        assert_eq!(with(names(&["a", "b"]), "a", 2), (names(&["b", "a"]), vec![]));
        // The platform lowered the limit.
        assert_eq!(with(names(&["a", "b", "c"]), "d", 1), (names(&["d"]), names(&["a", "b", "c"])));
    }

    #[test]
    fn names_are_names_of_config_maps() {
        let operation = Digest::of_bytes(b"x");
        for name in [name(&operation), list_name(&"c".repeat(253))] {
            assert!(
                name.len() <= 63
                    && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
        }
        assert_ne!(list_name("a"), list_name("b"));
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let names = vec!["a".to_owned(), "b".to_owned()];
        let found: ConfigMap = serde_json::from_value(list("analytics", &names, None)).unwrap();
        assert_eq!(listed(Some(&found)), names);
        assert_eq!(listed(None), Vec::<String>::new());
    }
}
