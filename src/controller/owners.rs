//! What the protocol asks of Kubernetes: the witness (C-14) and whether an owner is gone (C-11).

use super::kube_writes::{Version, apply_status_over};
use super::status;
use crate::api::ClusterPublication;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt};
use publication_protocol::identity::RootId;
use publication_protocol::ports::Owners;
use publication_protocol::record::Owner;
use std::sync::Arc;

/// Serves one pass over one object.
#[derive(Clone)]
pub(super) struct ObjectOwners {
    pub(super) client: Client,
    pub(super) object: Arc<ClusterPublication>,
    pub(super) operation: String,
    pub(super) version: Version,
    pub(super) now: fn() -> Time,
}

impl Owners for ObjectOwners {
    async fn witness(&self, root: RootId, version: u64) -> bool {
        let old = self.object.status.clone().unwrap_or_default();
        let facts = (self.object.metadata.generation, self.operation.as_str(), root, version);
        let shown = status::witness(&old, facts, &(self.now)());
        match apply_status_over(&self.client, self.object.as_ref(), &shown, &self.version).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(name = self.object.name_any(), error = %error, "the witness could not be written");
                false
            }
        }
    }

    async fn owner_gone(&self, owner: &Owner) -> Option<bool> {
        let api: Api<ClusterPublication> = Api::namespaced(self.client.clone(), &owner.namespace);
        match api.get_opt(&owner.name).await {
            Ok(found) => Some(found.and_then(|o| o.uid()).as_deref() != Some(owner.uid.as_str())),
            Err(_) => None,
        }
    }
}
