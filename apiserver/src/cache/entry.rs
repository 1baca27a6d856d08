//! One object as the apiserver holds it: its bytes, made once, and the few fields that selectors look at. Not a parsed
//! object: who needs one parses the bytes.

use crate::storage::Raw;
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::{meta, object, selector};
use serde_json::Value;
use std::sync::Arc;

/// An object at a revision. Immutable; shared by cache, lists and watches.
#[derive(Debug)]
pub struct Entry {
    /// The table row of its kind, in the version that is stored.
    pub resource: &'static Resource,
    /// The storage key.
    pub key: Arc<str>,
    /// `metadata.namespace`, or empty.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub revision: i64,
    /// The revision at which the object was created.
    pub created: i64,
    /// The JSON object with its resourceVersion: what GET answers.
    pub json: Bytes,
    /// Labels, sorted by key.
    pub labels: Vec<(String, String)>,
    /// The values of the kind's selectable fields, sorted by field.
    pub fields: Vec<(&'static str, String)>,
}

/// Why stored bytes are not an object.
#[derive(Debug, thiserror::Error)]
#[error("the stored value of {key} is not a valid object: {reason}")]
pub struct Malformed {
    key: String,
    reason: String,
}

impl Entry {
    /// From stored bytes, which are parsed once for the selector fields.
    pub fn from_raw(resource: &'static Resource, raw: &Raw) -> Result<Self, Malformed> {
        let malformed = |reason: String| Malformed { key: String::from_utf8_lossy(&raw.key).into_owned(), reason };
        let value: Value = serde_json::from_slice(&raw.value).map_err(|e| malformed(e.to_string()))?;
        let key = std::str::from_utf8(&raw.key).map_err(|e| malformed(e.to_string()))?;
        Ok(Self::new(resource, key, &value, &raw.value, raw.revision, raw.created))
    }

    /// From an object that was just written, and the bytes that were stored for it.
    pub fn new(resource: &'static Resource, key: &str, value: &Value, stored: &[u8], revision: i64, created: i64) -> Self {
        let mut labels: Vec<(String, String)> =
            meta::labels(value).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        labels.sort();
        Self {
            resource,
            key: key.into(),
            namespace: meta::namespace(value).into(),
            name: meta::name(value).into(),
            uid: meta::uid(value).into(),
            revision,
            created,
            json: object::splice_revision(stored, revision),
            labels,
            fields: selector::field::fields_of(resource, value),
        }
    }

    /// This last state with the revision at which it was deleted: what a DELETED event carries.
    pub fn deleted_at(&self, revision: i64) -> Self {
        let stored = object::without_revision(&self.json);
        Self {
            resource: self.resource,
            key: self.key.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            revision,
            created: self.created,
            json: object::splice_revision(&stored, revision),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        }
    }

    /// The object, parsed.
    pub fn parse(&self) -> Value {
        serde_json::from_slice(&self.json).expect("an entry's bytes were parsed or encoded by us when it was made")
    }
}
