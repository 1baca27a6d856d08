//! Responses as etcd sends them, and malformed ones.

use super::*;
use crate::storage::etcd::note::{Note, Stamp};
use bytes::Bytes;
use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::ResponseHeader;
use kstore_proto::etcd::mvccpb::KeyValue;

fn kv(key: &str, revision: i64) -> KeyValue {
    let (key, value) = (Bytes::from(key.to_owned()), Bytes::from(format!("at {revision}")));
    KeyValue { key, value, create_revision: 1, mod_revision: revision, ..Default::default() }
}

fn put(key: &str, revision: i64) -> Event {
    let prev_kv = Some(kv(key, revision - 1));
    Event { kv: Some(kv(key, revision)), prev_kv, ..Default::default() }
}

fn deleted(key: &str, revision: i64) -> Event {
    Event { r#type: EventType::Delete.into(), ..put(key, revision) }
}

fn note(text: &'static str, revision: i64) -> Event {
    let note = Note { stamp: Stamp::new(&Rng::seeded(1)), text: Bytes::from_static(text.as_bytes()) };
    let kv = KeyValue { value: note.encode(), ..kv("/registry-kstore/note", revision) };
    Event { kv: Some(kv), ..Default::default() }
}

fn response(revision: i64, events: Vec<Event>) -> WatchResponse {
    let header = Some(ResponseHeader { revision, ..Default::default() });
    WatchResponse { header, events, ..Default::default() }
}

fn batches() -> Batches {
    Batches::new(Keys::new("/registry").unwrap(), 10)
}

/// `revision: +key -key (note)`, a line per batch.
fn lines(batches: &mut Batches) -> Vec<String> {
    std::iter::from_fn(|| batches.next())
        .map(|batch| {
            let mut line = format!("{}:", batch.revision);
            for event in batch.events {
                let sign = if event.current.is_some() { '+' } else { '-' };
                line += &format!(" {sign}{}", String::from_utf8_lossy(&event.key));
                assert_eq!(event.previous.unwrap().revision, batch.revision - 1);
            }
            if let Some(note) = batch.note {
                line += &format!(" ({})", String::from_utf8_lossy(&note));
            }
            line
        })
        .collect()
}

#[test]
fn changes_are_batched_by_revision_without_other_clients_keys() {
    let mut batches = batches();
    let events = vec![
        put("/registry/a", 11),
        put("/registry/b", 11),
        note("why", 11),
        deleted("/registry/a", 13),
        put("/registry-other/x", 14),
    ];
    // The header is the store's revision, not the progress of the watch.
    assert_eq!(batches.take(response(99, events)), WatchReply::Changes);
    assert_eq!(lines(&mut batches), ["11: +/registry/a +/registry/b (why)", "13: -/registry/a", "14:"]);
    assert_eq!(batches.revision(), 14);
}

#[test]
fn progress_is_an_empty_batch_and_never_decreases() {
    let mut batches = batches();
    batches.take(response(12, Vec::new()));
    batches.take(response(11, Vec::new()));
    batches.take(response(12, Vec::new()));
    assert_eq!(lines(&mut batches), ["12:"]);
    let created = WatchResponse { created: true, ..response(50, Vec::new()) };
    assert_eq!(batches.take(created), WatchReply::Created);
    assert_eq!(
        (lines(&mut batches).len(), batches.revision()),
        (0, 12),
        "the creation of a watch is no progress"
    );
}

#[test]
fn fragments_are_one_response_even_if_they_cut_a_revision() {
    let mut batches = batches();
    let part = |events| WatchResponse { fragment: true, ..response(20, events) };
    assert_eq!(
        batches.take(part(vec![put("/registry/a", 11), put("/registry/b", 12)])),
        WatchReply::Fragment
    );
    assert_eq!(batches.take(part(vec![put("/registry/c", 12)])), WatchReply::Fragment);
    assert_eq!(lines(&mut batches).len(), 0);
    batches.take(response(20, vec![put("/registry/d", 12), note("n", 12)]));
    assert_eq!(lines(&mut batches), ["11: +/registry/a", "12: +/registry/b +/registry/c +/registry/d (n)"]);
}

#[test]
fn a_new_stream_repeats_no_event_and_drops_old_fragments() {
    let mut batches = batches();
    batches.take(response(11, vec![put("/registry/a", 11)]));
    batches.take(WatchResponse { fragment: true, ..response(12, vec![put("/registry/b", 12)]) });
    batches.restart();
    batches.take(response(12, vec![put("/registry/a", 11), put("/registry/b", 12), put("/registry/c", 12)]));
    assert_eq!(lines(&mut batches), ["11: +/registry/a", "12: +/registry/b +/registry/c"]);
}

#[test]
fn the_end_of_a_watch_has_its_reason() {
    let mut batches = batches();
    let end = |compact_revision, why: &str| WatchResponse {
        canceled: true,
        compact_revision,
        cancel_reason: why.into(),
        ..Default::default()
    };
    assert_eq!(
        batches.take(end(30, "etcdserver: mvcc: required revision has been compacted")),
        WatchReply::Compacted(30)
    );
    let why = "etcdserver: permission denied";
    assert_eq!(batches.take(end(0, why)), WatchReply::Cancelled(why.into()));
}
