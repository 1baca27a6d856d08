//! Watch streams: one stream watches everything from the start and always resumes; others start and stop.

use super::link::Link;
use super::workload::Shared;
use super::{traffic, wire};
use crate::history::{Keys, Watch, WatchContent, WatchRequest, WatchResponse};
use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Interval of progress requests; a Kubernetes apiserver uses it while a client waits for a list.
const PROGRESS: Duration = Duration::from_millis(100);

/// Largest distance of a watch's start from the current revision.
const AROUND: u64 = 100;

/// Lifetime of a temporary stream in milliseconds.
const LIFE: std::ops::Range<u64> = 200..2_000;

/// Most watches on a temporary stream.
const WATCHES: u64 = 3;

/// A watch stream and its recorded watches.
struct Stream<'a> {
    shared: &'a Shared,
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
    watches: Vec<Watch>,
    /// Watches whose creation is not confirmed.
    pending: VecDeque<usize>,
    /// Open watches by the server's ids.
    open: BTreeMap<i64, usize>,
    /// The revision up to which everything was received, if there is one watch.
    heard: i64,
}

/// Watches everything from `start` on, until everything up to the last revision was received.
pub(super) async fn everything(shared: Arc<Shared>, id: u32, mut link: Link, start: i64) -> Vec<Watch> {
    let (mut watches, mut next) = (Vec::new(), start);
    while !shared.is_complete(next - 1) {
        let request =
            WatchRequest { keys: Keys::all(), start: next, prev_kv: true, ..WatchRequest::default() };
        let Some(mut stream) = Stream::open(&shared, &mut link, id, vec![(request, false)]).await else {
            break;
        };
        // A watch from a future revision receives nothing, not even progress, if nothing happens any more.
        stream.heard = next - 1;
        // A watch that is cancelled because its start was compacted starts again at the compacted revision.
        stream.run(|stream| stream.is_idle() || shared.is_complete(stream.heard)).await;
        next = stream.watches.iter().map(|watch| resume(watch, next)).max().unwrap_or(next);
        watches.extend(stream.watches);
    }
    watches
}

/// Runs temporary streams. Some resume where the previous stream ended.
pub(super) async fn roaming(shared: Arc<Shared>, id: u32, mut link: Link, rng: Rng) -> Vec<Watch> {
    let mut watches: Vec<Watch> = Vec::new();
    while !shared.stop.is_cancelled() {
        let requests = (0..=rng.below(WATCHES)).map(|_| {
            let again = watches.last().filter(|_| rng.below(3) == 0);
            (again.map_or_else(|| random(&shared, &rng), resumed), rng.below(2) == 0)
        });
        let requests = requests.collect();
        let Some(mut stream) = Stream::open(&shared, &mut link, id, requests).await else { break };
        let end = Instant::now() + Duration::from_millis(LIFE.start + rng.below(LIFE.end - LIFE.start));
        stream.run(|_| Instant::now() >= end).await;
        watches.extend(stream.watches);
    }
    watches
}

fn random(shared: &Shared, rng: &Rng) -> WatchRequest {
    let current = shared.revision.load(Ordering::Relaxed);
    let start = match rng.below(5) {
        0 => 0,
        _ => (current + AROUND as i64 - rng.below(2 * AROUND) as i64).max(1),
    };
    let keys = match rng.below(3) {
        0 => Keys::one(traffic::key(rng.below(shared.plan.keys))),
        1 => Keys::between(traffic::key(2), traffic::key(6)),
        _ => traffic::everything(),
    };
    let (no_put, no_delete) = (rng.below(8) == 0, rng.below(8) == 0);
    WatchRequest { keys, start, prev_kv: rng.below(2) == 0, no_put, no_delete: no_delete && !no_put }
}

/// The request that resumes a watch after its last received revision.
fn resumed(watch: &Watch) -> WatchRequest {
    WatchRequest { start: resume(watch, watch.request.start), ..watch.request.clone() }
}

fn begun(shared: &Shared, client: u32, request: &WatchRequest) -> Watch {
    Watch { client, at: shared.clock.now(), request: request.clone(), responses: Vec::new() }
}

/// The revision at which a watch resumes.
fn resume(watch: &Watch, from: i64) -> i64 {
    let heard = watch.responses.iter().map(|response| last(&response.said, response.revision) + 1);
    heard.max().unwrap_or(0).max(from)
}

