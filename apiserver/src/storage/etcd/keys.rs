//! Where our keys are in etcd. Inside the apiserver all keys begin with `/registry/`; outside, `--etcd-prefix` is in its place,
//! and one key more, beside it, holds the note of the newest commit. Prefixes are text, so that this is plain cutting.

use super::note::Note;
use crate::storage::Raw;
use bytes::Bytes;
use kstore_proto::etcd::mvccpb::KeyValue;

/// What all keys begin with inside the apiserver, and by default outside.
pub(super) const INNER: &str = "/registry";

/// A prefix under which objects cannot live.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` cannot be the prefix of keys: it must be ASCII, and more than slashes")]
pub struct BadPrefix(String);

/// The keys of one cluster in an etcd.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// As Kubernetes reads a prefix: slashes at its ends do not matter.
    pub(super) fn new(prefix: &str) -> Result<Self, BadPrefix> {
        let bare = prefix.trim_matches('/');
        if bare.is_empty() || !bare.is_ascii() || bare.contains('\0') {
            return Err(BadPrefix(prefix.to_owned()));
        }
        Ok(Self { prefix: format!("/{bare}") })
    }

    /// The key in etcd.
    pub(super) fn outer(&self, key: &str) -> Bytes {
        let rest = key.strip_prefix(INNER).expect("every key of ours is below /registry");
        format!("{}{rest}", self.prefix).into()
    }

    /// The key inside; `None`: not one of ours.
    pub(super) fn inner(&self, key: &Bytes) -> Option<Bytes> {
        let rest = key.strip_prefix(self.prefix.as_bytes()).filter(|rest| rest.first() == Some(&b'/'))?;
        if self.prefix == INNER {
            return Some(key.clone());
        }
        Some([INNER.as_bytes(), rest].concat().into())
    }

    /// The key that every commit writes its note to.
    pub(super) fn note(&self) -> Bytes {
        format!("{}-kstore/note", self.prefix).into()
    }

    /// One range that has all of ours in it, the note included: `-` comes before `/`, and `0` after it.
    pub(super) fn everything(&self) -> (Bytes, Bytes) {
        (format!("{}-kstore/", self.prefix).into(), format!("{}0", self.prefix).into())
    }

    /// A stored value; `None`: not one of ours.
    pub(super) fn raw(&self, kv: KeyValue) -> Option<Raw> {
        let key = self.inner(&kv.key)?;
        Some(Raw { key, value: kv.value, revision: kv.mod_revision, created: kv.create_revision })
    }

    /// The note that this is, if it is one.
    pub(super) fn note_of(&self, kv: &KeyValue) -> Option<Note> {
        if kv.key != self.note() { None } else { Note::decode(&kv.value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_out_and_come_back_under_any_prefix() {
        for prefix in ["/registry", "registry/", "/", "", "ä", "/clusters/a", "r"] {
            let Ok(keys) = Keys::new(prefix) else {
                assert!(["/", "", "ä"].contains(&prefix), "{prefix}");
                continue;
            };
            let outer = keys.outer("/registry/pods/default/a");
            assert!(outer.starts_with(format!("/{}/pods/", prefix.trim_matches('/')).as_bytes()));
            assert_eq!(keys.inner(&outer).unwrap(), "/registry/pods/default/a");
            let (start, end) = keys.everything();
            for key in [outer, keys.note()] {
                assert!(start <= key && key < end, "{key:?}");
            }
            assert_eq!(keys.inner(&keys.note()), None);
            assert_eq!(keys.inner(&keys.outer("/registry0")), None, "another cluster's");
        }
    }
}
