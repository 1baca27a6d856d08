//! [`reading`]: what a report has of the server's metrics: the series that the page's view of the server reads, without the labels that it
//! does not read. Pure.

use std::collections::BTreeMap;

/// Names of the metrics, with the labels that stay: `web/src/metrics.ts` of the crate `ui` reads these.
const READ: [(&str, &[&str]); 12] = [
    ("apiserver_longrunning_requests", &["verb"]),
    ("apiserver_request_duration_seconds_bucket", &["verb", "le"]),
    ("apiserver_request_total", &["verb", "code"]),
    ("apiserver_storage_objects", &[]),
    ("apiserver_storage_size_bytes", &[]),
    ("apiserver_watch_events_total", &[]),
    ("etcd_requests_total", &["operation"]),
    ("kstore_component_restarts_total", &[]),
    ("kstore_storage_live_bytes", &[]),
    ("process_cpu_seconds_total", &[]),
    ("process_resident_memory_bytes", &[]),
    ("process_start_time_seconds", &[]),
];

/// A page of metrics in Prometheus' text format with these series alone. Series that differ in other labels only are added up; so are the
/// numbers of objects of all resources. A negative number means that the server does not know it, and counts as zero.
pub(super) fn reading(page: &str) -> String {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for line in page.lines() {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        let Some((_, kept)) = READ.iter().find(|(own, _)| *own == name) else { continue };
        let value = match line.rfind('}') {
            Some(end) => &line[end + 1..],
            None => &line[name.len()..],
        };
        let Some(value) = value.split_whitespace().next().and_then(|value| value.parse::<f64>().ok()) else {
            continue;
        };
        let labels: Vec<String> =
            kept.iter().map(|name| format!("{name}=\"{}\"", label(line, name))).collect();
        let series = match labels.is_empty() {
            true => name.to_owned(),
            false => format!("{name}{{{}}}", labels.join(",")),
        };
        *sums.entry(series).or_default() += value.max(0.0);
    }
    sums.iter().map(|(series, value)| format!("{series} {value}\n")).collect()
}

/// The value of a label, which in these metrics has no escapes; empty if it is not there.
fn label<'l>(line: &'l str, name: &str) -> &'l str {
    let found = ["{", ","].iter().find_map(|before| line.split_once(&format!("{before}{name}=\"")));
    found.and_then(|(_, rest)| rest.split_once('"')).map_or("", |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up_over_labels_that_the_page_does_not_read() {
        let page = "# HELP apiserver_request_total Requests.\n\
            apiserver_request_total{code=\"200\",resource=\"pods\",verb=\"GET\"} 2\n\
            apiserver_request_total{code=\"200\",resource=\"nodes\",verb=\"GET\"} 3\n\
            apiserver_request_total{code=\"404\",resource=\"nodes\",verb=\"GET\"} 1\n\
            apiserver_request_total_other{verb=\"GET\"} 7\n\
            apiserver_request_duration_seconds_bucket{le=\"+Inf\",resource=\"pods\",verb=\"LIST\"} 4\n\
            apiserver_storage_objects{resource=\"pods\"} 5\n\
            apiserver_storage_objects{resource=\"widgets.x.io\"} -1\n\
            process_cpu_seconds_total 1.5\n\
            go_goroutines 3\n";
        assert_eq!(
            reading(page),
            "apiserver_request_duration_seconds_bucket{verb=\"LIST\",le=\"+Inf\"} 4\n\
             apiserver_request_total{verb=\"GET\",code=\"200\"} 5\n\
             apiserver_request_total{verb=\"GET\",code=\"404\"} 1\n\
             apiserver_storage_objects 5\n\
             process_cpu_seconds_total 1.5\n"
        );
    }
}
