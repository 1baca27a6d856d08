//! [`Line`]: one stream of watches to the real etcd. It knows how far the watch has come, and can be waited for until it has come
//! to a revision. One watch per stream, which is all that our client asks for.

use super::{OUTSIDE, PATIENCE};
use kstore_proto::etcd::etcdserverpb::{
    WatchProgressRequest, WatchRequest, WatchResponse, watch_client::WatchClient, watch_request::RequestUnion,
};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// So long after a change an event needs no push.
const FIRST: Duration = Duration::from_millis(3);

/// An etcd that is still catching up does not say how far a watch is: it is asked again after this time.
const AGAIN: Duration = Duration::from_millis(20);

/// Responses, as they come in. Those to questions that the line itself asks are kept back.
pub(crate) struct Events {
    inbox: mpsc::UnboundedReceiver<Result<WatchResponse, Status>>,
    line: Line,
}

impl Events {
    /// The next; none after an error, and when etcd has gone.
    pub(crate) async fn next(&mut self) -> Option<Result<WatchResponse, Status>> {
        self.inbox.recv().await
    }

    /// The next, if it is here.
    pub(crate) fn try_next(&mut self) -> Option<Result<WatchResponse, Status>> {
        self.inbox.try_recv().ok()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.line.at.change(|at| at.ended = true);
    }
}

/// See the module.
#[derive(Clone)]
pub(super) struct Line {
    requests: mpsc::UnboundedSender<WatchRequest>,
    at: Arc<Place>,
}

#[derive(Default)]
struct Place {
    at: Mutex<At>,
    changed: Condvar,
}

#[derive(Default)]
struct At {
    /// Everything up to here has come in.
    revision: i64,
    /// The newest revision when the watch began.
    created: Option<i64>,
    /// The client wants to know how far the watch is, and has no answer yet.
    asked: bool,
    ended: bool,
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut At)) {
        change(&mut self.at.lock().expect("nobody panics with it"));
        self.changed.notify_all();
    }

    /// Stands still until `holds`, or the line has ended, or for so long; whether it did hold.
    fn wait(&self, holds: impl Fn(&At) -> bool, patience: Duration) -> bool {
        let at = self.at.lock().expect("nobody panics with it");
        let waits = |at: &mut At| !holds(at) && !at.ended;
        let waited = self.changed.wait_timeout_while(at, patience, waits).expect("nobody panics with it");
        !waited.1.timed_out()
    }
}

impl Line {
    pub(super) fn open(client: WatchClient<Channel>, cut: CancellationToken) -> (Self, Events) {
        // Without bounds: the thread of the cluster stands still until everything has come in, and takes nothing out meanwhile. What
        // one test writes is the bound.
        let ((requests, outbox), (tell, inbox)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let line = Self { requests, at: Arc::default() };
        let at = line.at.clone();
        OUTSIDE.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = carry(client, outbox, &tell, &at) => {}
                () = tell.closed() => {}
            }
            // The client hears of the end before anybody who waits for it goes on.
            drop(tell);
            at.change(|at| at.ended = true);
        });
        let events = Events { inbox, line: line.clone() };
        (line, events)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.at.at.lock().expect("nobody panics with it").ended
    }

    /// Stands still until it has ended.
    pub(super) fn wait_end(&self) {
        assert!(self.at.wait(|at| at.ended, PATIENCE), "a line that was cut ends");
    }

    /// Passes a request on. When it returns, the answer has come in, and what a watch that begins in the past has to tell of it.
    pub(super) fn send(&self, request: WatchRequest) {
        match &request.request_union {
            Some(RequestUnion::CreateRequest(create)) => {
                let revision = create.start_revision - 1;
                self.at.change(|at| at.revision = revision);
                self.push(request);
                assert!(self.at.wait(|at| at.created.is_some(), PATIENCE), "a watch begins");
                let newest = self.at.at.lock().expect("nobody panics with it").created;
                self.settle(newest.unwrap_or_default());
            }
            Some(RequestUnion::ProgressRequest(_)) => {
                self.at.change(|at| at.asked = true);
                self.ask_until(|at| !at.asked);
            }
            Some(RequestUnion::CancelRequest(_)) | None => self.push(request),
        }
    }

    /// Stands still until everything up to this revision has come in.
    pub(super) fn settle(&self, revision: i64) {
        let arrived = |at: &At| at.revision >= revision;
        if !self.at.wait(arrived, FIRST) {
            self.ask_until(arrived);
        }
    }

    fn ask_until(&self, holds: impl Fn(&At) -> bool) {
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
        // If nobody takes it, the line has ended, which is no failure of this.
        let _ = self.requests.send(request);
    }
}

async fn carry(
    mut client: WatchClient<Channel>,
    mut outbox: mpsc::UnboundedReceiver<WatchRequest>,
    tell: &mpsc::UnboundedSender<Result<WatchResponse, Status>>,
    place: &Place,
) {
    let requests = futures::stream::poll_fn(move |context| outbox.poll_recv(context));
    let mut responses: Streaming<WatchResponse> = match client.watch(requests).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let _ = tell.send(Err(status));
            return;
        }
    };
    loop {
        let response = match responses.message().await {
            Ok(Some(response)) => response,
            Ok(None) => return,
            Err(status) => {
                let _ = tell.send(Err(status));
                return;
            }
        };
        let mut passes = true;
        place.change(|at| {
            passes = at.hear(&response);
            // Told before anybody who waits goes on.
            if passes {
                let _ = tell.send(Ok(response));
            }
        });
    }
}

impl At {
    /// Takes note of a response; whether it is for the client.
    fn hear(&mut self, response: &WatchResponse) -> bool {
        let newest = response.header.as_ref().map_or(0, |header| header.revision);
        if response.canceled {
            self.ended = true;
        } else if response.created {
            self.created = Some(newest);
            // From the present on.
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
