//! [`UncommittedEntry`]: what a writer knows of an object before its commit.

use super::{Entry, KEY, Malformed, PackedStrings, Views, strings};
use bytes::Bytes;
use kstore_api::resource::Resource;
use kstore_api::{initializers, object};
use kstore_storage::storage::Raw;
use serde_json::Value;
use std::sync::OnceLock;

/// An entry without revisions: the object's bytes, and the strings that selectors compare. The entries that are made of it, those of the
/// answer and of the watch cache, share both. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UncommittedEntry {
    pub(super) resource: &'static Resource,
    pub(super) stored: Bytes,
    pub(super) metadata: usize,
    pub(super) is_uninitialized: bool,
    pub(super) strings: PackedStrings,
}

impl UncommittedEntry {
    /// An entry for an object under a storage key, and the bytes that will be stored for it.
    ///
    /// # Errors
    /// `stored` is not in the stored form.
    pub fn new(
        resource: &'static Resource,
        key: &str,
        value: &Value,
        stored: Bytes,
    ) -> Result<Self, Malformed> {
        let item = object::without_type_meta(&stored);
        let item = item.map_err(|e| Malformed::Invalid { key: key.to_owned(), reason: e.to_string() })?;
        let metadata = stored.len() - item.len();
        let strings = strings(resource, key, value);
        Ok(Self {
            resource,
            stored,
            metadata,
            is_uninitialized: initializers::is_uninitialized(value),
            strings,
        })
    }

    /// The entry of the object that was written at `revision`, and created at `created`.
    pub fn at(&self, revision: i64, created: i64) -> Entry {
        Entry {
            resource: self.resource,
            revision,
            created,
            written: revision,
            stored: self.stored.clone(),
            metadata: self.metadata,
            is_uninitialized: self.is_uninitialized,
            strings: self.strings.clone(),
            message: OnceLock::new(),
            value: OnceLock::new(),
            views: Views::default(),
        }
    }

    /// The entry of a value that the storage has by now, which has the same bytes. It shares those of the storage.
    pub(crate) fn of_stored(&self, raw: &Raw) -> Entry {
        Entry { stored: raw.value.clone(), ..self.at(raw.revision, raw.created) }
    }

    /// The table row of the object's kind, in the stored version.
    pub fn resource(&self) -> &'static Resource {
        self.resource
    }

    /// The storage key.
    pub fn key(&self) -> &str {
        self.strings.get(KEY)
    }

    /// The bytes that will be stored.
    pub fn stored(&self) -> &Bytes {
        &self.stored
    }

    /// Whether [`Entry::from_raw`] makes the same entry of these stored bytes. False for custom kinds, whose rows come and go.
    pub(crate) fn is_entry_of(&self, resource: &'static Resource, key: &str, stored: &[u8]) -> bool {
        std::ptr::eq(self.resource, resource)
            && resource.custom.is_none()
            && self.key() == key
            && self.stored == stored
    }
}
