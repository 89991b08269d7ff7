//! The controllers: observe -> decide -> perform -> project. Decisions are the protocol crate's.

mod bootstrap;
mod cluster;
mod conditions;
mod context;
pub(crate) mod environment;
mod events;
mod health;
mod kube_writes;
mod metrics;
mod owners;
mod publication;
mod resolve;
mod status;
mod stuck;
mod verdict;

use crate::api::{ClusterPublication, PublicationCluster, PublicationVerdict};
use crate::cluster_access::credentials;
use context::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::controller::{Action, Config};
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Publications reconciled at once; the ClickHouse side of one pass is a handful of small queries.
const CONCURRENCY: u16 = 8;
/// Objects in one page of a list.
const PAGE_SIZE: u32 = 200;

/// Why the operator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server does not answer, or does not know us.
    #[error("the Kubernetes API cannot be used: {0}")]
    Kube(#[from] kube::Error),
    /// No kubeconfig and not inside a cluster.
    #[error("no Kubernetes configuration: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The listening address is taken.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// kube-system without a UID.
    #[error("the namespace kube-system has no UID")]
    NoKubeUid,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// [`RunError`], at start only.
pub async fn run(listen: SocketAddr) -> Result<(), RunError> {
    let client = Client::try_from(kube::Config::infer().await?)?;
    let listener = health::bind(listen).await?;
    let metrics = Arc::new(metrics::Metrics::new());
    let ready = Arc::new(health::Readiness::new(3));
    tokio::spawn(health::serve(listener, Arc::clone(&ready), Arc::clone(&metrics)));
    let system = Api::<Namespace>::all(client.clone()).get_metadata("kube-system").await?;
    let kube_uid = system.uid().ok_or(RunError::NoKubeUid)?;

    let stopping = Arc::new(AtomicBool::new(false));
    let (clusters, cluster_writer) = reflector::store();
    let (publications, publication_writer) = reflector::store();
    let (wake, woken) = futures::channel::mpsc::unbounded();
    let recorder = Recorder::new(client.clone(), Reporter::from("publication-operator"));
    let context = Arc::new(Context::new(
        client.clone(),
        kube_uid,
        clusters.clone(),
        publications.clone(),
        recorder,
        metrics,
        Arc::clone(&ready),
        wake,
        Arc::clone(&stopping),
    ));
    let cluster_stream =
        changes(&client, cluster_writer, ready.caches(), |c: &PublicationCluster| intent_hash(c, None));
    let publication_stream =
        changes(&client, publication_writer, ready.caches(), |p: &ClusterPublication| intent_hash(p, None));
    let (verdicts, verdict_writer) = reflector::store();
    let verdict_stream =
        changes(&client, verdict_writer, ready.caches(), |v: &PublicationVerdict| intent_hash(v, None));
    // A second watch of the few clusters: publications wait for what its status says.
    let (_, watch_writer) = reflector::store();
    let cluster_changes = changes(
        &client,
        watch_writer,
        Arc::new(health::Readiness::new(1)).caches(),
        |c: &PublicationCluster| {
            intent_hash(
                c,
                c.status.as_ref().map(|s| format!("{:?}{:?}", s.facade_root, s.conditions)).as_deref(),
            )
        },
    );

    let signal = {
        let stopping = Arc::clone(&stopping);
        async move {
            shutdown_signal().await;
            stopping.store(true, Ordering::SeqCst);
            tracing::info!("stopping: what was dispatched is carried through, nothing new begins");
        }
    };
    let (stop_clusters, stop_publications, stop_verdicts) = {
        use futures::FutureExt;
        let shared = signal.boxed().shared();
        (shared.clone(), shared.clone(), shared)
    };
    let config = Config::default().concurrency(CONCURRENCY);
    let for_clusters = Controller::for_stream(cluster_stream, clusters)
        .with_config(config.clone())
        .graceful_shutdown_on(stop_clusters)
        .run(cluster::reconcile, retry, Arc::clone(&context))
        .for_each(report);
    let users = publications.clone();
    let for_publications = Controller::for_stream(publication_stream, publications)
        .with_config(config.clone())
        .watches_stream(cluster_changes, move |cluster| users_of(&users, &cluster))
        .reconcile_on(woken)
        .graceful_shutdown_on(stop_publications)
        .run(publication::reconcile, retry, Arc::clone(&context))
        .for_each(report);
    let for_verdicts = Controller::for_stream(verdict_stream, verdicts)
        .with_config(config)
        .graceful_shutdown_on(stop_verdicts)
        .run(verdict::reconcile, retry, context)
        .for_each(report);
    tracing::info!("running");
    futures::join!(for_clusters, for_publications, for_verdicts);
    tracing::info!("stopped");
    Ok(())
}

/// A watch that keeps a pruned store and passes on what a person changed: status writes of our own start no pass.
fn changes<K>(
    client: &Client,
    writer: reflector::store::Writer<K>,
    filled: impl Fn() + Send + 'static,
    hash: impl Fn(&K) -> Option<u64> + Send + 'static,
) -> impl futures::Stream<Item = Result<K, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    watcher(Api::<K>::all(client.clone()), config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                filled();
            }
        })
        .applied_objects()
        .predicate_filter(hash, kube::runtime::PredicateConfig::default())
}

/// What a person can change: spec, annotations, labels, deletion, finalizers.
fn intent_hash<K: Resource>(object: &K, more: Option<&str>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    predicates::generation(object).hash(&mut hasher);
    predicates::annotations(object).hash(&mut hasher);
    predicates::labels(object).hash(&mut hasher);
    predicates::finalizers(object).hash(&mut hasher);
    object.meta().deletion_timestamp.is_some().hash(&mut hasher);
    more.hash(&mut hasher);
    Some(hasher.finish())
}

/// Unfinished publications that name a cluster.
fn users_of(
    publications: &Store<ClusterPublication>,
    cluster: &PublicationCluster,
) -> Vec<ObjectRef<ClusterPublication>> {
    let (name, namespace) = (cluster.name_any(), cluster.namespace().unwrap_or_default());
    publications
        .state()
        .iter()
        .filter(|p| {
            let own = p.namespace().unwrap_or_default();
            let reference = &p.spec.cluster_ref;
            !resolve::is_finished(p) && reference.name == name && reference.namespace_or(&own) == namespace
        })
        .map(|p| ObjectRef::from_obj(p.as_ref()))
        .collect()
}

/// An API write failed: the pass is repeated; whatever it did is in the record.
fn retry<K>(_: Arc<K>, error: &kube::Error, _: Arc<Context>) -> Action {
    tracing::warn!(error = %error, "a write to the Kubernetes API failed; looking again");
    Action::requeue(Duration::from_secs(2))
}

/// A watch that fails is retried with backoff; a person must be able to see why.
async fn report<T, E: std::error::Error>(result: Result<T, E>) {
    if let Err(error) = result {
        let chain = std::iter::successors(error.source(), |cause| cause.source());
        let causes: Vec<String> = chain.map(ToString::to_string).collect();
        tracing::warn!(error = %error, causes = %causes.join(": "), "a watch or reconciliation failed");
    }
}

async fn shutdown_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupted = async {
        // Without a handler the default action applies, which is to end.
        let _ = tokio::signal::ctrl_c().await;
    };
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                () = interrupted => {}
            }
        }
        Err(_) => interrupted.await,
    }
}
