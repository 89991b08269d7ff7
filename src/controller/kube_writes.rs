//! Writes to our own objects. Each may be repeated or lost without harm: none decides anything.
//!
//! A status is written over the object as it was read and over nothing newer: a worker that lags behind must not take
//! back the witness of another one (C-14) or the root of a facade (B-6), nor call an operation failed that was dispatched
//! meanwhile.

use crate::api::{ClusterPublication, FINALIZER, IN_USE_FINALIZER, PublicationCluster};
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) const MANAGER: &str = "publication-operator";

/// Version of an object as a pass has read it, or written it last.
#[derive(Debug, Clone, Default)]
pub(super) struct Version(Arc<Mutex<Option<String>>>);

impl Version {
    pub(super) fn of<K: Resource>(object: &K) -> Self {
        Self(Arc::new(Mutex::new(object.resource_version())))
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, version: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }
}

/// Server-side apply of a whole status: fields that are no longer said disappear. Over this version only; a conflict
/// means that there is something newer to look at.
pub(super) async fn apply_status_over<K, S>(
    client: &Client,
    object: &K,
    status: &S,
    version: &Version,
) -> kube::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    S: Serialize,
{
    let written = write_status(client, object, status, version.get()).await?;
    version.set(written);
    Ok(())
}

async fn write_status<K, S>(
    client: &Client,
    object: &K,
    status: &S,
    over: Option<String>,
) -> kube::Result<Option<String>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    S: Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let mut patch = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // The UID makes a write to a successor of the same name fail.
        "metadata": {"name": object.name_any(), "uid": object.uid()},
        "status": status,
    });
    if let Some(version) = over {
        patch["metadata"]["resourceVersion"] = version.into();
    }
    let params = PatchParams::apply(MANAGER).force();
    let written = api.patch_status(&object.name_any(), &params, &Patch::Apply(&patch)).await?;
    Ok(written.resource_version())
}

/// A kind that we put a finalizer on.
pub(super) trait Guarded: Resource<Scope = NamespaceResourceScope, DynamicType = ()> {
    const FINALIZER: &'static str;
}

impl Guarded for ClusterPublication {
    const FINALIZER: &'static str = FINALIZER;
}

impl Guarded for PublicationCluster {
    const FINALIZER: &'static str = IN_USE_FINALIZER;
}

/// Whether our finalizer is there.
pub(super) fn has_finalizer<K: Guarded>(object: &K) -> bool {
    object.finalizers().iter().any(|f| f == K::FINALIZER)
}

/// What happens to our finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finalizer {
    Add,
    Remove,
}

/// Adds or removes our finalizer, keeping everybody else's: a list of finalizers can only be replaced as a whole, so it
/// is written over the version that it was read from, and over nothing newer. A conflict means that the object is
/// looked at again.
///
/// `version`: as the pass has read the object, or as it wrote it itself over what it had read.
pub(super) async fn set_finalizer<K>(
    client: &Client,
    object: &K,
    what: Finalizer,
    version: &Version,
) -> kube::Result<()>
where
    K: Guarded + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut finalizers: Vec<&str> =
        object.finalizers().iter().map(String::as_str).filter(|f| *f != K::FINALIZER).collect();
    if what == Finalizer::Add {
        finalizers.push(K::FINALIZER);
    }
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let over = version.get().or_else(|| object.resource_version());
    let patch = json!({"metadata": {"finalizers": finalizers, "uid": object.uid(), "resourceVersion": over}});
    match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await {
        // Gone already: that is what removing the finalizer was for.
        Err(kube::Error::Api(status)) if status.code == 404 && what == Finalizer::Remove => Ok(()),
        Err(error) => Err(error),
        Ok(written) => {
            version.set(written.resource_version());
            Ok(())
        }
    }
}

#[cfg(test)]
#[path = "kube_writes_tests.rs"]
mod tests;
