//! `spec.history.publicationTTLSeconds`: finished publications are removed. Unresolved ones stay, whatever it says.

use super::context::Context;
use super::resolve;
use crate::api::{ClusterPublication, PublicationCluster};
use kube::api::{DeleteParams, Preconditions};
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use std::time::Duration;

/// Longest time between two looks at a finished object; a look reads the cache and nothing else.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// Unresolved, going already, or kept for good.
    Stays,
    /// Its time has not come.
    In(Duration),
    /// Its time is over.
    Due,
}

fn expiry(object: &ClusterPublication, ttl_seconds: i64, now_seconds: i64) -> Expiry {
    let completed = object.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let (true, None, Some(completed)) =
        (resolve::is_finished(object), &object.metadata.deletion_timestamp, completed)
    else {
        return Expiry::Stays;
    };
    if ttl_seconds <= 0 {
        return Expiry::Stays;
    }
    let left = completed.0.as_second().saturating_add(ttl_seconds).saturating_sub(now_seconds);
    match u64::try_from(left) {
        Ok(left) if left > 0 => Expiry::In(Duration::from_secs(left)),
        _ => Expiry::Due,
    }
}

/// The TTL of a cluster, in seconds; 0 = finished objects are kept.
pub(super) fn ttl(cluster: &PublicationCluster) -> i64 {
    cluster.spec.history.publication_ttl_seconds
}

/// Removes a finished object whose time is over, or says when to look again. Nothing is asked or written before.
pub(super) async fn settle(object: &ClusterPublication, ctx: &Context) -> kube::Result<Action> {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let at = ObjectRef::new(&reference.name).within(reference.namespace_or(&own));
    // Without its cluster nobody says how long; the cluster's return is looked at.
    let Some(cluster) = ctx.clusters.get(&at) else { return Ok(Action::await_change()) };
    match expiry(object, ttl(&cluster), k8s_openapi::jiff::Timestamp::now().as_second()) {
        Expiry::Stays => Ok(Action::await_change()),
        Expiry::In(left) => Ok(Action::requeue(left.min(LOOK_EVERY_MAX))),
        Expiry::Due => remove(object, ctx, &own).await,
    }
}

async fn remove(object: &ClusterPublication, ctx: &Context, namespace: &str) -> kube::Result<Action> {
    // The UID makes it fail on a successor of the same name.
    let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    let api: Api<ClusterPublication> = Api::namespaced(ctx.client.clone(), namespace);
    match api.delete(&object.name_any(), &params).await {
        // Gone already, or another object by now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Action::await_change()),
        Err(error) => Err(error),
        Ok(_) => Ok(Action::await_change()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const DONE: i64 = 1_000_000;

    fn with(status: &Value) -> ClusterPublication {
        let object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "ClusterPublication",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "clusterRef": {"name": "analytics"}, "database": "shop", "target": "orders",
                "candidate": "orders__pub_1", "rows": {"exact": 1},
            },
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    /// At 1970-01-12T13:46:40Z.
    fn ended(outcome: &str) -> ClusterPublication {
        with(&json!({"outcome": outcome, "completionTime": "1970-01-12T13:46:40Z"}))
    }

    #[test]
    fn finished_objects_go_when_their_time_is_over_and_not_before() {
        for outcome in ["Succeeded", "Failed"] {
            let object = ended(outcome);
            assert_eq!(expiry(&object, 60, DONE), Expiry::In(Duration::from_secs(60)), "{outcome}");
            assert_eq!(expiry(&object, 60, DONE + 59), Expiry::In(Duration::from_secs(1)));
            assert_eq!(expiry(&object, 60, DONE + 60), Expiry::Due);
            assert_eq!(
                expiry(&object, i64::MAX, DONE + 1),
                Expiry::In(Duration::from_secs((i64::MAX - DONE - 1) as u64))
            );
        }
    }

    #[test]
    fn unresolved_objects_and_those_to_be_kept_stay_for_ever() {
        let late = DONE + 1_000_000_000;
        assert_eq!(expiry(&ended("Succeeded"), 0, late), Expiry::Stays, "0 keeps them");
        assert_eq!(expiry(&ended("Blocked"), 1, late), Expiry::Stays, "never a stalled one");
        assert_eq!(expiry(&with(&json!({"phase": "InProgress"})), 1, late), Expiry::Stays);
        assert_eq!(
            expiry(&with(&json!({"outcome": "Succeeded"})), 1, late),
            Expiry::Stays,
            "nobody knows since when"
        );
        let mut going = ended("Failed");
        going.metadata.deletion_timestamp = going.status.as_ref().and_then(|s| s.completion_time.clone());
        assert_eq!(expiry(&going, 1, late), Expiry::Stays, "going already");
    }
}
