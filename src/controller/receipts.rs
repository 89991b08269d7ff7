//! Keeps receipts in the namespace of the PublicationCluster: they outlive the object that they tell of.
//!
//! Nothing depends on them: what cannot be kept for want of rights is said in the log, and the publication goes on.

use super::context::Context;
use super::environment::now;
use super::kube_writes::MANAGER;
use crate::api::{ClusterPublication, PublicationCluster, PublicationVerdict};
use crate::receipts::{config_map, document, list, list_name, listed, name, with};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use publication_protocol::driver::Report;
use publication_protocol::receipt::{Document, Scene, of};
use publication_protocol::record::Slot;

const OPERATOR_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Of a pass that ended something, if its operation holds the slot.
pub(super) async fn keep_of_report(
    object: &ClusterPublication,
    ctx: &Context,
    report: &Report,
) -> kube::Result<()> {
    let own = object.namespace().unwrap_or_default();
    let reference = &object.spec.cluster_ref;
    let (namespace, cluster) = (reference.namespace_or(&own), reference.name.as_str());
    let shown = format!("{namespace}/{cluster}");
    match Scene::of_report(report, shown, OPERATOR_VERSION, now().wall_ms) {
        Some(scene) => kept(ctx, (namespace, cluster), scene).await,
        None => Ok(()),
    }
}

/// Of a verdict that took effect: the publication's object may be gone.
pub(super) async fn keep_of_verdict(
    object: &PublicationVerdict,
    slot: &Slot,
    ctx: &Context,
) -> kube::Result<()> {
    let namespace = object.namespace().unwrap_or_default();
    let cluster = object.spec.cluster_ref.name.as_str();
    let scene = Scene::of_slot(slot, format!("{namespace}/{cluster}"), OPERATOR_VERSION, now().wall_ms);
    kept(ctx, (&namespace, cluster), scene).await
}

async fn kept(ctx: &Context, at: (&str, &str), scene: Scene<'_>) -> kube::Result<()> {
    match keep(ctx, at, scene).await {
        // Rights, a namespace that is gone or going, or a document that the API server does not take.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 413 | 422) => {
            tracing::warn!(
                namespace = at.0,
                code = status.code,
                "a receipt could not be kept; see docs/receipts.md"
            );
            Ok(())
        }
        other => other,
    }
}

async fn keep(ctx: &Context, (namespace, cluster): (&str, &str), scene: Scene<'_>) -> kube::Result<()> {
    let found = ctx.clusters.get(&ObjectRef::<PublicationCluster>::new(cluster).within(namespace));
    let max = found.map_or(0, |cluster| cluster.spec.history.receipts_max);
    let Some(max) = usize::try_from(max).ok().filter(|max| *max > 0) else { return Ok(()) };
    let maps: Api<ConfigMap> = Api::namespaced(ctx.client.clone(), namespace);
    let _one_at_a_time = ctx.receipts.lock().await;
    let earlier = maps.get_opt(&name(&scene.slot.record.operation)).await?;
    let earlier = earlier.as_ref().and_then(document);
    let receipt = of(scene, earlier.as_ref());
    if earlier.as_ref() == Some(&receipt) {
        return Ok(());
    }
    let own = write(&maps, &receipt).await?;
    let before = maps.get_opt(&list_name(cluster)).await?;
    let (names, dropped) = with(listed(before.as_ref()), &own, max);
    for old in &dropped {
        match maps.delete(old, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    let params = PatchParams::apply(MANAGER).force();
    maps.patch(&list_name(cluster), &params, &Patch::Apply(list(cluster, &names, before.as_ref()))).await?;
    Ok(())
}

async fn write(maps: &Api<ConfigMap>, receipt: &Document) -> kube::Result<String> {
    let name = name(&receipt.account.operation);
    let params = PatchParams::apply(MANAGER).force();
    maps.patch(&name, &params, &Patch::Apply(config_map(receipt))).await?;
    Ok(name)
}
