//! A fake watch server over a history in memory, which fails on command or at random.

use crate::Client;
use crate::tests::fake::failure;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use kstore_nondet::Rng;
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use pb::watch_event::Type;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::{Code, Request, Status};

/// Kind and name of each object, with its newest revision.
pub(super) type Objects = BTreeMap<(String, String), i64>;

/// A handle of the fake server. Clones share the server.
#[derive(Clone)]
pub(super) struct Fake(Arc<(Mutex<FakeState>, Notify)>);

struct FakeState {
    rng: Option<Rng>,
    revision: i64,
    compacted: i64,
    /// The objects at each revision.
    past: BTreeMap<i64, Objects>,
    history: Vec<(String, pb::WatchEvent)>,
    cuts: u64,
    open: usize,
    requests: Vec<(usize, i64)>,
}

impl Fake {
    /// A server that fails only on command.
    pub(super) fn reliable() -> Self {
        Self::new(None)
    }

    /// A server that refuses and fails at random.
    pub(super) fn flaky(rng: Rng) -> Self {
        Self::new(Some(rng))
    }

    fn new(rng: Option<Rng>) -> Self {
        let past = BTreeMap::from([(0, Objects::new())]);
        let (history, requests) = (Vec::new(), Vec::new());
        let state = FakeState { rng, revision: 0, compacted: 0, past, history, cuts: 0, open: 0, requests };
        Self(Arc::new((Mutex::new(state), Notify::new())))
    }

    pub(super) fn client(&self) -> Client {
        let fake = self.clone();
        let nowhere = tower::service_fn(|_: http::Request<tonic::body::Body>| {
            std::future::pending::<Result<http::Response<tonic::body::Body>, std::convert::Infallible>>()
        });
        Client::over(nowhere, "test").with_feed(move |request| {
            let fake = fake.clone();
            async move { fake.watch(request) }
        })
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, FakeState> {
        self.0.0.lock()
    }

    /// Writes an object, or deletes it.
    pub(super) fn write(&self, kind: &str, name: &str, gone: bool) -> i64 {
        let mut state = self.state();
        let place = (kind.to_owned(), name.to_owned());
        let mut objects = state.past[&state.revision].clone();
        if gone && !objects.contains_key(&place) {
            return state.revision;
        }
        state.revision += 1;
        let revision = state.revision;
        match gone {
            true => objects.remove(&place),
            false => objects.insert(place, revision),
        };
        state.past.insert(revision, objects);
        let r#type = if gone { Type::Gone } else { Type::Put };
        let event =
            pb::WatchEvent { r#type: r#type.into(), selector: 0, json: json(name, revision), revision };
        state.history.push((kind.to_owned(), event));
        drop(state);
        self.0.1.notify_waiters();
        revision
    }

    /// Ends every open stream.
    pub(super) fn cut(&self) {
        self.state().cuts += 1;
        self.0.1.notify_waiters();
    }

    pub(super) fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.revision;
    }

    /// Stops random failures.
    pub(super) fn stop_failing(&self) {
        self.state().rng = None;
    }

    pub(super) fn revision(&self) -> i64 {
        self.state().revision
    }

    /// The objects of a kind as they were at a revision.
    pub(super) fn at(&self, kind: &str, revision: i64) -> Vec<(String, i64)> {
        let state = self.state();
        let (_, objects) = state.past.range(..=revision).next_back().unwrap();
        objects.iter().filter(|((of, _), _)| of == kind).map(|((_, name), at)| (name.clone(), *at)).collect()
    }

    /// The number of open streams.
    pub(super) fn open(&self) -> usize {
        self.state().open
    }

    /// The number of selectors and the start revision of each stream.
    pub(super) fn requests(&self) -> Vec<(usize, i64)> {
        self.state().requests.clone()
    }

    fn happens(&self, percent: u64) -> bool {
        self.state().rng.as_ref().is_some_and(|rng| rng.below(100) < percent)
    }

    fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<BoxStream<'static, Result<pb::WatchBatch, Status>>, Status> {
        let request = request.into_inner();
        let kinds: Vec<String> =
            request.selectors.into_iter().map(|selector| selector.r#ref.unwrap().resource).collect();
        let after = request.after_revision;
        self.state().requests.push((kinds.len(), after));
        if self.happens(20) {
            return Err(Status::unavailable("by chance"));
        }
        if after > 0 && after < self.state().compacted {
            return Err(failure(Code::OutOfRange, 410, "Expired"));
        }
        let mut first = Vec::new();
        let mut position = after;
        if after == 0 {
            position = self.revision();
            first = self.initial(&kinds, position);
            if self.happens(20) {
                first.truncate(first.len() / 2);
                first.push(Err(Status::unavailable("cut in the middle")));
            }
        }
        self.state().open += 1;
        let following = OpenWatch { fake: self.clone(), kinds, position, cuts: self.state().cuts };
        let changes = stream::unfold(following, |mut following| async {
            let batch = following.next().await?;
            Some((batch, following))
        });
        Ok(stream::iter(first).chain(changes).boxed())
    }

    fn initial(&self, kinds: &[String], revision: i64) -> Vec<Result<pb::WatchBatch, Status>> {
        let mut batches = Vec::new();
        for (selector, kind) in (0..).zip(kinds) {
            for (name, at) in self.at(kind, revision) {
                let event =
                    pb::WatchEvent { selector, json: json(&name, at), revision: at, ..Default::default() };
                batches.push(Ok(pb::WatchBatch { events: vec![event], revision: 0, initial_done: false }));
            }
        }
        batches.push(Ok(pb::WatchBatch { events: Vec::new(), revision, initial_done: true }));
        batches
    }
}

struct OpenWatch {
    fake: Fake,
    kinds: Vec<String>,
    position: i64,
    cuts: u64,
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.fake.state().open -= 1;
    }
}

impl OpenWatch {
    async fn next(&mut self) -> Option<Result<pb::WatchBatch, Status>> {
        loop {
            let fake = self.fake.clone();
            let changed = fake.0.1.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if fake.state().cuts > self.cuts || fake.happens(5) {
                return None;
            }
            match self.batch() {
                Some(batch) => return Some(Ok(batch)),
                None => changed.await,
            }
        }
    }

    fn batch(&mut self) -> Option<pb::WatchBatch> {
        let state = self.fake.state();
        if state.revision <= self.position {
            return None;
        }
        // Whole revisions, but not necessarily all at once.
        let revision = match &state.rng {
            Some(rng) => self.position + 1 + i64::try_from(rng.below(3)).unwrap(),
            None => state.revision,
        };
        let revision = revision.min(state.revision);
        let mut events = Vec::new();
        for (kind, event) in &state.history {
            let selector = self.kinds.iter().position(|of| of == kind);
            if let Some(selector) = selector
                && event.revision > self.position
                && event.revision <= revision
            {
                events.push(pb::WatchEvent { selector: u32::try_from(selector).unwrap(), ..event.clone() });
            }
        }
        drop(state);
        self.position = revision;
        Some(pb::WatchBatch { events, revision, initial_done: false })
    }
}

fn json(name: &str, revision: i64) -> bytes::Bytes {
    let metadata = json!({"name": name, "uid": name, "resourceVersion": revision.to_string()});
    json!({ "metadata": metadata }).to_string().into()
}
