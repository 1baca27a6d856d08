//! [`Derived`]: a value that is derived from all objects of some kinds and follows their changes.

use crate::cache::{Change, Changes, Position};
use crate::lookup::Lookup;
use kstore_api::resource::Resource;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// A value that can be made from all objects of some kinds, and from an earlier one and the changes since.
pub trait Derive: Sized {
    /// The kinds on which the value depends.
    fn kinds() -> &'static [&'static Resource];

    /// The value of all current objects. May share parts with an outdated value.
    fn read(lookup: &dyn Lookup, outdated: Option<&Self>) -> Self;

    /// The value after these changes. Those of one object are in their order, and may have been applied
    /// before.
    fn after(&self, changes: &[Arc<Change>]) -> Self;
}

/// A derived value and the position up to which it contains all changes.
#[derive(Debug)]
pub struct Derivation<T> {
    position: Position,
    value: Arc<T>,
}

impl<T> Clone for Derivation<T> {
    fn clone(&self) -> Self {
        Self { position: self.position.clone(), value: self.value.clone() }
    }
}

/// A derived value that is brought up to date when it is needed.
#[derive(Debug)]
pub struct Derived<T> {
    newest: RwLock<Option<Derivation<T>>>,
    /// Locked while the value is updated, so that concurrent requests do not repeat the work.
    updates: Mutex<()>,
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Self::starting_with(None)
    }
}

impl<T> Derived<T> {
    /// Starts with a value derived for another server with the same history up to its position.
    pub fn starting_with(known: Option<Derivation<T>>) -> Self {
        Self { newest: RwLock::new(known), updates: Mutex::default() }
    }

    /// The last value; it may be outdated.
    pub fn last(&self) -> Option<Derivation<T>> {
        self.newest.read().clone()
    }
}

impl<T: Derive> Derived<T> {
    /// The value of the newest durable objects that `lookup` shows. All objects are read only by the first
    /// call, and if the changes since the last call are not known any more.
    pub fn get(&self, lookup: &dyn Lookup) -> Arc<T> {
        self.current(lookup).unwrap_or_else(|| {
            let _update = self.updates.lock();
            // Another request may have updated it while this one waited.
            self.current(lookup).unwrap_or_else(|| self.update(lookup))
        })
    }

    /// The value, if nothing has changed since.
    fn current(&self, lookup: &dyn Lookup) -> Option<Arc<T>> {
        let newest = self.newest.read();
        let newest = newest.as_ref()?;
        lookup.is_at(T::kinds(), &newest.position).then(|| newest.value.clone())
    }

    /// Brings the value up to date. Called by one thread at a time.
    fn update(&self, lookup: &dyn Lookup) -> Arc<T> {
        let last = self.last();
        let since = last.as_ref().map(|last| &last.position);
        let Changes { position, known } = lookup.changes(T::kinds(), since);
        let value = Arc::new(match (&last, known) {
            (Some(last), Some(changes)) => last.value.after(&changes),
            (last, _) => T::read(lookup, last.as_ref().map(|last| &*last.value)),
        });
        *self.newest.write() = Some(Derivation { position, value: value.clone() });
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MapLookup;
    use serde_json::{Value, json};

    /// How the value was made: the number of objects read, and the names changed since.
    #[derive(Debug, PartialEq, Eq)]
    struct Origin(usize, Vec<String>);

    impl Derive for Origin {
        fn kinds() -> &'static [&'static Resource] {
            static KINDS: std::sync::OnceLock<[&'static Resource; 1]> = std::sync::OnceLock::new();
            KINDS.get_or_init(|| [crate::lookup::core("configmaps")])
        }

        fn read(lookup: &dyn Lookup, _: Option<&Self>) -> Self {
            Self(lookup.list(Self::kinds()[0], "").len(), Vec::new())
        }

        fn after(&self, changes: &[Arc<Change>]) -> Self {
            let changed = changes.iter().map(|change| change.any().name().to_owned());
            Self(self.0, self.1.iter().cloned().chain(changed).collect())
        }
    }

    fn config_map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}})
    }

    #[test]
    fn objects_are_read_once_while_the_changes_are_known() {
        let cluster = MapLookup::of(["a", "b"].map(config_map));
        let derived = Derived::<Origin>::default();
        let first = derived.get(&*cluster);
        assert_eq!(*first, Origin(2, vec![]));
        assert!(Arc::ptr_eq(&first, &derived.get(&*cluster)), "nothing changed");
        cluster.put(config_map("c"));
        cluster.delete(&config_map("a"));
        let changed = vec!["c".to_owned(), "a".to_owned()];
        assert_eq!(*derived.get(&*cluster), Origin(2, changed), "only the changes are applied");
        (0..100).for_each(|number| cluster.put(config_map(&number.to_string())));
        assert_eq!(*derived.get(&*cluster), Origin(102, vec![]), "too many changes: all are read");
        let other = Derived::starting_with(derived.last());
        assert!(Arc::ptr_eq(&other.get(&*cluster), &derived.get(&*cluster)), "a copy starts with the value");
    }
}
