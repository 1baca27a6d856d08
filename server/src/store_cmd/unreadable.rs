//! Stored values that a server could not read as objects, named when a snapshot is restored rather than at the next start.

use kstore_registry::entry::{Entry, Malformed};
use kstore_storage::storage::Raw;
use kstore_storage::storage_key;
use kstore_store::KeyValue;
use std::collections::BTreeMap;

/// Keys whose newest version cannot be read, with the reasons. Objects of custom kinds are not judged: their definitions may come
/// later, and they are always JSON.
#[derive(Debug, Default)]
pub(super) struct UnreadableValues(BTreeMap<Vec<u8>, String>);

impl UnreadableValues {
    /// Judges the next version of a key.
    pub(super) fn visit(&mut self, version: &KeyValue, is_deletion: bool) {
        match reason(version).filter(|_| !is_deletion) {
            Some(reason) => {
                self.0.insert(version.key().to_vec(), reason);
            }
            None => {
                self.0.remove(version.key());
            }
        }
    }

    /// How many there are, the first, and what to do; `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        let (_, reason) = self.0.first_key_value()?;
        let what = match self.0.len() {
            1 => "1 stored value cannot be read, and a server will not serve this object".to_owned(),
            count => {
                format!("{count} stored values cannot be read, and a server will not serve these objects")
            }
        };
        Some(format!(
            "{what}. The first: {reason}. Save the snapshot from a kube-apiserver with --storage-media-type=application/json, or \
             DELETE the objects: GET of one tells why it cannot be read"
        ))
    }
}

/// Why the value cannot be read as an object of its kind. An encrypted value can be, by a server with its keys.
fn reason(version: &KeyValue) -> Option<String> {
    let key = std::str::from_utf8(version.key()).ok()?;
    let resource = storage_key::built_in_of_key(key)?;
    let raw = Raw {
        key: version.key_bytes(),
        value: version.value_bytes(),
        undecrypted: None,
        revision: version.mod_revision().0,
        created: version.create_revision().0,
    };
    match Entry::from_raw(resource, &raw) {
        Err(invalid @ Malformed::Invalid { .. }) => Some(invalid.to_string()),
        Ok(_) | Err(Malformed::Undecrypted(_)) => None,
    }
}
