//! Metrics in the Prometheus text format, under the names that dashboards for Kubernetes know. There are only
//! metrics that are really counted; a family that would always be zero is left out. This file has the
//! families of requests and callers; other parts of the process append theirs ([`Metrics::append`]).
//!
//! Counting is a lookup in a map under a shared lock and a few atomic additions. A page is rendered from
//! copies of the map, so that counting never waits for rendering.

mod body;
mod policies;
mod process;
mod request;
mod storage;
mod webhooks;

use crate::load_progress::LoadProgress;
use crate::restart::TaskRestarts;
use crate::series::{Counter, Family};
use crate::storage::SharedStorage;
use crate::version;
use kstore_api::resource::Resource;
use kstore_api::version::Minor;
use kstore_metrics_text::{AtomicHistogram, Page};
use parking_lot::Mutex;
pub use policies::AdmissionPolicies;
use request::Requests;
pub use request::{Kind, MeasuredRequest, verb};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
pub use storage::MeasuredStorage;
pub use webhooks::{AdmissionWebhooks, ConversionWebhooks};

/// Histogram buckets of authentication and authorization, in seconds.
const AUTH_DURATIONS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Histogram buckets of waits for the watch cache, in seconds.
const READ_WAITS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];

/// Number and duration of authentications or authorizations, by result.
struct ResultMetrics {
    counts: Family<&'static str, Counter>,
    durations: Family<&'static str, AtomicHistogram>,
}

impl ResultMetrics {
    fn new() -> Self {
        Self {
            counts: Family::new(Counter::default),
            durations: Family::new(|| AtomicHistogram::new(&AUTH_DURATIONS)),
        }
    }

    fn count(&self, result: &'static str, took: Duration) {
        self.counts.get(&result).add(1);
        self.durations.get(&result).observe(took.as_secs_f64());
    }

    fn render(&self, page: &mut Page<'_>, count: (&str, &str), duration: (&str, &str)) {
        page.head(count.0, "counter", count.1);
        for (result, counter) in self.counts.sorted() {
            page.line(count.0, &[("result", result)], counter.get());
        }
        page.head(duration.0, "histogram", duration.1);
        for (result, histogram) in self.durations.sorted() {
            histogram.render(page, duration.0, &[("result", result)]);
        }
    }
}

/// The metrics of one server. Their number is bounded by verbs × resources × status codes.
pub struct Metrics {
    requests: Requests,
    authentication: ResultMetrics,
    users: Family<&'static str, Counter>,
    authorization: ResultMetrics,
    handshake_errors: Counter,
    /// Restarts of the server's own tasks.
    restarts: TaskRestarts,
    /// Restarts of the tasks of measured storages.
    storage_restarts: Mutex<Vec<TaskRestarts>>,
    read_waits: Family<(&'static str, &'static str), AtomicHistogram>,
    queued: [AtomicI64; 2],
    extra_families: Mutex<Vec<ExtraFamilies>>,
    /// Progress of the start.
    pub loading: Arc<LoadProgress>,
}

/// A function that appends the metric families of another part of the process to a page.
#[derive(Clone)]
struct ExtraFamilies(Arc<dyn Fn(&mut String) + Send + Sync>);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Requests::default(),
            authentication: ResultMetrics::new(),
            users: Family::new(Counter::default),
            authorization: ResultMetrics::new(),
            handshake_errors: Counter::default(),
            restarts: TaskRestarts::default(),
            storage_restarts: Mutex::default(),
            read_waits: Family::new(|| AtomicHistogram::new(&READ_WAITS)),
            queued: Default::default(),
            extra_families: Mutex::default(),
            loading: Arc::default(),
        }
    }
}

