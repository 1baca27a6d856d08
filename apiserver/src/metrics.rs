//! Counters in the Prometheus text format, under the names that dashboards for Kubernetes know. Only what is really counted.

use kstore_api::kind::Resource;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Upper bounds, in seconds, of the request duration histogram; those of Kubernetes.
const DURATION_BOUNDS: [f64; 24] = [
    0.005,
    0.025,
    0.05,
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    10.0,
    15.0,
    20.0,
    30.0,
    45.0,
    60.0,
    f64::INFINITY,
];

/// What a request was, as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// Upper case: GET LIST WATCH POST PUT PATCH APPLY DELETE DELETECOLLECTION CONNECT.
    pub verb: &'static str,
    /// API group; empty for the core group and for paths.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural; empty for paths.
    pub resource: &'static str,
    /// Subresource, or the path pattern of a request that is about no resource.
    pub subresource: &'static str,
    /// `resource`, `namespace` or `cluster`.
    pub scope: &'static str,
}

impl Kind {
    /// A request about a resource.
    pub fn of(
        verb: &'static str,
        resource: &Resource,
        subresource: &'static str,
        namespace: &str,
        name: &str,
    ) -> Self {
        let scope = match (name.is_empty(), namespace.is_empty()) {
            (false, _) => "resource",
            (true, false) => "namespace",
            (true, true) => "cluster",
        };
        Self {
            verb,
            group: resource.group,
            version: resource.version,
            resource: resource.plural,
            subresource,
            scope,
        }
    }

    /// A request about a path: `endpoint` is one of a few fixed names, never what the client wrote.
    pub fn path(verb: &'static str, endpoint: &'static str) -> Self {
        Self { verb, group: "", version: "", resource: "", subresource: endpoint, scope: "" }
    }

    fn labels(&self) -> String {
        let Self { verb, group, version, resource, subresource, scope } = self;
        format!(
            "verb=\"{verb}\",group=\"{group}\",version=\"{version}\",resource=\"{resource}\",\
             subresource=\"{subresource}\",scope=\"{scope}\",component=\"apiserver\""
        )
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

/// Requests that are being answered, by what they hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inflight {
    /// Reads.
    ReadOnly,
    /// Writes.
    Mutating,
    /// Watches.
    LongRunning,
}

#[derive(Debug, Default)]
struct Durations {
    counts: [u64; DURATION_BOUNDS.len()],
    sum: f64,
}

/// The counters of one server. Their number is bounded by verbs × resources × answer codes.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(Kind, u16), u64>>,
    durations: Mutex<BTreeMap<Kind, Durations>>,
    watch_events: Mutex<BTreeMap<(&'static str, &'static str, &'static str), u64>>,
    inflight: [AtomicI64; 3],
}

/// One request being answered; drop it when the answer is complete.
#[derive(Debug)]
pub struct InflightGuard<'m>(&'m AtomicI64);

impl Drop for InflightGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts an answered request. For a watch this is its end, and its duration is not counted.
    pub fn answered(&self, kind: Kind, code: u16, took: Duration) {
        *self.requests.lock().entry((kind, code)).or_default() += 1;
        if kind.verb == "WATCH" {
            return;
        }
        let seconds = took.as_secs_f64();
        let mut all = self.durations.lock();
        let durations = all.entry(kind).or_default();
        durations.sum += seconds;
        let bucket =
            DURATION_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(DURATION_BOUNDS.len() - 1);
        durations.counts[bucket] += 1;
    }

    /// Counts events sent to watches of a kind.
    pub fn watch_events(&self, resource: &Resource, count: u64) {
        let key = (resource.group, resource.version, resource.kind);
        *self.watch_events.lock().entry(key).or_default() += count;
    }

    /// Counts a request as being answered until the guard is dropped.
    pub fn begin(&self, kind: Inflight) -> InflightGuard<'_> {
        let gauge = &self.inflight[kind as usize];
        gauge.fetch_add(1, Ordering::Relaxed);
        InflightGuard(gauge)
    }

    /// Everything, in the Prometheus text format. `objects`: how many there are of each stored kind.
    pub fn render(&self, objects: impl Iterator<Item = (&'static Resource, usize)>) -> String {
        let mut out = String::with_capacity(16 * 1024);
        self.render_requests(&mut out);
        self.render_durations(&mut out);
        head(&mut out, "apiserver_watch_events_total", "counter", "Events sent to watches");
        for ((group, version, kind), count) in &*self.watch_events.lock() {
            line(
                &mut out,
                "apiserver_watch_events_total",
                &format!("group=\"{group}\",version=\"{version}\",kind=\"{kind}\""),
                count,
            );
        }
        let gauge = |kind: Inflight| self.inflight[kind as usize].load(Ordering::Relaxed);
        let name = "apiserver_current_inflight_requests";
        head(&mut out, name, "gauge", "Requests being answered");
        line(&mut out, name, "request_kind=\"mutating\"", gauge(Inflight::Mutating));
        line(&mut out, name, "request_kind=\"readOnly\"", gauge(Inflight::ReadOnly));
        let name = "apiserver_longrunning_requests";
        head(&mut out, name, "gauge", "Watches that are open");
        line(&mut out, name, "verb=\"WATCH\",component=\"apiserver\"", gauge(Inflight::LongRunning));
        let name = "apiserver_resource_objects";
        head(&mut out, name, "gauge", "Stored objects");
        for (resource, count) in objects {
            let labels = format!("group=\"{}\",resource=\"{}\"", resource.group, resource.plural);
            line(&mut out, name, &labels, count);
        }
        out
    }

    fn render_requests(&self, out: &mut String) {
        let name = "apiserver_request_total";
        head(out, name, "counter", "Answered requests");
        for ((kind, code), count) in &*self.requests.lock() {
            line(out, name, &format!("{},dry_run=\"\",code=\"{code}\"", kind.labels()), count);
        }
    }

    fn render_durations(&self, out: &mut String) {
        let name = "apiserver_request_duration_seconds";
        head(out, name, "histogram", "Time from the first byte of a request to its answer");
        for (kind, durations) in &*self.durations.lock() {
            let labels = kind.labels();
            let mut total = 0;
            for (bound, count) in DURATION_BOUNDS.iter().zip(durations.counts) {
                total += count;
                let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".into() };
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
            }
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", durations.sum);
            let _ = writeln!(out, "{name}_count{{{labels}}} {total}");
        }
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;

    #[test]
    fn counted_requests_appear_by_verb_resource_and_code() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let metrics = Metrics::default();
        let create = Kind::of("POST", pods, "", "default", "");
        metrics.answered(create, 201, Duration::from_millis(7));
        metrics.answered(create, 201, Duration::from_secs(70));
        let guard = metrics.begin(Inflight::Mutating);
        metrics.watch_events(pods, 3);
        let text = metrics.render([(pods, 2)].into_iter());
        for expected in [
            r#"apiserver_request_total{verb="POST",group="",version="v1",resource="pods",subresource="",scope="namespace",component="apiserver",dry_run="",code="201"} 2"#,
            r#"component="apiserver",le="0.005"} 0"#,
            r#"component="apiserver",le="0.025"} 1"#,
            r#"component="apiserver",le="+Inf"} 2"#,
            r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
            r#"apiserver_watch_events_total{group="",version="v1",kind="Pod"} 3"#,
            r#"apiserver_resource_objects{group="",resource="pods"} 2"#,
        ] {
            assert!(text.contains(expected), "{expected} not in\n{text}");
        }
        drop(guard);
        assert!(metrics.render(std::iter::empty()).contains(r#"request_kind="mutating"} 0"#));
    }
}
