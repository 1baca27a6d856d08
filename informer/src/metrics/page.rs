//! [`Page`]: figures by name and labels, and the text format 0.0.4 they are written in. It knows no part of the crate.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt::Write as _,
};

use super::Histogram;

/// What a figure is: its name, and what is said of it once, before its series.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
}

impl Metric {
    /// A figure that only grows as long as the process lives.
    pub(crate) const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "counter" }
    }

    /// A figure of this moment.
    pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "gauge" }
    }

    /// A distribution.
    pub(crate) const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: "histogram" }
    }
}

/// Label names with their values, in the order in which they are written.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page in the making: one family per name, one series per name and labels, whoever they come from and in whatever order.
#[derive(Default)]
pub(crate) struct Page(BTreeMap<&'static str, Family>);

struct Family {
    metric: &'static Metric,
    /// By the text of the labels.
    series: BTreeMap<String, Value>,
}

enum Value {
    Number(f64),
    Distribution(Histogram),
}

impl Page {
    /// A number; added to what the page has under this name and these labels.
    pub(crate) fn add(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64) {
        self.number(metric, labels, value, |old, new| old + new);
    }

    /// A number; the page keeps the highest under this name and these labels. For ages and revisions.
    pub(crate) fn highest(&mut self, metric: &'static Metric, labels: Labels<'_>, value: f64) {
        self.number(metric, labels, value, f64::max);
    }

    /// A distribution; added to what the page has under this name and these labels.
    pub(crate) fn distribution(
        &mut self,
        metric: &'static Metric,
        labels: Labels<'_>,
        histogram: &Histogram,
    ) {
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

/// Backslashes and line ends are escaped everywhere, quotes only within quotes.
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

/// A bound as Go writes it (`%g`), since dashboards compare it as text: with an exponent of at least two digits when that is
/// below -4 or above 5.
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
