//! [`Record`]: the provenance of one commit: its note and the keys that it wrote. `chunk` encodes it.

use super::Note;
use kstore_storage::storage::{RawBatch, RawEvent};
use kstore_storage::storage_key::KeyPlace;
use serde::Serialize;

/// The effect of a write on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, bincode::Encode, bincode::Decode)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// The object was created.
    Created,
    /// The object was changed.
    Updated,
    /// The object was deleted.
    Deleted,
}

/// One commit that wrote objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) revision: i64,
    /// Storage keys with the effect on each; at least one.
    pub(super) keys: Vec<(String, Effect)>,
    pub(super) note: Note,
}

impl Record {
    /// The record of a commit. `None` for a commit without a note, or with leases and events only: it
    /// explains nothing, and would push out records that do.
    pub(super) fn of(batch: &RawBatch) -> Option<Self> {
        let note = batch.note.as_deref().and_then(Note::decode)?;
        let keys: Vec<_> = batch.events.iter().filter_map(effect_of).collect();
        (!keys.is_empty()).then_some(Self { revision: batch.revision, keys, note })
    }
}

fn effect_of(event: &RawEvent) -> Option<(String, Effect)> {
    let object_key = KeyPlace::of(std::str::from_utf8(&event.key).ok()?)?;
    if object_key.is("coordination.k8s.io", "leases") || object_key.is("", "events") {
        return None;
    }
    let effect = match &event.current {
        None => Effect::Deleted,
        Some(raw) if raw.created == raw.revision => Effect::Created,
        Some(_) => Effect::Updated,
    };
    Some((String::from_utf8_lossy(&event.key).into_owned(), effect))
}
