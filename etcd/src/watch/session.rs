//! A watch stream: handles its requests in order, and merges the responses of its watches into one order. The store
//! waits for events.

use super::progress::Progress;
use super::response;
use super::subscription::{Subscription, SubscriptionStep};
use crate::error::{self, EtcdError};
use crate::limits::{PROGRESS_EVERY, WATCH_CHUNK_BYTES, WATCHES_PER_STREAM};
use crate::node::{Node, WatchStream};
use bytes::Bytes;
use futures::stream::{AbortHandle, Abortable, BoxStream, SelectAll, abortable};
use futures::{FutureExt, StreamExt};
use kstore_proto::etcd::etcdserverpb::watch_create_request::FilterType;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use kstore_store::{Events, KeyRange, Revision, WatchError, WatchHandle, Watcher};
use std::collections::BTreeMap;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::Status;

/// The watch id of responses that concern no watch, or all of them.
const ALL: i64 = -1;
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// A watch on the stream.
struct StreamWatch {
    handle: WatchHandle,
    abort: AbortHandle,
    _permit: OwnedSemaphorePermit,
    prev_kv: bool,
    fragment: bool,
    /// Whether the client requested progress notifications.
    notify: bool,
    /// Whether nothing was sent since the last tick.
    quiet: bool,
    /// Whether a progress notification was requested from the store because of a tick.
    due: bool,
}

/// The client's requests.
pub(crate) type Requests = BoxStream<'static, Result<WatchRequest, Status>>;

/// The state of a watch stream.
pub(crate) struct Session {
    node: Node,
    _counted: WatchStream,
    requests: Requests,
    /// Whether the client may send more requests. Watches continue after the client has closed its side.
    open: bool,
    /// Why the stream ends, once it does.
    ended: Option<Status>,
    /// Encoded responses that wait to be sent, each one complete.
    out: Vec<u8>,
    subscriptions: SelectAll<Abortable<Subscription>>,
    watches: BTreeMap<i64, StreamWatch>,
    next_id: i64,
    progress: Progress,
    /// The timer of progress notifications; created when a watch requests them.
    ticks: Option<Interval>,
}

impl Session {
    pub(crate) fn new(node: Node, requests: Requests) -> Self {
        Self {
            _counted: node.watch_stream(),
            node,
            requests,
            open: true,
            ended: None,
            out: Vec::new(),
            subscriptions: SelectAll::new(),
            watches: BTreeMap::new(),
            next_id: 0,
            progress: Progress::default(),
            ticks: None,
        }
    }

