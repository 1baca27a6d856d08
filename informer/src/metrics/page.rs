//! [`Page`]: metrics by name and labels, and their text format 0.0.4.

use super::Histogram;
use kstore_metrics_text::{self as text, LabelText};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Name, help text and type of a metric.
#[derive(Debug)]
pub struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
}

impl Metric {
    /// A metric that only grows during the life of the process.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "counter" }
    }

    /// A metric with the current value of something.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "gauge" }
    }

    /// A distribution of values.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "histogram" }
    }
}

/// Label names with their values, in output order.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Metrics page under construction: one family per name, one series per name and labels. Several collectors
/// may add to a series, in any order.
#[derive(Default)]
pub struct Page(BTreeMap<&'static str, Family>);

struct Family {
    metric: &'static Metric,
    /// Series by the text of their labels.
    series: BTreeMap<LabelText, Value>,
}

enum Value {
    Number(f64),
    Distribution(Histogram),
}

impl Page {
    /// Adds `value` to the series of this name and these labels.
    pub fn add(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64) {
        self.number(metric, labels, value, |old, new| old + new);
    }

    /// Raises the series of this name and these labels to `value`. For ages and revisions.
    pub fn highest(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64) {
        self.number(metric, labels, value, f64::max);
    }

    /// Adds a histogram to the series of this name and these labels.
    pub fn distribution(&mut self, metric: &'static Metric, labels: Labels<'_>, histogram: &Histogram) {
        match self.series(metric, labels) {
            Entry::Vacant(entry) => {
                entry.insert(Value::Distribution(histogram.clone()));
            }
            Entry::Occupied(mut entry) => {
                if let Value::Distribution(known) = entry.get_mut() {
                    known.merge(histogram);
                }
            }
        }
    }

    fn number(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64, join: fn(f64, f64) -> f64) {
        match self.series(metric, labels) {
            Entry::Vacant(entry) => {
                entry.insert(Value::Number(value));
            }
            Entry::Occupied(mut entry) => {
                if let Value::Number(known) = entry.get_mut() {
                    *known = join(*known, value);
                }
            }
        }
    }

    fn series(&mut self, metric: &'static Metric, labels: Labels<'_>) -> Entry<'_, LabelText, Value> {
        let family = self.0.entry(metric.name).or_insert_with(|| Family { metric, series: BTreeMap::new() });
        debug_assert_eq!(family.metric.kind, metric.kind, "{} is one kind of figure", metric.name);
        family.series.entry(LabelText::new(labels))
    }

    /// Appends the page to `out`: families by name, series by labels.
    pub(crate) fn write(&self, out: &mut String) {
        let mut page = text::Page::new(out);
        for family in self.0.values() {
            family.write(&mut page);
        }
    }
}

impl Family {
    fn write(&self, page: &mut text::Page<'_>) {
        let Metric { name, help, kind } = self.metric;
        page.head(name, kind, help);
        for (labels, value) in &self.series {
            match value {
                Value::Number(number) => page.line_with(name, labels, number),
                Value::Distribution(histogram) => {
                    page.histogram_with(name, labels, histogram.cumulative(), histogram.sum());
                }
            }
        }
    }
}
