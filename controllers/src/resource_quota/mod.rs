//! ResourceQuota controller: recounts the usage of quotas when their bounds change, when a counted object is
//! deleted or uses less, and every five minutes. Admission charges created objects; it releases nothing.
//!
//! `plan` writes the status; `kinds` finds the counted kinds of a quota, `counted` computes the usage of one
//! object, `streams` watches the objects of counted kinds only. This file joins them.
//!
//! A count never undoes a charge. It covers objects at least as new as the quota that was read, and is stored
//! only if that quota is still the newest. A charge in between writes the quota, and the quota is counted
//! again.
//!
//! Follows `syncResourceQuota`.

mod counted;
mod kinds;
mod plan;
mod streams;
#[cfg(test)]
mod tests;

use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{QUOTA_RESYNC, QUOTA_WAIT};
use counted::QuotaObject;
use kinds::{Definition, Kinds};
use kstore_api::quota::Amounts;
use kstore_informer::{Action as Next, Causes, Context, CutError, Delta, Informer, Key, Object, Revision};
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;

const WORKERS: usize = 5;

/// Queue key for updating the watched kinds.
fn kinds_key() -> Key {
    Key::new("", "kinds")
}

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = ControllerCaches { quotas: cluster.caches.get(), definitions: cluster.caches.get() };
    let all = caches.quotas.clone();
    let controller = cluster
        .controller("resourcequota")
        .watch_deltas(&caches.quotas, changed)
        .watch_deltas(&caches.definitions, move |delta: &Delta<Definition>| defined(&all, delta))
        .workers(WORKERS);
    let queue = controller.queue();
    let streams = Arc::new(Streams::new(caches.quotas.clone(), queue));
    Streams::start(&streams, &cluster);
    let executor = cluster.executor("resourcequota-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Quotas { cluster, caches, streams, executor })
}

/// The keys for a change of a quota: none if only a charge was made.
fn changed(delta: &Delta<QuotaObject>) -> Vec<Key> {
    match delta {
        Delta::Added(quota) => vec![quota.key(), kinds_key()],
        Delta::Deleted(_) => vec![kinds_key()],
        Delta::Updated { old, new } => {
            let mut keys = Vec::new();
            if new.quota().wanted != new.quota().hard || new.uid() != old.uid() {
                keys.push(new.key());
            }
            if new.quota().wanted != old.quota().wanted {
                keys.push(kinds_key());
            }
            keys
        }
        Delta::Resync(quota) => vec![quota.key()],
    }
}

/// The keys for a change of a definition: all quotas that bound the kind.
fn defined(quotas: &Informer<QuotaObject>, delta: &Delta<Definition>) -> Vec<Key> {
    let names = match delta {
        Delta::Updated { old, new } if old.declares() == new.declares() => return Vec::new(),
        Delta::Updated { old, new } => vec![old.count(), new.count()],
        Delta::Added(one) | Delta::Deleted(one) | Delta::Resync(one) => vec![one.count()],
    };
    let names: Vec<String> = names.into_iter().flatten().collect();
    let bounds = |quota: &Arc<QuotaObject>| names.iter().any(|name| quota.quota().wanted.contains_key(name));
    let mut keys: Vec<Key> =
        quotas.list().iter().filter(|quota| bounds(quota)).map(|quota| quota.key()).collect();
    if !keys.is_empty() {
        keys.push(kinds_key());
    }
    keys
}

/// Caches of the controller.
#[derive(Clone)]
struct ControllerCaches {
    quotas: Informer<QuotaObject>,
    definitions: Informer<Definition>,
}

impl ControllerCaches {
    /// The countable kinds.
    fn kinds(&self) -> Kinds {
        Kinds::with(self.definitions.list().iter().filter_map(|one| one.declares().cloned()))
    }
}

struct Quotas {
    cluster: Arc<Cluster>,
    caches: ControllerCaches,
    streams: Arc<Streams>,
    executor: Executor,
}

impl Reconcile for Quotas {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        if cx.key == kinds_key() {
            let kinds = self.caches.kinds();
            let quotas = self.caches.quotas.list();
            self.streams.want(quotas.iter().flat_map(|quota| kinds.counted_by(quota.quota()).0).collect());
            return Ok(Next::Done);
        }
        let Some(quota) = self.caches.quotas.get(&cx.key) else { return Ok(Next::Done) };
        // A kind is not shown yet: its stream will queue the quota.
        let Some((counted, ends)) = self.count(&quota).await? else { return Ok(Next::Done) };
        let plan = plan::plan(&quota, &counted);
        match self.executor.execute(&cx, &plan.actions).await.result() {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Err(_) | Ok(()) => {}
        }
        let waits = [Some(QUOTA_RESYNC), plan.wake, ends];
        Ok(waits.into_iter().flatten().min().map_or(Next::Done, Next::Again))
    }
}

impl Quotas {
    /// Usage of the bounded resources in the namespace, at the quota's revision or later, and the time until
    /// it decreases without a change. `None` if objects of a kind are not shown yet.
    async fn count(
        &self,
        quota: &QuotaObject,
    ) -> Result<Option<(Amounts, Option<Duration>)>, ReconcileError> {
        let (kinds, mut amounts) = self.caches.kinds().counted_by(quota.quota());
        let (mut ends, now) = (None, self.cluster.nondet.clock.now());
        for kind in &kinds {
            let Some(informer) = self.streams.shown(kind) else { return Ok(None) };
            let reached = tokio::time::timeout(QUOTA_WAIT, informer.wait_for(quota.revision())).await;
            if !matches!(reached, Ok(Ok(()))) {
                return Err(CutError::Late.into());
            }
            let view = informer.view();
            for object in view.by(self.streams.by_namespace(), quota.namespace()) {
                let Some(usage) = kind.usage(object) else { continue };
                if quota.quota().selects(&kind.evaluator, usage) {
                    usage.add_to(&mut amounts, now);
                    ends = ends.into_iter().chain(usage.changes_after(now)).min();
                }
            }
        }
        // The usage ends after that time, not at it.
        let wait = ends.map(|at| crate::view::elapsed(now, at) + Duration::from_millis(1));
        Ok(Some((amounts, wait)))
    }
}

/// Queues quotas whose usage may have decreased.
fn recount(queue: &kstore_informer::Queue<Key>, quotas: impl Iterator<Item = Key>, revision: Revision) {
    quotas.for_each(|key| queue.add(key, Causes::one(revision)));
}
