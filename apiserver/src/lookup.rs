//! What authorization and admission may ask about the cluster: a read-only window on the watch cache. Not a way to write,
//! and not a snapshot: each call answers with the newest durable state.

use crate::cache::Entry;
use crate::kinds::Kinds;
use kstore_api::kind::Resource;
use serde_json::Value;
use std::sync::Arc;

/// Read access to current objects. The watch cache implements it; tests use a map.
pub trait Lookup: Send + Sync {
    /// The object, parsed.
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// The object under a storage key, as it is stored: for what its key, uid and revision tell without parsing it.
    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>>;

    /// All objects of a kind in a namespace ("" for all namespaces and for cluster-scoped kinds), in key order.
    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>>;

    /// The first `limit` objects of a kind in a namespace, in key order, and how many there are.
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

    /// A number that moves whenever any object of the kind changes: what was derived at the same number still holds.
    fn version(&self, resource: &'static Resource) -> i64;
}
