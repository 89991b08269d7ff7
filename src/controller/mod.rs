//! The controllers: observe -> decide -> perform -> project. Decisions are the protocol crate's.

mod bootstrap;
mod cluster;
mod conditions;
mod context;
pub(crate) mod environment;
mod events;
mod evidence;
mod expiry;
mod findings;
mod guard;
mod health;
mod kube_writes;
mod loss;
mod metrics;
mod owners;
mod publication;
mod receipts;
mod resolve;
mod stages;
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
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    let ready = Arc::new(health::Readiness::new(4));
    tokio::spawn(health::serve(listener, Arc::clone(&ready), Arc::clone(&metrics)));
    let system = Api::<Namespace>::all(client.clone()).get_metadata("kube-system").await?;
    let kube_uid = system.uid().ok_or(RunError::NoKubeUid)?;

    let stopping = Arc::new(AtomicBool::new(false));
    let (clusters, cluster_writer) = reflector::store();
    let (publications, publication_writer) = reflector::store();
    // A second watch of the few clusters: publications wait for what its status says. They read what woke them.
    let (watched, watch_writer) = reflector::store();
    let (wake, woken) = futures::channel::mpsc::unbounded();
    let (probe, to_probe) = futures::channel::mpsc::unbounded();
    let recorder = Recorder::new(client.clone(), Reporter::from("publication-operator"));
    let context = Arc::new(Context::new(
        client.clone(),
        kube_uid,
        watched,
        publications.clone(),
        recorder,
        metrics,
        Arc::clone(&ready),
        wake,
        probe,
        Arc::clone(&stopping),
    ));
    let cluster_stream =
        changes(&client, cluster_writer, ready.caches(), |c: &PublicationCluster| spec_hash(c, None));
    let publication_stream =
        changes(&client, publication_writer, ready.caches(), |p: &ClusterPublication| intent_hash(p, None));
    let (verdicts, verdict_writer) = reflector::store();
    let verdict_stream =
        changes(&client, verdict_writer, ready.caches(), |v: &PublicationVerdict| intent_hash(v, None));
    let cluster_changes = changes(&client, watch_writer, ready.caches(), |c: &PublicationCluster| {
        spec_hash(c, c.status.as_ref().map(|s| format!("{:?}{:?}", s.facade_root, s.conditions)).as_deref())
    });

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
        .reconcile_on(to_probe)
        .graceful_shutdown_on(stop_clusters)
        .run(cluster::reconcile, retry, Arc::clone(&context))
        .for_each(report);
    let users = publications.clone();
    let ttls: Mutex<HashMap<ObjectRef<PublicationCluster>, i64>> = Mutex::default();
    let for_publications = Controller::for_stream(publication_stream, publications)
        .with_config(config.clone())
        .watches_stream(cluster_changes, move |cluster| {
            let ttl = expiry::ttl(&cluster);
            let before = ttls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(ObjectRef::from_obj(&cluster), ttl);
            users_of(&users, &cluster, before != Some(ttl))
        })
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
    let store = writer.as_reader();
    watcher(Api::<K>::all(client.clone()), config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .inspect_ok(move |event| {
            if matches!(event, watcher::Event::InitDone) {
                filled();
            }
        })
        .map_ok(move |event| stored(&store, event))
        .try_flatten()
        .predicate_filter(hash, kube::runtime::PredicateConfig::default())
}

/// Objects that are in the store by now: a pass that an event starts must not read the store as it was before. The
/// objects of a list are in it only at its end.
fn stored<K>(
    store: &Store<K>,
    event: watcher::Event<K>,
) -> impl futures::Stream<Item = Result<K, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    let (one, listed) = match event {
        watcher::Event::Apply(object) => (Some(object), Vec::new()),
        watcher::Event::InitDone => (None, store.state()),
        watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Delete(_) => (None, Vec::new()),
    };
    let listed = listed.into_iter().map(|object| object.as_ref().clone());
    futures::stream::iter(one.into_iter().chain(listed).map(Ok))
}

/// What a person can change: spec, annotations, labels, deletion, finalizers.
fn intent_hash<K: Resource>(object: &K, more: Option<&str>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    spec_hash(object, more).hash(&mut hasher);
    predicates::finalizers(object).hash(&mut hasher);
    Some(hasher.finish())
}

/// The same without finalizers: ours on a cluster is no reason to examine it again.
fn spec_hash<K: Resource>(object: &K, more: Option<&str>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    predicates::generation(object).hash(&mut hasher);
    predicates::annotations(object).hash(&mut hasher);
    predicates::labels(object).hash(&mut hasher);
    object.meta().deletion_timestamp.is_some().hash(&mut hasher);
    more.hash(&mut hasher);
    Some(hasher.finish())
}

/// Unfinished publications that name a cluster; with `finished`, the others as well: how long they are kept has changed.
fn users_of(
    publications: &Store<ClusterPublication>,
    cluster: &PublicationCluster,
    finished: bool,
) -> Vec<ObjectRef<ClusterPublication>> {
    let concerns =
        |p: &&Arc<ClusterPublication>| guard::names(p, cluster) && (finished || !resolve::is_finished(p));
    publications.state().iter().filter(concerns).map(|p| ObjectRef::from_obj(p.as_ref())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use watcher::Event;

    fn cluster(name: &str) -> PublicationCluster {
        let spec = serde_json::json!({
            "clusterName": "main", "controlDatabase": "publication", "members": [],
            "auth": {"secretRef": {"name": "s"}},
        });
        PublicationCluster::new(name, serde_json::from_value(spec).unwrap()).within("platform")
    }

    trait Within {
        fn within(self, namespace: &str) -> Self;
    }

    impl Within for PublicationCluster {
        fn within(mut self, namespace: &str) -> Self {
            self.metadata.namespace = Some(namespace.to_owned());
            self
        }
    }

    /// A blocked object is looked at again in ten minutes: the pass that a change starts must see that change.
    #[tokio::test]
    async fn an_object_is_passed_on_only_when_the_store_has_it() {
        let (store, writer) = reflector::store();
        let events = [
            Event::Init,
            Event::InitApply(cluster("a")),
            Event::InitApply(cluster("b")),
            Event::InitDone,
            Event::Apply(cluster("c")),
            Event::Delete(cluster("c")),
        ];
        let events = futures::stream::iter(events.map(Ok));
        let source = writer.as_reader();
        let passed = events.reflect(writer).map_ok(move |event| stored(&source, event)).try_flatten();
        futures::pin_mut!(passed);
        let mut seen = Vec::new();
        while let Some(Ok(object)) = passed.next().await {
            assert!(store.get(&ObjectRef::from_obj(&object)).is_some(), "{}", object.name_any());
            seen.push(object.name_any());
        }
        seen.sort();
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
