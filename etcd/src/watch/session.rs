//! One watch stream: takes requests in order, and puts everything the client gets into one order. Not the waiting for
//! events: that is the store's.

use std::collections::{BTreeMap, VecDeque};

use futures::StreamExt;
use futures::stream::{AbortHandle, Abortable, SelectAll, abortable};
use kstore_proto::etcd::etcdserverpb::{
    WatchCreateRequest, WatchRequest, WatchResponse, watch_create_request::FilterType,
    watch_request::RequestUnion,
};
use kstore_store::{Events, KeyRange, Revision, WatchError, WatchHandle, Watcher};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::{Status, Streaming};

use super::fragment;
use super::progress::Progress;
use super::subscription::{Step, Subscription};
use crate::convert;
use crate::error::{self, EtcdError};
use crate::limits::{MESSAGE_BYTES, PROGRESS_EVERY, WATCHES_PER_STREAM};
use crate::node::Node;

/// The id of what concerns no watch, or all of them.
const ALL: i64 = -1;
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// A watch as the stream knows it.
struct Watch {
    handle: WatchHandle,
    abort: AbortHandle,
    prev_kv: bool,
    fragment: bool,
    /// Wants to hear when nothing happens.
    notify: bool,
    /// Nothing was sent since the last tick.
    quiet: bool,
    /// Was asked because of a tick.
    due: bool,
}

/// The state of a stream.
pub(crate) struct Session {
    node: Node,
    requests: Streaming<WatchRequest>,
    /// The client may send more. After it says that it will not, watches go on.
    open: bool,
    ended: bool,
    /// To be sent before anything else is looked at.
    ready: VecDeque<WatchResponse>,
    subscriptions: SelectAll<Abortable<Subscription>>,
    watches: BTreeMap<i64, Watch>,
    next_id: i64,
    progress: Progress,
    /// Runs once a watch wants it.
    ticks: Option<Interval>,
}

impl Session {
    pub(crate) fn new(node: Node, requests: Streaming<WatchRequest>) -> Self {
        Self {
            node,
            requests,
            open: true,
            ended: false,
            ready: VecDeque::new(),
            subscriptions: SelectAll::new(),
            watches: BTreeMap::new(),
            next_id: 0,
            progress: Progress::default(),
            ticks: None,
        }
    }

