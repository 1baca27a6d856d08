//! [`PolicyLookup`]: the cluster as plugins see it, with the policy that the authorizer keeps up to date, so
//! that no plugin compiles roles and bindings again.

use crate::plugin::Cluster;
use kstore_access::authz::Authorizer;
use kstore_access::authz::policy::Policy;
use kstore_api::resource::Resource;
use kstore_registry::cache::{Change, Changes, Objects, Position};
use kstore_registry::derived::Derive as _;
use kstore_registry::entry::Entry;
use kstore_registry::kinds::Kinds;
use kstore_registry::lookup::Lookup;
use kstore_registry::pod_dialer::PodDialer;
use serde_json::Value;
use std::sync::Arc;

/// A cluster, or a transaction's view of it, with the roles and bindings of its authorizer.
pub(super) struct PolicyLookup {
    pub(super) cluster: Arc<dyn Lookup>,
    pub(super) authorizer: Arc<Authorizer>,
}

impl Lookup for PolicyLookup {
    fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.cluster.get(resource, namespace, name)
    }

    fn entry(&self, resource: &'static Resource, key: &str) -> Option<Arc<Entry>> {
        self.cluster.entry(resource, key)
    }

    fn list(&self, resource: &'static Resource, namespace: &str) -> Vec<Arc<Value>> {
        self.cluster.list(resource, namespace)
    }

    fn first(&self, resource: &'static Resource, namespace: &str, limit: usize) -> (Vec<Arc<Value>>, usize) {
        self.cluster.first(resource, namespace, limit)
    }

    fn pods_of_node(&self, node: &str) -> Objects {
        self.cluster.pods_of_node(node)
    }

    fn kinds(&self) -> Arc<Kinds> {
        self.cluster.kinds()
    }

    fn version(&self, resource: &'static Resource) -> i64 {
        self.cluster.version(resource)
    }

    fn is_at(&self, kinds: &[&'static Resource], position: &Position) -> bool {
        self.cluster.is_at(kinds, position)
    }

    fn changes(&self, kinds: &[&'static Resource], since: Option<&Position>) -> Changes {
        self.cluster.changes(kinds, since)
    }

    fn staged(&self, kinds: &[&'static Resource]) -> Vec<Arc<Change>> {
        self.cluster.staged(kinds)
    }

    fn pod_dialer(&self) -> Option<Arc<dyn PodDialer>> {
        self.cluster.pod_dialer()
    }
}

impl Cluster for PolicyLookup {
    fn policy(&self) -> Arc<Policy> {
        let stored = self.authorizer.policy();
        let staged = self.cluster.staged(Policy::kinds());
        if staged.is_empty() { stored } else { Arc::new(stored.after(&staged)) }
    }
}
