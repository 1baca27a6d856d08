//! Metrics of requests to a storage, under the names of kube-apiserver's metrics of etcd requests.

use super::request::DURATIONS;
use crate::series::{Counter, Family};
use crate::storage::{
    Commit, CommitError, Layer, Outcome, Page as Found, Raw, ReadError, SharedStorage, Storage, Write,
};
use crate::storage_key::built_in_of_key;
use async_trait::async_trait;
use kstore_metrics_text::{AtomicHistogram, Page};
use std::sync::Arc;
use tokio::time::Instant;

/// Operation, group and resource.
type Key = (&'static str, &'static str, &'static str);

/// Metrics of all requests to a storage.
pub(super) struct StorageMetrics {
    series: Family<Key, StorageSeries>,
}

struct StorageSeries {
    durations: AtomicHistogram,
    errors: Counter,
}

impl Default for StorageMetrics {
    fn default() -> Self {
        let new =
            || StorageSeries { durations: AtomicHistogram::new(&DURATIONS), errors: Counter::default() };
        Self { series: Family::new(new) }
    }
}

impl StorageMetrics {
    fn count(&self, operation: &'static str, key: &str, began: Instant, failed: bool) {
        // Series are never dropped. There may be many custom kinds, so they share one series.
        let (group, resource) = built_in_of_key(key).map_or(("", ""), |row| (row.group, row.plural));
        let series = self.series.get(&(operation, group, resource));
        series.durations.observe(began.elapsed().as_secs_f64());
        if failed {
            series.errors.add(1);
        }
    }

    pub(super) fn render(&self, page: &mut Page<'_>) {
        let all = self.series.sorted();
        let labels = |(operation, group, resource): Key| {
            [("operation", operation), ("group", group), ("resource", resource)]
        };
        let name = "etcd_request_duration_seconds";
        page.head(name, "histogram", "Time that requests to the storage took.");
        all.iter().for_each(|(key, series)| series.durations.render(page, name, &labels(*key)));
        let name = "etcd_requests_total";
        page.head(name, "counter", "Requests to the storage.");
        all.iter().for_each(|(key, series)| page.line(name, &labels(*key), series.durations.count()));
        let name = "etcd_request_errors_total";
        page.head(name, "counter", "Requests to the storage that failed.");
        for (key, series) in all.iter().filter(|(_, series)| series.errors.get() > 0) {
            page.line(name, &labels(*key), series.errors.get());
        }
    }
}

/// A storage that forwards all calls to another one, and measures them.
pub struct MeasuredStorage {
    inner: SharedStorage,
    metrics: Arc<StorageMetrics>,
}

impl MeasuredStorage {
    pub(super) fn new(inner: SharedStorage, metrics: Arc<StorageMetrics>) -> Self {
        Self { inner, metrics }
    }
}

/// The operation of a commit for metrics, and the key of its first write, or of its first guard if it writes
/// nothing.
fn operation_and_key(commit: &Commit) -> (&'static str, &str) {
    let guarded = |key: &str| commit.guards.iter().find(|guard| guard.key == key);
    match commit.writes.first() {
        Some(Write::Put { key, .. }) if guarded(key).is_some_and(|guard| guard.revision == 0) => {
            ("create", key)
        }
        Some(Write::Put { key, .. }) => ("update", key),
        Some(Write::Delete { key }) => ("delete", key),
        None => ("get", commit.guards.first().map_or("", |guard| guard.key.as_str())),
    }
}

#[async_trait]
impl Layer for MeasuredStorage {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        let began = Instant::now();
        let found = self.inner.get(key, revision).await;
        self.metrics.count("get", key, began, found.is_err());
        found
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Found, ReadError> {
        let began = Instant::now();
        let found = self.inner.list(start, end, limit, revision).await;
        self.metrics.count("list", start, began, found.is_err());
        found
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let began = Instant::now();
        let (operation, key) = operation_and_key(&commit);
        let key = key.to_owned();
        let outcome = self.inner.commit(commit).await;
        self.metrics.count(operation, &key, began, outcome.is_err());
        outcome
    }

    async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        let began = Instant::now();
        let named: Vec<_> = commits
            .iter()
            .map(operation_and_key)
            .map(|(operation, key)| (operation, key.to_owned()))
            .collect();
        let outcomes = self.inner.commit_each(commits).await;
        for ((operation, key), outcome) in named.iter().zip(&outcomes) {
            self.metrics.count(operation, key, began, outcome.is_err());
        }
        outcomes
    }
}
