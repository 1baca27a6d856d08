//! Batching of audit events for webhooks: options, encoding as an event list, splitting by size, and a rate
//! limit. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// The beginning of an event's line; the items of a list omit it.
const KIND: &[u8] = br#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","#;
const LIST: &[u8] = br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
const END: &[u8] = b"]}";

/// How events are batched. The default is kube-apiserver's for webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Events in the queue. When it is full, requests wait or events are dropped, as the mode says.
    pub buffer: usize,
    /// Events in one list.
    pub max_size: usize,
    /// How long an event waits for others to share its list; only in the mode `batch`.
    pub max_wait: Duration,
    /// The rate limit of lists, only in the mode `batch`; `None`: no limit.
    pub throttle: Option<Throttle>,
}

/// A rate limit of event lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// The time between two lists, on average.
    pub interval: Duration,
    /// Lists that may be sent at once.
    pub burst: u32,
}

impl Default for Batching {
    fn default() -> Self {
        let throttle = Throttle { interval: Duration::from_millis(100), burst: 15 };
        Self { buffer: 10_000, max_size: 400, max_wait: Duration::from_secs(30), throttle: Some(throttle) }
    }
}

/// Sizes above which events and lists are cut. The default is kube-apiserver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// A larger event is sent without its objects, and is dropped if it is still larger.
    pub event_bytes: usize,
    /// A larger list is sent as several lists.
    pub batch_bytes: usize,
}

impl Default for Truncation {
    fn default() -> Self {
        Self { event_bytes: 100 << 10, batch_bytes: 10 << 20 }
    }
}

/// Encodes events, each a line of the log, as an `EventList`.
pub(super) fn list<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut body = LIST.to_vec();
    for line in lines {
        if body.len() > LIST.len() {
            body.push(b',');
        }
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        match line.strip_prefix(KIND) {
            Some(rest) => {
                body.push(b'{');
                body.extend_from_slice(rest);
            }
            None => body.extend_from_slice(line),
        }
    }
    body.extend_from_slice(END);
    body
}

/// Splits events of these sizes into lists of at most `max` bytes; returns the number of events in each list.
/// A larger event is a list of its own.
pub(super) fn split(sizes: &[usize], max: usize) -> Vec<usize> {
    let (mut lists, mut bytes) = (Vec::new(), 0);
    for size in sizes {
        match lists.last_mut() {
            Some(length) if bytes + size <= max => *length += 1,
            _ => {
                lists.push(1);
                bytes = 0;
            }
        }
        bytes += size;
    }
    lists
}

/// A token bucket: tokens are added at the rate of a throttle, up to its burst. Each list takes one token.
#[derive(Debug)]
pub(super) struct TokenBucket {
    throttle: Throttle,
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn new(throttle: Throttle, now: Instant) -> Self {
        Self { throttle, tokens: f64::from(throttle.burst), filled: now }
    }

    /// Takes one token and returns how long to wait for it.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let interval = self.throttle.interval.as_secs_f64();
        let refilled = now.duration_since(self.filled).as_secs_f64() / interval;
        self.filled = now;
        self.tokens = (self.tokens + refilled).min(f64::from(self.throttle.burst)) - 1.0;
        match self.tokens < 0.0 {
            true => Duration::try_from_secs_f64(-self.tokens * interval).unwrap_or(Duration::MAX),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn items_of_an_event_list_omit_kind_and_version() {
        let lines = [
            &b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"level\":\"Metadata\"}\n"[..],
            b"{\"a\":1}\n",
        ];
        let read: Value = serde_json::from_slice(&list(lines)).unwrap();
        assert_eq!(
            read,
            json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {},
                "items": [{"level": "Metadata"}, {"a": 1}]})
        );
    }

    #[test]
    fn large_event_lists_are_split() {
        for (sizes, lists) in [
            (&[][..], &[][..]),
            (&[5, 5], &[2]),
            (&[5, 6], &[1, 1]),
            (&[20, 1, 9, 1], &[1, 2, 1]),
            (&[1, 20, 20, 1], &[1, 1, 1, 1]),
        ] {
            assert_eq!(split(sizes, 10), lists, "{sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_bucket_allows_its_burst_and_then_its_rate() {
        let mut bucket =
            TokenBucket::new(Throttle { interval: Duration::from_millis(500), burst: 2 }, Instant::now());
        let mut wait = || bucket.take(Instant::now()).as_millis();
        assert_eq!([wait(), wait(), wait(), wait()], [0, 0, 500, 1000]);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!([wait(), wait(), wait()], [0, 0, 500], "no more than the burst is saved");
    }
}