    /// Returns the next encoded responses, up to a bound; or the status with which the stream ends.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Status> {
        while self.out.is_empty() {
            if let Some(status) = self.ended.take() {
                return Err(status);
            }
            self.process_next().await;
        }
        while self.wants_more() && self.process_next().now_or_never().is_some() {}
        Ok(std::mem::take(&mut self.out).into())
    }

    fn wants_more(&self) -> bool {
        self.ended.is_none() && self.out.len() < WATCH_CHUNK_BYTES
    }

    /// Waits for one event and handles it. Cancel safe while it waits.
    async fn process_next(&mut self) {
        tokio::select! {
            biased;
            () = self.node.stop.cancelled() => self.ended = Some(error::STOPPED.into()),
            request = self.requests.next(), if self.open => match request {
                Some(Ok(request)) => self.request(request),
                Some(Err(status)) => self.ended = Some(status),
                None => self.open = false,
            },
            Some((id, step)) = self.subscriptions.next() => self.steps(id, step),
            () = tick(&mut self.ticks) => self.remind(),
        }
    }

    /// Handles a step and the steps that are available after it.
    fn steps(&mut self, id: i64, step: SubscriptionStep) {
        let mut next = Some((id, step));
        while let Some((id, step)) = next {
            if let Some(error) = self.step(id, step) {
                self.ended = Some(error.into());
            }
            next = if self.wants_more() { self.subscriptions.next().now_or_never().flatten() } else { None };
        }
    }

    fn respond(&mut self, response: &WatchResponse) {
        response::write(response, &mut self.out);
    }

    fn request(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create),
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.progress.request(self.node.store.revision()),
            None => {}
        }
        self.send_due_progress();
    }

    fn create(&mut self, create: WatchCreateRequest) {
        let (id, watcher, permit) = match self.begin(&create) {
            Ok(begun) => begun,
            Err(reason) => {
                let refused = WatchResponse {
                    created: true,
                    canceled: true,
                    cancel_reason: reason.to_owned(),
                    ..self.response(ALL)
                };
                self.respond(&refused);
                return;
            }
        };
        let created_at = watcher.created_at();
        let header = self.node.header(created_at);
        self.respond(&WatchResponse { header, watch_id: id, created: true, ..Default::default() });
        self.progress.add(id, reached(create.start_revision, created_at));
        let handle = watcher.handle();
        let (subscription, abort) = abortable(Subscription::new(id, watcher));
        self.subscriptions.push(subscription);
        if create.progress_notify && self.ticks.is_none() {
            let mut ticks = interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            self.ticks = Some(ticks);
        }
        let watch = StreamWatch {
            handle,
            abort,
            _permit: permit,
            prev_kv: create.prev_kv,
            fragment: create.fragment,
            notify: create.progress_notify,
            quiet: true,
            due: false,
        };
        self.watches.insert(id, watch);
    }

    /// Registers a watch with the store, or returns the error text.
    fn begin(
        &mut self,
        create: &WatchCreateRequest,
    ) -> Result<(i64, Watcher, OwnedSemaphorePermit), &'static str> {
        let permit = self.node.watches.clone().try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| self.watches.len() < WATCHES_PER_STREAM) else {
            return Err(error::TOO_MANY_REQUESTS.text);
        };
        if create.start_revision < 0 {
            return Err(error::COMPACTED.text);
        }
        let id = self.id(create.watch_id)?;
        let request = kstore_store::WatchRequest {
            keys: keys(create),
            start: Revision(create.start_revision),
            prev_kv: create.prev_kv,
            no_put: create.filters().any(|filter| filter == FilterType::Noput),
            no_delete: create.filters().any(|filter| filter == FilterType::Nodelete),
        };
        match self.node.store.watch(request) {
            Ok(watcher) => {
                if create.watch_id == 0 {
                    self.next_id = id + 1;
                }
                Ok((id, watcher, permit))
            }
            Err(WatchError::EmptyRange) => Err(EMPTY_RANGE),
            Err(WatchError::Compacted { .. }) => Err(error::COMPACTED.text),
            Err(WatchError::Damaged { .. }) => Err(error::CORRUPT.text),
            Err(WatchError::Stopped(_)) => Err(error::STOPPED.text),
        }
    }

    /// Chooses the id of a watch. Zero requests the next free id; no id is given twice at a time.
    fn id(&self, wish: i64) -> Result<i64, &'static str> {
        match wish {
            0 => Ok((self.next_id..).find(|id| !self.watches.contains_key(id)).unwrap_or(i64::MAX)),
            ALL => Err(DUPLICATE_ID),
            taken if self.watches.contains_key(&taken) => Err(DUPLICATE_ID),
            free => Ok(free),
        }
    }

    fn cancel(&mut self, id: i64) {
        if self.remove(id) {
            let response = WatchResponse { canceled: true, ..self.response(id) };
            self.respond(&response);
        }
    }

    /// Removes a watch. Returns whether it existed.
    fn remove(&mut self, id: i64) -> bool {
        let Some(watch) = self.watches.remove(&id) else { return false };
        watch.abort.abort();
        self.progress.remove(id);
        true
    }

    /// Handles a step of a watch; an error ends the stream.
    fn step(&mut self, id: i64, step: SubscriptionStep) -> Option<EtcdError> {
        match step {
            SubscriptionStep::History(revisions, last) => {
                self.events(id, &revisions, last, self.node.store.revision());
            }
            SubscriptionStep::Live(revisions, last) => self.events(id, &revisions, last, last),
            SubscriptionStep::CaughtUp(revision) => self.mark_caught_up(id, revision),
            SubscriptionStep::End(None | Some(WatchError::Stopped(_))) => return Some(error::STOPPED),
            SubscriptionStep::End(Some(error)) => self.lost(id, error),
        }
        self.send_due_progress();
        None
    }

    fn events(&mut self, id: i64, revisions: &[Events], last: Revision, header: Revision) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        (watch.quiet, watch.due) = (false, false);
        self.progress.sent(id, last);
        let events: Vec<_> = revisions.iter().flat_map(|events| events.iter()).map(AsRef::as_ref).collect();
        let batch = response::Batch {
            header: self.node.header(header).unwrap_or_default(),
            watch_id: id,
            events: &events,
            prev_kv: watch.prev_kv,
        };
        batch.write(watch.fragment, &mut self.out);
    }

    /// Records that a watch has caught up to `revision`, and sends the progress that is due for it.
    fn mark_caught_up(&mut self, id: i64, revision: Revision) {
        self.progress.answered(id, revision);
        if let Some(watch) = self.watches.get_mut(&id)
            && std::mem::take(&mut watch.due)
        {
            self.progress.sent(id, revision);
            let header = self.node.header(revision);
            self.respond(&WatchResponse { header, watch_id: id, ..Default::default() });
        }
    }

    /// Cancels a watch that cannot continue. Clients recognize a compacted watch by its compact revision alone.
    fn lost(&mut self, id: i64, error: WatchError) {
        self.remove(id);
        let response = match error {
            WatchError::Compacted { compacted } => WatchResponse {
                header: self.node.header(Revision(0)),
                watch_id: id,
                canceled: true,
                compact_revision: compacted.0,
                ..Default::default()
            },
            _ => WatchResponse {
                canceled: true,
                cancel_reason: error::CORRUPT.text.to_owned(),
                ..self.response(id)
            },
        };
        self.respond(&response);
    }

    fn send_due_progress(&mut self) {
        let next = self.progress.next();
        if let Some(revision) = next.announce {
            let header = self.node.header(revision);
            self.respond(&WatchResponse { header, watch_id: ALL, ..Default::default() });
        }
        for id in next.ask {
            if let Some(watch) = self.watches.get(&id) {
                watch.handle.request_progress();
            }
        }
    }

    /// Requests progress of the watches that want notifications and sent nothing since the last tick.
    fn remind(&mut self) {
        for watch in self.watches.values_mut().filter(|watch| watch.notify) {
            if watch.quiet {
                watch.due = true;
                watch.handle.request_progress();
            }
            watch.quiet = true;
        }
    }

    fn response(&self, id: i64) -> WatchResponse {
        WatchResponse { header: self.node.header_now(), watch_id: id, ..Default::default() }
    }
}

