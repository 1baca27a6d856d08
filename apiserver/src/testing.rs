//! A cluster for unit tests: a [`Lookup`] over a map, and watch cache entries. It has no revisions except a
//! counter, and no watch.

pub(crate) mod racing;

use crate::cache::Entry;
use crate::kinds::Kinds;
use crate::lookup::Lookup;
use kstore_api::kind::{self, Resource, ResourceId};
use kstore_api::meta;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

type Key = (ResourceId, String, String);

/// Objects by resource, namespace and name.
#[derive(Default)]
pub(crate) struct MapLookup {
    objects: Mutex<BTreeMap<Key, Arc<Value>>>,
    version: Mutex<i64>,
}

impl MapLookup {
    /// A cluster with these objects.
    pub(crate) fn of(objects: impl IntoIterator<Item = Value>) -> Arc<Self> {
        let cluster = Arc::new(Self::default());
        for object in objects {
            cluster.put(object);
        }
        cluster
    }

    /// Adds or replaces an object.
    pub(crate) fn put(&self, object: Value) {
        let api_version = object["apiVersion"].as_str().unwrap();
        let row = kind::lookup_api_version(api_version, object["kind"].as_str().unwrap()).unwrap();
        let key = (row.id(), meta::namespace(&object).to_owned(), meta::name(&object).to_owned());
        self.objects.lock().insert(key, Arc::new(object));
        *self.version.lock() += 1;
    }
}

impl Lookup for MapLookup {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects.lock().get(&(resource.id(), namespace.to_owned(), name.to_owned())).cloned()
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        let objects = self.objects.lock();
        let is_meant =
            |object: &Key| object.0 == resource.id() && resource.storage_key(&object.1, &object.2) == key;
        let (_, object) = objects.iter().find(|(object, _)| is_meant(object))?;
        let stored = kstore_api::object::encode_stored(object).into();
        Some(Arc::new(Entry::new(resource, key, object, stored, 1, 1).unwrap()))
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let objects = self.objects.lock();
        let matches = |key: &Key| key.0 == resource.id() && (namespace.is_empty() || key.1 == namespace);
        objects.iter().filter(|(key, _)| matches(key)).map(|(_, object)| object.clone()).collect()
    }

    fn kinds(&self) -> Arc<Kinds> {
        Arc::new(Kinds::built_in())
    }

    fn version(&self, _: &'static Resource) -> i64 {
        *self.version.lock()
    }
}

/// The entry of an empty ConfigMap in namespace `ns`, created at `revision`.
pub(crate) fn config_map(name: &str, revision: i64) -> Arc<Entry> {
    let row = kind::lookup("", "v1", "configmaps").unwrap();
    let value = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}});
    let stored = kstore_api::object::encode_stored(&value).into();
    Arc::new(Entry::new(row, &row.storage_key("ns", name), &value, stored, revision, revision).unwrap())
}
