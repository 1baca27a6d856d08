//! [`Pods`]: the pods of a workload, as an informer shows them: waits for them, and measurements.

use super::operation::Stage;
use super::tally::{PodRecord, PodSelection, Tally};
use super::throughput::{INTERVAL, Samples, Throughput};
use anyhow::anyhow;
use k8s_openapi::api::core::v1::Pod;
use kstore_client::{Client, WatchParams};
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use kstore_nondet::Nondet;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// The pods, until this is dropped.
pub(super) struct Pods {
    informer: Informer<PodRecord>,
    shared: Arc<Shared>,
    _observer: AbortOnDropHandle<()>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Shared {
    tally: Mutex<Tally>,
    /// Notified after each change of the tally.
    changed: Notify,
}

impl Shared {
    fn count(&self, number: usize) -> u64 {
        self.tally.lock().count(number)
    }
}

impl Pods {
    /// Watches all pods.
    pub(super) async fn watch(client: &Client, nondet: &Nondet) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let source = client.api::<Pod>().project(WatchParams::default(), PodRecord::decode);
        let informer = Builder::new(source).name("scheduler-perf-pods").rng(&nondet.rng).spawn(&stop);
        informer.synced().await.map_err(|_| anyhow!("the API server has ended"))?;
        let shared = Arc::<Shared>::default();
        let (mut changes, observed) = (informer.subscribe(), Arc::clone(&shared));
        let observer = tokio::spawn(async move {
            while let Some(deltas) = changes.next().await {
                observed.tally.lock().take(&deltas);
                observed.changed.notify_waiters();
            }
        });
        Ok(Self { informer, shared, _observer: AbortOnDropHandle::new(observer), _stop: stop.drop_guard() })
    }

    /// Waits until the informer shows a revision.
    pub(super) async fn shows(&self, revision: Revision) -> anyhow::Result<()> {
        self.informer.wait_for(revision).await.map_err(|_| anyhow!("the API server has ended"))
    }

    /// Counts the pods that get a node from now on.
    pub(super) fn count(&self, selection: PodSelection) -> Counted {
        let number = self.shared.tally.lock().register(selection);
        Counted { shared: Arc::clone(&self.shared), number }
    }

    /// Measures how many pods a second get a node, until [`Collector::stop`].
    pub(super) fn collect(&self, selection: PodSelection) -> Collector {
        let (counted, stop) = (self.count(selection), CancellationToken::new());
        let samples = AbortOnDropHandle::new(tokio::spawn(sample(counted, stop.clone())));
        Collector { stop, samples }
    }

    /// Waits until all pods have reached a stage.
    pub(super) async fn all(&self, selection: &PodSelection, stage: Stage) {
        let has_reached = |pod: &PodRecord| match stage {
            Stage::Scheduled => pod.is_scheduled(),
            Stage::Attempted => pod.is_attempted(),
        };
        loop {
            // Made before the look at the pods, so that no later change is missed.
            let changed = self.shared.changed.notified();
            if self.informer.list().iter().all(|pod| !selection.takes(pod) || has_reached(pod)) {
                return;
            }
            changed.await;
        }
    }

    /// Waits until pods have a node, and returns their names.
    pub(super) async fn scheduled(&self, selection: &PodSelection) -> Vec<Key> {
        loop {
            // Made before the look at the pods, so that no later change is missed.
            let changed = self.shared.changed.notified();
            let pods = self.informer.list();
            let found = pods.iter().filter(|pod| selection.takes(pod) && pod.is_scheduled());
            let keys: Vec<Key> = found.map(|pod| pod.key()).collect();
            if !keys.is_empty() {
                return keys;
            }
            changed.await;
        }
    }

    /// The names of pods.
    pub(super) fn keys(&self, selection: &PodSelection) -> Vec<Key> {
        let pods = self.informer.list();
        pods.iter().filter(|pod| selection.takes(pod)).map(|pod| pod.key()).collect()
    }

    /// The error of an operation that took too long.
    pub(super) fn unfinished(&self, patience: Duration) -> anyhow::Error {
        let pods = self.informer.list();
        let scheduled = pods.iter().filter(|pod| pod.is_scheduled()).count();
        let minutes = patience.as_secs() / 60;
        anyhow!("not done after {minutes} minutes: {scheduled} of {} pods have a node", pods.len())
    }
}

/// A count of pods that get a node.
pub(super) struct Counted {
    shared: Arc<Shared>,
    number: usize,
}

impl Counted {
    /// Waits until at least so many pods got a node.
    pub(super) async fn reaches(&self, least: u64) {
        loop {
            let changed = self.shared.changed.notified();
            if self.shared.count(self.number) >= least {
                return;
            }
            changed.await;
        }
    }
}

/// A measurement under way; it ends without a result when it is dropped.
pub(super) struct Collector {
    stop: CancellationToken,
    samples: AbortOnDropHandle<Samples>,
}

impl Collector {
    /// Ends the measurement.
    pub(super) async fn stop(self) -> Throughput {
        self.stop.cancel();
        let samples =
            self.samples.await.expect("a measurement neither panics nor is cancelled before its end");
        samples.throughput()
    }
}

async fn sample(counted: Counted, stop: CancellationToken) -> Samples {
    let mut samples = Samples::default();
    let (mut since, mut before) = (Instant::now(), counted.shared.count(counted.number));
    loop {
        let is_over = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            () = tokio::time::sleep_until(since + INTERVAL) => false,
        };
        let (now, count) = (Instant::now(), counted.shared.count(counted.number));
        samples.add(count - before, now - since);
        if is_over {
            return samples;
        }
        (since, before) = (now, count);
    }
}
