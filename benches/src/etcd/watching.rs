//! [`Watching`]: many watches on a few connections, which count events.

use super::limits::{WATCH_CONNECTIONS, WATCH_STREAMS};
use super::link::{Link, Messages, Piece};
use super::request::{WATCH, bounds};
use anyhow::{Context, ensure};
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{WatchCreateRequest, WatchRequest};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Unanswered creations of watches on one stream: few enough for the server's stream window.
const CREATING: usize = 100;

/// Distribution of watches over connections and streams.
#[derive(Clone, Copy)]
pub(super) struct WatchDistribution {
    pub(super) connections: usize,
    /// Streams per connection.
    pub(super) streams: usize,
    /// Watches per stream.
    pub(super) watches: usize,
}

impl WatchDistribution {
    /// This many watches on the usual number of connections and streams.
    pub(super) fn of(watches: usize) -> Self {
        let (connections, streams) = (WATCH_CONNECTIONS, WATCH_STREAMS);
        Self { connections, streams, watches: watches / connections / streams }
    }

    fn total(self) -> usize {
        self.connections * self.streams * self.watches
    }
}

/// Open watches, which end on drop.
pub(super) struct Watching {
    counts: Arc<Counts>,
    links: JoinSet<anyhow::Result<()>>,
}

#[derive(Default)]
struct Counts {
    created: AtomicUsize,
    events: AtomicUsize,
    changed: Notify,
}

impl Watching {
    /// Watches a family. Returns when the server has confirmed all watches.
    pub(super) async fn open(
        address: SocketAddr,
        shape: WatchDistribution,
        family: &str,
    ) -> anyhow::Result<Self> {
        let mut watching = Self { counts: Arc::default(), links: JoinSet::new() };
        for _ in 0..shape.connections {
            let link = Link::open(address).await?;
            let connection = Connection { link, request: create(family), streams: BTreeMap::new() };
            watching.links.spawn(connection.run(shape, watching.counts.clone()));
        }
        watching.wait(|counts| counts.created.load(Relaxed) >= shape.total()).await?;
        Ok(watching)
    }

    /// Waits until `events` events have arrived in total.
    pub(super) async fn events(&mut self, events: usize) -> anyhow::Result<()> {
        self.wait(|counts| counts.events.load(Relaxed) >= events).await
    }

    async fn wait(&mut self, done: impl Fn(&Counts) -> bool) -> anyhow::Result<()> {
        while !done(&self.counts) {
            tokio::select! {
                biased;
                ended = self.links.join_next() => ended.context("there are no connections")??.context("a connection of watches ended")?,
                () = self.counts.changed.notified() => {}
            }
        }
        Ok(())
    }
}

fn create(family: &str) -> WatchRequest {
    let (key, range_end) = bounds(family);
    let create = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

struct Connection {
    link: Link,
    request: WatchRequest,
    streams: BTreeMap<u32, Stream>,
}

#[derive(Default)]
struct Stream {
    messages: Messages,
    /// Watches still to be created.
    rest: usize,
    /// Confirmations since the last creation requests.
    confirmed: usize,
}

impl Connection {
    async fn run(mut self, shape: WatchDistribution, counts: Arc<Counts>) -> anyhow::Result<()> {
        for _ in 0..shape.streams {
            let stream = self.link.open_call(WATCH, &self.request);
            let first = shape.watches.min(CREATING);
            (1..first).for_each(|_| self.link.send(stream, &self.request));
            self.streams.insert(stream, Stream { rest: shape.watches - first, ..Stream::default() });
        }
        loop {
            let (streams, mut ended) = (&mut self.streams, false);
            self.link
                .process(|stream, piece| match (piece, streams.get_mut(&stream)) {
                    (Piece::Data(data), Some(stream)) => stream.take(data, &counts),
                    _ => ended = true,
                })
                .await?;
            ensure!(!ended, "a stream of watches ended");
            for (name, stream) in &mut self.streams {
                let more = std::mem::take(&mut stream.confirmed).min(stream.rest);
                stream.rest -= more;
                (0..more).for_each(|_| self.link.send(*name, &self.request));
            }
            counts.changed.notify_one();
        }
    }
}

impl Stream {
    fn take(&mut self, data: &[u8], counts: &Counts) {
        let Self { messages, confirmed, .. } = self;
        messages.push(data, |message| {
            let (created, events) = scan_response(message).unwrap_or_default();
            *confirmed += usize::from(created);
            counts.created.fetch_add(usize::from(created), Relaxed);
            counts.events.fetch_add(events, Relaxed);
        });
    }
}

const CREATED: u64 = 3;
const EVENTS: u64 = 11;

/// Whether a response confirms a watch, and its number of events; `None` if it is malformed. Full decoding
/// would cost more CPU than many servers use.
fn scan_response(mut message: &[u8]) -> Option<(bool, usize)> {
    let (mut created, mut events) = (false, 0);
    while !message.is_empty() {
        let tag = prost::encoding::decode_varint(&mut message).ok()?;
        let value = prost::encoding::decode_varint(&mut message).ok()?;
        match (tag >> 3, tag & 7) {
            (CREATED, 0) => created = value != 0,
            (EVENTS, 2) => events += 1,
            _ => {}
        }
        if tag & 7 == 2 {
            message = message.get(usize::try_from(value).ok()?..)?;
        }
    }
    Some((created, events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_proto::etcd::etcdserverpb::{ResponseHeader, WatchResponse};
    use kstore_proto::etcd::mvccpb::{Event, KeyValue};
    use prost::Message;

    #[test]
    fn scanning_a_response_equals_decoding_it() {
        let header = Some(ResponseHeader { revision: 300, ..ResponseHeader::default() });
        let kv = Some(KeyValue { value: vec![11; 300].into(), ..KeyValue::default() });
        let event = Event { kv, ..Event::default() };
        let response =
            WatchResponse { header, watch_id: 200, events: vec![event; 3], ..WatchResponse::default() };
        assert_eq!(scan_response(&response.encode_to_vec()), Some((false, 3)));
        let created = WatchResponse { created: true, ..WatchResponse::default() };
        assert_eq!(scan_response(&created.encode_to_vec()), Some((true, 0)));
        assert_eq!(scan_response(&[0x5a, 9, 1]), None);
    }
}
