//! [`Object`]: an object of any kind that is written whole. Its JSON is made once, however often it is sent.

use crate::resource::{Resource, resource_of};
use kstore_client::Kind;
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// An object to be created or replaced: its kind, its name, its JSON. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Object {
    /// The kind.
    pub resource: Resource,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Empty if the server is to make a name from `generateName`.
    pub name: String,
    json: Arc<RawValue>,
}

impl Object {
    /// Writes `object` down.
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

    /// The text that is sent.
    pub(crate) fn json(&self) -> &str {
        self.json.get()
    }

    /// The object as a struct; `None` if it is of another kind.
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
