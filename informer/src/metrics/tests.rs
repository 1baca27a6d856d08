//! Tests of the metrics page.

use super::*;
use std::time::Duration;

const ADDS: Metric = Metric::counter("adds_total", "Adds \\ so\nfar");
const DEPTH: Metric = Metric::gauge("depth", "Keys that wait");
const OLDEST: Metric = Metric::gauge("oldest_seconds", "Age of the oldest");
const TIME: Metric = Metric::histogram("time_seconds", "How long it took");

struct Part(&'static str, f64);

impl Collect for Part {
    fn collect(&self, into: &mut Page) {
        into.add(&DEPTH, &[("name", self.0)], self.1);
        into.add(&ADDS, &[], self.1);
        into.highest(&OLDEST, &[("name", self.0)], self.1);
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe(Duration::from_secs_f64(self.1));
        into.distribution(&TIME, &[("name", self.0)], &histogram);
    }
}

fn part(registry: &Registry, name: &'static str, value: f64) -> Arc<Part> {
    let part = Arc::new(Part(name, value));
    let weak: Weak<Part> = Arc::downgrade(&part);
    registry.add(weak);
    part
}

fn page(registry: &Registry) -> String {
    let mut out = String::new();
    registry.render(&mut out);
    out
}

#[test]
fn each_metric_family_has_one_header_and_equal_series_are_summed() {
    let registry = Registry::new();
    let _parts = [part(&registry, "a", 1.0), part(&registry, "b", 0.25), part(&registry, "a", 0.5)];
    let expected = r#"# HELP adds_total Adds \\ so\nfar
# TYPE adds_total counter
adds_total 1.75
# HELP depth Keys that wait
# TYPE depth gauge
depth{name="a"} 1.5
depth{name="b"} 0.25
# HELP oldest_seconds Age of the oldest
# TYPE oldest_seconds gauge
oldest_seconds{name="a"} 1
oldest_seconds{name="b"} 0.25
# HELP time_seconds How long it took
# TYPE time_seconds histogram
time_seconds_bucket{name="a",le="0.5"} 1
time_seconds_bucket{name="a",le="1"} 2
time_seconds_bucket{name="a",le="+Inf"} 2
time_seconds_sum{name="a"} 1.5
time_seconds_count{name="a"} 2
time_seconds_bucket{name="b",le="0.5"} 1
time_seconds_bucket{name="b",le="1"} 1
time_seconds_bucket{name="b",le="+Inf"} 1
time_seconds_sum{name="b"} 0.25
time_seconds_count{name="b"} 1
"#;
    assert_eq!(page(&registry), expected);
}

#[test]
fn metrics_of_a_dropped_collector_disappear() {
    let registry = Registry::new();
    let kept = part(&registry, "kept", 1.0);
    for _ in 0..100 {
        drop(part(&registry, "dropped", 1.0));
    }
    assert!(!page(&registry).contains("dropped"));
    assert_eq!(registry.len(), 1);
    assert!(registry.0.lock().len() <= 2, "the dead are swept");
    drop(kept);
    assert_eq!(page(&registry), "");
    assert!(registry.is_empty());
}

#[test]
fn label_values_are_escaped() {
    let registry = Registry::new();
    let _part = part(&registry, "a\"b\\c\nd", 1.0);
    assert!(page(&registry).contains(r#"depth{name="a\"b\\c\nd"} 1"#));
}

#[test]
fn bucket_bounds_are_formatted_as_in_go() {
    let mut page = Page::default();
    page.distribution(&TIME, &[], &Histogram::new(Histogram::QUEUE));
    let mut out = String::new();
    page.write(&mut out);
    for bound in ["1e-08", "1e-06", "9.999999999999999e-06", "9.999999999999999e-05", "0.001", "10", "+Inf"] {
        assert!(out.contains(&format!("time_seconds_bucket{{le=\"{bound}\"}} 0\n")), "{bound} in {out}");
    }
}

#[test]
fn a_duration_equal_to_a_bound_counts_in_its_bucket() {
    let mut histogram = Histogram::new(&[0.5, 1.0]);
    for milliseconds in [500, 501, 1_000, 1_001] {
        histogram.observe(Duration::from_millis(milliseconds));
    }
    let cumulative: Vec<_> = histogram.cumulative().map(|(_, count)| count).collect();
    assert_eq!(cumulative, [1, 3, 4]);
    assert_eq!((histogram.count(), histogram.sum()), (4, 3.002));
}
