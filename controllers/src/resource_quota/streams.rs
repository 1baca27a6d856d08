//! [`Streams`]: watches the objects that quotas count. Only kinds that some quota counts are watched: a cluster without quotas pays nothing.
//! Pods, Services and claims have a stream each; all other kinds, kept as metadata only, share one, which is opened anew when
//! one of them comes or goes.

use super::counted::{Counted, QuotaObject, decode};
use super::kinds::CountedKind;
use super::recount;
use crate::garbage_collector::latest::Latest;
use crate::resource::gvr;
use crate::runner::Cluster;
use kstore_client::WatchParams;
use kstore_informer::limits::FEED_CHANGES;
use kstore_informer::{
    Builder, Delivery, Delta, Index, Informer, Key, Object, Overflow, Queue, Revision, Stopped,
};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

type Kinds = BTreeSet<CountedKind>;

/// The streams, by the names of their informers.
const NAMES: [&str; 4] = ["quota-pods", "quota-services", "quota-claims", "quota-counts"];

/// The objects that quotas count.
pub(super) struct Streams {
    slots: [Slot; NAMES.len()],
    by_namespace: Index<Counted, String>,
    quotas: Informer<QuotaObject>,
    queue: Queue<Key>,
}

/// One stream.
#[derive(Default)]
struct Slot {
    wanted: Latest<Kinds>,
    /// What the stream shows, once it shows all of it.
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
    /// No kind is watched yet. Quotas that may have to be counted again go into `queue`.
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

    /// Watches these kinds and no others.
    pub(super) fn want(&self, kinds: Kinds) {
        for (at, slot) in self.slots.iter().enumerate() {
            let own: Kinds = kinds.iter().filter(|kind| slot_of(kind) == at).cloned().collect();
            slot.wanted.set(own);
        }
    }

    /// Where the objects of a kind are shown; `None`: they are not yet. All quotas that count them are queued when they are.
    pub(super) fn shown(&self, kind: &CountedKind) -> Option<Informer<Counted>> {
        let shown = self.slots[slot_of(kind)].shown.lock();
        shown.as_ref().filter(|(kinds, _)| kinds.contains(kind)).map(|(_, informer)| informer.clone())
    }

    /// By the namespaces of objects.
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
                // It ends with an informer that ends, which nothing but the stop does.
                result = self.follow(at, kinds.clone(), &cluster) => if result.is_err() { return },
            }
            *self.slots[at].shown.lock() = None;
        }
    }

    /// Shows the objects of these kinds, and never ends by itself; dropping it ends the informer behind it.
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
        // An object that came to use less in between must be heard of.
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

/// The object, if it went or uses something else than before: what comes is charged when it comes.
fn uses_less(delta: &Delta<Counted>) -> Option<&Counted> {
    match delta {
        Delta::Deleted(object) => Some(object),
        Delta::Updated { old, new } if old.uid() != new.uid() || old.usage() != new.usage() => Some(new),
        Delta::Updated { .. } | Delta::Added(_) | Delta::Resync(_) => None,
    }
}
