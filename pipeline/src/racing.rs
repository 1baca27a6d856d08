//! A storage in which another client writes one object just before each commit, and a pipeline over it.

use crate::pipeline::{AdmissionConfig, Pipeline, PipelineConfig, PipelineState};
use async_trait::async_trait;
use bytes::Bytes;
use kstore_nondet::Nondet;
use kstore_registry::cache::Cache;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Commit, CommitError, Layer, Outcome, Storage, Write};
use kstore_store::{Config, Store};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// The storage. The other client writes the object with the key `key`.
pub(crate) struct Racing {
    pub(crate) inner: Embedded,
    key: String,
    /// The states to write before the next commits, in reverse order; `None` deletes.
    next: Mutex<Vec<Option<Value>>>,
    commits: Mutex<u32>,
}

impl Racing {
    /// A storage with the object `first`, and an API over it.
    pub(crate) async fn start(key: String, first: Value) -> (Arc<Self>, Pipeline) {
        Self::start_with(key, first, AdmissionConfig::default()).await
    }

    /// Like [`Racing::start`], with these admission plugins.
    pub(crate) async fn start_with(
        key: String,
        first: Value,
        admission: AdmissionConfig,
    ) -> (Arc<Self>, Pipeline) {
        let nondet = Nondet::simulated(1);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let inner = Embedded::new(store);
        let storage = Arc::new(Self { inner, key, next: Mutex::default(), commits: Mutex::default() });
        storage.write(Some(first)).await;
        let (cache, follow) = Cache::fill(storage.clone(), |_| {}).await.unwrap();
        tokio::spawn(follow);
        // The initial objects are there before the plugins judge anything.
        let first = PipelineConfig { nondet: nondet.clone(), ..PipelineConfig::default() };
        let first = Arc::new(Pipeline::new(PipelineState::of_cache(cache.clone()), first));
        crate::bootstrap::run(&first, &Default::default()).await.unwrap();
        let config = PipelineConfig { nondet, admission, ..PipelineConfig::default() };
        (storage, Pipeline::new(PipelineState::of_cache(cache), config))
    }

    /// Writes the object; `None` deletes it.
    pub(crate) async fn write(&self, object: Option<Value>) {
        let key = self.key.clone();
        let write = match object {
            Some(value) => Write::Put { key, value: value.to_string().into(), ttl_seconds: 0 },
            None => Write::Delete { key },
        };
        let commit = Commit { guards: Vec::new(), writes: vec![write], note: Bytes::new() };
        self.inner.commit(commit).await.unwrap();
    }

    /// Sets the states to write before the next commits, in order, and resets the count of commits.
    pub(crate) fn before_commits(&self, states: impl IntoIterator<Item = Option<Value>>) {
        let mut next: Vec<_> = states.into_iter().collect();
        next.reverse();
        *self.next.lock() = next;
        *self.commits.lock() = 0;
    }

    /// The number of commits since then.
    pub(crate) fn commits(&self) -> u32 {
        *self.commits.lock()
    }
}

#[async_trait]
impl Layer for Racing {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        *self.commits.lock() += 1;
        let next = self.next.lock().pop();
        if let Some(object) = next {
            self.write(object).await;
        }
        self.inner.commit(commit).await
    }
}
