//! The changes of some kinds since a position, for values that are derived from their objects and follow
//! them.

use super::{Cache, CacheState, Change, root};
use kstore_api::resource::Resource;
use std::sync::Arc;

/// A point in the history of some kinds. Equal positions of the same kinds mean equal objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How often all objects had been read again. Versions of different readings cannot be compared.
    pub reading: u64,
    /// The version of each kind.
    pub versions: Box<[i64]>,
}

/// The changes of some kinds since a position.
#[derive(Debug)]
pub struct Changes {
    /// The position that they lead to.
    pub position: Position,
    /// The changes; those of one kind are in their order. `None` if they are not known any more. Objects that
    /// are read now are at least as new as `position`.
    pub known: Option<Vec<Arc<Change>>>,
}

impl Cache {
    /// The revision of the newest change of a kind.
    pub(crate) fn kind_version(&self, resource: &Resource) -> i64 {
        self.state.read().version(resource)
    }

    /// Whether these kinds have not changed since `position`.
    pub(crate) fn kinds_are_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        self.state.read().is_at(kinds, position)
    }

    /// The changes of these kinds since a position of the same kinds.
    pub(crate) fn changes_since(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        self.state.read().changes(kinds, since)
    }
}

impl CacheState {
    /// The revision of the newest change of a kind.
    pub(super) fn version(&self, resource: &Resource) -> i64 {
        self.kinds.get(root(resource)).map_or(0, |kind| kind.changed)
    }

    pub(super) fn is_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        let versions = kinds.iter().map(|resource| self.version(resource));
        position.reading == self.reading && versions.eq(position.versions.iter().copied())
    }

    pub(super) fn changes(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        let versions = kinds.iter().map(|resource| self.version(resource)).collect();
        let position = Position { reading: self.reading, versions };
        let since =
            since.filter(|since| since.reading == self.reading && since.versions.len() == kinds.len());
        let mut known = since.map(|_| Vec::new());
        let versions = since.map(|since| &*since.versions).unwrap_or_default();
        for (resource, after) in kinds.iter().zip(versions) {
            let Some(kind) = self.kinds.get(root(resource)) else { continue };
            if kind.recent.start() > *after {
                known = None;
            }
            if let Some(known) = &mut known {
                known.extend(kind.recent.after(*after).map(|(_, change)| change.clone()));
            }
        }
        Changes { position, known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::{Lookup, core};
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    async fn put(store: &Store, kind: &str, name: &str) {
        let plural = format!("{}s", kind.to_lowercase());
        let value = format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"ns"}}}}"#
        );
        store.put(format!("/registry/{plural}/ns/{name}"), value).await.unwrap();
    }

    async fn cache_of(store: &Store) -> Arc<Cache> {
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store.clone())), |_| {}).await.unwrap();
        tokio::spawn(follow);
        cache
    }

    /// The names of the changes since a position, and the position that they lead to.
    fn names(cache: &Cache, since: &Position) -> (Option<Vec<String>>, Position) {
        let Changes { position, known } = cache.changes(&[core("secrets"), core("configmaps")], Some(since));
        (known.map(|known| known.iter().map(|change| change.any().name().to_owned()).collect()), position)
    }

    #[tokio::test(start_paused = true)]
    async fn the_changes_of_the_kinds_since_a_position_are_known_until_they_are_released() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        put(&store, "Secret", "a").await;
        let cache = cache_of(&store).await;
        let kinds = [core("secrets"), core("configmaps")];
        let Changes { position: start, known } = cache.changes(&kinds, None);
        assert!(known.is_none() && cache.is_at(&kinds, &start));
        put(&store, "Pod", "other").await;
        cache.fresh().await.unwrap();
        assert!(cache.is_at(&kinds, &start), "another kind changed");
        for (kind, name) in [("ConfigMap", "b"), ("Secret", "c"), ("Secret", "d")] {
            put(&store, kind, name).await;
        }
        store.delete("/registry/secrets/ns/a").await.unwrap();
        cache.fresh().await.unwrap();
        assert!(!cache.is_at(&kinds, &start));
        let (known, middle) = names(&cache, &start);
        assert_eq!(known.unwrap(), ["c", "d", "a", "b"]);
        put(&store, "Secret", "e").await;
        cache.fresh().await.unwrap();
        assert_eq!(names(&cache, &middle).0.unwrap(), ["e"]);
        // The image has no earlier changes, but knows those since its kinds last changed.
        let (_, newest) = names(&cache, &middle);
        let image = cache.image();
        let copy = Store::from_image(&store.image().unwrap(), &Nondet::simulated(2));
        let storage = Arc::new(Embedded::new(copy.clone()));
        let (fork, follow) = Cache::from_image(&image, storage, Arc::default(), |_| {}).await.unwrap();
        tokio::spawn(follow);
        assert!(fork.is_at(&kinds, &newest));
        put(&copy, "Secret", "f").await;
        fork.fresh().await.unwrap();
        assert_eq!(names(&fork, &newest).0.unwrap(), ["f"]);
        assert_eq!(names(&fork, &middle).0, None);
        assert!(cache.is_at(&kinds, &newest), "the copy changed, not the original");
    }

    #[tokio::test(start_paused = true)]
    async fn no_change_is_known_after_everything_was_read_again() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        put(&store, "Secret", "a").await;
        let cache = cache_of(&store).await;
        let kinds = [core("secrets"), core("configmaps")];
        let before = cache.changes(&kinds, None).position;
        assert!(cache.is_at(&kinds, &before));
        let _watch = cache.refill().await.unwrap();
        assert!(!cache.is_at(&kinds, &before), "equal revisions of different readings are not compared");
        let (known, after) = names(&cache, &before);
        assert!(known.is_none() && cache.is_at(&kinds, &after));
    }
}
