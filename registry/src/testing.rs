//! A cluster for unit tests: a [`Lookup`] over a map, and watch cache entries. It has no revisions except a
//! counter, and no watch. Like the watch cache, it knows only its newest changes.

use crate::cache::{Change, Changes, Objects, Position};
use crate::entry::Entry;
use crate::kinds::Kinds;
use crate::lookup::Lookup;
use kstore_api::kind::OptIn;
use kstore_api::resource::{Resource, ResourceId};
use kstore_api::{kind, meta};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

type Key = (ResourceId, String, String);

/// Number of changes that a cluster knows.
const KNOWN_CHANGES: usize = 8;

/// Objects by resource, namespace and name.
#[derive(Default)]
pub struct MapLookup(Mutex<MapState>);

#[derive(Default)]
struct MapState {
    /// The optional kinds that the cluster serves.
    opt_in: OptIn,
    objects: BTreeMap<Key, (Arc<Value>, Arc<Entry>)>,
    version: i64,
    /// The newest changes of all kinds.
    changes: VecDeque<Arc<Change>>,
}

impl MapState {
    fn change(&mut self, new: Option<Arc<Entry>>, old: Option<Arc<Entry>>) {
        self.changes.push_back(Arc::new(Change::new(self.version, new, old)));
        self.changes.drain(..self.changes.len().saturating_sub(KNOWN_CHANGES));
    }

    fn position(&self, kinds: &[&'static Resource]) -> Position {
        Position { reading: 0, versions: vec![self.version; kinds.len()].into() }
    }
}

impl MapLookup {
    /// Serves these optional kinds from now on.
    pub fn serve(&self, opt_in: OptIn) {
        self.0.lock().opt_in = opt_in;
    }

    /// A cluster with these objects.
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let cluster = Arc::new(Self::default());
        for object in objects {
            cluster.put(object);
        }
        cluster
    }

    /// Adds or replaces an object.
    pub fn put(&self, object: Value) {
        let mut state = self.0.lock();
        state.version += 1;
        let (row, key) = located(&object);
        let stored = kstore_api::object::encode_stored(&object).into();
        let storage_key = row.storage_key(&key.1, &key.2);
        let entry = Entry::new(row, &storage_key, &object, stored, state.version, state.version);
        let entry = Arc::new(entry.unwrap());
        let old = state.objects.insert(key, (Arc::new(object), entry.clone()));
        state.change(Some(entry), old.map(|(_, entry)| entry));
    }

    /// Deletes the object with the identity of `object`; nothing happens if there is none.
    pub fn delete(&self, object: &Value) {
        let mut state = self.0.lock();
        state.version += 1;
        if let Some((_, old)) = state.objects.remove(&located(object).1) {
            state.change(None, Some(old));
        }
    }
}

/// The row and the key of an object.
fn located(object: &Value) -> (&'static Resource, Key) {
    let api_version = object["apiVersion"].as_str().unwrap();
    let row = kind::known(api_version, object["kind"].as_str().unwrap()).unwrap();
    (row, (row.id(), meta::namespace(object).to_owned(), meta::name(object).to_owned()))
}

impl Lookup for MapLookup {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (resource.id(), namespace.to_owned(), name.to_owned());
        self.0.lock().objects.get(&key).map(|(object, _)| object.clone())
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        let state = self.0.lock();
        let is_meant =
            |object: &Key| object.0 == resource.id() && resource.storage_key(&object.1, &object.2) == key;
        state.objects.iter().find(|(object, _)| is_meant(object)).map(|(_, (_, entry))| entry.clone())
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let state = self.0.lock();
        let matches = |key: &Key| key.0 == resource.id() && (namespace.is_empty() || key.1 == namespace);
        state.objects.iter().filter(|(key, _)| matches(key)).map(|(_, (object, _))| object.clone()).collect()
    }

    fn pods_of_node(&self, node: &str) -> Objects {
        let state = self.0.lock();
        let pods = state.objects.iter().filter(|(key, _)| key.0 == crate::lookup::core("pods").id());
        let of_node = pods.filter(|(_, (_, entry))| entry.field("spec.nodeName") == node);
        let mut found = Objects::default();
        of_node.for_each(|(_, (_, entry))| drop(found.insert(entry.clone())));
        found
    }

    fn kinds(&self) -> Arc<Kinds> {
        Arc::new(Kinds::with_optional(self.0.lock().opt_in.clone()))
    }

    fn version(&self, _: &'static Resource) -> i64 {
        self.0.lock().version
    }

    fn is_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        *position == self.0.lock().position(kinds)
    }

    fn changes(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        let state = self.0.lock();
        let after = since.map_or(-1, |since| since.versions[0]);
        let newer = state.changes.iter().filter(|change| change.revision > after);
        let is_known = state.changes.front().is_none_or(|oldest| oldest.revision <= after + 1);
        let is_meant =
            |change: &&Arc<Change>| kinds.iter().any(|kind| kind.id() == change.any().resource.id());
        let known = is_known.then(|| newer.filter(is_meant).cloned().collect());
        Changes { position: state.position(kinds), known }
    }
}

/// The entry of an empty ConfigMap in namespace `ns`, created at `revision`.
#[cfg(test)]
pub(crate) fn config_map(name: &str, revision: i64) -> Arc<Entry> {
    let row = kind::lookup("", "v1", "configmaps").unwrap();
    let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}});
    let stored = kstore_api::object::encode_stored(&value).into();
    Arc::new(Entry::new(row, &row.storage_key("ns", name), &value, stored, revision, revision).unwrap())
}
