//! The kubelet document `/metrics/resource`, in Prometheus text format with the kubelet's names, types and
//! labels.

use super::{ContainerUsage, NodeUsage, PodUsage};
use kstore_metrics_text::{Label, Page};
use std::fmt::Display;

/// The document for a sample.
pub(crate) fn resource_metrics(usage: &NodeUsage) -> String {
    let mut text = String::new();
    let mut page = ResourcePage { page: Page::new(&mut text), millis: usage.at.as_millisecond() };
    let containers = || usage.pods.iter().flat_map(|pod| pod.containers.iter().map(move |one| (pod, one)));

    let name = "container_cpu_usage_seconds_total";
    page.head(name, "counter", "Processor time of the container");
    for (pod, container) in containers() {
        page.line(name, &of_container(pod, container), seconds(container.cpu_nanos));
    }
    let name = "container_memory_working_set_bytes";
    page.head(name, "gauge", "Working set of the container");
    for (pod, container) in containers() {
        page.line(name, &of_container(pod, container), container.memory);
    }
    let name = "container_start_time_seconds";
    page.head(name, "gauge", "Start of the container, since 1970");
    for (pod, container) in containers() {
        page.line(name, &of_container(pod, container), container.started.as_second());
    }
    let name = "node_cpu_usage_seconds_total";
    page.head(name, "counter", "Processor time of the node");
    page.line(name, &[], seconds(usage.cpu_nanos));
    let name = "node_memory_working_set_bytes";
    page.head(name, "gauge", "Working set of the node");
    page.line(name, &[], usage.memory());
    let name = "pod_cpu_usage_seconds_total";
    page.head(name, "counter", "Processor time of the pod");
    for pod in &usage.pods {
        page.line(name, &of_pod(pod), seconds(pod.cpu_nanos));
    }
    let name = "pod_memory_working_set_bytes";
    page.head(name, "gauge", "Working set of the pod");
    for pod in &usage.pods {
        page.line(name, &of_pod(pod), pod.memory());
    }
    let name = "resource_scrape_error";
    page.head(name, "gauge", "Whether the figures could not be read");
    page.page.line(name, &[], 0);
    text
}

fn of_container<'u>(pod: &'u PodUsage, container: &'u ContainerUsage) -> [Label<'u>; 3] {
    let [namespace, name] = of_pod(pod);
    [("container", &container.name), namespace, name]
}

fn of_pod(pod: &PodUsage) -> [Label<'_>; 2] {
    [("namespace", &pod.namespace), ("pod", &pod.name)]
}

/// Prometheus values are doubles, which represent months of processor time to the microsecond.
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// A page whose samples have a time.
struct ResourcePage<'s> {
    page: Page<'s>,
    /// The time of the sample, in milliseconds since 1970.
    millis: i64,
}

impl ResourcePage<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        self.page.head(name, kind, &format!("[STABLE] {help}"));
    }

    fn line(&mut self, name: &str, labels: &[Label<'_>], value: impl Display) {
        self.page.line_at(name, labels, value, self.millis);
    }
}
