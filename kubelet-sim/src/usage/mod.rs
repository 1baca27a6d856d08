//! What the containers of a node use, and the two documents in which a kubelet shows it: `summary` (JSON) and `resource_metrics`
//! (Prometheus' text). Pure: the caller brings the node's pods and the time. What a container uses is what its pod's annotations `cpu`
//! and `memory` say at that moment; without them it uses nothing.

mod counters;
mod resource_metrics;
mod summary;

pub(crate) use counters::CpuCounters;
pub(crate) use resource_metrics::resource_metrics;
pub(crate) use summary::summary;

use crate::behavior;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

/// What a running container uses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ContainerUsage {
    name: String,
    /// Start of this run.
    started: Timestamp,
    /// Billionths of a processor.
    nano_cores: u64,
    /// Bytes.
    memory: u64,
    /// Processor time since the start, in billionths of a second.
    cpu_nanos: u64,
}

/// What the running containers of a pod use.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodUsage {
    namespace: String,
    name: String,
    uid: String,
    started: Option<Timestamp>,
    containers: Vec<ContainerUsage>,
    /// Processor time of all runs of its containers that were seen, in billionths of a second.
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

/// What the pods of a node use at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUsage {
    name: String,
    /// The moment.
    at: Timestamp,
    /// Pods with a running container, in the order in which they were listed.
    pods: Vec<PodUsage>,
    /// Processor time of all runs of containers that were seen, in billionths of a second.
    cpu_nanos: u64,
}

impl NodeUsage {
    /// What the pods of the node `name` use at `at`. Processor time is counted in `counters`, which belong to this node.
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

/// What a pod uses, before its processor time is counted; `None` if no container runs.
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
