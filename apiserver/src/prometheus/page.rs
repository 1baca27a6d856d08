//! A page of metrics: families and their samples in the Prometheus text format, and its translation into
//! OpenMetrics. This module knows the formats, not the metrics.

use std::fmt::{Display, Write as _};

/// The content type of the Prometheus text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The content type of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The name and value of a label.
pub type Label<'l> = (&'l str, &'l str);

/// A writer of metrics in the Prometheus text format.
pub struct Page<'s>(&'s mut String);

impl<'s> Page<'s> {
    /// A page that appends to `out`.
    pub fn new(out: &'s mut String) -> Self {
        Self(out)
    }

    /// Begins a family. All of its samples must follow before another family begins.
    pub fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Writes one sample.
    pub fn line(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.0.push_str(name);
        self.labels(labels, None);
        self.put(format_args!(" {value}\n"));
    }

    /// Writes one bucket of a histogram: the number of values up to `bound`.
    pub fn bucket(&mut self, name: &str, labels: &[Label<'_>], bound: f64, count: u64) {
        self.put(format_args!("{name}_bucket"));
        self.labels(labels, Some(bound));
        self.put(format_args!(" {count}\n"));
    }

    fn labels(&mut self, labels: &[Label<'_>], bound: Option<f64>) {
        if labels.is_empty() && bound.is_none() {
            return;
        }
        for (at, (name, value)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            self.put(format_args!("{before}{name}=\""));
            self.escaped(value);
            self.0.push('"');
        }
        if let Some(bound) = bound {
            let before = if labels.is_empty() { '{' } else { ',' };
            if bound.is_finite() {
                self.put(format_args!("{before}le=\"{}\"", bound_text(bound)));
            } else {
                self.put(format_args!("{before}le=\"+Inf\""));
            }
        }
        self.0.push('}');
    }

    fn escaped(&mut self, value: &str) {
        for letter in value.chars() {
            match letter {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes everything");
    }
}

/// Translates a page from the text format into OpenMetrics: the metadata of counters lacks `_total` and their
/// samples have it, bounds are floats, and the page ends with a marker.
pub fn open_metrics(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1024);
    // The counter of the present family, if its samples lack the suffix.
    let mut bare: Option<&str> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let kind = if kind == "untyped" { "unknown" } else { kind };
            bare = (kind == "counter" && !name.ends_with("_total")).then_some(name);
            let name = if kind == "counter" { name.strip_suffix("_total").unwrap_or(name) } else { name };
            out.extend(["# TYPE ", name, " ", kind, "\n"]);
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            // The type follows on the next line; only names of counters end with this suffix.
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            let name = name.strip_suffix("_total").unwrap_or(name);
            out.extend(["# HELP ", name, " ", &help.replace('"', "\\\""), "\n"]);
        } else if !line.starts_with('#') {
            sample(&mut out, line, bare);
        }
    }
    out.push_str("# EOF\n");
    out
}

fn sample(out: &mut String, line: &str, bare: Option<&str>) {
    let rest = match bare.and_then(|name| Some((name, line.strip_prefix(name)?))) {
        Some((name, rest)) => {
            out.extend([name, "_total"]);
            rest
        }
        None => line,
    };
    match rest.split_once("le=\"").and_then(|(before, after)| Some((before, after.split_once('"')?))) {
        Some((before, (bound, after))) if bound.bytes().all(|b| b.is_ascii_digit()) => {
            out.extend([before, "le=\"", bound, ".0\"", after, "\n"]);
        }
        Some(_) | None => out.extend([rest, "\n"]),
    }
}

/// Formats a bound as Go does, since label values are compared as text: small bounds have an exponent of two
/// digits.
fn bound_text(bound: f64) -> String {
    const PLAIN: f64 = 1e-4;
    if bound == 0.0 || bound.abs() >= PLAIN {
        return bound.to_string();
    }
    let text = format!("{bound:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_bounds_written_as_prometheus_does() {
        let mut out = String::new();
        let mut page = Page::new(&mut out);
        page.head("a_total", "counter", "One\nline");
        page.line("a_total", &[("k", "q\"b\\n\n")], 3);
        page.line("b", &[], 1.5);
        page.bucket("c", &[], 1.0, 2);
        page.bucket("c", &[("k", "v")], f64::INFINITY, 2);
        let want = "# HELP a_total One\\nline\n# TYPE a_total counter\na_total{k=\"q\\\"b\\\\n\\n\"} 3\nb 1.5\n\
                    c_bucket{le=\"1\"} 2\nc_bucket{k=\"v\",le=\"+Inf\"} 2\n";
        assert_eq!(out, want);
    }

    #[test]
    fn counters_are_renamed_for_open_metrics() {
        let text = "# HELP a_total Say \"a\"\n# TYPE a_total counter\na_total{k=\"v\"} 3\n\
                    # HELP b B\n# TYPE b counter\nb{k=\"v\"} 4\n\
                    # HELP c C\n# TYPE c histogram\nc_bucket{le=\"1\"} 2\nc_bucket{le=\"2.5\"} 2\nc_bucket{le=\"+Inf\"} 2\n";
        let want = "# HELP a Say \\\"a\\\"\n# TYPE a counter\na_total{k=\"v\"} 3\n\
                    # HELP b B\n# TYPE b counter\nb_total{k=\"v\"} 4\n\
                    # HELP c C\n# TYPE c histogram\nc_bucket{le=\"1.0\"} 2\nc_bucket{le=\"2.5\"} 2\nc_bucket{le=\"+Inf\"} 2\n# EOF\n";
        assert_eq!(open_metrics(text), want);
    }

    #[test]
    fn bounds_are_written_as_go_writes_them() {
        let texts = [0.0, 1.0, 2.5, 0.001, 0.0001, 0.000_05, 0.000_000_5, 1.5e-10].map(bound_text);
        assert_eq!(texts, ["0", "1", "2.5", "0.001", "0.0001", "5e-05", "5e-07", "1.5e-10"]);
    }
}
