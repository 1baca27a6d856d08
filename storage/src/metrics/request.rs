//! Metrics of requests: number, duration, sizes, and results.

use super::{Metrics, body};
use crate::observed_body::ObservedBody;
use crate::series::{Counter, Family};
use axum::body::{Body, Bytes};
use http::Response;
use http_body::{Body as _, Frame};
use kstore_api::resource::Resource;
use kstore_metrics_text::{AtomicHistogram, Label, Page};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Histogram buckets of request durations, in seconds, as in Kubernetes.
pub(super) const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Histogram buckets of durations for service level objectives, in seconds, as in Kubernetes.
const OBJECTIVES: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Histogram buckets of response sizes, in bytes.
const SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// Histogram buckets of watch events, in bytes.
const EVENT_SIZES: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];
/// The common status codes, which have counters of their own. Others are counted in a map, more slowly.
const CODES: [u16; 18] =
    [200, 201, 202, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 503, 504];

/// The labels of a request's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The verb in upper case: GET LIST WATCH POST PUT PATCH APPLY DELETE DELETECOLLECTION CONNECT, and our
    /// own TRANSACT.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural name of the resource.
    pub resource: &'static str,
    /// The subresource, or ""; for a request outside the resource API, its path.
    pub subresource: &'static str,
    /// `resource`, `namespace`, `cluster`, or "".
    pub scope: &'static str,
}

impl Kind {
    /// The labels of a request about a resource.
    pub fn of(
        verb: &'static str,
        resource: &Resource,
        subresource: &'static str,
        namespace: &str,
        name: &str,
    ) -> Self {
        let scope = match (name.is_empty(), namespace.is_empty()) {
            (false, _) => "resource",
            // A created object counts as one object, although the URL lacks its name.
            (true, _) if verb == "POST" => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        let (group, version) = (resource.group, resource.version);
        Self { verb, group, version, resource: resource.plural, subresource, scope }
    }

    /// The labels of a transaction of `kstore.v1`: several operations at one revision, counted as one
    /// request.
    pub fn of_transaction() -> Self {
        Self { verb: "TRANSACT", ..Self::of_path("") }
    }

    /// The labels of a GET outside the resource API.
    pub fn of_path(path: &'static str) -> Self {
        Self { verb: "GET", group: "", version: "", resource: "", subresource: path, scope: "" }
    }

    fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST" | "WATCH")
    }

    /// The labels in the order of Kubernetes' documentation of the metrics.
    fn labels(&self) -> [Label<'static>; 7] {
        [
            ("verb", self.verb),
            ("group", self.group),
            ("version", self.version),
            ("resource", self.resource),
            ("subresource", self.subresource),
            ("scope", self.scope),
            ("component", "apiserver"),
        ]
    }

    fn labels_and<'l>(&self, more: &[Label<'l>]) -> Vec<Label<'l>> {
        let own: [Label<'l>; 7] = self.labels();
        own.into_iter().chain(more.iter().copied()).collect()
    }
}

/// The upper-case verb of a request, by its API verb.
pub fn verb(api_verb: &str) -> &'static str {
    match api_verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

/// Metrics of the answered requests of one kind, with or without dry run.
struct AnsweredRequests {
    codes: [Counter; CODES.len()],
    other_codes: Mutex<BTreeMap<u16, u64>>,
    durations: AtomicHistogram,
}

impl AnsweredRequests {
    fn new() -> Self {
        let durations = AtomicHistogram::new(&DURATIONS);
        Self { codes: Default::default(), other_codes: Mutex::default(), durations }
    }

    fn count(&self, code: u16, took: Duration) {
        match CODES.binary_search(&code) {
            Ok(at) => self.codes[at].add(1),
            Err(_) => *self.other_codes.lock().entry(code).or_default() += 1,
        }
        self.durations.observe(took.as_secs_f64());
    }

    fn counts(&self) -> Vec<(u16, u64)> {
        let known = CODES.iter().zip(&self.codes).map(|(code, counter)| (*code, counter.get()));
        let mut all: Vec<(u16, u64)> = known.filter(|(_, count)| *count > 0).collect();
        all.extend(self.other_codes.lock().iter().map(|(code, count)| (*code, *count)));
        all
    }
}

/// All metrics of one kind of request.
struct RequestSeries {
    plain: AnsweredRequests,
    dry_run: AnsweredRequests,
    objectives: AtomicHistogram,
    sizes: AtomicHistogram,
    open: AtomicI64,
    terminated: Counter,
    aborted: Counter,
}

