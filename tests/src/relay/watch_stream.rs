//! [`WatchStream`]: one stream of watches to the real etcd. It tracks the progress of its watch and can wait
//! until the watch has reached a revision. A stream carries one watch, which is all that kstore's client
//! needs.

use super::REAL_TIME;
use crate::wait::PATIENCE;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{WatchProgressRequest, WatchRequest, WatchResponse};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// Wait for an event before a progress request is sent.
const FIRST: Duration = Duration::from_millis(3);

/// Interval of progress requests: an etcd that is still catching up does not answer them.
const AGAIN: Duration = Duration::from_millis(20);

/// Incoming responses, without the answers to the stream's own progress requests.
pub(crate) struct Events {
    inbox: mpsc::UnboundedReceiver<Result<WatchResponse, Status>>,
    stream: WatchStream,
}

impl Events {
    /// The next response; `None` after an error or the end of etcd.
    pub(crate) async fn next(&mut self) -> Option<Result<WatchResponse, Status>> {
        self.inbox.recv().await
    }

    /// The next response, if it has arrived.
    pub(crate) fn try_next(&mut self) -> Option<Result<WatchResponse, Status>> {
        self.inbox.try_recv().ok()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.stream.at.change(|at| at.ended = true);
    }
}

/// A stream of one watch, with its progress.
#[derive(Clone)]
pub(super) struct WatchStream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    at: Arc<SharedProgress>,
}

#[derive(Default)]
struct SharedProgress {
    at: Mutex<WatchProgress>,
    changed: Condvar,
}

#[derive(Default)]
struct WatchProgress {
    /// All events up to this revision have arrived.
    revision: i64,
    /// The newest revision when the watch was created.
    created: Option<i64>,
    /// Whether the client has requested progress and has no answer yet.
    asked: bool,
    ended: bool,
}

impl SharedProgress {
    fn change(&self, change: impl FnOnce(&mut WatchProgress)) {
        change(&mut self.at.lock().expect("no holder panics"));
        self.changed.notify_all();
    }

    /// Blocks until `holds` or until the stream has ended, at most for `patience`. Returns whether it held.
    fn wait(&self, holds: impl Fn(&WatchProgress) -> bool, patience: Duration) -> bool {
        let at = self.at.lock().expect("no holder panics");
        let waits = |at: &mut WatchProgress| !holds(at) && !at.ended;
        let waited = self.changed.wait_timeout_while(at, patience, waits).expect("no holder panics");
        !waited.1.timed_out()
    }
}

impl WatchStream {
    pub(super) fn open(client: WatchClient<Channel>, cut: CancellationToken) -> (Self, Events) {
        // Unbounded: the cluster's thread is blocked until everything has arrived, and reads nothing
        // meanwhile. The writes of one test are the bound.
        let ((requests, outbox), (deliver, inbox)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let stream = Self { requests, at: Arc::default() };
        let at = stream.at.clone();
        REAL_TIME.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = carry(client, outbox, &deliver, &at) => {}
                () = deliver.closed() => {}
            }
            // The client observes the end before a blocked waiter continues.
            drop(deliver);
            at.change(|at| at.ended = true);
        });
        let events = Events { inbox, stream: stream.clone() };
        (stream, events)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at.at.lock().expect("no holder panics").ended
    }

    /// Blocks until the stream has ended.
    pub(super) fn wait_end(&self) {
        assert!(self.at.wait(|at| at.ended, PATIENCE), "a stream that was cut ends");
    }

    /// Forwards a request. Returns when the answer has arrived, and with it all past events of a new watch.
    pub(super) fn send(&self, request: WatchRequest) {
        match &request.request_union {
            Some(RequestUnion::CreateRequest(create)) => {
                let revision = create.start_revision - 1;
                self.at.change(|at| at.revision = revision);
                self.push(request);
                assert!(self.at.wait(|at| at.created.is_some(), PATIENCE), "a watch begins");
                let newest = self.at.at.lock().expect("no holder panics").created;
                self.settle(newest.unwrap_or_default());
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.at.change(|at| at.asked = true);
                self.ask_until(|at| !at.asked);
            }
            Some(RequestUnion::CancelRequest(_)) | None => self.push(request),
        }
    }

    /// Blocks until all events up to this revision have arrived.
    pub(super) fn settle(&self, revision: i64) {
        let arrived = |at: &WatchProgress| at.revision >= revision;
        if !self.at.wait(arrived, FIRST) {
            self.ask_until(arrived);
        }
    }

    fn ask_until(&self, holds: impl Fn(&WatchProgress) -> bool) {
        let rounds = PATIENCE.as_millis() / AGAIN.as_millis();
        for _ in 0..rounds {
            let union = RequestUnion::ProgressRequest(WatchProgressRequest {});
            self.push(WatchRequest { request_union: Some(union) });
            if self.at.wait(&holds, AGAIN) {
                return;
            }
        }
        panic!("a watch does not say how far it is");
    }

    fn push(&self, request: WatchRequest) {
        // If no receiver is left, the stream has ended, which is not an error here.
        let _ = self.requests.send(request);
    }
}

async fn carry(
    mut client: WatchClient<Channel>,
    mut outbox: mpsc::UnboundedReceiver<WatchRequest>,
    deliver: &mpsc::UnboundedSender<Result<WatchResponse, Status>>,
    place: &SharedProgress,
) {
    let requests = futures::stream::poll_fn(move |context| outbox.poll_recv(context));
    let mut responses: Streaming<WatchResponse> = match client.watch(requests).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let _ = deliver.send(Err(status));
            return;
        }
    };
    loop {
        let response = match responses.message().await {
            Ok(Some(response)) => response,
            Ok(None) => return,
            Err(status) => {
                let _ = deliver.send(Err(status));
                return;
            }
        };
        let mut passes = true;
        place.change(|at| {
            passes = at.update(&response);
            // Delivered before a blocked waiter continues.
            if passes {
                let _ = deliver.send(Ok(response));
            }
        });
    }
}

impl WatchProgress {
    /// Updates the progress by a response. Returns whether the response is for the client.
    fn update(&mut self, response: &WatchResponse) -> bool {
        let newest = response.header.as_ref().map_or(0, |header| header.revision);
        if response.canceled {
            self.ended = true;
        } else if response.created {
            self.created = Some(newest);
            // The watch starts at the present.
            if self.revision < 0 {
                self.revision = newest;
            }
        } else if let Some(last) = response.events.last() {
            if !response.fragment {
                self.revision = last.kv.as_ref().map_or(0, |kv| kv.mod_revision).max(self.revision);
            }
        } else {
            self.revision = newest.max(self.revision);
            return std::mem::take(&mut self.asked);
        }
        true
    }
}
