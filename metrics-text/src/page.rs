//! [`Page`]: a writer of the Prometheus text format 0.0.4.

use std::fmt::{Arguments, Display, Write as _};

/// The content type of the Prometheus text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The name and value of a label.
pub type Label<'l> = (&'l str, &'l str);

/// Labels in the text format, without braces, for a series that is written more than once or sorted by its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelText(String);

impl LabelText {
    /// Renders labels.
    pub fn new(labels: &[Label<'_>]) -> Self {
        let mut text = String::new();
        put_pairs(&mut text, labels);
        Self(text)
    }
}

/// A writer of metrics in the Prometheus text format.
pub struct Page<'s>(&'s mut String);

impl<'s> Page<'s> {
    /// A page that appends to `out`.
    pub fn new(out: &'s mut String) -> Self {
        Self(out)
    }

    /// Begins a family. All of its samples must follow before another family begins.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.put(format_args!("# HELP {name} "));
        put_escaped(self.0, help, false);
        self.put(format_args!("\n# TYPE {name} {kind}\n"));
    }

    /// Writes a counter that has one sample, without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "counter", help);
        self.line(name, &[], value);
    }

    /// Writes a gauge that has one sample, without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, &[], value);
    }

    /// Writes one sample.
    pub fn line(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.sample(name, Labels::Pairs(labels), format_args!("{value}"));
    }

    /// Writes one sample with its time, in milliseconds since 1970.
    pub fn line_at(&mut self, name: &str, labels: &[Label<'_>], value: impl Display, millis: i64) {
        self.sample(name, Labels::Pairs(labels), format_args!("{value} {millis}"));
    }

    /// Writes one sample with rendered labels.
    pub fn line_with(&mut self, name: &str, labels: &LabelText, value: impl Display) {
        self.sample(name, Labels::Text(&labels.0), format_args!("{value}"));
    }

    /// Writes the samples of a histogram: its buckets, sum and count. `cumulative` has the number of values up to each bound; the last
    /// bound is infinite.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: &[Label<'_>],
        cumulative: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        self.buckets(name, Labels::Pairs(labels), cumulative, sum);
    }

    /// Writes the samples of a histogram with rendered labels; see [`Page::histogram`].
    pub fn histogram_with(
        &mut self,
        name: &str,
        labels: &LabelText,
        cumulative: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        self.buckets(name, Labels::Text(&labels.0), cumulative, sum);
    }

    fn buckets(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        cumulative: impl IntoIterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        let mut count = 0;
        for (bound, up_to) in cumulative {
            count = up_to;
            self.put(format_args!("{name}_bucket{{"));
            if labels.put(self.0) {
                self.0.push(',');
            }
            self.put(format_args!("le=\"{}\"}} {count}\n", bound_text(bound)));
        }
        self.put(format_args!("{name}_sum"));
        self.put_value(labels, format_args!("{sum}"));
        self.put(format_args!("{name}_count"));
        self.put_value(labels, format_args!("{count}"));
    }

    fn sample(&mut self, name: &str, labels: Labels<'_>, value: Arguments<'_>) {
        self.0.push_str(name);
        self.put_value(labels, value);
    }

    fn put_value(&mut self, labels: Labels<'_>, value: Arguments<'_>) {
        let before = self.0.len();
        self.0.push('{');
        if labels.put(self.0) {
            self.0.push('}');
        } else {
            self.0.truncate(before);
        }
        self.put(format_args!(" {value}\n"));
    }

    fn put(&mut self, text: Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes everything");
    }
}

/// Labels of a series.
#[derive(Clone, Copy)]
enum Labels<'l> {
    Pairs(&'l [Label<'l>]),
    /// In the text format, without braces.
    Text(&'l str),
}

impl Labels<'_> {
    /// Appends the labels without braces. Returns whether there are any.
    fn put(self, out: &mut String) -> bool {
        match self {
            Self::Pairs(labels) => put_pairs(out, labels),
            Self::Text(labels) => out.push_str(labels),
        }
        match self {
            Self::Pairs(labels) => !labels.is_empty(),
            Self::Text(labels) => !labels.is_empty(),
        }
    }
}

fn put_pairs(out: &mut String, labels: &[Label<'_>]) {
    for (at, (name, value)) in labels.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        put_escaped(out, value, true);
        out.push('"');
    }
}

/// Appends a text with backslashes and line ends escaped, and quotes within quoted text.
fn put_escaped(out: &mut String, text: &str, is_quoted: bool) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_quoted => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

/// Formats a bound like Go's `%g`, because dashboards compare it as text: with an exponent of at least two digits if it is below -4 or
/// above 5.
fn bound_text(bound: f64) -> String {
    if bound == f64::INFINITY {
        return "+Inf".to_owned();
    }
    let scientific = format!("{bound:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if !(-4..=5).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => bound.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    #[test]
    fn help_texts_and_label_values_are_escaped() {
        let mut out = String::new();
        let mut page = Page::new(&mut out);
        page.counter("a_total", "One\nline of \\ and \"", 3);
        page.head("b", "gauge", "B");
        page.line("b", &[("k", "q\"b\\\n"), ("l", "")], 1.5);
        page.line_with("b", &LabelText::new(&[("k", "\"")]), 2);
        page.line_with("b", &LabelText::default(), 2);
        page.line_at("b", &[("k", "v")], 0.5, -7);
        let want = "# HELP a_total One\\nline of \\\\ and \"\n# TYPE a_total counter\na_total 3\n\
                    # HELP b B\n# TYPE b gauge\nb{k=\"q\\\"b\\\\\\n\",l=\"\"} 1.5\nb{k=\"\\\"\"} 2\nb 2\nb{k=\"v\"} 0.5 -7\n";
        assert_eq!(out, want);
    }

    #[test]
    fn a_histogram_is_its_buckets_sum_and_count() {
        let mut out = String::new();
        let mut histogram = Histogram::new(&[1.0, 1e6]);
        [0.5, 2.0].into_iter().for_each(|value| histogram.observe(value));
        let mut page = Page::new(&mut out);
        page.histogram("c", &[], histogram.cumulative(), histogram.sum());
        page.histogram_with("c", &LabelText::new(&[("k", "v")]), [(f64::INFINITY, 2)], 0.25);
        let want = "c_bucket{le=\"1\"} 1\nc_bucket{le=\"1e+06\"} 2\nc_bucket{le=\"+Inf\"} 2\nc_sum 2.5\nc_count 2\n\
                    c_bucket{k=\"v\",le=\"+Inf\"} 2\nc_sum{k=\"v\"} 0.25\nc_count{k=\"v\"} 2\n";
        assert_eq!(out, want);
    }

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let table = [
            (0.0, "0"),
            (1.0, "1"),
            (2.5, "2.5"),
            (0.0001, "0.0001"),
            (0.000_05, "5e-05"),
            (1.5e-10, "1.5e-10"),
            (9.999999999999999e-6, "9.999999999999999e-06"),
            (131_072.0, "131072"),
            (1e6, "1e+06"),
            (1.05e6, "1.05e+06"),
            (-1.0, "-1"),
            (1e100, "1e+100"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ];
        for (bound, text) in table {
            assert_eq!(bound_text(bound), text);
        }
    }
}
