//! The start of a server: its writes, and a storage that is unavailable for a while.

use crate::config::ServerConfig;
use crate::server::{ApiServer, StartError};
use async_trait::async_trait;
use kstore_nondet::Nondet;
use kstore_storage::storage::embedded::Embedded;
use kstore_storage::storage::{Commit, CommitError, Layer, Outcome, Storage, Write};
use kstore_store::{Config, Store};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of writes of each key.
type Writes = Arc<Mutex<BTreeMap<String, u32>>>;

/// A storage whose first commits fail, and which counts the writes of the others.
struct UnavailableStorage {
    inner: Embedded,
    failures_left: AtomicU64,
    writes: Writes,
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
        for write in &commit.writes {
            if let Write::Put { key, .. } = write {
                *self.writes.lock().entry(key.clone()).or_default() += 1;
            }
        }
        self.inner.commit(commit).await
    }
}

/// Starts a server on a storage with this number of failing commits.
async fn start(failures: u64) -> Result<ApiServer, StartError> {
    start_counting(failures, Writes::default()).await
}

async fn start_counting(failures: u64, writes: Writes) -> Result<ApiServer, StartError> {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let storage = UnavailableStorage { inner: Embedded::new(store), failures_left: failures.into(), writes };
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

#[tokio::test(start_paused = true)]
async fn a_start_writes_each_flow_schema_and_its_condition_once() {
    let writes = Writes::default();
    let server = start_counting(0, writes.clone()).await.unwrap();
    let writes = writes.lock().clone();
    let schemas: Vec<&u32> =
        writes.iter().filter(|(key, _)| key.contains("/flowschemas/")).map(|(_, count)| count).collect();
    assert!(schemas.len() > 10, "{writes:?}");
    assert!(schemas.iter().all(|count| **count == 2), "{writes:?}");
    // No other initial object is written twice.
    assert_eq!(writes.values().filter(|count| **count > 1).count(), schemas.len(), "{writes:?}");
    drop(server);
}
