//! [`Page`]: metrics by name and labels, and their text format 0.0.4.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Write as _,
};

use super::Histogram;

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
    series: BTreeMap<String, Value>,
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
            Entry::Vacant(place) => {
                place.insert(Value::Distribution(histogram.clone()));
            }
            Entry::Occupied(mut place) => {
                if let Value::Distribution(known) = place.get_mut() {
                    known.merge(histogram);
                }
            }
        }
    }

    fn number(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64, join: fn(f64, f64) -> f64) {
        match self.series(metric, labels) {
            Entry::Vacant(place) => {
                place.insert(Value::Number(value));
            }
            Entry::Occupied(mut place) => {
                if let Value::Number(known) = place.get_mut() {
                    *known = join(*known, value);
                }
            }
        }
    }

    fn series(&mut self, metric: &'static Metric, labels: Labels<'_>) -> Entry<'_, String, Value> {
        let family = self.0.entry(metric.name).or_insert_with(|| Family { metric, series: BTreeMap::new() });
        debug_assert_eq!(family.metric.kind, metric.kind, "{} is one kind of figure", metric.name);
        family.series.entry(text_of(labels))
    }

    /// Appends the page to `out`: families by name, series by labels.
    pub(crate) fn write(&self, out: &mut String) {
        for family in self.0.values() {
            family.write(out);
        }
    }
}

impl Family {
    fn write(&self, out: &mut String) {
        let Metric { name, help, kind } = self.metric;
        line(out, format_args!("# HELP {name} {}", escape(help, false)));
        line(out, format_args!("# TYPE {name} {kind}"));
        for (labels, value) in &self.series {
            match value {
                Value::Number(number) => line(out, format_args!("{name}{} {number}", braced(labels))),
                Value::Distribution(histogram) => buckets(out, name, labels, histogram),
            }
        }
    }
}

fn buckets(out: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let comma = if labels.is_empty() { "" } else { "," };
    for (bound, count) in histogram.cumulative() {
        line(out, format_args!("{name}_bucket{{{labels}{comma}le=\"{}\"}} {count}", bound_text(bound)));
    }
    let labels = braced(labels);
    line(out, format_args!("{name}_sum{labels} {}", histogram.sum()));
    line(out, format_args!("{name}_count{labels} {}", histogram.count()));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
    out.push('\n');
}

fn braced(labels: &str) -> String {
    if labels.is_empty() { String::new() } else { format!("{{{labels}}}") }
}

fn text_of(labels: Labels<'_>) -> String {
    let one = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escape(value, true));
    labels.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Escapes backslashes and line ends, and quotes within quoted text.
fn escape(text: &str, quoted: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quoted => escaped.push_str("\\\""),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a bound like Go's `%g`, because dashboards compare it as text: with an exponent of at least two
/// digits if it is below -4 or above 5.
fn bound_text(bound: f64) -> String {
    if bound.is_infinite() {
        return "+Inf".into();
    }
    let scientific = format!("{bound:e}");
    let (digits, exponent) = scientific.split_once('e').expect("a finite float has an exponent");
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..=5).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => bound.to_string(),
    }
}
