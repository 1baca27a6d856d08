//! [`Lookup`]: read access to the cluster's objects for authorization and admission, backed by the watch
//! cache. It is not a snapshot: each call returns the newest durable state.

use crate::authz::policy::Policy;
use crate::cache::{Change, Entry, Objects};
use crate::kinds::Kinds;
use kstore_api::resource::Resource;
use serde_json::Value;
use std::sync::Arc;

/// A point in the history of some kinds. Equal positions of the same kinds mean equal objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// How often all objects had been read again. Versions of different readings cannot be compared.
    pub(crate) reading: u64,
    /// The version of each kind.
    pub(crate) versions: Box<[i64]>,
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

    /// The roles and bindings. Compiled for each call, unless an authorizer keeps them.
    fn policy(&self) -> Arc<Policy> {
        Arc::new(Policy::compile(self))
    }
}