impl RequestSeries {
    fn new() -> Self {
        Self {
            plain: AnsweredRequests::new(),
            dry_run: AnsweredRequests::new(),
            objectives: AtomicHistogram::new(&OBJECTIVES),
            sizes: AtomicHistogram::new(&SIZES),
            open: AtomicI64::new(0),
            terminated: Counter::default(),
            aborted: Counter::default(),
        }
    }

    /// The metrics of answered requests, by the value of the label `dry_run`.
    fn answered(&self) -> [(&'static str, &AnsweredRequests); 2] {
        [("", &self.plain), ("All", &self.dry_run)]
    }
}

/// Metrics of watch events of one resource.
struct WatchEvents {
    count: Counter,
    sizes: AtomicHistogram,
}

/// All metric families of requests.
pub(super) struct Requests {
    series: Family<Kind, RequestSeries>,
    events: Family<(&'static str, &'static str, &'static str), WatchEvents>,
    bodies: Family<(&'static str, &'static str, &'static str), AtomicHistogram>,
    /// Requests in flight: reads, writes.
    inflight: [AtomicI64; 2],
}

impl Default for Requests {
    fn default() -> Self {
        let events = || WatchEvents { count: Counter::default(), sizes: AtomicHistogram::new(&EVENT_SIZES) };
        Self {
            series: Family::new(RequestSeries::new),
            events: Family::new(events),
            bodies: Family::new(|| AtomicHistogram::new(&BODY_SIZES)),
            inflight: Default::default(),
        }
    }
}

/// Histogram buckets of request bodies, in bytes, up to the limit of a body.
const BODY_SIZES: [f64; 31] = {
    let mut bounds = [0.0; 31];
    let mut at = 0;
    while at < 31 {
        bounds[at] = 50_000.0 + 100_000.0 * at as f64;
        at += 1;
    }
    bounds
};

/// A request in flight. If it is dropped without [`MeasuredRequest::end`], because the client has left, it
/// counts as aborted.
pub struct MeasuredRequest<'m> {
    metrics: &'m Metrics,
    kind: Kind,
    series: Arc<RequestSeries>,
    dry_run: bool,
    began: Instant,
    ended: bool,
}

impl MeasuredRequest<'_> {
    /// Counts the answer by its HTTP status code.
    pub fn end(mut self, code: u16) {
        self.ended = true;
        let took = self.began.elapsed();
        let answered = if self.dry_run { &self.series.dry_run } else { &self.series.plain };
        answered.count(code, took);
        // The client chooses how long a watch lasts.
        if self.kind.verb != "WATCH" {
            self.series.objectives.observe(took.as_secs_f64());
        }
    }
}

impl Drop for MeasuredRequest<'_> {
    fn drop(&mut self) {
        self.metrics.inflight(self.kind).fetch_sub(1, Ordering::Relaxed);
        if !self.ended {
            self.series.aborted.add(1);
        }
    }
}

impl Metrics {
    /// Counts the arrival of a request.
    pub fn begin(&self, kind: Kind, dry_run: bool) -> MeasuredRequest<'_> {
        self.inflight(kind).fetch_add(1, Ordering::Relaxed);
        let series = self.requests.series.get(&kind);
        MeasuredRequest { metrics: self, kind, series, dry_run, began: Instant::now(), ended: false }
    }

    /// Counts a request that the server terminated to protect itself. Its end is counted as well.
    pub fn terminated(&self, kind: Kind) {
        self.requests.series.get(&kind).terminated.add(1);
    }

    /// Counts the size of a request's body.
    pub fn received(&self, kind: Kind, bytes: usize) {
        self.requests.bodies.get(&(kind.group, kind.resource, kind.verb)).observe(bytes as f64);
    }

    /// Counts an answer. For a watch, counts its events as they are sent, and that it is open.
    pub fn sent(&self, kind: Kind, response: Response<Body>) -> Response<Body> {
        let series = self.requests.series.get(&kind);
        if kind.verb == "WATCH" && response.status().is_success() {
            let framing = body::Framing::of(response.headers());
            let events = self.requests.events.get(&(kind.group, kind.version, kind.resource));
            let count = move |_: &mut OpenWatch, frame: &Frame<Bytes>| {
                framing.each(frame.data_ref().map_or(&[], |chunk| chunk), |size| {
                    events.count.add(1);
                    events.sizes.observe(size as f64);
                });
            };
            let open = OpenWatch::new(series);
            return response.map(|body| Body::new(ObservedBody::new(body, open, count)));
        }
        if let Some(size) = response.body().size_hint().exact() {
            series.sizes.observe(size as f64);
        }
        response
    }

    fn inflight(&self, kind: Kind) -> &AtomicI64 {
        &self.requests.inflight[usize::from(!kind.is_read())]
    }
}

