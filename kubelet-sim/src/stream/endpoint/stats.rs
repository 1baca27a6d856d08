//! What containers use, for clients of CRI: what annotations of their pods say, and else the memory of their programs.

use super::shown::{ShownContainer, ShownSandbox};
use super::table::nanos;
use crate::behavior;
use crate::stream::Streams;
use kstore_container_sim::time::between;
use kstore_proto::cri::v1::{
    ContainerAttributes, ContainerState, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage,
    LinuxPodSandboxStats, MemoryUsage, PodSandboxAttributes, PodSandboxStats, UInt64Value,
};

fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

/// The usage of a running container; `None` if it does not run.
pub(super) fn container(streams: &Streams, shown: &ShownContainer) -> Option<ContainerStats> {
    let status = &shown.status;
    if status.state != i32::from(ContainerState::ContainerRunning) {
        return None;
    }
    let (_, snapshot) = shown.feed.get();
    let metadata = status.metadata.clone()?;
    let meta = &snapshot.record.pod.metadata;
    let script = behavior::script(&meta.annotations, &metadata.name);
    let now = streams.clock.now();
    let timestamp = nanos(now);
    let started = jiff::Timestamp::from_nanosecond(status.started_at.into()).unwrap_or(now);
    let ran = between(started, now);
    let cpu = (ran.as_secs_f64() * script.cpu.unwrap_or(0) as f64) as u64;
    let namespace = streams.runner.namespace(&meta.namespace);
    let held = snapshot.disks.budget(&metadata.name, &namespace).buffers.reserved() as u64;
    let memory = script.memory.unwrap_or(held);
    Some(ContainerStats {
        attributes: Some(ContainerAttributes {
            id: status.id.clone(),
            metadata: Some(metadata),
            labels: status.labels.clone(),
            annotations: status.annotations.clone(),
        }),
        cpu: Some(CpuUsage { timestamp, usage_core_nano_seconds: value(cpu) }),
        memory: Some(MemoryUsage { timestamp, working_set_bytes: value(memory), usage_bytes: value(memory) }),
        writable_layer: Some(FilesystemUsage {
            timestamp,
            fs_id: Some(FilesystemIdentifier { mountpoint: "/".to_owned() }),
            used_bytes: value(0),
            inodes_used: value(0),
        }),
    })
}

/// The usage of a sandbox: that of its running containers.
pub(super) fn sandbox(
    streams: &Streams,
    shown: &ShownSandbox,
    containers: &[ShownContainer],
) -> PodSandboxStats {
    let status = &shown.status;
    let own = containers.iter().filter(|container| container.sandbox == status.id);
    let containers: Vec<ContainerStats> = own.filter_map(|one| container(streams, one)).collect();
    let timestamp = nanos(streams.clock.now());
    let cpu = containers.iter().filter_map(|one| one.cpu?.usage_core_nano_seconds);
    let cpu = cpu.map(|nanos| nanos.value).sum();
    let memory = containers.iter().filter_map(|one| one.memory?.working_set_bytes);
    let memory = memory.map(|bytes| bytes.value).sum();
    PodSandboxStats {
        attributes: Some(PodSandboxAttributes {
            id: status.id.clone(),
            metadata: status.metadata.clone(),
            labels: status.labels.clone(),
            annotations: status.annotations.clone(),
        }),
        linux: Some(LinuxPodSandboxStats {
            cpu: Some(CpuUsage { timestamp, usage_core_nano_seconds: value(cpu) }),
            memory: Some(MemoryUsage {
                timestamp,
                working_set_bytes: value(memory),
                usage_bytes: value(memory),
            }),
            containers,
        }),
    }
}