/// The revision up to which a response completes the watch.
fn last(said: &WatchContent, revision: i64) -> i64 {
    match said {
        // The rest of the last revision follows.
        WatchContent::Events { events, fragment: true } => {
            events.last().map_or(0, |event| event.kv.mod_revision - 1)
        }
        WatchContent::Events { events, fragment: false } => {
            events.last().map_or(0, |event| event.kv.mod_revision)
        }
        WatchContent::Progress => revision,
        WatchContent::Canceled { compact_revision } => compact_revision - 1,
        WatchContent::Created => 0,
    }
}

impl<'a> Stream<'a> {
    /// Opens a stream with these watches. The requests are sent before the stream is confirmed, because a server may
    /// wait for the first request.
    async fn open(
        shared: &'a Shared,
        link: &mut Link,
        client: u32,
        wanted: Vec<(WatchRequest, bool)>,
    ) -> Option<Self> {
        loop {
            let channel = link.channel(&shared.done).await?;
            let (requests, outgoing) = mpsc::channel(wanted.len() + 1);
            let watches: Vec<_> = wanted.iter().map(|(request, _)| begun(shared, client, request)).collect();
            for (request, progress_notify) in &wanted {
                let create = RequestUnion::CreateRequest(wire::watch(request, *progress_notify));
                // The channel has capacity for all of them.
                let _ = requests.try_send(pb::WatchRequest { request_union: Some(create) });
            }
            let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
            let opened = client.watch(ReceiverStream::new(outgoing));
            match tokio::time::timeout(shared.plan.timeout, opened).await {
                Ok(Ok(responses)) => {
                    let (responses, open) = (responses.into_inner(), BTreeMap::new());
                    let pending = (0..watches.len()).collect();
                    return Some(Self { shared, requests, responses, watches, pending, open, heard: 0 });
                }
                Ok(Err(_)) | Err(_) => link.lost(),
            }
        }
    }

    /// Receives responses until `enough` returns true, the stream ends, or the workload is done.
    async fn run(&mut self, enough: impl Fn(&Self) -> bool) {
        let mut ticks = interval(PROGRESS);
        while !enough(self) {
            tokio::select! {
                biased;
                () = self.shared.done.cancelled() => return,
                response = self.responses.message() => match response {
                    Ok(Some(response)) => self.take(response),
                    Ok(None) | Err(_) => return,
                },
                _ = ticks.tick() => {
                    let progress = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
                    // If the server does not read requests, this one is skipped.
                    let _ = self.requests.try_send(pb::WatchRequest { request_union: Some(progress) });
                }
            }
        }
    }

    fn take(&mut self, response: pb::WatchResponse) {
        let at = self.shared.clock.now();
        let revision = wire::revision(response.header.as_ref());
        self.shared.saw(revision);
        let id = response.watch_id;
        if response.created {
            let Some(watch) = self.pending.pop_front() else { return };
            if !response.canceled {
                self.open.insert(id, watch);
            }
            self.watches[watch].responses.push(WatchResponse { at, revision, said: WatchContent::Created });
            if response.canceled {
                let said = WatchContent::Canceled { compact_revision: response.compact_revision };
                self.watches[watch].responses.push(WatchResponse { at, revision, said });
            }
            return;
        }
        let said = said(response);
        self.heard = self.heard.max(last(&said, revision));
        let of: Vec<usize> = match id {
            -1 => self.open.values().copied().collect(),
            id => self.open.get(&id).copied().into_iter().collect(),
        };
        if matches!(said, WatchContent::Canceled { .. }) {
            self.open.remove(&id);
        }
        for watch in of {
            self.watches[watch].responses.push(WatchResponse { at, revision, said: said.clone() });
        }
    }

    /// Whether no response can arrive.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.open.is_empty()
    }
}

fn said(response: pb::WatchResponse) -> WatchContent {
    if response.canceled {
        return WatchContent::Canceled { compact_revision: response.compact_revision };
    }
    if response.events.is_empty() {
        return WatchContent::Progress;
    }
    let events = response.events.into_iter().filter_map(wire::event).collect();
    WatchContent::Events { events, fragment: response.fragment }
}
