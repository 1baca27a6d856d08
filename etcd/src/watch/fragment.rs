//! Cutting a response into parts below a size. Pure.

use kstore_proto::etcd::etcdserverpb::WatchResponse;
use prost::Message;

/// A varint and a tag around each event.
const FRAME: usize = 6;

/// The response in parts that stay below `limit` bytes as far as single events allow. All but the last are marked.
pub(crate) fn split(mut response: WatchResponse, limit: usize) -> Vec<WatchResponse> {
    let mut size = response.encoded_len();
    if size < limit {
        return vec![response];
    }
    let events = std::mem::take(&mut response.events);
    let base = response.encoded_len();
    let mut parts = Vec::new();
    let mut part = response.clone();
    size = base;
    for event in events {
        let cost = event.encoded_len() + FRAME;
        if !part.events.is_empty() && size + cost >= limit {
            part.fragment = true;
            parts.push(std::mem::replace(&mut part, response.clone()));
            size = base;
        }
        size += cost;
        part.events.push(event);
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_proto::etcd::mvccpb::{Event, KeyValue};

    fn response(sizes: &[usize]) -> WatchResponse {
        let event = |size: &usize| Event {
            kv: Some(KeyValue { value: vec![7; *size].into(), ..KeyValue::default() }),
            ..Event::default()
        };
        WatchResponse { watch_id: 3, events: sizes.iter().map(event).collect(), ..WatchResponse::default() }
    }

    #[test]
    fn parts_hold_all_events_in_order_below_the_limit_and_only_the_last_is_unmarked() {
        for (sizes, expected) in [
            (&[10, 10][..], &[2][..]),
            (&[400, 400, 400, 400], &[2, 2]),
            (&[2000], &[1]),
            (&[10, 2000, 10], &[1, 1, 1]),
            (&[900, 10, 10, 900], &[3, 1]),
            (&[], &[0]),
        ] {
            let whole = response(sizes);
            let parts = split(whole.clone(), 1000);
            assert_eq!(parts.iter().map(|part| part.events.len()).collect::<Vec<_>>(), expected, "{sizes:?}");
            assert!(parts.iter().all(|part| part.encoded_len() < 1000 || part.events.len() == 1));
            assert!(parts.iter().rev().skip(1).all(|part| part.fragment));
            assert!(!parts.last().unwrap().fragment && parts.iter().all(|part| part.watch_id == 3));
            assert_eq!(parts.into_iter().flat_map(|part| part.events).collect::<Vec<_>>(), whole.events);
        }
    }
}
