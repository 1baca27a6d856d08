//! Turns the responses of a watch stream into batches: all changes of one revision with the note of their
//! commit, each revision once and in order. A state machine without I/O.

use super::keys::Keys;
use crate::storage::{RawBatch, RawEvent};
use kstore_proto::etcd::etcdserverpb::WatchResponse;
use kstore_proto::etcd::mvccpb::Event;
use kstore_proto::etcd::mvccpb::event::EventType;
use std::collections::VecDeque;

/// The batches of one watch, across its streams.
pub(super) struct Batches {
    keys: Keys,
    /// The newest revision that is in `ready` or was taken from it.
    revision: i64,
    /// Complete batches that are not yet taken.
    ready: VecDeque<RawBatch>,
    /// Events of a response whose last fragment has not arrived.
    fragments: Vec<Event>,
}

/// The meaning of a watch response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchReply {
    /// The watch was created.
    Created,
    /// There may be new batches.
    Changes,
    /// The response is a fragment; more fragments follow.
    Fragment,
    /// The watch ended because history before this revision is compacted.
    Compacted(i64),
    /// The member ended the watch, for this reason.
    Cancelled(String),
}

impl Batches {
    /// For a watch of changes after `revision`.
    pub(super) fn new(keys: Keys, revision: i64) -> Self {
        Self { keys, revision, ready: VecDeque::new(), fragments: Vec::new() }
    }

    /// The newest revision whose changes have all arrived.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Takes the next complete batch.
    pub(super) fn next(&mut self) -> Option<RawBatch> {
        self.ready.pop_front()
    }

    /// Prepares for a new stream, which begins after [`Batches::revision`].
    pub(super) fn restart(&mut self) {
        self.fragments.clear();
    }

    /// Takes a response into the batches.
    pub(super) fn take(&mut self, response: WatchResponse) -> WatchReply {
        if response.canceled {
            return match response.compact_revision {
                0 => WatchReply::Cancelled(response.cancel_reason),
                oldest => WatchReply::Compacted(oldest),
            };
        }
        if response.created {
            return WatchReply::Created;
        }
        let progress = response.events.is_empty() && !response.fragment && self.fragments.is_empty();
        self.fragments.extend(response.events);
        if response.fragment {
            return WatchReply::Fragment;
        }
        if progress {
            // Only the header of a response without events is the watch's progress; others carry the store's
            // newest revision.
            self.come_to(response.header.map_or(0, |header| header.revision));
        }
        self.complete();
        WatchReply::Changes
    }

    fn come_to(&mut self, revision: i64) {
        if revision > self.revision {
            self.revision = revision;
            self.ready.push_back(RawBatch { revision, events: Vec::new(), note: None });
        }
    }

    /// Completes batches from the collected fragments. A whole response never ends within a revision.
    fn complete(&mut self) {
        let mut batch: Option<RawBatch> = None;
        for event in std::mem::take(&mut self.fragments) {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            // Events that the stream before has already delivered.
            if revision <= self.revision {
                continue;
            }
            let full = batch.take_if(|batch| batch.revision != revision);
            self.ready.extend(full);
            let batch = batch.get_or_insert_with(|| RawBatch { revision, events: Vec::new(), note: None });
            self.add(batch, event);
        }
        if let Some(last) = batch {
            self.ready.push_back(last);
        }
        self.revision = self.ready.back().map_or(self.revision, |batch| batch.revision.max(self.revision));
    }

    fn add(&self, batch: &mut RawBatch, event: Event) {
        let deleted = event.r#type() == EventType::Delete;
        let Some(kv) = event.kv else { return };
        if let Some(note) = self.keys.note_of(&kv) {
            batch.note = Some(note.text);
            return;
        }
        let Some(key) = self.keys.storage_key(&kv.key) else { return };
        let current = if deleted { None } else { self.keys.raw(kv) };
        let previous = event.prev_kv.and_then(|kv| self.keys.raw(kv));
        batch.events.push(RawEvent { key, current, previous });
    }
}

#[cfg(test)]
mod tests;
