//! Cached protobuf messages of objects: made from JSON when first requested, and kept within a bound on all
//! of them. So a list of ten thousand pods is encoded once, not once per client.

use super::Entry;
use bytes::Bytes;
use kstore_api::wire::protobuf;
use kstore_storage::limits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of all kept messages of all caches of this process.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A message that counts towards the bound while it lives.
#[derive(Debug)]
pub(super) struct CachedMessage(Bytes);

impl CachedMessage {
    /// Keeps a message; `None` if the bound is reached.
    pub(super) fn new(bytes: Bytes) -> Option<Self> {
        let before = KEPT_BYTES.fetch_add(bytes.len(), Ordering::Relaxed);
        let kept = Self(bytes);
        // If the message does not fit, dropping it here subtracts its bytes again.
        (before + kept.0.len() <= limits::MESSAGE_BYTES).then_some(kept)
    }

    /// The message.
    pub(super) fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl Drop for CachedMessage {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

/// The entry's object as a bare message; `None` if the kind has no protobuf form.
pub(super) fn encode(entry: &Entry) -> Option<Bytes> {
    match protobuf::bare(&entry.parse()) {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            tracing::warn!(%error, key = entry.key(), "an object has no protobuf form");
            None
        }
    }
}
