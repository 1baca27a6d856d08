//! Encoding of watch responses as gRPC messages, directly from the stored form of versions. Responses that are too
//! large for a client are split into fragments. Pure.

use crate::codec::{self, Sink, kv_size, message_size, number, prefix, write_kv};
use crate::limits::MESSAGE_BYTES;
use kstore_proto::etcd::etcdserverpb::{ResponseHeader, WatchResponse};
use kstore_store::{Event, EventKind};
use prost::Message;

// Field numbers of a response and of an event.
const EVENTS: u32 = 11;
const EVENT_TYPE: u32 = 1;
const EVENT_KV: u32 = 2;
const EVENT_PREV: u32 = 3;

/// Appends a response without events.
pub(crate) fn write(response: &WatchResponse, out: &mut Vec<u8>) {
    frame(response.encoded_len(), out);
    response.encode(out).expect("a vector has room");
}

fn frame(len: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

/// Events of one watch for a response.
pub(crate) struct Batch<'a> {
    pub(crate) header: ResponseHeader,
    pub(crate) watch_id: i64,
    pub(crate) events: &'a [&'a Event],
    /// Whether to send previous versions. An event may have one although this watch did not request it.
    pub(crate) prev_kv: bool,
}

impl Batch<'_> {
    /// Appends the events as one response or, if `may_cut`, as fragments below the limit; a single event may exceed it.
    pub(crate) fn write(&self, may_cut: bool, out: &mut Vec<u8>) {
        let limit = if may_cut { MESSAGE_BYTES } else { usize::MAX };
        let sizes = self.events.iter().map(|event| message_size(self.event_size(event)));
        let parts = cut(sizes, self.rest(true).encoded_len(), limit);
        let last = parts.len() - 1;
        let mut start = 0;
        for (n, part) in parts.into_iter().enumerate() {
            self.write_part(&self.events[start..start + part.events], part.bytes, n < last, out);
            start += part.events;
        }
    }

    fn write_part(&self, events: &[&Event], bytes: usize, fragment: bool, out: &mut Vec<u8>) {
        let rest = self.rest(fragment);
        frame(rest.encoded_len() + bytes, out);
        rest.encode(out).expect("a vector has room");
        for event in events {
            self.write_event(event, out);
        }
    }

    /// A response without its events, which are its last field.
    fn rest(&self, fragment: bool) -> WatchResponse {
        let header = Some(self.header);
        WatchResponse { header, watch_id: self.watch_id, fragment, ..WatchResponse::default() }
    }

    fn event_size(&self, event: &Event) -> usize {
        let kind = if event.kind == EventKind::Delete { 2 } else { 0 };
        let prev = event.prev_kv.as_ref().filter(|_| self.prev_kv);
        kind + kv_size(&event.kv) + prev.map_or(0, |kv| kv_size(kv))
    }

    fn write_event(&self, event: &Event, out: &mut impl Sink) {
        prefix(EVENTS, self.event_size(event), out);
        number(EVENT_TYPE, i64::from(event.kind == EventKind::Delete), out);
        write_kv(EVENT_KV, &event.kv, out);
        if let Some(prev) = event.prev_kv.as_ref().filter(|_| self.prev_kv) {
            codec::write_kv(EVENT_PREV, prev, out);
        }
    }
}

/// Number of events in a fragment, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fragment {
    events: usize,
    bytes: usize,
}

