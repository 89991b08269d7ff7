//! A PublicationCluster that unresolved publications use is not deleted under them, and its endpoints do not become those
//! of other servers unnoticed: what uses it is named. Pure.

use super::conditions::Conditions;
use super::resolve::{holds, is_finished};
use crate::api::{ClusterPublication, ConditionType, ORPHAN_ANNOTATION, PublicationCluster};
use kube::ResourceExt;
use std::sync::Arc;

/// Publications named in one message.
const NAMED_MAX: usize = 10;

/// What is unresolved on a cluster, in the order of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InUse {
    users: Vec<User>,
    deleted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct User {
    name: String,
    /// the members that it is bound to, once it shows them.
    bound: Option<String>,
}

impl InUse {
    /// Those that were dispatched, or may be (C-14), and are not over. What the platform gave up (`orphan`) does not
    /// count, unless it is being deleted: that the platform lets it go is read from the cluster, which goes after it.
    pub(super) fn of(cluster: &PublicationCluster, publications: &[Arc<ClusterPublication>]) -> Self {
        let given_up = cluster.annotations().get(ORPHAN_ANNOTATION).map(String::as_str).unwrap_or_default();
        let given_up: Vec<&str> = given_up.split(',').map(str::trim).collect();
        let uses = |p: &&Arc<ClusterPublication>| {
            let status = p.status.as_ref();
            let listed =
                status.and_then(|s| s.operation_id.as_deref()).is_some_and(|id| given_up.contains(&id));
            let orphan = listed && p.metadata.deletion_timestamp.is_none();
            names(p, cluster) && holds(p) && !is_finished(p) && !orphan
        };
        let mut users: Vec<User> = publications
            .iter()
            .filter(uses)
            .map(|p| User {
                name: format!("{}/{}", p.namespace().unwrap_or_default(), p.name_any()),
                bound: p.status.as_ref().and_then(|s| s.inventory_digest.clone()),
            })
            .collect();
        users.sort();
        Self { users, deleted: cluster.metadata.deletion_timestamp.is_some() }
    }

    /// Nothing holds the cluster back.
    pub(super) fn is_free(&self) -> bool {
        self.users.is_empty()
    }

    /// What holds a deletion back; none = nothing does, or nobody asked.
    pub(super) fn deletion(&self) -> Option<String> {
        let held = self.deleted && !self.users.is_empty();
        held.then(|| format!("unresolved publications use it: {}", listed(self.users.iter())))
    }

    /// What is bound to other members than those that the endpoints reach now.
    fn elsewhere(&self, inventory: Option<&str>) -> Option<String> {
        let inventory = inventory?;
        let mut strangers = self
            .users
            .iter()
            .filter(|user| user.bound.as_deref().is_some_and(|bound| bound != inventory))
            .peekable();
        strangers.peek()?;
        Some(format!(
            "the endpoints reach other members than these are bound to: {}; nothing is dispatched for them; list the former members, or bind them to the new ones by verdict (Rebound)",
            listed(strangers)
        ))
    }

    /// `inventory`: digest of the one that the examination found, if it found one.
    pub(super) fn show(&self, c: &mut Conditions<'_>, inventory: Option<&str>) {
        const REASON: &str = "InUse";
        if let Some(text) = self.deletion() {
            c.set(ConditionType::DeletionBlocked, true, REASON, &text);
        }
        if let Some(text) = self.elsewhere(inventory) {
            c.set(ConditionType::RepointingBlocked, true, REASON, &text);
        }
    }
}

/// Whether a publication names this cluster.
pub(super) fn names(publication: &ClusterPublication, cluster: &PublicationCluster) -> bool {
    let own = publication.namespace().unwrap_or_default();
    let reference = &publication.spec.cluster_ref;
    reference.name == cluster.name_any()
        && Some(reference.namespace_or(&own)) == cluster.namespace().as_deref()
}

