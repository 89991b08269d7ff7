//! What all reconciliations share.

use super::health::Readiness;
use super::metrics::Metrics;
use crate::api::{ClusterPublication, PublicationCluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::runtime::events::Recorder;
use kube::runtime::reflector::{ObjectRef, Store};
use publication_protocol::canonical::Digest;
use publication_protocol::driver::Memory;
use publication_protocol::receipt::Look;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Remembered between passes over one object, in memory only.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    pub(super) memory: Memory,
    /// G-4: what a person may have changed since the last pass; none = first pass of this process.
    pub(super) inputs: Option<String>,
    /// For the receipt: what was written and seen of the present operation.
    pub(super) history: (Option<Digest>, Vec<Look>),
}

/// What all reconciliations share.
pub(super) struct Context {
    pub(super) client: Client,
    /// UID of the Kubernetes cluster: that of its kube-system namespace.
    pub(super) kube_uid: String,
    pub(super) clusters: Store<PublicationCluster>,
    pub(super) publications: Store<ClusterPublication>,
    pub(super) recorder: Recorder,
    pub(super) metrics: Arc<Metrics>,
    /// All caches have their first list.
    pub(super) ready: Arc<Readiness>,
    /// Wakes objects that wait behind another one of the same target.
    pub(super) wake: futures::channel::mpsc::UnboundedSender<ObjectRef<ClusterPublication>>,
    /// Has a cluster probed: a pass found its facade otherwise than its status says.
    pub(super) probe: futures::channel::mpsc::UnboundedSender<ObjectRef<PublicationCluster>>,
    remembered: Mutex<HashMap<String, Remembered>>,
    verdicts: Mutex<HashSet<String>>,
    /// One list of receipts is written at a time.
    pub(super) receipts: tokio::sync::Mutex<()>,
    stopping: Arc<AtomicBool>,
    halted: AtomicBool,
}

impl Context {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        client: Client,
        kube_uid: String,
        clusters: Store<PublicationCluster>,
        publications: Store<ClusterPublication>,
        recorder: Recorder,
        metrics: Arc<Metrics>,
        ready: Arc<Readiness>,
        wake: futures::channel::mpsc::UnboundedSender<ObjectRef<ClusterPublication>>,
        probe: futures::channel::mpsc::UnboundedSender<ObjectRef<PublicationCluster>>,
        stopping: Arc<AtomicBool>,
    ) -> Self {
        let (remembered, verdicts, halted) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Self {
            client,
            kube_uid,
            clusters,
            publications,
            recorder,
            metrics,
            ready,
            wake,
            probe,
            remembered,
            verdicts,
            receipts: tokio::sync::Mutex::default(),
            stopping,
            halted,
        }
    }

    pub(super) fn remembered(&self, uid: &str) -> Remembered {
        self.lock().get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn remember(&self, uid: &str, what: Remembered) {
        self.lock().insert(uid.to_owned(), what);
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
        self.take_verdict(uid);
    }

    /// G-4: a verdict took effect that concerns this object.
    pub(super) fn verdict_took_effect(&self, uid: &str) {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned());
    }

    /// G-4: whether one did since the last pass began.
    pub(super) fn take_verdict(&self, uid: &str) -> bool {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).remove(uid)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing new is dispatched: shutting down, or C-4 was broken.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst) || self.halted.load(Ordering::SeqCst)
    }

    /// C-4: a correctness failure stops all dispatching until somebody restarts the operator knowingly.
    pub(super) fn halt(&self) {
        self.halted.store(true, Ordering::SeqCst);
        self.metrics.halted.set(1);
        tracing::error!("a correctness check failed: nothing is dispatched any more (C-4, H-1)");
    }
}

/// Whole seconds, as Kubernetes stores them: finer ones would look like a change at each pass.
pub(super) fn kube_now() -> Time {
    let seconds = k8s_openapi::jiff::Timestamp::now().as_second();
    Time(
        k8s_openapi::jiff::Timestamp::from_second(seconds)
            .unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    )
}
