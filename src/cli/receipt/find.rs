//! Finds a receipt: through the publication's object, or by what is written on it when the object is gone.

use super::Args;
use crate::api::ClusterPublication;
use crate::cli::inspect::Failure;
use crate::receipts::{document, label, name, publication_annotation};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use publication_protocol::canonical::Digest;
use publication_protocol::receipt::Document;

pub(super) async fn receipt(args: &Args) -> Result<Document, Failure> {
    let config = kube::Config::infer().await.map_err(|e| format!("no kubeconfig could be used: {e}"))?;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)?;
    let beside = args.platform_namespace.as_deref();
    if let Ok(operation) = Digest::try_from(args.name.clone()) {
        return of_operation(&client, beside.unwrap_or(&namespace), operation).await;
    }
    let objects: Api<ClusterPublication> = Api::namespaced(client.clone(), &namespace);
    match objects.get_opt(&args.name).await? {
        Some(object) => {
            let shown = object.status.as_ref().and_then(|status| status.operation_id.clone());
            let operation = shown.and_then(|id| Digest::try_from(id).ok());
            let operation = operation.ok_or_else(|| {
                format!("{namespace}/{} shows no operation yet, so there is no receipt", args.name)
            })?;
            let platform = object.spec.cluster_ref.namespace_or(&namespace);
            of_operation(&client, beside.unwrap_or(platform), operation).await
        }
        None => of_nobody(&client, beside.unwrap_or(&namespace), &format!("{namespace}/{}", args.name)).await,
    }
}

async fn of_operation(client: &Client, platform: &str, operation: Digest) -> Result<Document, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), platform);
    let name = name(&operation);
    let found = maps.get_opt(&name).await?.ok_or_else(|| {
        format!(
            "there is no ConfigMap {platform}/{name}: the operation {} is not over, never held its target's slot, or its \
             receipt is gone (spec.history.receiptsMax)",
            operation.short()
        )
    })?;
    let receipt = document(&found).ok_or_else(|| {
        format!("the ConfigMap {platform}/{name} holds no receipt that this binary can read")
    })?;
    Ok(receipt)
}

/// The newest receipt that bears the publication's name.
async fn of_nobody(client: &Client, platform: &str, publication: &str) -> Result<Document, Failure> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), platform);
    let receipts = maps.list(&ListParams::default().labels(&format!("{}=receipt", label()))).await?;
    let annotation = publication_annotation();
    let own = receipts
        .items
        .iter()
        .filter(|map| map.annotations().get(&annotation).is_some_and(|of| of == publication))
        .filter_map(document);
    own.max_by_key(|receipt| receipt.account.updated_ms).ok_or_else(|| {
        format!(
            "there is no ClusterPublication {publication}, and no receipt of it in {platform}; --platform-namespace names \
             the namespace of its PublicationCluster"
        )
        .into()
    })
}
