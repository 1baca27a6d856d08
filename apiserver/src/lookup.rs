//! [`Lookup`]: read access to the cluster's objects for authorization and admission, backed by the watch
//! cache. It is not a snapshot: each call returns the newest durable state.

use crate::cache::Entry;
use crate::kinds::Kinds;
use kstore_api::kind::Resource;
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

    /// The pods that are bound to a node.
    fn pods_of_node(&self, node: &str) -> Vec<Arc<Value>> {
        let pods = self.list(crate::token::core("pods"), "");
        pods.into_iter().filter(|pod| pod["spec"]["nodeName"] == node).collect()
    }

    /// The kinds that are served.
    fn kinds(&self) -> Arc<Kinds>;

    /// A number that changes whenever an object of the kind changes: values derived at the same number are
    /// still valid.
    fn version(&self, resource: &'static Resource) -> i64;
}
