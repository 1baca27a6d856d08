//! Views of custom objects: a stored object, pruned and defaulted by the current schema and converted to the
//! requested version. An object that was stored under the current definition in its storage version is shown
//! byte for byte. Other views are computed once and kept with the entry. Objects that clients send are
//! decoded in `decode`.

use super::CustomVersion;
use crate::entry::{Entry, ViewKey};
use kstore_api::crd::{Conversion, convert};
use kstore_api::group_version::split_api_version;
use kstore_api::object;
use kstore_api::status::Status;
use kstore_api::structural::Origin;
use serde_json::Value;
use std::sync::Arc;

/// 500: a webhook must be called before the object can be read. The server calls it and reads again; clients
/// do not see this error.
pub fn conversion_needed(api_version: &str, kind: &str) -> Status {
    Status::unclassified(format!("conversion webhook for {api_version}, Kind={kind} {CONVERSION_NEEDED}"))
}

/// Whether reading an object failed for [`conversion_needed`].
pub fn is_conversion_needed(status: &Status) -> bool {
    status.message.ends_with(CONVERSION_NEEDED)
}

const CONVERSION_NEEDED: &str = "was not called yet";

impl CustomVersion {
    /// The view of an entry in this version: the entry itself, or another entry of the same revision.
    ///
    /// # Errors
    /// 500 if the stored object cannot be read or converted; [`conversion_needed`] if a webhook must
    /// be called first.
    pub fn view(&self, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        if self.is_stored() && entry.written() > self.kind.normal_since {
            return Ok(entry.clone());
        }
        let remembered = entry.views().get(&self.view_key());
        if let Some(view) = remembered {
            return Ok(view.unwrap_or_else(|| entry.clone()));
        }
        let shown = self.read(entry.parse())?;
        let bytes = object::encode_stored(&shown);
        let view = match entry.is_stored_as(&bytes) && self.is_stored() {
            true => None,
            false => {
                let made =
                    Entry::new(self.row(), entry.key(), &shown, bytes.into(), entry.revision, entry.created);
                Some(Arc::new(made.map_err(Status::internal)?))
            }
        };
        entry.views().put(self.view_key(), view.clone());
        Ok(view.unwrap_or_else(|| entry.clone()))
    }

    /// The view of a stored object in this version.
    ///
    /// # Errors
    /// The same errors as [`CustomVersion::view`].
    pub fn read(&self, mut object: Value) -> Result<Value, Status> {
        let definition = self.definition();
        let (_, from) = split_api_version(object::api_version(&object));
        // The schema of a removed version is unknown; the storage version's is used.
        let from = definition.version(from).unwrap_or_else(|| definition.storage_version());
        from.tree.read(&mut object, Origin::Storage).map_err(Status::internal)?;
        self.converted(object)
    }

    /// Converts an object of another version of the kind to this version.
    ///
    /// # Errors
    /// The same errors as [`CustomVersion::view`].
    pub fn converted(&self, mut object: Value) -> Result<Value, Status> {
        let definition = self.definition();
        let wanted = definition.api_version(&self.version().name);
        if object::api_version(&object) == wanted {
            return Ok(object);
        }
        match definition.conversion {
            Conversion::None => convert::to_version(definition, &self.version().name, &mut object),
            Conversion::Webhook { .. } => match self.kind.conversions.get(&self.version().name, &object)? {
                Some(converted) => object = (*converted).clone(),
                None => {
                    return Err(conversion_needed(object::api_version(&object), object::kind(&object)));
                }
            },
        }
        self.version().tree.prune(&mut object);
        self.version().tree.drop_nulls(&mut object);
        Ok(object)
    }

    fn view_key(&self) -> ViewKey {
        ViewKey { spec_hash: self.definition().spec_hash, row: std::ptr::from_ref(self.row()).addr() }
    }

    /// Whether a webhook converts objects of other versions.
    #[must_use]
    pub fn needs_webhook(&self) -> bool {
        matches!(self.definition().conversion, Conversion::Webhook { .. })
    }

    /// Whether the fields of all stored objects are the same in every version, so that selectors can use the
    /// stored bytes.
    #[must_use]
    pub(crate) fn is_as_stored(&self) -> bool {
        !self.needs_webhook() && self.kind.normal_since == self.kind.created
    }

    /// The version in which objects are stored.
    #[must_use]
    pub fn storage(&self) -> Self {
        Self { kind: self.kind.clone(), index: self.kind.definition.storage }
    }
}
