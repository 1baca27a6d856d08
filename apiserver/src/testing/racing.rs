//! A storage in which another client writes one object just before each commit, at the worst moment; and a pipeline over it.

use crate::cache::Cache;
use crate::pipeline::Pipeline;
use crate::provenance::Provenance;
use crate::storage::embedded::Embedded;
use crate::storage::{Commit, CommitError, Layer, Outcome, Storage, Write};
use async_trait::async_trait;
use bytes::Bytes;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;

/// The storage. The object is the one under `key`.
pub(crate) struct Racing {
    pub(crate) inner: Embedded,
    key: String,
    /// What is written before the next commits, the last one first; `None` deletes.
    next: Mutex<Vec<Option<Value>>>,
    commits: Mutex<u32>,
}

impl Racing {
    /// A storage in which the object is `first`, and an API on it.
    pub(crate) async fn start(key: String, first: Value) -> (Arc<Self>, Pipeline) {
        let nondet = Nondet::simulated(1);
        let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
        let inner = Embedded::new(store);
        let storage = Arc::new(Self { inner, key, next: Mutex::default(), commits: Mutex::default() });
        storage.write(Some(first)).await;
        let (cache, follow) = Cache::fill(storage.clone(), |_| {}).await.unwrap();
        tokio::spawn(follow);
        let pipeline = Arc::new(Pipeline::new(cache, Arc::new(Provenance::default()), nondet));
        crate::bootstrap::run(&pipeline, &Default::default()).await.unwrap();
        (storage, Arc::into_inner(pipeline).expect("all initial objects are created"))
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

    /// What the next commits find when they come: the first of `states` first. Counts commits from here.
    pub(crate) fn before_commits(&self, states: impl IntoIterator<Item = Option<Value>>) {
        let mut next: Vec<_> = states.into_iter().collect();
        next.reverse();
        *self.next.lock() = next;
        *self.commits.lock() = 0;
    }

    /// Commits since then.
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
