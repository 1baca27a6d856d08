//! Watch streams of custom kinds: each stream feeds the objects of a few kinds into the graph. It is reopened
//! when one of its kinds is added, removed, or changes its version. `known` tracks the kinds. `aggregated` uses
//! the streams as well.

use super::known::Shared;
use super::latest::LatestValue;
use super::member::{self, OwnershipRecord};
use crate::cluster::Cluster;
use crate::limits::KINDS_PER_STREAM;
use crate::resource::{Resource, gvr};
use kstore_informer::limits::FEED_CHANGES;
use kstore_informer::{
    Builder, Causes, Delivery, Delta, Informer, Key, ListerWatcher, Object, Overflow, Queue, Stopped,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Kinds of one stream: resources by the uids of their definitions, or one kind of an aggregated API server by
/// its name.
pub(super) type Kinds = BTreeMap<String, Resource>;

/// Distributes the custom kinds over streams until the cluster stops. A kind stays on its stream while it
/// exists.
pub(super) async fn run(cluster: Arc<Cluster>, shared: Arc<Shared>, queue: Queue<Key>) {
    let mut streams: Vec<Arc<LatestValue<Kinds>>> = Vec::new();
    loop {
        let kinds = shared.custom().get();
        for index in assign(&mut streams, kinds.clone()) {
            let stream = Stream::new(&cluster, &shared, &queue, format!("custom-kinds-{index}"));
            cluster.spawn(stream.run(Arc::clone(&streams[index])));
        }
        let changed = shared.custom().differs_from(&kinds);
        if cluster.stop.run_until_cancelled(changed).await.is_none() {
            return;
        }
    }
}

/// Updates the streams to these kinds; returns the indexes of new streams.
fn assign(streams: &mut Vec<Arc<LatestValue<Kinds>>>, mut wanted: Kinds) -> Vec<usize> {
    let mut dealt: Vec<Kinds> = Vec::new();
    for stream in streams.iter() {
        let kept: Vec<String> =
            stream.get().keys().filter(|name| wanted.contains_key(*name)).cloned().collect();
        dealt.push(kept.into_iter().filter_map(|name| wanted.remove_entry(&name)).collect());
    }
    for (name, resource) in wanted {
        match dealt.iter_mut().find(|kinds| kinds.len() < KINDS_PER_STREAM) {
            Some(kinds) => drop(kinds.insert(name, resource)),
            None => dealt.push(BTreeMap::from([(name, resource)])),
        }
    }
    let mut new = Vec::new();
    for (index, kinds) in dealt.into_iter().enumerate() {
        match streams.get(index) {
            Some(stream) => drop(stream.set(kinds)),
            None => {
                new.push(streams.len());
                streams.push(Arc::new(LatestValue::new(kinds)));
            }
        }
    }
    new
}

/// State of one stream.
pub(super) struct Stream {
    cluster: Arc<Cluster>,
    shared: Arc<Shared>,
    queue: Queue<Key>,
    name: String,
    /// The uids of the objects on the stream, by key.
    members: BTreeMap<Key, String>,
    /// Whether an aggregated API server stores the objects: they may exist while it is not registered, and
    /// their revisions are of another history.
    is_aggregated: bool,
}

impl Stream {
    /// A stream without kinds, named in logs.
    pub(super) fn new(
        cluster: &Arc<Cluster>,
        shared: &Arc<Shared>,
        queue: &Queue<Key>,
        name: String,
    ) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            shared: Arc::clone(shared),
            queue: queue.clone(),
            name,
            members: BTreeMap::new(),
            is_aggregated: false,
        }
    }

    /// This stream, for a kind of an aggregated API server.
    pub(super) fn aggregated(self) -> Self {
        Self { is_aggregated: true, ..self }
    }

    /// Feeds the objects of the latest kinds into the graph until the cluster stops.
    pub(super) async fn run(mut self, kinds: Arc<LatestValue<Kinds>>) {
        let stop = self.cluster.stop.clone();
        loop {
            let of = kinds.get();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = kinds.differs_from(&of) => {}
                // An error means that the informer stopped, which only a shutdown causes.
                result = self.feed(of.clone()) => if result.is_err() { return },
            }
        }
    }

    /// Feeds the objects of these kinds into the graph. Never ends by itself; dropping it ends its informer.
    async fn feed(&mut self, kinds: Kinds) -> Result<(), Stopped> {
        let client = self.cluster.client.agent("controllers");
        let mut resources = kinds.iter();
        let informer = match (resources.next(), self.is_aggregated) {
            (Some((kind, resource)), true) => self.watch(member::aggregated_source(&client, kind, resource)),
            (Some((_, first)), false) => {
                let rest = resources.map(|(_, resource)| gvr(resource));
                self.watch(member::source_of(&client, gvr(first), rest))
            }
            (None, true) => return std::future::pending().await,
            (None, false) => {
                self.forget(&BTreeSet::new());
                return std::future::pending().await;
            }
        };
        self.follow(informer).await
    }

    fn watch<S: ListerWatcher<Obj = OwnershipRecord>>(&self, source: S) -> Informer<OwnershipRecord> {
        let builder = Builder::new(source).name(&self.name).rng(&self.cluster.nondet.rng);
        let (informer, driver) = builder.build(&self.cluster.stop);
        self.cluster.spawn(driver);
        informer
    }

    async fn follow(&mut self, informer: Informer<OwnershipRecord>) -> Result<(), Stopped> {
        // Like the feeds of controllers, it needs every change: short-lived objects must reach the graph.
        let every = Delivery::Lossless { capacity: FEED_CHANGES, overflow: Overflow::SlowSource };
        let mut changes = informer.subscribe_with(every);
        informer.synced().await?;
        let first = changes.try_next();
        first.iter().for_each(|delta| self.take(delta));
        // Objects of the previous stream that this one does not show are gone.
        self.forget(&informer.view().iter().map(|member| member.key()).collect());
        while let Some(deltas) = changes.next().await {
            deltas.iter().for_each(|delta| self.take(delta));
        }
        Err(Stopped)
    }

    fn take(&mut self, delta: &Delta<OwnershipRecord>) {
        let member = delta.object();
        // Aggregated API servers may have objects without a uid, such as samples of metrics: they own nothing.
        if member.uid().is_empty() {
            return;
        }
        let before = match delta {
            Delta::Deleted(_) => self.members.remove(&member.key()),
            Delta::Added(_) | Delta::Updated { .. } | Delta::Resync(_) => {
                self.members.insert(member.key(), member.uid().to_owned())
            }
        };
        let causes = match self.is_aggregated {
            false => Causes::one(member.revision()),
            true => Causes::none(),
        };
        // The previous stream may have shown another object of this name.
        if let Some(uid) = before.filter(|uid| uid != member.uid()) {
            self.enqueue(self.shared.gone(&uid), &causes);
        }
        self.enqueue(self.shared.take(delta), &causes);
    }

    /// Removes all objects that are not in `but`.
    fn forget(&mut self, but: &BTreeSet<Key>) {
        let gone = |(key, uid): (&Key, &String)| (!but.contains(key)).then(|| (key.clone(), uid.clone()));
        for (key, uid) in self.members.iter().filter_map(gone).collect::<Vec<_>>() {
            self.members.remove(&key);
            self.enqueue(self.shared.gone(&uid), &Causes::none());
        }
    }

    fn enqueue(&self, keys: Vec<Key>, causes: &Causes) {
        keys.into_iter().for_each(|key| self.queue.add(key, causes.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn kinds(names: impl IntoIterator<Item = usize>, version: &'static str) -> Kinds {
        let kind = |name: usize| {
            let resource = Resource::named("example.com", version, format!("k{name}"));
            (format!("{name:03}"), resource)
        };
        names.into_iter().map(kind).collect()
    }

    fn sizes(streams: &[Arc<LatestValue<Kinds>>]) -> Vec<usize> {
        streams.iter().map(|stream| stream.get().len()).collect()
    }

    #[test]
    fn kinds_stay_on_their_streams_and_new_ones_fill_free_streams() {
        let mut streams = Vec::new();
        assert_eq!(assign(&mut streams, kinds(0..20, "v1")), [0, 1]);
        assert_eq!(sizes(&streams), [16, 4]);
        let second = streams[1].get();
        assert!(assign(&mut streams, kinds((1..20).chain([99]), "v1")).is_empty());
        assert_eq!(sizes(&streams), [16, 4]);
        assert!(streams[0].get().contains_key("099"));
        assert_eq!(streams[1].get(), second, "a stream whose kinds stay is not opened anew");
        assert!(assign(&mut streams, kinds((1..20).chain([99]), "v2")).is_empty());
        assert_ne!(streams[1].get(), second, "a stream of other versions is");
        assign(&mut streams, Kinds::new());
        assert_eq!(sizes(&streams), [0, 0]);
    }

    #[tokio::test]
    async fn the_reader_of_a_latest_value_wakes_on_changes_only() {
        let latest = LatestValue::new(1);
        assert!(!latest.set(1) && latest.set(2));
        latest.differs_from(&1).await;
        assert!(latest.differs_from(&2).now_or_never().is_none());
    }
}
