//! Report of the causes of an object's newest writes, as text: each write, the writes that caused it, their causes, and so on. `trace`
//! reports the opposite direction, the writes that an object's writes caused.

use crate::limits::{CAUSE_DEPTH, CAUSES_SHOWN, LAST_WRITES};
use crate::trace::{Trace, TracedWrite};
use kstore_registry::provenance::Note;
use kstore_storage::storage_key::KeyPlace;
use kstore_store::{KeyRange, Revision, Store, WatchRequest};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A write in the store's history.
struct StoredWrite {
    /// Name of the first written object, such as `pods/default/web-1`.
    object: String,
    /// Provenance note; `None` for writes without the API server, such as the expiry of a lease.
    note: Option<Note>,
}

/// The newest writes to `object` (`pods/default/web-1`) in a trace, newest first, each with its causes indented below it.
pub(crate) async fn of_last_writes(store: &Store, trace: &Trace, object: &str) -> String {
    let mut writes = BTreeMap::new();
    trace.writes.iter().for_each(|write| collect(write, object, &mut writes));
    let mut text = String::new();
    for (revision, write) in writes.into_iter().rev().take(LAST_WRITES) {
        line(&mut text, 1, revision, &write.verb, object, &write.agent);
        add_causes(store, &mut text, &write.causes).await;
    }
    text
}

fn collect<'t>(write: &'t TracedWrite, object: &str, writes: &mut BTreeMap<i64, &'t TracedWrite>) {
    if write.object == object {
        writes.insert(write.revision, write);
    }
    write.children.iter().for_each(|child| collect(child, object, writes));
}

/// Appends the causes and their causes, depth first, down to [`CAUSE_DEPTH`].
async fn add_causes(store: &Store, text: &mut String, causes: &[i64]) {
    let newest = |causes: &[i64], depth: usize| {
        let mut causes = causes.to_vec();
        causes.sort_unstable();
        causes.drain(..causes.len().saturating_sub(CAUSES_SHOWN));
        causes.into_iter().map(|cause| (cause, depth)).collect::<Vec<_>>()
    };
    let mut left = newest(causes, 2);
    while let Some((revision, depth)) = left.pop() {
        let Some(write) = stored(store, revision).await else {
            let _ = writeln!(
                text,
                "{:indent$}because of revision {revision}, which is not known any more",
                "",
                indent = 2 * depth
            );
            continue;
        };
        let note = write.note.as_ref();
        let (verb, agent) = note.map_or(("write", "the store"), |note| (&note.verb, &note.agent));
        line(text, depth, revision, verb, &write.object, agent);
        if let Some(note) = note.filter(|_| depth < CAUSE_DEPTH) {
            left.extend(newest(&note.causes, depth + 1));
        }
    }
}

fn line(text: &mut String, depth: usize, revision: i64, verb: &str, object: &str, agent: &str) {
    let because = if depth > 1 { "because of " } else { "" };
    writeln!(text, "{:indent$}{because}{revision} {verb} {object} by {agent}", "", indent = 2 * depth)
        .expect("writing to a string cannot fail");
}

/// Reads the write at a revision; `None` if the history does not have it any more.
async fn stored(store: &Store, revision: i64) -> Option<StoredWrite> {
    if revision > store.revision().0 {
        return None;
    }
    let request = WatchRequest::new(KeyRange::all()).from(Revision(revision));
    let batch = store.watch(request).ok()?.next().await?.ok()?;
    let event = batch.events.first().filter(|_| batch.revision.0 == revision)?;
    let key = String::from_utf8_lossy(event.kv.key()).into_owned();
    let object =
        KeyPlace::of(&key).map_or(key.clone(), |place| name_of(place.plural, place.namespace, place.name));
    Some(StoredWrite { object, note: event.note.as_deref().and_then(Note::decode) })
}

/// The name of an object as traces show it.
pub(crate) fn name_of(plural: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!("{plural}/{namespace}{name}")
}
