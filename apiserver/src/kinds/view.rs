//! Views of custom objects: a stored object, pruned and defaulted by the current schema and converted to the
//! requested version. An object that was stored under the current definition in its storage version is shown
//! byte for byte. Other views are computed once and kept with the entry. Objects that clients send are
//! decoded in `decode`.

use super::CustomVersion;
use crate::cache::Entry;
use crate::error;
use kstore_api::crd::{Conversion, convert};
use kstore_api::group_version::split_api_version;
use kstore_api::object;
use kstore_api::status::Status;
use kstore_api::structural::Origin;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Most views that an entry keeps: two for each version, one of the current definition and one of the definition
/// that it replaces.
const VIEWS: usize = 8;

/// The computed views of an entry. Empty, and a pointer in size, for nearly all entries.
#[derive(Debug, Default)]
pub(crate) struct Views(OnceLock<Box<Mutex<Vec<Remembered>>>>);

#[derive(Debug)]
struct Remembered {
    /// The hash of the definition that made the view.
    spec_hash: [u8; 32],
    /// The address of the version's row: a row that was made again has other names.
    row: usize,
    /// `None` if the view equals the stored bytes.
    view: Option<Arc<Entry>>,
}

impl CustomVersion {
    /// The view of an entry in this version: the entry itself, or another entry of the same revision.
    ///
    /// # Errors
    /// 500 if the stored object cannot be read or converted; [`error::conversion_needed`] if a webhook must
    /// be called first.
    pub fn view(&self, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        if self.is_stored() && entry.written() > self.kind.normal_since {
            return Ok(entry.clone());
        }
        let remembered = entry.views().get(self);
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
        entry.views().put(self, view.clone());
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
                    return Err(error::conversion_needed(
                        object::api_version(&object),
                        object::kind(&object),
                    ));
                }
            },
        }
        self.version().tree.prune(&mut object);
        self.version().tree.drop_nulls(&mut object);
        Ok(object)
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

impl Views {
    fn get(&self, version: &CustomVersion) -> Option<Option<Arc<Entry>>> {
        let views = self.0.get()?.lock();
        views.iter().find(|made| made.is_of(version)).map(|made| made.view.clone())
    }

    fn put(&self, version: &CustomVersion, view: Option<Arc<Entry>>) {
        let mut views = self.0.get_or_init(Box::default).lock();
        if views.len() >= VIEWS {
            views.remove(0);
        }
        let row = std::ptr::from_ref(version.row()).addr();
        views.push(Remembered { spec_hash: version.definition().spec_hash, row, view });
    }
}

impl Remembered {
    fn is_of(&self, version: &CustomVersion) -> bool {
        self.row == std::ptr::from_ref(version.row()).addr()
            && self.spec_hash == version.definition().spec_hash
    }
}
