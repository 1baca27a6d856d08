//! Reads past events for a lagging watcher: from the window if it has them, otherwise from the engine.

use crate::engine::{Engine, EngineError};
use crate::mvcc::index::VersionRef;
use crate::published::core::{Core, PublishedState};
use crate::published::registration::{self, Registration};
use crate::types::event::Event;
use crate::types::record::{Record, RecordKind};
use crate::types::watch::Batch;
use crate::{KeyValue, Revision, WatchError};
use std::sync::Arc;

/// A part of the history, as read for one watcher.
pub(crate) struct HistoryPart {
    /// The batches for the watcher.
    pub(crate) batches: Vec<Batch>,
    /// The revision to continue from; above the published revision if nothing is left.
    pub(crate) next: Revision,
}

/// Reads a bounded number of revisions from `from` on.
pub(crate) fn read(
    core: &Core,
    registration: &Registration,
    from: Revision,
) -> Result<HistoryPart, WatchError> {
    let most = core.limits.history_revisions;
    let upto = {
        let visible = core.visible();
        not_compacted(&visible, from)?;
        if let Some(past) = read_window(&visible, registration, from, most) {
            return Ok(past);
        }
        let last = Revision(from.0.saturating_add(most as i64 - 1));
        last.min(visible.window.first().previous()).min(visible.state.revision)
    };
    let scanned = core.engine.scan(from, upto, core.limits.watcher_bytes);
    let scan = scanned.map_err(|error| {
        tracing::error!(%error, from = from.0, "cannot read history from the engine");
        core.report_engine_error(&error);
        match error {
            EngineError::Damaged(key) => WatchError::Damaged { revision: key.main },
            EngineError::Corrupt(_) | EngineError::Io(_) => WatchError::Damaged { revision: from },
        }
    })?;
    let batches = batches(core, registration, scan.records)?;
    // Revisions that were compacted meanwhile would look as if they had no events.
    not_compacted(&core.visible(), from)?;
    Ok(HistoryPart { batches, next: scan.next })
}

fn not_compacted(visible: &PublishedState, from: Revision) -> Result<(), WatchError> {
    let compacted = visible.state.compacted;
    if from < compacted { Err(WatchError::Compacted { compacted }) } else { Ok(()) }
}

/// Reads from the window; none if it starts too late.
pub(crate) fn read_window(
    visible: &PublishedState,
    registration: &Registration,
    from: Revision,
    most: usize,
) -> Option<HistoryPart> {
    let (mut batches, mut next, mut bytes) = (Vec::new(), from, 0);
    for commit in visible.window.since(from)?.take(most) {
        if bytes >= registration.max_bytes() {
            break;
        }
        if let Some(batch) = registration::batch(registration, commit.revision, &commit.events) {
            bytes += batch.cost();
            batches.push(batch);
        }
        next = commit.revision.next();
    }
    Some(HistoryPart { batches, next })
}

/// Builds batches from an engine's records, which are in order with each revision's note last.
fn batches(core: &Core, registration: &Registration, records: Vec<Record>) -> Result<Vec<Batch>, WatchError> {
    let mut batches = Vec::new();
    for revision in records.chunk_by(|a, b| a.key.main == b.key.main) {
        let main = revision[0].key.main;
        let note = revision.iter().find(|record| record.kind == RecordKind::Note).map(|record| &record.bytes);
        let mut events = Vec::new();
        for record in revision {
            let Some(kind) = record.kind.event() else { continue };
            let kv = KeyValue::decode(record.bytes.clone()).ok_or(WatchError::Damaged { revision: main })?;
            let mut event = Event { kind, kv: Arc::new(kv), prev_kv: None, note: note.cloned() };
            if registration.request.keys.contains(event.key()) && registration.wants(&event) {
                event.prev_kv = if registration.request.prev_kv { before(core, &event)? } else { None };
                events.push(Arc::new(event));
            }
        }
        if !events.is_empty() {
            batches.push(Batch { revision: main, events: events.into() });
        }
    }
    Ok(batches)
}

/// The previous version of an event, if it is still stored.
fn before(core: &Core, event: &Event) -> Result<Option<Arc<KeyValue>>, WatchError> {
    if event.is_create() {
        return Ok(None);
    }
    let revision = event.revision();
    let visible = core.visible();
    let Some(found) = visible.index.get(event.key()).and_then(|entry| entry.at(revision.previous())) else {
        return Ok(None);
    };
    let key = match found {
        VersionRef::Newest(kv) => return Ok(Some(kv.clone())),
        VersionRef::Stored(key) => key,
    };
    if let Some(event) = visible.window.event(key) {
        return Ok(Some(event.kv.clone()));
    }
    drop(visible);
    core.metrics.engine_reads.add(1);
    let damaged = WatchError::Damaged { revision: key.main };
    let bytes = core.engine.get(key).map_err(|error| {
        tracing::error!(%error, revision = key.main.0, "cannot read a version from the engine");
        core.report_engine_error(&error);
        damaged
    })?;
    bytes.map(|bytes| KeyValue::decode(bytes).map(Arc::new).ok_or(damaged)).transpose()
}
