//! Recounts what ResourceQuotas have used: when their bounds change, when something that they count goes or comes to use less, and every
//! five minutes. Admission charges what is created; it gives nothing back.
//!
//! `plan` writes the status; `kinds` knows which kinds a quota counts, `counted` what one object uses, `streams` watches the objects of
//! those kinds that some quota counts, and of no others. This file puts them together.
//!
//! A count never undoes a charge: it is made of objects that are at least as new as the quota that was read, and stored only if that is
//! still the newest. A charge in between writes the quota, and the count is made again.

mod counted;
mod kinds;
mod plan;
mod streams;
#[cfg(test)]
mod tests;

use crate::apply::Hands;
use crate::limits::{QUOTA_RESYNC, QUOTA_WAIT};
use crate::runner::{Cluster, Reconcile, Trouble, work};
use counted::QuotaObject;
use kinds::{Definition, Kinds};
use kstore_api::quota::Amounts;
use kstore_informer::{Action as Next, Causes, Context, CutError, Delta, Informer, Key, Object, Revision};
use std::sync::Arc;
use std::time::Duration;
use streams::Streams;

const WORKERS: usize = 5;

/// The key of the look at which kinds quotas count.
fn kinds_key() -> Key {
    Key::new("", "kinds")
}

/// Runs until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let caches = Reads { quotas: cluster.caches.get(), definitions: cluster.caches.get() };
    let all = caches.quotas.clone();
    let controller = cluster
        .controller("resourcequota")
        .watch_deltas(&caches.quotas, changed)
        .watch_deltas(&caches.definitions, move |delta: &Delta<Definition>| defined(&all, delta))
        .workers(WORKERS);
    let queue = controller.queue();
    let streams = Arc::new(Streams::new(caches.quotas.clone(), queue));
    Streams::start(&streams, &cluster);
    let hands = cluster.hands("resourcequota-controller");
    let stop = cluster.stop.clone();
    work(controller, stop, Quotas { cluster, caches, streams, hands })
}

/// What a change of a quota asks for: nothing where only a charge was made.
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

/// What a change of a definition asks for: a count by quotas that bound the kind.
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

/// The caches that it reads.
#[derive(Clone)]
struct Reads {
    quotas: Informer<QuotaObject>,
    definitions: Informer<Definition>,
}

impl Reads {
    /// The kinds that quotas can count.
    fn kinds(&self) -> Kinds {
        Kinds::with(self.definitions.list().iter().filter_map(|one| one.declares().cloned()))
    }
}

struct Quotas {
    cluster: Arc<Cluster>,
    caches: Reads,
    streams: Arc<Streams>,
    hands: Hands,
}

impl Reconcile for Quotas {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        if cx.key == kinds_key() {
            let kinds = self.caches.kinds();
            let quotas = self.caches.quotas.list();
            self.streams.want(quotas.iter().flat_map(|quota| kinds.counted_by(quota.quota()).0).collect());
            return Ok(Next::Done);
        }
        let Some(quota) = self.caches.quotas.get(&cx.key) else { return Ok(Next::Done) };
        // A kind that is not shown yet: its stream says when it is.
        let Some((counted, ends)) = self.count(&quota).await? else { return Ok(Next::Done) };
        let plan = plan::plan(&quota, &counted);
        match self.hands.carry_out(&cx, &plan.actions).await.result() {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Err(_) | Ok(()) => {}
        }
        let waits = [Some(QUOTA_RESYNC), plan.wake, ends];
        Ok(waits.into_iter().flatten().min().map_or(Next::Done, Next::Again))
    }
}

impl Quotas {
    /// What the objects of the namespace use of the bounded resources, at the revision of the quota or later; and after how long it will
    /// be less if nothing happens. `None` if objects of a kind are not shown yet.
    async fn count(&self, quota: &QuotaObject) -> Result<Option<(Amounts, Option<Duration>)>, Trouble> {
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

/// Says to `queue` that a quota may count less.
fn recount(queue: &kstore_informer::Queue<Key>, quotas: impl Iterator<Item = Key>, revision: Revision) {
    quotas.for_each(|key| queue.add(key, Causes::one(revision)));
}