fn listed<'a>(users: impl Iterator<Item = &'a User>) -> String {
    let all: Vec<&str> = users.map(|user| user.name.as_str()).collect();
    let shown = all[..all.len().min(NAMED_MAX)].join(", ");
    let more = all.len().saturating_sub(NAMED_MAX);
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    fn cluster() -> PublicationCluster {
        let object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "PublicationCluster",
            "metadata": {"name": "analytics", "namespace": "platform"},
            "spec": {
                "clusterName": "main", "controlDatabase": "publication", "members": [],
                "auth": {"secretRef": {"name": "s"}},
            },
        });
        serde_json::from_value(object).unwrap()
    }

    fn deleted() -> PublicationCluster {
        let mut cluster = cluster();
        cluster.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
        cluster
    }

    fn publication(name: &str, at: &str, status: &Value) -> Arc<ClusterPublication> {
        let object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "ClusterPublication",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "clusterRef": {"name": "analytics", "namespace": at}, "database": "shop", "target": "orders",
                "candidate": "orders__pub_1", "rows": {"exact": 1},
            },
            "status": status,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn dispatched(name: &str, bound: &str) -> Arc<ClusterPublication> {
        let status = json!({"phase": "InProgress", "authorityVersion": 3, "inventoryDigest": bound, "operationId": name});
        publication(name, "platform", &status)
    }

    // proves: C-14
    #[test]
    fn only_what_may_have_been_dispatched_and_is_not_over_holds_a_deletion_back() {
        let blocked = json!({"phase": "InProgress", "authorityVersion": 3, "outcome": "Blocked"});
        let prepared = json!({"phase": "Prepared", "authorityVersion": 1});
        let all = [
            dispatched("b", "d"),
            publication("blocked", "platform", &blocked),
            publication("prepared", "platform", &prepared),
            publication("elsewhere", "other", &blocked),
            publication("waiting", "platform", &json!({})),
            publication("released", "platform", &json!({"phase": "Released", "authorityVersion": 2})),
            publication(
                "done",
                "platform",
                &json!({"phase": "Completed", "authorityVersion": 9, "outcome": "Succeeded"}),
            ),
        ];
        let held = InUse::of(&deleted(), &all).deletion().unwrap();
        assert_eq!(held, "unresolved publications use it: shop/b, shop/blocked, shop/prepared");
        assert_eq!(InUse::of(&cluster(), &all).deletion(), None, "nobody asked");
        assert!(InUse::of(&deleted(), &all[3..]).is_free());
        // The platform gave it up.
        let mut given_up = deleted();
        given_up.annotations_mut().insert(ORPHAN_ANNOTATION.to_owned(), "x, b".to_owned());
        assert!(InUse::of(&given_up, &all[..1]).is_free());
        // It is on its way out, by what the cluster says: the cluster goes after it.
        let mut going = all[0].as_ref().clone();
        going.metadata.deletion_timestamp = deleted().metadata.deletion_timestamp;
        assert!(!InUse::of(&given_up, &[Arc::new(going)]).is_free());
    }

    #[test]
    fn a_long_list_is_bounded() {
        let all: Vec<_> = (10..40).map(|n| dispatched(&format!("p{n}"), "d")).collect();
        let held = InUse::of(&deleted(), &all).deletion().unwrap();
        assert!(held.contains("shop/p19 and 20 more") && held.len() < 256, "{held}");
    }

    // proves: D-1, F
    #[test]
    fn those_bound_to_other_members_are_named_and_only_those() {
        let all = [dispatched("here", "d1"), dispatched("there", "d2")];
        let in_use = InUse::of(&cluster(), &all);
        let text = in_use.elsewhere(Some("d1")).unwrap();
        assert!(text.contains("shop/there") && !text.contains("shop/here"), "{text}");
        assert_eq!(in_use.elsewhere(None), None, "nothing was found, so nothing is claimed");
        assert_eq!(InUse::of(&cluster(), &all[..1]).elsewhere(Some("d1")), None);
    }
}
