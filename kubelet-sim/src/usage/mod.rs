//! Resource usage of a node's containers, and the two kubelet documents that show it: `summary` (JSON) and
//! `resource_metrics` (Prometheus text). Pure: the caller provides the node's pods and the time. A
//! container's usage is what its pod's annotations `cpu` and `memory` say at that moment; without them it is
//! what its processes use if it runs a program of this machine, and else zero.

mod counters;
mod resource_metrics;
mod summary;

use crate::amounts::Amounts;
use crate::behavior;
pub(crate) use counters::CpuCounters;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use kstore_host_runtime::ContainerUsages;
pub(crate) use resource_metrics::resource_metrics;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use summary::summary;

/// What decides about the usage of pods besides their own annotations, by the uids of the pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExternalUsage {
    /// Annotations that replace the pod's own: with those of PodBehaviors.
    pub(crate) annotations: BTreeMap<String, BTreeMap<String, String>>,
    /// What requests of Services take.
    pub(crate) loads: BTreeMap<String, PodLoad>,
    /// What the processes of containers use that run on this machine.
    pub(crate) measured: Arc<ContainerUsages>,
}

/// What a pod uses because of requests: its first container does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodLoad {
    /// Processor usage in billionths of a processor, which the container's limit bounds.
    pub(crate) nano_cores: u64,
    /// Memory usage in bytes.
    pub(crate) memory: u64,
    /// What it uses without requests, instead of what its annotations say.
    pub(crate) idle_cpu: Option<u64>,
    pub(crate) idle_memory: Option<u64>,
}

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
    /// The processor time that its processes have used, in billionths of a second, where that is measured: `nano_cores` comes of it.
    measured_nanos: Option<u64>,
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
    pub(crate) fn sample(
        name: &str,
        pods: &[Pod],
        external: &ExternalUsage,
        at: Timestamp,
        counters: &mut CpuCounters,
    ) -> Self {
        let mut pods: Vec<PodUsage> = pods.iter().filter_map(|pod| of_pod(pod, external)).collect();
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

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn saturating_sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}

/// The usage of a pod without processor time; `None` if no container runs.
fn of_pod(pod: &Pod, external: &ExternalUsage) -> Option<PodUsage> {
    let status = pod.status.as_ref()?;
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let own = || pod.metadata.annotations.clone().unwrap_or_default();
    let annotations = external.annotations.get(uid).cloned().unwrap_or_else(own);
    let load = external.loads.get(uid).and_then(|load| Some((load, pod.spec.as_ref()?.containers.first()?)));
    let containers: Vec<ContainerUsage> = statuses(status)
        .filter_map(|container| {
            let started = container.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0;
            let script = behavior::script(&annotations, &container.name);
            // The table is empty in clusters without programs of this machine.
            let measured = match external.measured.is_empty() {
                true => None,
                false => external.measured.get(&(uid.to_owned(), container.name.clone())),
            };
            let measured_nanos = measured.filter(|_| script.cpu.is_none()).map(|used| nanos(used.cpu));
            let memory = script.memory.or(measured.map(|used| used.memory));
            let (mut nano_cores, mut memory) = (script.cpu.unwrap_or(0), memory.unwrap_or(0));
            if let Some((load, first)) = load.filter(|(_, first)| first.name == container.name) {
                let busy = load.idle_cpu.unwrap_or(nano_cores).saturating_add(load.nano_cores);
                nano_cores = busy.min(cpu_limit(first).unwrap_or(u64::MAX));
                memory = load.idle_memory.unwrap_or(memory).saturating_add(load.memory);
            }
            let name = container.name.clone();
            Some(ContainerUsage { name, started, nano_cores, memory, cpu_nanos: 0, measured_nanos })
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

/// The limit of a container in billionths of a processor.
fn cpu_limit(container: &Container) -> Option<u64> {
    let limits = Amounts::of(container.resources.as_ref()?.limits.as_ref());
    u64::try_from(limits.milli_cpu).ok()?.checked_mul(1_000_000).filter(|limit| *limit > 0)
}

/// The statuses of all containers that can run: sidecars are init containers.
fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let kinds =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    kinds.into_iter().flatten().flatten()
}

#[cfg(test)]
mod tests;
