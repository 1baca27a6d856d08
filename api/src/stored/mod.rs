//! Stored bytes of an object in this server's stored form, whichever program wrote them.
//!
//! kstore stores plain JSON in the storage version of the kind. A kube-apiserver stores protobuf by default, or JSON in another order of
//! members, and each release has its own storage versions: an object that nothing has changed since keeps the version of the release that
//! wrote it. [`read`] turns all of these into the stored form, and refuses what it does not know: an object that is read as another
//! version than its own would lose what that version calls otherwise.

mod definition;
mod foreign;
mod ingress;
mod versions;

#[cfg(test)]
mod tests;

use crate::resource::Resource;
use crate::schema::{self, fill};
use crate::wire::protobuf::{self, MAGIC, TypeMeta, WireError};
use crate::{convert, defaults, object};
pub use foreign::unknown_members;
use serde_json::Value;

/// Why stored bytes are not an object of the kind that their key says.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The bytes are neither JSON nor protobuf. Only another writer of the storage stores such a value.
    #[error("it is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The bytes begin like a protobuf message, and are none of this kind.
    #[error("its protobuf message cannot be read: {0}")]
    Protobuf(#[from] WireError),
    /// The value is JSON, but lacks `apiVersion`, `kind` or `metadata`.
    #[error("it lacks apiVersion, kind or metadata")]
    NotAnObject,
    /// The value is an object of another kind.
    #[error("it is a {kind} of {api_version}, and its key is one of {expected}")]
    OtherKind {
        /// The apiVersion in the value.
        api_version: String,
        /// The kind in the value.
        kind: String,
        /// The kind that the key belongs to.
        expected: String,
    },
    /// The value is stored in a version that this server cannot convert.
    #[error(
        "it is stored in version {api_version}, which kstore does not know: let a kube-apiserver that knows the version write the object again"
    )]
    UnknownVersion {
        /// The apiVersion in the value.
        api_version: String,
    },
}

/// The stored form of an object that is stored under a key of `resource`: JSON that begins with `apiVersion`, `kind` and `metadata`, in
/// the storage version of the kind. `None` if `bytes` have this form already, which costs no parsing. An object of a custom kind keeps its
/// version: the kind's definition says how to convert it. Members that the row's version of Kubernetes lacks are dropped if the row is
/// one for data of newer versions, which parses each object.
///
/// # Errors
/// The bytes are not an object of the kind, or of a version that is unknown. The object must not be served, since a write would lose
/// what was not understood.
pub fn read(resource: &Resource, bytes: &[u8]) -> Result<Option<Vec<u8>>, StoredError> {
    let row = resource.storage_row();
    let own_type = row.object_type().filter(|_| row.drops_unknown);
    if is_stored_form(row, bytes) {
        return match own_type.filter(|ty| !unknown_members(ty, bytes).is_empty()) {
            None => Ok(None),
            Some(ty) => {
                let mut value = serde_json::from_slice(bytes)?;
                foreign::remove_unknown(&mut value, ty);
                Ok(Some(object::encode_stored(&value)))
            }
        };
    }
    let mut value = match bytes.starts_with(&MAGIC) {
        true => from_protobuf(row, bytes)?,
        false => serde_json::from_slice(bytes)?,
    };
    let (api_version, kind) = (object::api_version(&value).to_owned(), object::kind(&value));
    if api_version.is_empty() || kind.is_empty() || !value["metadata"].is_object() {
        return Err(StoredError::NotAnObject);
    }
    if kind != row.kind {
        let expected = format!("{} {}", row.api_version(), row.kind);
        return Err(StoredError::OtherKind { kind: kind.to_owned(), api_version, expected });
    }
    if !row.is_custom() && api_version != row.api_version() {
        to_storage_version(row, api_version, &mut value)?;
    }
    if let Some(ty) = own_type {
        foreign::remove_unknown(&mut value, ty);
    }
    // A kube-apiserver sets defaults whenever it decodes, so that it stores an object without some of them.
    defaults::apply(row, &mut value);
    Ok(Some(object::encode_stored(&value)))
}

