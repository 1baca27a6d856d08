//! Counters in the Prometheus text format, under the names that dashboards for Kubernetes know. Only what is really counted.

use kstore_api::kind::Resource;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

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
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Plural.
    pub resource: &'static str,
    /// Subresource, or "".
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
    reading: AtomicI64,
    writing: AtomicI64,
    appendices: Mutex<Vec<Appendix>>,
}

/// Appends the figures of another part of the process, in the same format.
struct Appendix(Box<dyn Fn(&mut String) + Send + Sync>);

impl fmt::Debug for Appendix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Appendix")
    }
}

/// A request that is being answered. Dropped without [`Measured::end`] (the caller has gone), it is not counted as answered.
#[derive(Debug)]
pub struct Measured<'m> {
    metrics: &'m Metrics,
    kind: Kind,
    began: Instant,
}

impl Measured<'_> {
    /// The answer is known: its HTTP code.
    pub fn end(self, code: u16) {
        self.metrics.answered(self.kind, code, self.began.elapsed());
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.metrics.inflight(self.kind).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// A request has come in.
    pub fn begin(&self, kind: Kind) -> Measured<'_> {
        self.inflight(kind).fetch_add(1, Ordering::Relaxed);
        Measured { metrics: self, kind, began: Instant::now() }
    }

    /// Ends every page with what `figures` appends to it: whole families, none of which is ours.
    pub fn append(&self, figures: impl Fn(&mut String) + Send + Sync + 'static) {
        self.appendices.lock().push(Appendix(Box::new(figures)));
    }

    fn inflight(&self, kind: Kind) -> &AtomicI64 {
        if matches!(kind.verb, "GET" | "LIST" | "WATCH") { &self.reading } else { &self.writing }
    }

    fn answered(&self, kind: Kind, code: u16, took: Duration) {
        *self.requests.lock().entry((kind, code)).or_default() += 1;
        let seconds = took.as_secs_f64();
        let mut all = self.durations.lock();
        let durations = all.entry(kind).or_default();
        durations.sum += seconds;
        let bucket =
            DURATION_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(DURATION_BOUNDS.len() - 1);
        durations.counts[bucket] += 1;
    }

    /// Everything, in the Prometheus text format. `objects`: how many there are of each stored kind.
    pub fn render(&self, objects: impl Iterator<Item = (&'static Resource, usize)>) -> String {
        let mut out = String::with_capacity(16 * 1024);
        self.render_requests(&mut out);
        self.render_durations(&mut out);
        let name = "apiserver_current_inflight_requests";
        head(&mut out, name, "gauge", "Requests being answered");
        line(&mut out, name, "request_kind=\"mutating\"", self.writing.load(Ordering::Relaxed));
        line(&mut out, name, "request_kind=\"readOnly\"", self.reading.load(Ordering::Relaxed));
        let name = "apiserver_resource_objects";
        head(&mut out, name, "gauge", "Stored objects");
        for (resource, count) in objects {
            let labels = format!("group=\"{}\",resource=\"{}\"", resource.group, resource.plural);
            line(&mut out, name, &labels, count);
        }
        self.appendices.lock().iter().for_each(|Appendix(figures)| figures(&mut out));
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

    #[tokio::test(start_paused = true)]
    async fn answered_requests_appear_by_verb_resource_and_code() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let metrics = Metrics::default();
        let create = Kind::of("POST", pods, "", "default", "");
        for milliseconds in [7, 70_000] {
            let measured = metrics.begin(create);
            tokio::time::advance(Duration::from_millis(milliseconds)).await;
            measured.end(201);
        }
        metrics.append(|out| out.push_str("workqueue_depth{name=\"web\"} 0\n"));
        drop(metrics.begin(create));
        let open = metrics.begin(create);
        let text = metrics.render([(pods, 2)].into_iter());
        for expected in [
            r#"apiserver_request_total{verb="POST",group="",version="v1",resource="pods",subresource="",scope="namespace",component="apiserver",dry_run="",code="201"} 2"#,
            r#"component="apiserver",le="0.005"} 0"#,
            r#"component="apiserver",le="0.025"} 1"#,
            r#"component="apiserver",le="+Inf"} 2"#,
            r#"apiserver_current_inflight_requests{request_kind="mutating"} 1"#,
            r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
            r#"apiserver_resource_objects{group="",resource="pods"} 2"#,
            "workqueue_depth{name=\"web\"} 0",
        ] {
            assert!(text.contains(expected), "{expected} not in\n{text}");
        }
        open.end(500);
        assert!(metrics.render(std::iter::empty()).contains(r#"request_kind="mutating"} 0"#));
    }
}
