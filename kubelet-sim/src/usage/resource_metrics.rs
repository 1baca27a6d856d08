//! The kubelet document `/metrics/resource`, in Prometheus text format with the kubelet's names, types and
//! labels.

use super::{ContainerUsage, NodeUsage, PodUsage};
use std::fmt::Write as _;

/// The document for a sample.
pub(crate) fn resource_metrics(usage: &NodeUsage) -> String {
    let mut page = Page { text: String::new(), millis: usage.at.as_millisecond() };
    let containers = || usage.pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)));

    page.head("container_cpu_usage_seconds_total", "counter", "Processor time of the container");
    for (pod, container) in containers() {
        page.line(
            "container_cpu_usage_seconds_total",
            &of(pod, Some(container)),
            seconds(container.cpu_nanos),
        );
    }
    page.head("container_memory_working_set_bytes", "gauge", "Working set of the container");
    for (pod, container) in containers() {
        page.line("container_memory_working_set_bytes", &of(pod, Some(container)), container.memory);
    }
    page.head("container_start_time_seconds", "gauge", "Start of the container, since 1970");
    for (pod, container) in containers() {
        page.line("container_start_time_seconds", &of(pod, Some(container)), container.started.as_second());
    }
    page.head("node_cpu_usage_seconds_total", "counter", "Processor time of the node");
    page.line("node_cpu_usage_seconds_total", "", seconds(usage.cpu_nanos));
    page.head("node_memory_working_set_bytes", "gauge", "Working set of the node");
    page.line("node_memory_working_set_bytes", "", usage.memory());
    page.head("pod_cpu_usage_seconds_total", "counter", "Processor time of the pod");
    for pod in &usage.pods {
        page.line("pod_cpu_usage_seconds_total", &of(pod, None), seconds(pod.cpu_nanos));
    }
    page.head("pod_memory_working_set_bytes", "gauge", "Working set of the pod");
    for pod in &usage.pods {
        page.line("pod_memory_working_set_bytes", &of(pod, None), pod.memory());
    }
    page.head("resource_scrape_error", "gauge", "Whether the figures could not be read");
    page.text.push_str("resource_scrape_error 0\n");
    page.text
}

/// The labels of a pod or container. Names of Kubernetes objects have no characters that need escaping.
fn of(pod: &PodUsage, container: Option<&ContainerUsage>) -> String {
    let own = container.map(|one| format!("container=\"{}\",", one.name)).unwrap_or_default();
    format!("{{{own}namespace=\"{}\",pod=\"{}\"}}", pod.namespace, pod.name)
}

/// Prometheus values are doubles, which represent months of processor time to the microsecond.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

struct Page {
    text: String,
    /// The time of the sample, in milliseconds since 1970.
    millis: i64,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let written = writeln!(self.text, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
        written.expect("writing to a string cannot fail");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let written = writeln!(self.text, "{name}{labels} {value} {}", self.millis);
        written.expect("writing to a string cannot fail");
    }
}
