//! The start of a server on a storage that is unavailable for a while.

use crate::config::ServerConfig;
use crate::server::{ApiServer, StartError};
use crate::storage::embedded::Embedded;
use crate::storage::{Commit, CommitError, Layer, Outcome, Storage};
use async_trait::async_trait;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A storage whose first commits fail.
struct UnavailableStorage {
    inner: Embedded,
    failures_left: AtomicU64,
}

#[async_trait]
impl Layer for UnavailableStorage {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let left = self.failures_left.load(Ordering::Relaxed);
        if left > 0 {
            self.failures_left.store(left - 1, Ordering::Relaxed);
            return Err(CommitError::Unavailable("the storage is overloaded".into()));
        }
        self.inner.commit(commit).await
    }
}

/// Starts a server on a storage with this number of failing commits.
async fn start(failures: u64) -> Result<ApiServer, StartError> {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let storage = UnavailableStorage { inner: Embedded::new(store), failures_left: failures.into() };
    let config = ServerConfig { nondet, ..ServerConfig::default() };
    ApiServer::start(Arc::new(storage), config, |task| drop(tokio::spawn(task))).await
}

#[tokio::test(start_paused = true)]
async fn a_start_survives_a_storage_that_is_unavailable_for_a_while() {
    assert!(start(3).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_start_fails_on_a_storage_that_stays_unavailable() {
    let failed = start(u64::MAX).await.err().expect("no initial object can be stored");
    assert!(failed.to_string().contains("overloaded"), "{failed}");
}
