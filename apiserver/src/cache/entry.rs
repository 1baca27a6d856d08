//! One object as the apiserver holds it: its bytes, made once, and the few fields that selectors look at. Not a parsed
//! object: who needs one parses the bytes.

use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::{meta, object, selector};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// An object at a revision. Immutable; shared by cache, lists and watches.
#[derive(Debug)]
pub struct Entry {
    /// The table row of its kind (of the version that is stored).
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
    /// The JSON object with its resourceVersion: what GET answers.
    pub json: Bytes,
    /// Labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, sorted by field.
    pub fields: Box<[(&'static str, Box<str>)]>,
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
}
