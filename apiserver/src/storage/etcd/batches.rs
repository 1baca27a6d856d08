//! From the responses of a watch stream to batches: all changes of one revision together, with the note of their commit, in
//! order and once. A state machine without I/O.

use super::keys::Keys;
use crate::storage::{RawBatch, RawEvent};
use kstore_proto::etcd::etcdserverpb::WatchResponse;
use kstore_proto::etcd::mvccpb::{Event, event::EventType};
use std::collections::VecDeque;

/// Put together so far.
pub(super) struct Batches {
    keys: Keys,
    /// Everything up to here is in `ready`, or was.
    revision: i64,
    /// Complete, not yet handed out.
    ready: VecDeque<RawBatch>,
    /// What has come of a response that is sent in fragments.
    fragments: Vec<Event>,
}

/// What a response was about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The watch begins.
    Created,
    /// There may be batches.
    Changes,
    /// Part of something; more will come.
    Nothing,
    /// History before this revision is gone, and the watch with it.
    Compacted(i64),
    /// The member ended the watch, for this reason.
    Cancelled(String),
}

impl Batches {
    /// Of a watch for what comes after `revision`.
    pub(super) fn new(keys: Keys, revision: i64) -> Self {
        Self { keys, revision, ready: VecDeque::new(), fragments: Vec::new() }
    }

    /// Everything up to here has come in.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// The next complete batch.
    pub(super) fn next(&mut self) -> Option<RawBatch> {
        self.ready.pop_front()
    }

    /// Another stream follows, which begins behind [`Batches::revision`].
    pub(super) fn restart(&mut self) {
        self.fragments.clear();
    }

    /// Takes a response in.
    pub(super) fn take(&mut self, response: WatchResponse) -> Heard {
        if response.canceled {
            return match response.compact_revision {
                0 => Heard::Cancelled(response.cancel_reason),
                oldest => Heard::Compacted(oldest),
            };
        }
        if response.created {
            return Heard::Created;
        }
        let progress = response.events.is_empty() && !response.fragment && self.fragments.is_empty();
        self.fragments.extend(response.events);
        if response.fragment {
            return Heard::Nothing;
        }
        if progress {
            // Only a response without events speaks of the watch; others name the newest revision of all.
            self.come_to(response.header.map_or(0, |header| header.revision));
        }
        self.complete();
        Heard::Changes
    }

    fn come_to(&mut self, revision: i64) {
        if revision > self.revision {
            self.revision = revision;
            self.ready.push_back(RawBatch { revision, events: Vec::new(), note: None });
        }
    }

    /// A response, whole again, never ends within a revision.
    fn complete(&mut self) {
        let mut batch: Option<RawBatch> = None;
        for event in std::mem::take(&mut self.fragments) {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            // What was handed out before the stream broke.
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
        let Some(key) = self.keys.inner(&kv.key) else { return };
        let current = if deleted { None } else { self.keys.raw(kv) };
        let previous = event.prev_kv.and_then(|kv| self.keys.raw(kv));
        batch.events.push(RawEvent { key, current, previous });
    }
}

#[cfg(test)]
mod tests;
