//! A flow schema as requests meet it: its rules, its level, the headers of its answers and its metrics.

use super::config::SchemaConfig;
use super::level::Level;
use super::matching::RequestDigest;
use http::{HeaderMap, HeaderName, HeaderValue};
use kstore_metrics_text::AtomicHistogram;
use kstore_storage::series::Counter;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Histogram buckets of waiting and running times, in seconds, as in Kubernetes.
const TIMES: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
/// Histogram buckets of queue lengths, as in Kubernetes.
const LENGTHS: [f64; 8] = [0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// Histogram buckets of estimated seats, as in Kubernetes.
const SEATS: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// Histogram buckets of watchers of written objects, as in Kubernetes.
const WATCHERS: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];

/// A flow schema whose level exists.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) schema: SchemaConfig,
    pub(super) level: Arc<Level>,
    pub(super) metrics: Arc<FlowMetrics>,
    schema_uid: HeaderValue,
    level_uid: HeaderValue,
}

impl Flow {
    pub(super) fn new(
        schema: SchemaConfig,
        level: Arc<Level>,
        level_uid: &str,
        metrics: Arc<FlowMetrics>,
    ) -> Self {
        // A mandatory object that is not stored has no uid; a stored one is a text without control characters.
        let header = |uid: &str| HeaderValue::from_str(uid).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self { schema_uid: header(&schema.uid), level_uid: header(level_uid), schema, level, metrics }
    }

    /// Adds the headers that name the schema and the level.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(SCHEMA_UID, self.schema_uid.clone());
        headers.insert(LEVEL_UID, self.level_uid.clone());
    }

    /// The hash of a request's flow: of its schema and its distinguishing value. `seed` is secret, so that
    /// clients cannot choose names that share the queues of others.
    pub(super) fn hash(&self, seed: u64, request: &RequestDigest<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        let value = self.schema.distinguisher.map_or("", |distinguisher| distinguisher.value(request));
        (seed, self.schema.name.as_str(), value).hash(&mut hasher);
        hasher.finish()
    }
}

/// How a request's wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It runs.
    Dispatched,
    /// Its queue is full.
    QueueFull,
    /// Its level has no queues and no free seat.
    NoSeat,
    /// Its time was over.
    TimedOut,
    /// Its client left.
    Cancelled,
}

impl Outcome {
    /// Reasons of rejections, by the label's value.
    pub(super) const REJECTIONS: [(Self, &'static str); 3] =
        [(Self::QueueFull, "queue-full"), (Self::NoSeat, "concurrency-limit"), (Self::TimedOut, "time-out")];
}

/// Metrics of the requests of one schema in one level.
#[derive(Debug)]
pub(super) struct FlowMetrics {
    pub(super) dispatched: Counter,
    /// By the order of [`Outcome::REJECTIONS`].
    pub(super) rejected: [Counter; Outcome::REJECTIONS.len()],
    /// Waits of requests that ran.
    pub(super) waits: AtomicHistogram,
    /// Waits of rejected requests.
    pub(super) vain_waits: AtomicHistogram,
    pub(super) lengths: AtomicHistogram,
    pub(super) runs: AtomicHistogram,
    /// Initialisations of watches.
    pub(super) watch_runs: AtomicHistogram,
    pub(super) seats: AtomicHistogram,
    pub(super) watchers: AtomicHistogram,
}

impl Default for FlowMetrics {
    fn default() -> Self {
        let times = || AtomicHistogram::new(&TIMES);
        Self {
            dispatched: Counter::default(),
            rejected: Default::default(),
            waits: times(),
            vain_waits: times(),
            lengths: AtomicHistogram::new(&LENGTHS),
            runs: times(),
            watch_runs: times(),
            seats: AtomicHistogram::new(&SEATS),
            watchers: AtomicHistogram::new(&WATCHERS),
        }
    }
}

impl FlowMetrics {
    /// Counts a request that waits in a queue, with the queue's length.
    pub(super) fn queued(&self, length: usize) {
        self.lengths.observe(length as f64);
    }

    /// Counts the end of a wait.
    pub(super) fn decided(&self, outcome: Outcome, waited: Duration) {
        let rejection = Outcome::REJECTIONS.iter().position(|(known, _)| *known == outcome);
        match rejection {
            None => {
                self.dispatched.add(1);
                self.waits.observe(waited.as_secs_f64());
            }
            Some(reason) => {
                self.rejected[reason].add(1);
                self.vain_waits.observe(waited.as_secs_f64());
            }
        }
    }

    /// Counts a request that has run.
    pub(super) fn ran(&self, is_watch: bool, ran: Duration) {
        let runs = if is_watch { &self.watch_runs } else { &self.runs };
        runs.observe(ran.as_secs_f64());
    }
}