/// An open watch: counted until this guard is dropped.
struct OpenWatch(Arc<RequestSeries>);

impl OpenWatch {
    fn new(series: Arc<RequestSeries>) -> Self {
        series.open.fetch_add(1, Ordering::Relaxed);
        Self(series)
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    pub(super) fn render(&self, page: &mut Page<'_>) {
        let series = self.series.sorted();
        render_answered(page, &series);
        render_histograms(page, &series);
        render_ends(page, &series);
        self.render_inflight(page);
        self.render_events(page);
        self.render_bodies(page);
    }

    fn render_inflight(&self, page: &mut Page<'_>) {
        let name = "apiserver_current_inflight_requests";
        page.head(name, "gauge", "Requests being answered, by kind.");
        for (kind, inflight) in [("mutating", &self.inflight[1]), ("readOnly", &self.inflight[0])] {
            page.line(name, &[("request_kind", kind)], inflight.load(Ordering::Relaxed));
        }
    }

    fn render_events(&self, page: &mut Page<'_>) {
        let all = self.events.sorted();
        let labels = |(group, version, resource): (&'static str, &'static str, &'static str)| {
            [("group", group), ("version", version), ("resource", resource)]
        };
        let name = "apiserver_watch_events_total";
        page.head(name, "counter", "Events sent to watches.");
        all.iter().for_each(|(key, events)| page.line(name, &labels(*key), events.count.get()));
        let name = "apiserver_watch_events_sizes";
        page.head(name, "histogram", "Bytes of the events sent to watches.");
        all.iter().for_each(|(key, events)| events.sizes.render(page, name, &labels(*key)));
    }

    fn render_bodies(&self, page: &mut Page<'_>) {
        let name = "apiserver_request_body_size_bytes";
        page.head(name, "histogram", "Bytes of the bodies of requests.");
        for ((group, resource, verb), sizes) in self.bodies.sorted() {
            sizes.render(page, name, &[("group", group), ("resource", resource), ("verb", verb)]);
        }
    }
}

fn render_answered(page: &mut Page<'_>, all: &[(Kind, Arc<RequestSeries>)]) {
    let name = "apiserver_request_total";
    page.head(name, "counter", "Answered requests.");
    for (kind, series) in all {
        for (dry_run, answered) in series.answered() {
            for (code, count) in answered.counts() {
                let labels = kind.labels_and(&[("dry_run", dry_run)]);
                let code = code.to_string();
                page.line(name, &[&labels[..], &[("code", &code)]].concat(), count);
            }
        }
    }
    let name = "apiserver_request_duration_seconds";
    page.head(name, "histogram", "Time from the arrival of a request to its answer.");
    for (kind, series) in all {
        for (dry_run, answered) in series.answered().iter().filter(|(_, a)| !a.durations.is_empty()) {
            answered.durations.render(page, name, &kind.labels_and(&[("dry_run", dry_run)]));
        }
    }
}

fn render_histograms(page: &mut Page<'_>, all: &[(Kind, Arc<RequestSeries>)]) {
    let mut family = |name: &str, help: &str, of: fn(&RequestSeries) -> &AtomicHistogram| {
        page.head(name, "histogram", help);
        for (kind, series) in all.iter().filter(|(_, series)| !of(series).is_empty()) {
            of(series).render(page, name, &kind.labels());
        }
    };
    let help = "Time from the arrival of a request to its answer, for service level objectives.";
    family("apiserver_request_sli_duration_seconds", help, |series| &series.objectives);
    family("apiserver_response_sizes", "Bytes of answers.", |series| &series.sizes);
}

fn render_ends(page: &mut Page<'_>, all: &[(Kind, Arc<RequestSeries>)]) {
    let name = "apiserver_longrunning_requests";
    page.head(name, "gauge", "Open watches.");
    for (kind, series) in all.iter().filter(|(kind, _)| kind.verb == "WATCH") {
        page.line(name, &kind.labels(), series.open.load(Ordering::Relaxed));
    }
    let name = "apiserver_request_terminations_total";
    page.head(name, "counter", "Requests that the server terminated to protect itself.");
    for (kind, series) in all.iter().filter(|(_, series)| series.terminated.get() > 0) {
        page.line(name, &kind.labels_and(&[("code", "504")]), series.terminated.get());
    }
    let name = "apiserver_request_aborts_total";
    page.head(name, "counter", "Requests that ended without an answer.");
    for (kind, series) in all.iter().filter(|(_, series)| series.aborted.get() > 0) {
        page.line(name, &kind.labels()[..6], series.aborted.get());
    }
}
