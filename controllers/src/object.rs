//! [`Object`]: a serialized object of any kind for a create or replace. It is serialized once, even if it is
//! sent several times.

use crate::resource::{Resource, resource_of};
use kstore_client::Kind;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// An object to create or replace, with its kind, name and JSON. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Object {
    /// The kind.
    pub resource: Resource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Empty if the server generates a name from `generateName`.
    pub name: String,
    json: Arc<RawValue>,
}

impl Object {
    /// Serializes `object`.
    pub(crate) fn of<K: Kind>(object: &K) -> Self {
        let json = serde_json::value::to_raw_value(object).expect("objects of Kubernetes have text as keys");
        let metadata = object.metadata();
        Self {
            resource: resource_of::<K>(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            json: json.into(),
        }
    }

    /// Serializes `object` after a change of its JSON: for members that the client types lack.
    pub(crate) fn with<K: Kind>(object: &K, change: impl FnOnce(&mut Value)) -> Self {
        let mut value = serde_json::to_value(object).expect("objects of Kubernetes have text as keys");
        change(&mut value);
        let json = serde_json::value::to_raw_value(&value).expect("it is JSON");
        Self { json: json.into(), ..Self::of(object) }
    }

    /// The JSON text.
    pub(crate) fn json(&self) -> &str {
        self.json.get()
    }

    /// The deserialized object; `None` if it has another kind.
    #[cfg(test)]
    pub(crate) fn typed<K: Kind>(&self) -> Option<K> {
        let same = self.resource == resource_of::<K>();
        same.then(|| serde_json::from_str(self.json.get()).expect("it was made from such a struct"))
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.resource == other.resource && self.json.get() == other.json.get()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource.plural, self.json.get())
    }
}
