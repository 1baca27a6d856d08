//! A cluster for unit tests: a [`Lookup`] over a map. Not a store: no revisions but a counter, no watch.

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
    /// A cluster of these objects.
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

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        let objects = self.objects.lock();
        let matches = |key: &Key| key.0 == resource.id() && (namespace.is_empty() || key.1 == namespace);
        objects.iter().filter(|(key, _)| matches(key)).map(|(_, object)| object.clone()).collect()
    }

    fn version(&self, _: &'static Resource) -> i64 {
        *self.version.lock()
    }
}