/// The watched range. An empty key means the smallest key.
fn keys(create: &WatchCreateRequest) -> KeyRange {
    let key = if create.key.is_empty() { vec![0].into() } else { create.key.clone() };
    KeyRange::from_etcd(key, create.range_end.clone())
}

/// The revision up to which a new watch has nothing to send; zero for a watch that starts in the future, which must not
/// report progress before.
fn reached(start: i64, created_at: Revision) -> Revision {
    match Revision(start) {
        Revision::CURRENT => created_at,
        start if start <= created_at => start.previous(),
        _ => Revision(0),
    }
}

async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::WATCHES;
    use crate::node::Member;
    use futures::stream;
    use kstore_nondet::Nondet;
    use kstore_store::{Config, Store};
    use prost::Message;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn watches_of_all_streams_are_bounded() {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        let node = Node::new(store, Member { name: "here", url: "http://here" }, CancellationToken::new());
        let others = node.watches.clone().try_acquire_many_owned(WATCHES as u32 - 1).unwrap();
        let open = || {
            let create = WatchCreateRequest { key: "k".into(), ..Default::default() };
            let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
            Session::new(node.clone(), stream::iter([Ok(request)]).chain(stream::pending()).boxed())
        };
        let first = async |session: &mut Session| {
            let bytes = session.next().await.unwrap();
            // After the prefix of the message.
            WatchResponse::decode(&bytes[5..]).unwrap()
        };
        let mut one = open();
        assert!(!first(&mut one).await.canceled);
        let refused = first(&mut open()).await;
        assert_eq!((refused.canceled, refused.cancel_reason.as_str()), (true, error::TOO_MANY_REQUESTS.text));
        drop((one, others));
        assert!(!first(&mut open()).await.canceled);
    }
}
