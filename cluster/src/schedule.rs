//! [`Schedule`]: permutes the order in which tasks of a control plane in virtual time run, by a seed. tokio runs ready tasks of one thread in the
//! order in which they became ready, so an unpermuted cluster has one order per workload. A permuted one pauses for a random time where its
//! components interact: calls of components, watch deliveries, reads and commits of the storage.

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt as _};
use http::Request;
use kstore_nondet::Rng;
use kstore_storage::storage::{
    Commit, CommitError, Layer, Outcome, Page, Raw, RawBatch, RawWatch, ReadError, SharedStorage, Storage,
};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;

/// Largest number of turns that a pause gives to ready tasks.
const TURNS: u64 = 8;
/// One in this many pauses lasts until every ready task has run, and then some virtual time.
const LONG: u64 = 16;
/// Longest pause, in milliseconds of virtual time.
const LONGEST_MS: u64 = 20;

/// Generator of pauses; without an [`Rng`] there are none.
#[derive(Clone, Debug)]
pub struct Schedule(Option<Rng>);

impl Schedule {
    /// Tasks run in the order in which they become ready.
    pub fn fifo() -> Self {
        Self(None)
    }

    /// `rng` determines the order of tasks.
    pub fn permuted(rng: Rng) -> Self {
        Self(Some(rng))
    }

    /// Lets a random number of other tasks run. Dropping the future is safe.
    async fn pause(&self) {
        let Some(rng) = &self.0 else { return };
        if rng.below(LONG) == 0 {
            return tokio::time::sleep(Duration::from_millis(1 + rng.below(LONGEST_MS))).await;
        }
        for _ in 0..rng.below(TURNS) {
            tokio::task::yield_now().await;
        }
    }

    /// Whether tasks run in the order in which they become ready.
    pub fn is_fifo(&self) -> bool {
        self.0.is_none()
    }

    /// Wraps `storage` with a pause before each read and delivery, and before and after each commit.
    pub fn storage(&self, storage: SharedStorage) -> SharedStorage {
        match self.0 {
            None => storage,
            Some(_) => Arc::new(PermutedStorage { inner: storage, schedule: self.clone() }),
        }
    }

    /// Wraps `service` with a pause before and after each call.
    pub fn service<S>(&self, service: S) -> PermutedService<S> {
        PermutedService { inner: service, schedule: self.clone() }
    }

    /// Wraps `stream` with a pause before each item.
    pub fn stream<S: Stream>(&self, stream: S) -> impl Stream<Item = S::Item> + use<S> {
        let schedule = self.clone();
        stream.then(move |item| {
            let schedule = schedule.clone();
            async move {
                schedule.pause().await;
                item
            }
        })
    }
}

struct PermutedStorage {
    inner: SharedStorage,
    schedule: Schedule,
}

#[async_trait]
impl Layer for PermutedStorage {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        self.schedule.pause().await;
        self.inner.get(key, revision).await
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        self.schedule.pause().await;
        self.inner.list(start, end, limit, revision).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        self.schedule.pause().await;
        let outcome = self.inner.commit(commit).await;
        self.schedule.pause().await;
        outcome
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        self.schedule.pause().await;
        let inner = self.inner.watch(prefix, after).await?;
        Ok(Box::new(PermutedWatch { inner, schedule: self.schedule.clone() }))
    }
}

struct PermutedWatch {
    inner: Box<dyn RawWatch>,
    schedule: Schedule,
}

#[async_trait]
impl RawWatch for PermutedWatch {
    /// Pauses before a batch is taken, so that dropping the future loses no batch.
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>> {
        self.schedule.pause().await;
        self.inner.next().await
    }
}

/// A service with pauses around its calls, see [`Schedule::service`].
#[derive(Clone)]
pub struct PermutedService<S> {
    inner: S,
    schedule: Schedule,
}

impl<S, B> Service<Request<B>> for PermutedService<S>
where
    S: Service<Request<B>> + Clone,
    S::Future: Send + 'static,
    S::Response: Send,
    S::Error: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (schedule, answer) = (self.schedule.clone(), self.inner.call(request));
        Box::pin(async move {
            schedule.pause().await;
            let answer = answer.await;
            schedule.pause().await;
            answer
        })
    }
}
