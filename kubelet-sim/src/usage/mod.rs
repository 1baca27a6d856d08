//! Resource usage of a node's containers, and the two kubelet documents that show it: `summary` (JSON) and
//! `resource_metrics` (Prometheus text). Pure: the caller provides the node's pods and the time. A
//! container's usage is what its pod's annotations `cpu` and `memory` say at that moment; without them it is
//! zero.

mod counters;
mod resource_metrics;
mod summary;

use crate::behavior;
pub(crate) use counters::CpuCounters;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
pub(crate) use resource_metrics::resource_metrics;
pub(crate) use summary::summary;

/// The usage of a running container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContainerUsage {
    name: String,
    /// Start of this run.
    started: Timestamp,
    /// Processor usage in billionths of a processor.
    nano_cores: u64,
    /// Memory usage in bytes.
    memory: u64,
    /// Processor time since the start, in billionths of a second.
    cpu_nanos: u64,
}

/// The usage of a pod's running containers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodUsage {
    namespace: String,
    name: String,
    uid: String,
    started: Option<Timestamp>,
    containers: Vec<ContainerUsage>,
    /// Processor time of all observed runs of its containers, in billionths of a second.
    cpu_nanos: u64,
}

impl PodUsage {
    fn nano_cores(&self) -> u64 {
        saturating_sum(self.containers.iter().map(|container| container.nano_cores))
    }

    fn memory(&self) -> u64 {
        saturating_sum(self.containers.iter().map(|container| container.memory))
    }
}

/// The usage of a node's pods at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUsage {
    name: String,
    /// The time of the sample.
    at: Timestamp,
    /// Pods with a running container, in the order in which they were listed.
    pods: Vec<PodUsage>,
    /// Processor time of all observed runs of containers, in billionths of a second.
    cpu_nanos: u64,
}

impl NodeUsage {
    /// Samples the usage of the pods of node `name` at `at`. Counts processor time in `counters`, which
    /// belong to this node.
    pub(crate) fn sample(name: &str, pods: &[Pod], at: Timestamp, counters: &mut CpuCounters) -> Self {
        let mut pods: Vec<PodUsage> = pods.iter().filter_map(of_pod).collect();
        let cpu_nanos = counters.advance(at, &mut pods);
        Self { name: name.to_owned(), at, pods, cpu_nanos }
    }

    fn nano_cores(&self) -> u64 {
        saturating_sum(self.pods.iter().map(PodUsage::nano_cores))
    }

    fn memory(&self) -> u64 {
        saturating_sum(self.pods.iter().map(PodUsage::memory))
    }
}

fn saturating_sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

/// The usage of a pod without processor time; `None` if no container runs.
fn of_pod(pod: &Pod) -> Option<PodUsage> {
    let status = pod.status.as_ref()?;
    let annotations = pod.metadata.annotations.clone().unwrap_or_default();
    let containers: Vec<ContainerUsage> = statuses(status)
        .filter_map(|container| {
            let started = container.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0;
            let script = behavior::script(&annotations, &container.name);
            Some(ContainerUsage {
                name: container.name.clone(),
                started,
                nano_cores: script.cpu.unwrap_or(0),
                memory: script.memory.unwrap_or(0),
                cpu_nanos: 0,
            })
        })
        .collect();
    if containers.is_empty() {
        return None;
    }
    Some(PodUsage {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        uid: pod.metadata.uid.clone().unwrap_or_default(),
        started: status.start_time.as_ref().map(|time| time.0),
        containers,
        cpu_nanos: 0,
    })
}

/// The statuses of all containers that can run: sidecars are init containers.
fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let kinds =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    kinds.into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests;