    /// The next response; none at the end, which comes after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<WatchResponse, Status>> {
        loop {
            if let Some(response) = self.ready.pop_front() {
                return Some(Ok(response));
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                () = self.node.stop.cancelled() => return self.end(error::STOPPED.into()),
                request = self.requests.message(), if self.open => match request {
                    Ok(Some(request)) => self.request(request),
                    Ok(None) => self.open = false,
                    Err(status) => return self.end(error::oversized(&status).unwrap_or(status)),
                },
                Some((id, step)) = self.subscriptions.next() => {
                    if let Some(error) = self.step(id, step) {
                        return self.end(error.into());
                    }
                }
                () = tick(&mut self.ticks) => self.remind(),
            }
        }
    }

    fn end(&mut self, status: Status) -> Option<Result<WatchResponse, Status>> {
        self.ended = true;
        Some(Err(status))
    }

    fn request(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create),
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.progress.request(self.node.store.revision()),
            None => {}
        }
        self.make_progress();
    }

    fn create(&mut self, create: WatchCreateRequest) {
        let (id, watcher) = match self.begin(&create) {
            Ok(begun) => begun,
            Err(reason) => {
                let refused = WatchResponse {
                    created: true,
                    canceled: true,
                    cancel_reason: reason.to_owned(),
                    ..self.response(ALL)
                };
                self.ready.push_back(refused);
                return;
            }
        };
        let created_at = watcher.created_at();
        let header = self.node.header(created_at);
        self.ready.push_back(WatchResponse { header, watch_id: id, created: true, ..Default::default() });
        self.progress.add(id, reached(create.start_revision, created_at));
        let handle = watcher.handle();
        let (subscription, abort) = abortable(Subscription::new(id, watcher));
        self.subscriptions.push(subscription);
        if create.progress_notify && self.ticks.is_none() {
            let mut ticks = interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            self.ticks = Some(ticks);
        }
        let watch = Watch {
            handle,
            abort,
            prev_kv: create.prev_kv,
            fragment: create.fragment,
            notify: create.progress_notify,
            quiet: true,
            due: false,
        };
        self.watches.insert(id, watch);
    }

    /// Registers with the store, or says why not.
    fn begin(&mut self, create: &WatchCreateRequest) -> Result<(i64, Watcher), &'static str> {
        if self.watches.len() >= WATCHES_PER_STREAM {
            return Err(error::TOO_MANY_REQUESTS.text);
        }
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
                Ok((id, watcher))
            }
            Err(WatchError::EmptyRange) => Err(EMPTY_RANGE),
            Err(WatchError::Compacted { .. }) => Err(error::COMPACTED.text),
            Err(WatchError::Damaged { .. }) => Err(error::CORRUPT.text),
            Err(WatchError::Stopped(_)) => Err(error::STOPPED.text),
        }
    }

    /// Zero asks for the next free id, which is not given twice.
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
            self.ready.push_back(response);
        }
    }

    /// Forgets a watch; says whether there was one.
    fn remove(&mut self, id: i64) -> bool {
        let Some(watch) = self.watches.remove(&id) else { return false };
        watch.abort.abort();
        self.progress.remove(id);
        true
    }

    /// Takes what a watch has to say; on an error the stream is over.
    fn step(&mut self, id: i64, step: Step) -> Option<EtcdError> {
        match step {
            Step::History(revisions, last) => self.events(id, &revisions, last, self.node.store.revision()),
            Step::Live(events, revision) => self.events(id, &[events], revision, revision),
            Step::Level(revision) => self.level(id, revision),
            Step::End(None | Some(WatchError::Stopped(_))) => return Some(error::STOPPED),
            Step::End(Some(error)) => self.lost(id, error),
        }
        self.make_progress();
        None
    }

    fn events(&mut self, id: i64, revisions: &[Events], last: Revision, header: Revision) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        (watch.quiet, watch.due) = (false, false);
        self.progress.sent(id, last);
        let events = revisions.iter().flat_map(|events| events.iter());
        let response = WatchResponse {
            header: self.node.header(header),
            watch_id: id,
            events: events.map(|event| convert::event(event, watch.prev_kv)).collect(),
            ..Default::default()
        };
        if watch.fragment {
            self.ready.extend(fragment::split(response, MESSAGE_BYTES));
        } else {
            self.ready.push_back(response);
        }
    }

    fn level(&mut self, id: i64, revision: Revision) {
        self.progress.answered(id, revision);
        if let Some(watch) = self.watches.get_mut(&id)
            && std::mem::take(&mut watch.due)
        {
            self.progress.sent(id, revision);
            let header = self.node.header(revision);
            self.ready.push_back(WatchResponse { header, watch_id: id, ..Default::default() });
        }
    }

    /// A watch cannot go on. That it was compacted away is recognised by the revision alone.
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
        self.ready.push_back(response);
    }

    fn make_progress(&mut self) {
        let next = self.progress.next();
        if let Some(revision) = next.announce {
            let header = self.node.header(revision);
            self.ready.push_back(WatchResponse { header, watch_id: ALL, ..Default::default() });
        }
        for id in next.ask {
            if let Some(watch) = self.watches.get(&id) {
                watch.handle.request_progress();
            }
        }
    }

    /// A tick: asks the watches that want it and sent nothing since the last one.
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

/// An empty key is the smallest key there is.
fn keys(create: &WatchCreateRequest) -> KeyRange {
    let key = if create.key.is_empty() { vec![0].into() } else { create.key.clone() };
    KeyRange::from_etcd(key, create.range_end.clone())
}

/// Up to where a new watch has nothing to send. One that starts in the future is nowhere: it has nothing to say before.
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