/// The members of a stored object that the row's version of Kubernetes does not have, by their paths. Members of an object in another
/// version than the storage version are those after its conversion. Objects that are not stored as JSON, or cannot be read, have none.
#[must_use]
pub fn members_not_shown(resource: &Resource, bytes: &[u8]) -> Vec<String> {
    let row = resource.storage_row();
    let Some(ty) = row.object_type().filter(|_| bytes.starts_with(b"{")) else { return Vec::new() };
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return Vec::new() };
    let api_version = object::api_version(&value).to_owned();
    if api_version.is_empty() || api_version == row.api_version() {
        return unknown_members(ty, bytes);
    }
    match to_storage_version(row, api_version, &mut value) {
        Ok(()) => unknown_members(ty, value.to_string().as_bytes()),
        Err(_) => Vec::new(),
    }
}

/// Converts an object to the storage version of its kind. Objects of unknown versions stay unchanged.
pub fn to_storage(resource: &Resource, object: &mut Value) {
    // On an error the object is unchanged, and other versions remain readable.
    convert::to_version(resource.storage_row(), object).ok();
}

/// Whether the bytes begin as kstore writes an object of the row: its version, its kind, its metadata.
fn is_stored_form(row: &Resource, bytes: &[u8]) -> bool {
    if object::without_type_meta(bytes).is_err() {
        return false;
    }
    if row.is_custom() {
        return true;
    }
    let after = |bytes: &[u8], text: &str| bytes.starts_with(text.as_bytes()).then_some(text.len());
    let rest = &bytes[b"{\"apiVersion\":\"".len()..];
    let group = match row.group {
        "" => Some(0),
        group => after(rest, group).filter(|at| rest.get(*at) == Some(&b'/')).map(|at| at + 1),
    };
    let Some(at) = group else { return false };
    let Some(length) = after(&rest[at..], row.version) else { return false };
    let rest = &rest[at + length..];
    let Some(kind) = rest.strip_prefix(b"\",\"kind\":\"") else { return false };
    after(kind, row.kind).is_some_and(|at| kind.get(at) == Some(&b'"'))
}

/// Decodes a protobuf message. A version without a message type of its own has the fields and numbers of the storage version.
fn from_protobuf(row: &Resource, bytes: &[u8]) -> Result<Value, StoredError> {
    let type_of = |meta: &TypeMeta| {
        if meta.kind != row.kind {
            return None;
        }
        let (group, version) = crate::group_version::split_api_version(&meta.api_version);
        let own = schema::of_minor(row.minor, group, version, &meta.kind);
        let is_known =
            meta.api_version == row.api_version() || versions::find(&meta.api_version, row.kind).is_some();
        own.or_else(|| row.object_type().filter(|_| is_known))
    };
    let (meta, mut value) = protobuf::decode_as(bytes, type_of).map_err(|error| match error {
        WireError::UnknownKind { kind, api_version } if kind == row.kind => {
            StoredError::UnknownVersion { api_version }
        }
        WireError::UnknownKind { kind, api_version } => StoredError::OtherKind {
            kind,
            api_version,
            expected: format!("{} {}", row.api_version(), row.kind),
        },
        error => error.into(),
    })?;
    // What Go prints even when it is zero is not in the message, and is in the JSON of every other object.
    if meta.api_version == row.api_version()
        && let Some(ty) = row.object_type()
    {
        fill::fill(&mut value, ty);
    }
    Ok(value)
}

/// Converts an object of a former storage version, or of another version that is served.
fn to_storage_version(row: &Resource, from: String, value: &mut Value) -> Result<(), StoredError> {
    if let Some(convert) = versions::find(&from, row.kind) {
        convert(value);
        value["apiVersion"] = row.api_version().into();
    } else if convert::to_version(row, value).is_err() {
        return Err(StoredError::UnknownVersion { api_version: from });
    }
    if let Some(ty) = row.object_type() {
        fill::fill_stored(value, ty);
    }
    Ok(())
}
