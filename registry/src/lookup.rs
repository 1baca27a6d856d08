//! [`Lookup`]: read access to the cluster's objects for authorization and admission, backed by the watch
//! cache. It is not a snapshot: each call returns the newest durable state.

use crate::cache::{Cache, Change, Changes, Filter, Objects, Position};
use crate::entry::Entry;
use crate::kinds::Kinds;
use crate::pod_dialer::PodDialer;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::selector::field;
use serde_json::Value;
use std::sync::Arc;

/// Read access to current objects. The watch cache implements it; tests use a map.
pub trait Lookup: Send + Sync {
    /// Returns the object, parsed.
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the stored entry of a key: its uid and revision are available without parsing the object.
    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>>;

    /// All objects of a kind in a namespace ("" for all namespaces and for cluster-scoped kinds), in key
    /// order.
    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>>;

    /// The first `limit` objects of a kind in a namespace, in key order, and the number of all of them.
    fn first(&self, resource: &'static Resource, namespace: &str, limit: usize) -> (Vec<Arc<Value>>, usize) {
        let mut objects = self.list(resource, namespace);
        let total = objects.len();
        objects.truncate(limit);
        (objects, total)
    }

    /// The pods that are bound to a node. Equal pods are the same entries as in an earlier answer.
    fn pods_of_node(&self, node: &str) -> Objects;

    /// The kinds that are served.
    fn kinds(&self) -> Arc<Kinds>;

    /// A number that changes whenever an object of the kind changes: values derived at the same number are
    /// still valid.
    fn version(&self, resource: &'static Resource) -> i64;

    /// Whether these kinds have not changed since `position`. False if this is unknown.
    fn is_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        let _ = (kinds, position);
        false
    }

    /// The changes of these kinds since a position of the same kinds. Only the newest ones are known.
    fn changes(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        let _ = (kinds, since);
        Changes { position: Position::default(), known: None }
    }

    /// The changes of these kinds that are seen here and not stored yet: those of an open transaction.
    fn staged(&self, kinds: &[&'static Resource]) -> Vec<Arc<Change>> {
        let _ = kinds;
        Vec::new()
    }

    /// What opens connections to programs in the cluster's pods; `None` if nothing does.
    fn pod_dialer(&self) -> Option<Arc<dyn PodDialer>> {
        None
    }
}

/// The row of a core kind in the table of kinds.
pub fn core(plural: &str) -> &'static Resource {
    kind::lookup("", "v1", plural).expect("the core kinds are in the table")
}

impl Lookup for Cache {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        Some(Cache::get(self, resource, &resource.storage_key(namespace, name))?.parsed())
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        Cache::get(self, resource, key)
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        // Admission reads kinds without objects, in most clusters, for every pod.
        if self.count(resource) == 0 {
            return Vec::new();
        }
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        self.scan(&filter).0.iter().map(|entry| entry.parsed()).collect()
    }

    fn first(&self, resource: &'static Resource, namespace: &str, limit: usize) -> (Vec<Arc<Value>>, usize) {
        let filter = Filter { namespace: namespace.to_owned(), ..Filter::all(resource) };
        let (entries, _) = self.scan(&filter);
        (entries.iter().take(limit).map(|entry| Arc::new(entry.parse())).collect(), entries.len())
    }

    fn pods_of_node(&self, node: &str) -> Objects {
        let fields = field::Selector::one("spec.nodeName", node);
        self.snapshot(&Filter { fields, ..Filter::all(core("pods")) }).objects
    }

    fn kinds(&self) -> Arc<Kinds> {
        Self::kinds(self)
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        self.kind_version(resource)
    }

    fn is_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        self.kinds_are_at(kinds, position)
    }

    fn changes(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        self.changes_since(kinds, since)
    }

    fn pod_dialer(&self) -> Option<Arc<dyn PodDialer>> {
        Self::pod_dialer(self)
    }
}