/// A request in the queue: counted until this guard is dropped.
pub struct QueuedRequest<'m>(&'m AtomicI64);

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Metrics of a server whose start counts what it reads in `loading`.
    pub fn counting(loading: &Arc<LoadProgress>) -> Self {
        Self { loading: Arc::clone(loading), ..Self::default() }
    }

    /// Registers a function that appends metric families to every page. The families must be whole, and must
    /// differ from all others.
    pub fn append(&self, families: impl Fn(&mut String) + Send + Sync + 'static) {
        self.extra_families.lock().push(ExtraFamilies(Arc::new(families)));
    }

    /// Wraps a storage so that its requests and the restarts of its tasks are counted.
    pub fn measure(&self, storage: SharedStorage) -> SharedStorage {
        self.storage_restarts.lock().extend(storage.task_restarts());
        let requests = Arc::new(storage::StorageMetrics::default());
        let page = requests.clone();
        self.append(move |out| page.render(&mut Page::new(out)));
        Arc::new(MeasuredStorage::new(storage, requests))
    }

    /// Counts an authentication: the user's name, or that it failed.
    pub fn authenticated(&self, user: Result<&str, ()>, took: Duration) {
        let result = if user.is_ok() { "success" } else { "failure" };
        self.authentication.count(result, took);
        if let Ok(name) = user {
            self.users.get(&user_class(name)).add(1);
        }
    }

    /// Counts an authorization: whether the caller was allowed.
    pub fn authorized(&self, allowed: bool, took: Duration) {
        self.authorization.count(if allowed { "allowed" } else { "no-opinion" }, took);
    }

    /// Counts a failed TLS handshake.
    pub fn handshake_failed(&self) {
        self.handshake_errors.add(1);
    }

    /// Counters of restarts of the server's tasks after a panic.
    pub fn restarts(&self) -> &TaskRestarts {
        &self.restarts
    }

    /// Counts a read that waited for the watch cache to become current.
    pub fn waited(&self, resource: &Resource, took: Duration) {
        self.read_waits.get(&(resource.group, resource.plural)).observe(took.as_secs_f64());
    }

    /// Counts a request in the queue until the returned guard is dropped.
    pub fn queue(&self, writes: bool) -> QueuedRequest<'_> {
        let waiting = &self.queued[usize::from(writes)];
        waiting.fetch_add(1, Ordering::Relaxed);
        QueuedRequest(waiting)
    }

    /// Renders all metrics in the Prometheus text format. `objects` is the number of objects of each stored
    /// kind, and `served` the version of Kubernetes.
    pub fn render<'r>(&self, served: Minor, objects: impl Iterator<Item = (&'r Resource, usize)>) -> String {
        let mut out = String::with_capacity(64 * 1024);
        let mut page = Page::new(&mut out);
        self.requests.render(&mut page);
        self.render_queued(&mut page);
        self.render_callers(&mut page);
        self.render_waits(&mut page);
        self.render_restarts(&mut page);
        render_objects(&mut page, objects);
        render_build(&mut page, served);
        process::render(&mut page);
        let extra_families = self.extra_families.lock().clone();
        extra_families.iter().for_each(|ExtraFamilies(families)| families(&mut out));
        out
    }

    fn render_queued(&self, page: &mut Page<'_>) {
        let name = "apiserver_current_inqueue_requests";
        page.head(name, "gauge", "Requests in the queue, by kind.");
        for (kind, waiting) in [("mutating", &self.queued[1]), ("readOnly", &self.queued[0])] {
            page.line(name, &[("request_kind", kind)], waiting.load(Ordering::Relaxed));
        }
    }

    fn render_callers(&self, page: &mut Page<'_>) {
        self.authentication.render(
            page,
            ("authentication_attempts", "Attempts to authenticate, by result."),
            ("authentication_duration_seconds", "Time that authentication took, by result."),
        );
        let name = "authenticated_user_requests";
        page.head(name, "counter", "Authenticated requests, by class of user name.");
        for (user, counter) in self.users.sorted() {
            page.line(name, &[("username", user)], counter.get());
        }
        self.authorization.render(
            page,
            ("authorization_attempts_total", "Authorization decisions, by result."),
            ("authorization_duration_seconds", "Time that authorization took, by result."),
        );
        let name = "apiserver_tls_handshake_errors_total";
        page.head(name, "counter", "TLS handshakes that failed.");
        page.line(name, &[], self.handshake_errors.get());
    }

    fn render_restarts(&self, page: &mut Page<'_>) {
        let name = "kstore_apiserver_task_restarts_total";
        page.head(name, "counter", "Panics of tasks of the server, each followed by a restart of the task.");
        let storages = self.storage_restarts.lock().clone();
        let mut counts = BTreeMap::<&str, u64>::new();
        for (task, restarts) in self.restarts.counts().chain(storages.iter().flat_map(TaskRestarts::counts)) {
            *counts.entry(task).or_default() += restarts;
        }
        for (task, restarts) in counts {
            page.line(name, &[("task", task)], restarts);
        }
    }

    fn render_waits(&self, page: &mut Page<'_>) {
        let name = "apiserver_watch_cache_read_wait_seconds";
        page.head(name, "histogram", "Time spent waiting for the watch cache to become current.");
        for ((group, resource), histogram) in self.read_waits.sorted() {
            histogram.render(page, name, &[("group", group), ("resource", resource)]);
        }
    }
}

fn render_objects<'r>(page: &mut Page<'_>, objects: impl Iterator<Item = (&'r Resource, usize)>) {
    let objects: Vec<_> = objects.collect();
    let name = "apiserver_resource_objects";
    page.head(name, "gauge", "Stored objects, by kind.");
    for (resource, count) in &objects {
        page.line(name, &[("group", resource.group), ("resource", resource.plural)], count);
    }
    let name = "apiserver_storage_objects";
    page.head(name, "gauge", "Stored objects, by kind; the older name of apiserver_resource_objects.");
    for (resource, count) in &objects {
        page.line(name, &[("resource", &resource.qualified())], count);
    }
}

/// Renders the fields of `/version` as labels.
fn render_build(page: &mut Page<'_>, served: Minor) {
    let document = version::document(served);
    let fields = [
        ("build_date", "buildDate"),
        ("compiler", "compiler"),
        ("git_commit", "gitCommit"),
        ("git_tree_state", "gitTreeState"),
        ("git_version", "gitVersion"),
        ("go_version", "goVersion"),
        ("major", "major"),
        ("minor", "minor"),
        ("platform", "platform"),
    ];
    let labels = fields.map(|(label, field)| (label, document[field].as_str().unwrap_or_default()));
    page.head("kubernetes_build_info", "gauge", "Always 1; the labels are the version of this program.");
    page.line("kubernetes_build_info", &labels, 1);
}

/// The class of a user name for a label. Names themselves are for the audit log: they may be secret, and
/// there are many.
fn user_class(name: &str) -> &'static str {
    const KNOWN: [&str; 5] =
        ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];
    match KNOWN.iter().find(|known| **known == name) {
        Some(known) => known,
        None if name.contains('@') => "email_id",
        None => "other",
    }
}

#[cfg(test)]
mod tests;
