//! Watch streams: one that watches everything from the start on and resumes whatever happens, and others that come and go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kstore_nondet::Rng;
use kstore_proto::etcd::etcdserverpb::{self as pb, watch_client::WatchClient, watch_request::RequestUnion};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::link::Link;
use super::workload::Shared;
use super::{traffic, wire};
use crate::history::{Keys, Said, Watch, WatchRequest, WatchResponse};

/// How often a stream asks for progress; what a Kubernetes apiserver does while somebody waits for a list.
const PROGRESS: Duration = Duration::from_millis(100);

/// How far from the present a watch begins.
const AROUND: u64 = 100;

/// How long a stream that comes and goes stays, in milliseconds.
const LIFE: std::ops::Range<u64> = 200..2_000;

/// Watches on such a stream, at most.
const WATCHES: u64 = 3;

/// A stream, and what came out of it.
struct Stream<'a> {
    shared: &'a Shared,
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
    watches: Vec<Watch>,
    /// Asked for, but not answered yet.
    pending: VecDeque<usize>,
    /// By the server's ids.
    open: BTreeMap<i64, usize>,
    /// Up to where everything has been said, if there is one watch.
    heard: i64,
}

/// Watches everything from `start` on, until everything up to the last revision has come.
pub(super) async fn everything(shared: Arc<Shared>, id: u32, mut link: Link, start: i64) -> Vec<Watch> {
    let (mut watches, mut next) = (Vec::new(), start);
    while !shared.is_complete(next - 1) {
        let request =
            WatchRequest { keys: Keys::all(), start: next, prev_kv: true, ..WatchRequest::default() };
        let Some(mut stream) = Stream::open(&shared, &mut link, id, vec![(request, false)]).await else {
            break;
        };
        // A watch from the future has nothing to say, progress included, if nothing happens any more.
        stream.heard = next - 1;
        // A watch that is cancelled because its start was compacted begins again where it can.
        stream.run(|stream| stream.is_idle() || shared.is_complete(stream.heard)).await;
        next = stream.watches.iter().map(|watch| resume(watch, next)).max().unwrap_or(next);
        watches.extend(stream.watches);
    }
    watches
}

/// Streams that come and go, some from where the one before ended.
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

/// The same watch from after the last that it heard of.
fn resumed(watch: &Watch) -> WatchRequest {
    WatchRequest { start: resume(watch, watch.request.start), ..watch.request.clone() }
}

fn begun(shared: &Shared, client: u32, request: &WatchRequest) -> Watch {
    Watch { client, at: shared.clock.now(), request: request.clone(), responses: Vec::new() }
}

/// Where a watch goes on.
fn resume(watch: &Watch, from: i64) -> i64 {
    let heard = watch.responses.iter().map(|response| last(&response.said, response.revision) + 1);
    heard.max().unwrap_or(0).max(from)
}

/// Up to where a response says everything.
fn last(said: &Said, revision: i64) -> i64 {
    match said {
        // The rest of the last revision is still to come.
        Said::Events { events, fragment: true } => events.last().map_or(0, |event| event.kv.mod_revision - 1),
        Said::Events { events, fragment: false } => events.last().map_or(0, |event| event.kv.mod_revision),
        Said::Progress => revision,
        Said::Canceled { compact_revision } => compact_revision - 1,
        Said::Created => 0,
    }
}

impl<'a> Stream<'a> {
    /// Begins a stream with these watches. They are asked for before there is an answer to the stream itself, since a
    /// server may have nothing to answer before it is asked.
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
                // There is room for all of them.
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

    /// Takes in responses until `enough`, or the stream ends, or nobody waits any more.
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
                    // A server that does not take requests is asked often enough.
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
            self.watches[watch].responses.push(WatchResponse { at, revision, said: Said::Created });
            if response.canceled {
                let said = Said::Canceled { compact_revision: response.compact_revision };
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
        if matches!(said, Said::Canceled { .. }) {
            self.open.remove(&id);
        }
        for watch in of {
            self.watches[watch].responses.push(WatchResponse { at, revision, said: said.clone() });
        }
    }

    /// Whether nothing can come.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.open.is_empty()
    }
}

fn said(response: pb::WatchResponse) -> Said {
    if response.canceled {
        return Said::Canceled { compact_revision: response.compact_revision };
    }
    if response.events.is_empty() {
        return Said::Progress;
    }
    let events = response.events.into_iter().filter_map(wire::event).collect();
    Said::Events { events, fragment: response.fragment }
}
