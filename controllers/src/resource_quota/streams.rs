//! [`Streams`]: watches the objects that quotas count. Without quotas nothing is watched. Pods, Services and
//! claims have one stream each. All other kinds, cached as metadata only, share one, which is reopened when a
//! kind is added or removed.

use super::counted::{Counted, QuotaObject, decode};
use super::kinds::CountedKind;
use super::recount;
use crate::cluster::Cluster;
use crate::garbage_collector::latest::LatestValue;
use crate::resource::gvr;
use kstore_client::WatchParams;
use kstore_informer::limits::FEED_CHANGES;
use kstore_informer::{
    Builder, Delivery, Delta, Index, Informer, Key, Object, Overflow, Queue, Revision, Stopped,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

type Kinds = BTreeSet<CountedKind>;

/// Names of the streams' informers.
const NAMES: [&str; 4] = ["quota-pods", "quota-services", "quota-claims", "quota-counts"];

/// Watch streams of the counted objects.
pub(super) struct Streams {
    slots: [Slot; NAMES.len()],
    by_namespace: Index<Counted, String>,
    quotas: Informer<QuotaObject>,
    queue: Queue<Key>,
}

/// One stream.
#[derive(Default)]
struct Slot {
    wanted: LatestValue<Kinds>,
    /// The complete cache of the stream, after its initial sync.
    shown: Mutex<Option<(Kinds, Informer<Counted>)>>,
}

fn slot_of(kind: &CountedKind) -> usize {
    match (&*kind.resource.group, &*kind.resource.plural) {
        ("", "pods") => 0,
        ("", "services") => 1,
        ("", "persistentvolumeclaims") => 2,
        _ => 3,
    }
}

impl Streams {
    /// No kinds yet. Quotas to recount are added to `queue`.
    pub(super) fn new(quotas: Informer<QuotaObject>, queue: Queue<Key>) -> Self {
        let by_namespace = Index::new(|object: &Counted, emit: &mut dyn FnMut(String)| {
            emit(object.namespace().to_owned());
        });
        Self { slots: Default::default(), by_namespace, quotas, queue }
    }

    /// Starts the tasks that open and close the streams.
    pub(super) fn start(streams: &Arc<Self>, cluster: &Arc<Cluster>) {
        for at in 0..NAMES.len() {
            cluster.spawn(Arc::clone(streams).run(at, Arc::clone(cluster)));
        }
    }

    /// Sets the kinds to watch.
    pub(super) fn want(&self, kinds: Kinds) {
        for (at, slot) in self.slots.iter().enumerate() {
            let own: Kinds = kinds.iter().filter(|kind| slot_of(kind) == at).cloned().collect();
            slot.wanted.set(own);
        }
    }

    /// The cache of a kind; `None` before its initial sync, which queues all quotas that count the kind.
    pub(super) fn shown(&self, kind: &CountedKind) -> Option<Informer<Counted>> {
        let shown = self.slots[slot_of(kind)].shown.lock();
        shown.as_ref().filter(|(kinds, _)| kinds.contains(kind)).map(|(_, informer)| informer.clone())
    }

    /// Index of objects by namespace.
    pub(super) fn by_namespace(&self) -> &Index<Counted, String> {
        &self.by_namespace
    }

    async fn run(self: Arc<Self>, at: usize, cluster: Arc<Cluster>) {
        let stop = cluster.stop.clone();
        loop {
            let kinds = self.slots[at].wanted.get();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.slots[at].wanted.differs_from(&kinds) => {}
                // An error means that the informer stopped, which only a shutdown causes.
                result = self.follow(at, kinds.clone(), &cluster) => if result.is_err() { return },
            }
            *self.slots[at].shown.lock() = None;
        }
    }

    /// Caches the objects of these kinds. Never ends by itself; dropping it ends its informer.
    async fn follow(&self, at: usize, kinds: Kinds, cluster: &Cluster) -> Result<(), Stopped> {
        let resources: BTreeSet<_> = kinds.iter().map(|kind| &kind.resource).collect();
        let mut resources = resources.into_iter().map(gvr);
        let Some(first) = resources.next() else {
            return std::future::pending().await;
        };
        let client = cluster.client.agent("controllers");
        let source = client.dynamic(first).project(WatchParams::default(), decode).and(resources);
        let builder = Builder::new(source).name(NAMES[at]).rng(&cluster.nondet.rng).index(&self.by_namespace);
        let (informer, driver) = builder.build(&cluster.stop);
        cluster.spawn(driver);
        // Lossless: a temporary decrease of an object's usage must trigger a recount.
        let every = Delivery::Lossless { capacity: FEED_CHANGES, overflow: Overflow::SlowSource };
        let mut changes = informer.subscribe_with(every);
        informer.synced().await?;
        let revision = informer.revision();
        *self.slots[at].shown.lock() = Some((kinds.clone(), informer));
        let bounded = |quota: &Arc<QuotaObject>| kinds.iter().any(|kind| kind.is_bounded_by(quota.quota()));
        self.recount(self.quotas.list().into_iter().filter(bounded), revision);
        while let Some(deltas) = changes.next().await {
            for object in deltas.iter().filter_map(uses_less) {
                let kinds: Vec<_> = kinds.iter().filter(|kind| object.is(kind)).collect();
                let bounded =
                    |quota: &Arc<QuotaObject>| kinds.iter().any(|kind| kind.is_bounded_by(quota.quota()));
                let quotas = self.quotas.namespace(object.namespace());
                self.recount(quotas.into_iter().filter(bounded), object.revision());
            }
        }
        Err(Stopped)
    }

    fn recount(&self, quotas: impl Iterator<Item = Arc<QuotaObject>>, revision: Revision) {
        recount(&self.queue, quotas.map(|quota| quota.key()), revision);
    }
}

/// The object, if it was deleted or its usage changed: creations are charged by admission.
fn uses_less(delta: &Delta<Counted>) -> Option<&Counted> {
    match delta {
        Delta::Deleted(object) => Some(object),
        Delta::Updated { old, new } if old.uid() != new.uid() || old.usage() != new.usage() => Some(new),
        Delta::Updated { .. } | Delta::Added(_) | Delta::Resync(_) => None,
    }
}
