//! [`open_metrics`]: the translation of a page into OpenMetrics.

/// The content type of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
