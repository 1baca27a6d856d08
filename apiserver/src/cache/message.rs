//! Objects as protobuf messages, made from their JSON when somebody first wants them, and kept as long as all that are kept
//! stay within a bound. A list of ten thousand pods is then encoded once, not once per client.

use super::entry::Entry;
use crate::limits;
use bytes::Bytes;
use kstore_api::wire::protobuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all messages that are kept, of all caches of this process.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A message that counts against the bound while it lives.
#[derive(Debug)]
pub(super) struct Kept(Bytes);

impl Kept {
    /// `None` if there is no room.
    pub(super) fn new(bytes: Bytes) -> Option<Self> {
        let before = KEPT.fetch_add(bytes.len(), Ordering::Relaxed);
        let kept = Self(bytes);
        // What does not fit gives its place back when it is dropped here.
        (before + kept.0.len() <= limits::MESSAGE_BYTES).then_some(kept)
    }

    /// The message.
    pub(super) fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// The entry's object as a bare message; `None` if it has no protobuf form.
pub(super) fn encode(entry: &Entry) -> Option<Bytes> {
    match protobuf::bare(&entry.parse()) {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            tracing::warn!(%error, key = entry.key(), "an object has no protobuf form");
            None
        }
    }
}
