//! Our kinds, read as plain JSON: what a user sees, not what our types make of it.

use std::sync::PoisonError;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, WatchEvent};
use kube::api::{PostParams, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::ControlPlane;
use crate::error::{Context, Result};
use crate::poll::{Seen, eventually};

pub const GROUP: &str = "clickhouse.dpone.dev";
const VERSION: &str = "v1alpha1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Publication,
    Cluster,
    Verdict,
}

impl Kind {
    fn resource(self) -> ApiResource {
        let (kind, plural) = match self {
            Self::Publication => ("ClusterPublication", "clusterpublications"),
            Self::Cluster => ("PublicationCluster", "publicationclusters"),
            Self::Verdict => ("PublicationVerdict", "publicationverdicts"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind), plural)
    }
}

impl ControlPlane {
    pub fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client(), namespace, &kind.resource())
    }

    pub async fn object(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>> {
        let what = format!("get {kind:?} {namespace}/{name}");
        let found = self.api(kind, namespace).get_opt(name).await.context(what.clone())?;
        found.map(|object| serde_json::to_value(object).context(what)).transpose()
    }

    /// Creates from JSON (with `generateName` if it says so) and gives the object as stored.
    pub async fn create(&self, kind: Kind, namespace: &str, object: Value) -> Result<Value> {
        let what = format!("create {kind:?} in {namespace}");
        let object: DynamicObject = serde_json::from_value(object).context(what.clone())?;
        let made = self.api(kind, namespace).create(&PostParams::default(), &object).await;
        serde_json::to_value(made.context(what.clone())?).context(what)
    }

    pub async fn merge_patch(&self, kind: Kind, namespace: &str, name: &str, patch: &Value) -> Result<()> {
        let api = self.api(kind, namespace);
        let what = format!("patch {kind:?} {namespace}/{name}");
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ()).context(what)
    }

    /// Asks for deletion; `wait_gone` tells when finalizers are through.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) -> Result<()> {
        let api = self.api(kind, namespace);
        let what = format!("delete {kind:?} {namespace}/{name}");
        api.delete(name, &DeleteParams::default()).await.map(|_| ()).context(what)
    }

    pub async fn wait_gone(&self, kind: Kind, namespace: &str, name: &str, within: Duration) -> Result<()> {
        eventually(within, &format!("{kind:?} {namespace}/{name} is gone"), || async {
            let found = self.object(kind, namespace, name).await?;
            Ok(found.map_or(Seen::Done(()), |object| Seen::not_yet(&object["status"])))
        })
        .await
    }

    /// Polls until `found` gives a value; a failure prints the last status.
    pub async fn wait_for<T>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        within: Duration,
        what: &str,
        found: impl FnMut(&Value) -> Option<T> + Send,
    ) -> Result<T> {
        let what = format!("{kind:?} {namespace}/{name}: {what}");
        // Each look borrows the closure only after its answer is there.
        let found = std::sync::Mutex::new(found);
        eventually(within, &what, || async {
            let Some(object) = self.object(kind, namespace, name).await? else {
                return Ok(Seen::not_yet("no such object"));
            };
            let hit = (*found.lock().unwrap_or_else(PoisonError::into_inner))(&object);
            Ok(hit.map_or_else(|| Seen::not_yet(&object["status"]), Seen::Done))
        })
        .await
    }

    /// Each state of one object from now on, as the API server tells it: no state is missed.
    pub async fn watch(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<BoxStream<'static, Result<Value>>> {
        let params = WatchParams::default().fields(&format!("metadata.name={name}")).timeout(290);
        let api = self.api(kind, namespace);
        let stream = api.watch(&params, "0").await.context(format!("watch {kind:?}"))?;
        Ok(stream
            .filter_map(|event| async {
                match event {
                    Ok(WatchEvent::Added(o) | WatchEvent::Modified(o) | WatchEvent::Deleted(o)) => {
                        let what = format!("watched {}", o.name_any());
                        Some(serde_json::to_value(o).context(what))
                    }
                    Ok(WatchEvent::Bookmark(_)) => None,
                    Ok(WatchEvent::Error(e)) => Some(Err(e).context("watch")),
                    Err(e) => Some(Err(e).context("watch")),
                }
            })
            .boxed())
    }
}
