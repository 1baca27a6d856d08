//! Maps the apiserver's storage keys to etcd keys. In the apiserver all keys begin with `/registry/`; in
//! etcd, `--etcd-prefix` replaces that prefix. Two more keys, next to the prefix, hold the note of the newest
//! commit and the version of the data.

use super::note::Note;
use crate::storage::Raw;
use crate::storage_key::DATA_VERSION;
use bytes::Bytes;
use kstore_proto::etcd::mvccpb::KeyValue;

/// Prefix of all keys in the apiserver; also the default prefix in etcd.
pub(super) const INNER: &str = "/registry";

/// The error of an invalid `--etcd-prefix`.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid key prefix `{0}`: it must be ASCII and contain more than slashes")]
pub struct BadPrefix(String);

/// The keys of one cluster in an etcd.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// Parses a prefix as Kubernetes does: leading and trailing slashes do not matter.
    pub(super) fn new(prefix: &str) -> Result<Self, BadPrefix> {
        let bare = prefix.trim_matches('/');
        if bare.is_empty() || !bare.is_ascii() || bare.contains('\0') {
            return Err(BadPrefix(prefix.to_owned()));
        }
        Ok(Self { prefix: format!("/{bare}") })
    }

    /// The etcd key of a storage key.
    pub(super) fn etcd_key(&self, key: &str) -> Bytes {
        let rest = key.strip_prefix(INNER).expect("every storage key is below /registry");
        format!("{}{rest}", self.prefix).into()
    }

    /// The storage key of an etcd key; `None` for keys outside the prefix, and for the note's.
    pub(super) fn storage_key(&self, key: &Bytes) -> Option<Bytes> {
        let is_own = |rest: &&[u8]| {
            rest.first() == Some(&b'/')
                || DATA_VERSION.as_bytes().strip_prefix(INNER.as_bytes()) == Some(rest)
        };
        let rest = key.strip_prefix(self.prefix.as_bytes()).filter(is_own)?;
        if self.prefix == INNER {
            return Some(key.clone());
        }
        Some([INNER.as_bytes(), rest].concat().into())
    }

    /// The key to which every commit writes its note.
    pub(super) fn note(&self) -> Bytes {
        format!("{}-kstore/note", self.prefix).into()
    }

    /// One range that contains all keys of the cluster and the note: `-` sorts before `/`, and `0` after it.
    pub(super) fn all_keys(&self) -> (Bytes, Bytes) {
        (format!("{}-kstore/", self.prefix).into(), format!("{}0", self.prefix).into())
    }

    /// The value of an etcd key; `None` for keys outside the prefix.
    pub(super) fn raw(&self, kv: KeyValue) -> Option<Raw> {
        let key = self.storage_key(&kv.key)?;
        let (revision, created) = (kv.mod_revision, kv.create_revision);
        Some(Raw { key, value: kv.value, undecrypted: None, revision, created })
    }

    /// Decodes the note, if the key is the note's.
    pub(super) fn note_of(&self, kv: &KeyValue) -> Option<Note> {
        if kv.key != self.note() { None } else { Note::decode(&kv.value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_map_to_etcd_and_back_under_any_prefix() {
        for prefix in ["/registry", "registry/", "/", "", "ä", "/clusters/a", "r"] {
            let Ok(keys) = Keys::new(prefix) else {
                assert!(["/", "", "ä"].contains(&prefix), "{prefix}");
                continue;
            };
            let outer = keys.etcd_key("/registry/pods/default/a");
            assert!(outer.starts_with(format!("/{}/pods/", prefix.trim_matches('/')).as_bytes()));
            assert_eq!(keys.storage_key(&outer).unwrap(), "/registry/pods/default/a");
            let (start, end) = keys.all_keys();
            let version = keys.etcd_key(DATA_VERSION);
            assert_eq!(keys.storage_key(&version).unwrap(), DATA_VERSION);
            for key in [outer, keys.note(), version] {
                assert!(start <= key && key < end, "{key:?}");
            }
            assert_eq!(keys.storage_key(&keys.note()), None);
            assert_eq!(keys.storage_key(&keys.etcd_key("/registry0")), None, "another cluster's");
        }
    }
}
