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
    /// Where in `json` the resourceVersion member is: without it these are the stored bytes.
    version_member: std::ops::Range<usize>,
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
        let malformed =
            |reason: String| Malformed { key: String::from_utf8_lossy(&raw.key).into_owned(), reason };
        let value: Value = serde_json::from_slice(&raw.value).map_err(|e| malformed(e.to_string()))?;
        let key = std::str::from_utf8(&raw.key).map_err(|e| malformed(e.to_string()))?;
        Self::new(resource, key, &value, &raw.value, raw.revision, raw.created)
    }

    /// From an object that was just written, and the bytes that were stored for it.
    pub fn new(
        resource: &'static Resource,
        key: &str,
        value: &Value,
        stored: &[u8],
        revision: i64,
        created: i64,
    ) -> Result<Self, Malformed> {
        let malformed = |reason: String| Malformed { key: key.to_owned(), reason };
        let (json, version_member) = splice(stored, revision).map_err(|e| malformed(e.to_string()))?;
        Ok(Self {
            resource,
            key: key.into(),
            namespace: meta::namespace(value).into(),
            name: meta::name(value).into(),
            uid: meta::uid(value).into(),
            revision,
            created,
            json,
            labels: labels(value),
            fields: selector::field::fields_of(resource, value),
            version_member,
        })
    }

    /// This last state with the revision at which it was deleted: what a DELETED event carries.
    pub fn deleted_at(&self, revision: i64) -> Self {
        let (json, version_member) =
            splice(&self.stored(), revision).expect("an entry was made from stored bytes");
        Self {
            resource: self.resource,
            key: self.key.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            revision,
            created: self.created,
            json,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            version_member,
        }
    }

    /// The object, parsed.
    pub fn parse(&self) -> Value {
        serde_json::from_slice(&self.json)
            .expect("an entry's bytes were parsed or encoded by us when it was made")
    }

    /// Whether these are the bytes that are stored for this entry.
    pub fn is_stored_as(&self, stored: &[u8]) -> bool {
        let (head, tail) = (&self.json[..self.version_member.start], &self.json[self.version_member.end..]);
        stored.len() == head.len() + tail.len() && stored.starts_with(head) && stored.ends_with(tail)
    }

    /// The bytes from `"metadata":` on: an item of a list is `{` and these.
    pub fn item(&self) -> &[u8] {
        object::without_type_meta(&self.json).expect("an entry was made from stored bytes")
    }

    fn stored(&self) -> Vec<u8> {
        [&self.json[..self.version_member.start], &self.json[self.version_member.end..]].concat()
    }
}

fn labels(value: &Value) -> Vec<(String, String)> {
    let labels = meta::labels(value).into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// The answered form of stored bytes, and where in it the resourceVersion member is.
fn splice(stored: &[u8], revision: i64) -> Result<(Bytes, std::ops::Range<usize>), object::NotStoredForm> {
    const METADATA: usize = "\"metadata\":{".len();
    let json = object::splice_revision(stored, revision.unsigned_abs())?;
    let start = stored.len() - object::without_type_meta(stored)?.len() + METADATA;
    let end = start + json.len() - stored.len();
    Ok((json, start..end))
}