/// Splits events of these sizes into fragments of less than `limit` bytes, including `base` bytes of overhead. A single
/// event may exceed the limit.
fn cut(sizes: impl Iterator<Item = usize>, base: usize, limit: usize) -> Vec<Fragment> {
    let (mut parts, mut part) = (Vec::new(), Fragment::default());
    for size in sizes {
        if part.events > 0 && base + part.bytes + size >= limit {
            parts.push(std::mem::take(&mut part));
        }
        part.events += 1;
        part.bytes += size;
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert;
    use kstore_proto::etcd::mvccpb;
    use kstore_store::{KeyValue, Revision, Stamp};
    use std::sync::Arc;

    fn kv(key: &str, bytes: usize) -> Arc<KeyValue> {
        let stamp = Stamp { mod_revision: Revision(7), version: 1, ..Stamp::default() };
        Arc::new(KeyValue::new(key.as_bytes(), &vec![1; bytes], stamp))
    }

    fn event(kind: EventKind, bytes: usize, prev: Option<usize>) -> Event {
        Event { kind, kv: kv("k", bytes), prev_kv: prev.map(|bytes| kv("k", bytes)), note: None }
    }

    fn value(event: &Event, prev_kv: bool) -> mvccpb::Event {
        mvccpb::Event {
            r#type: i32::from(event.kind == EventKind::Delete),
            kv: Some(convert::key_value(&event.kv)),
            prev_kv: event.prev_kv.as_ref().filter(|_| prev_kv).map(|kv| convert::key_value(kv)),
        }
    }

    fn read(mut bytes: &[u8]) -> Vec<WatchResponse> {
        let mut responses = Vec::new();
        while let Some((&[0, a, b, c, d], rest)) = bytes.split_first_chunk() {
            let (message, rest) = rest.split_at(u32::from_be_bytes([a, b, c, d]) as usize);
            responses.push(WatchResponse::decode(message).unwrap());
            bytes = rest;
        }
        assert!(bytes.is_empty());
        responses
    }

    #[test]
    fn encoded_responses_equal_those_of_prost() {
        let events = [
            event(EventKind::Put, 10, None),
            event(EventKind::Put, 1_000, Some(200)),
            event(EventKind::Delete, 0, Some(30)),
        ];
        let events: Vec<&Event> = events.iter().collect();
        for prev_kv in [false, true] {
            let header = ResponseHeader { revision: 300, ..ResponseHeader::default() };
            let mut out = Vec::new();
            Batch { header, watch_id: -5, events: &events, prev_kv }.write(true, &mut out);
            let expected = WatchResponse {
                header: Some(header),
                watch_id: -5,
                events: events.iter().map(|event| value(event, prev_kv)).collect(),
                ..WatchResponse::default()
            };
            assert_eq!(read(&out), std::slice::from_ref(&expected));
            assert_eq!(out[5..], expected.encode_to_vec());
        }
    }

    #[test]
    fn fragments_contain_all_events_in_order_below_the_limit() {
        let large = MESSAGE_BYTES / 2 - 500;
        for (sizes, expected) in [
            (&[10, 10][..], &[2][..]),
            (&[large, large, large, large], &[2, 2]),
            (&[MESSAGE_BYTES * 2], &[1]),
            (&[10, MESSAGE_BYTES * 2, 10], &[1, 1, 1]),
            (&[], &[0]),
        ] {
            let events: Vec<Event> = sizes.iter().map(|size| event(EventKind::Put, *size, None)).collect();
            let events: Vec<&Event> = events.iter().collect();
            let batch =
                Batch { header: ResponseHeader::default(), watch_id: 3, events: &events, prev_kv: false };
            let (mut whole, mut cut) = (Vec::new(), Vec::new());
            batch.write(false, &mut whole);
            batch.write(true, &mut cut);
            let (whole, parts) = (read(&whole), read(&cut));
            assert_eq!(whole.len(), 1);
            assert_eq!(parts.iter().map(|part| part.events.len()).collect::<Vec<_>>(), expected, "{sizes:?}");
            assert!(parts.iter().all(|part| part.encoded_len() < MESSAGE_BYTES || part.events.len() == 1));
            assert!(parts.iter().rev().skip(1).all(|part| part.fragment));
            assert!(!parts.last().unwrap().fragment && parts.iter().all(|part| part.watch_id == 3));
            let events: Vec<_> = parts.into_iter().flat_map(|part| part.events).collect();
            assert_eq!(events, whole[0].events);
        }
    }
}
