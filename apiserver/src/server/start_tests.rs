//! The start of a server on a storage that is unavailable for a while.

use crate::outbound::{Network, ServiceBackends};
use crate::server::{ApiServer, Options, StartError};
use crate::storage::embedded::Embedded;
use crate::storage::{Commit, CommitError, Layer, Outcome, Storage};
use async_trait::async_trait;
use kstore_nondet::Nondet;
use kstore_store::{Config, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

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
    let options = Options {
        nondet,
        stop: CancellationToken::new(),
        advertised: String::new(),
        client_ca: None,
        front_proxy_ca: None,
        tokens: None,
        service_ranges: Default::default(),
        local_components: Default::default(),
        anonymous: true,
        outbound: Arc::new(Network::new(ServiceBackends::default())),
        settings: crate::Settings::default(),
        connections: crate::limits::CONNECTIONS,
    };
    ApiServer::start(Arc::new(storage), options, |task| drop(tokio::spawn(task))).await
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
