//! A kubelet's answer at `/stats/summary`, with the fields that metrics need. Pure.

use jiff::Timestamp;
use serde::Deserialize;

/// The usage of a node and of its pods. Fields that a kubelet leaves out are absent, not zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Summary {
    pub(crate) node: Stats,
    pub(crate) pods: Vec<PodStats>,
}

/// The usage of a pod's running containers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStats {
    pub(crate) pod_ref: PodReference,
    pub(crate) containers: Vec<ContainerStats>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodReference {
    pub(crate) uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStats {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) stats: Stats,
}

/// The usage of a node or container.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    cpu: CpuStats,
    memory: MemoryStats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CpuStats {
    time: Option<Timestamp>,
    usage_nano_cores: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MemoryStats {
    working_set_bytes: Option<u64>,
}

/// A complete sample of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    /// Processor usage in billionths of a processor.
    pub(crate) nano_cores: u64,
    /// Memory usage in bytes.
    pub(crate) memory: u64,
}

impl Stats {
    /// The sample; `None` if one of its parts is missing.
    pub(crate) fn sample(&self) -> Option<Sample> {
        Some(Sample {
            at: self.cpu.time?,
            nano_cores: self.cpu.usage_nano_cores?,
            memory: self.memory.working_set_bytes?,
        })
    }
}
