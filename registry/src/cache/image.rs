//! [`CacheImage`]: the contents of a watch cache at one revision. Another server's cache can start from it,
//! over a storage that has the same objects at that revision. Objects are shared; watchers and recent changes
//! are not part of it.

use super::recent::Recent;
use super::{Cache, CacheState, FillError, Kind, run};
use crate::kinds::Kinds;
use kstore_storage::metrics::Metrics;
use kstore_storage::storage::{RawBatch, SharedStorage};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

/// The contents of a watch cache at one revision. Immutable. Its memory is proportional to the number of
/// kinds, not of objects, until the cache changes.
pub struct CacheImage {
    revision: i64,
    state: CacheState,
}

impl std::fmt::Debug for CacheImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheImage").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl CacheImage {
    /// The revision of the contents.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The same contents at a later revision, for a storage that has these objects there and no history before it. A watch that resumes
    /// from an earlier revision reads the storage, which refuses it.
    #[must_use]
    pub fn moved_to(&self, revision: i64) -> Self {
        let mut state = self.state.forked();
        state.kinds.values_mut().for_each(|kind| kind.recent = Recent::starting_at(revision));
        Self { revision, state }
    }
}

impl Cache {
    /// The contents at the cache's current revision.
    pub fn image(&self) -> CacheImage {
        let state = self.state.read();
        // The revision changes only under the write lock.
        let revision = self.revision();
        CacheImage { revision, state: state.forked() }
    }

    /// Starts a cache from an image instead of reading everything, otherwise like [`Cache::fill_counted`].
    /// `storage` must have the image's objects at its revision, and its history since then.
    pub async fn from_image(
        image: &CacheImage,
        storage: SharedStorage,
        metrics: Arc<Metrics>,
        observe: impl Fn(&RawBatch) + Send + Sync + 'static,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + 'static), FillError> {
        let watch = storage.watch("", image.revision).await?;
        let cache = Arc::new(Self {
            storage,
            state: parking_lot::RwLock::new(image.state.forked()),
            uncommitted: Default::default(),
            revision: AtomicI64::new(image.revision),
            closed: AtomicBool::new(false),
            is_following: AtomicBool::new(true),
            applied: Notify::new(),
            pod_dialer: OnceLock::new(),
        });
        let task = run(cache.clone(), watch, metrics, observe);
        Ok((cache, task))
    }
}

impl CacheState {
    fn forked(&self) -> Self {
        let kinds: BTreeMap<&'static str, Kind> =
            self.kinds.iter().map(|(root, kind)| (*root, kind.forked())).collect();
        Self {
            reading: self.reading,
            served: Kinds::forked(&self.served),
            kinds,
            retained: Default::default(),
            next_listener: 0,
            unreadable: self.unreadable.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Filter, Watch, WatchEnd, WatchStart};
    use super::*;
    use kstore_api::kind;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    fn pod(name: &str, node: &str) -> (String, String) {
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        (format!("/registry/pods/ns/{name}"), value)
    }

    fn names(cache: &Cache, node: &str) -> Vec<String> {
        let mut filter = Filter::all(kind::lookup("", "v1", "pods").unwrap());
        if !node.is_empty() {
            filter.fields =
                kstore_api::selector::field::Selector::parse(&format!("spec.nodeName={node}")).unwrap();
        }
        cache.scan(&filter).0.iter().map(|entry| entry.name().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_from_an_image_that_was_moved_shows_its_objects_and_refuses_to_resume_from_before() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        for name in ["a", "b"] {
            let (key, value) = pod(name, "n1");
            store.put(key, value).await.unwrap();
        }
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store.clone())), |_| {}).await.unwrap();
        tokio::spawn(follow);
        let above = store.image().unwrap().above(kstore_store::Revision(70));
        let moved = cache.image().moved_to(above.revision().0);
        let copy = Store::from_image(&above, &Nondet::simulated(2));
        let storage = Arc::new(Embedded::new(copy.clone()));
        let (fork, follow) = Cache::from_image(&moved, storage, Arc::default(), |_| {}).await.unwrap();
        tokio::spawn(follow);
        assert_eq!(fork.fresh().await.unwrap(), 72);
        assert_eq!((names(&fork, ""), names(&fork, "n1").len()), (vec!["a".into(), "b".into()], 2));
        let filters = || vec![Filter::all(kind::lookup("", "v1", "pods").unwrap())];
        for revision in [2, 3, 69, 70] {
            for start in [WatchStart::After(revision), WatchStart::Resume(revision)] {
                let mut watch = match Watch::start(fork.clone(), filters(), start).await {
                    Ok(watch) => watch,
                    Err(end) => Watch::ended(fork.clone(), filters(), end),
                };
                let end = watch.next().await.expect_err("these revisions are another cluster's");
                assert!(matches!(end, WatchEnd::Expired { .. }), "{revision}: {end:?}");
            }
        }
        let mut watch = Watch::start(fork.clone(), filters(), WatchStart::After(72)).await.unwrap();
        copy.delete(pod("a", "").0).await.unwrap();
        let batch = watch.next().await.unwrap();
        assert_eq!(batch.deliveries.iter().map(|one| one.change.revision).collect::<Vec<_>>(), [73]);
        assert_eq!((names(&fork, ""), names(&cache, "").len()), (vec!["b".into()], 2));
    }

    #[tokio::test(start_paused = true)]
    async fn caches_from_an_image_follow_their_own_storages() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        for (name, node) in [("a", "n1"), ("b", "n2")] {
            let (key, value) = pod(name, node);
            store.put(key, value).await.unwrap();
        }
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store.clone())), |_| {}).await.unwrap();
        tokio::spawn(follow);
        let image = cache.image();
        // Newer than the image: the fork's cache reads it from the history.
        let (key, value) = pod("c", "n1");
        store.put(key, value).await.unwrap();
        let copy = Store::from_image(&store.image().unwrap(), &Nondet::simulated(2));
        let storage = Arc::new(Embedded::new(copy.clone()));
        let (fork, follow) = Cache::from_image(&image, storage, Arc::default(), |_| {}).await.unwrap();
        tokio::spawn(follow);
        fork.fresh().await.unwrap();
        assert_eq!(
            (names(&fork, ""), names(&fork, "n1")),
            (vec!["a".into(), "b".into(), "c".into()], vec!["a".into(), "c".into()])
        );

        let filters = vec![Filter::all(kind::lookup("", "v1", "pods").unwrap())];
        let mut watch = Watch::start(fork.clone(), filters, WatchStart::After(2)).await.unwrap();
        copy.delete(pod("a", "").0).await.unwrap();
        store.delete(pod("b", "").0).await.unwrap();
        fork.fresh().await.unwrap();
        cache.fresh().await.unwrap();
        assert_eq!(
            (names(&fork, ""), names(&cache, "")),
            (vec!["b".into(), "c".into()], vec!["a".into(), "c".into()])
        );
        let mut revisions = Vec::new();
        while revisions.last() != Some(&copy.revision().0) {
            let batch = watch.next().await.unwrap();
            revisions.extend(batch.deliveries.iter().map(|delivery| delivery.change.revision));
        }
        assert_eq!(revisions, [3, 4, 5], "a watch that resumes before the image reads the history");
    }
}
