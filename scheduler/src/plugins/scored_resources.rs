//! [`ScoredResource`]: the resources by whose use NodeResourcesFit and NodeResourcesBalancedAllocation score nodes, and their amounts.

use crate::fields::Fields;
use crate::node_state::NodeState;
use crate::pod::PodInfo;
use serde_json::{Value, json};

/// A resource that a score counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScoredResource {
    kind: ResourceKind,
    /// The weight of the resource among the others.
    pub(super) weight: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ResourceKind {
    Cpu,
    Memory,
    EphemeralStorage,
    Extended(String),
}

/// What a score counts as the request of a container that requests no CPU or no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBasis {
    /// A small default.
    NonZero,
    /// Nothing.
    Actual,
}

/// The use of a resource of a node. A node without the resource has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceUse {
    /// The sum of the requests of the pods on the node.
    pub(super) taken: i128,
    /// The request of the pod to place.
    pub(super) wanted: i128,
    /// The allocatable amount, above zero.
    pub(super) allocatable: i128,
}

impl ScoredResource {
    /// CPU and memory with equal weights: the resources of both plugins by default.
    pub(super) fn defaults() -> Vec<Self> {
        [ResourceKind::Cpu, ResourceKind::Memory].map(|kind| Self { kind, weight: 1 }).into()
    }

    /// Reads the member `resources`: a list of names with weights, where no weight is 1. An absent or empty list stands for the
    /// [`defaults`](Self::defaults).
    pub(super) fn read(args: &mut Fields<'_>) -> Vec<Self> {
        let read = args.objects("resources", |item| Self {
            kind: ResourceKind::of(&item.text("name").unwrap_or_default()),
            weight: item.integer("weight").filter(|weight| *weight != 0).unwrap_or(1),
        });
        read.filter(|read| !read.is_empty()).unwrap_or_else(Self::defaults)
    }

    /// The member `resources` for these resources.
    pub(super) fn print(resources: &[Self]) -> Value {
        resources
            .iter()
            .map(|resource| json!({ "name": resource.name(), "weight": resource.weight }))
            .collect()
    }

    /// The name of the resource.
    pub(super) fn name(&self) -> &str {
        match &self.kind {
            ResourceKind::Cpu => "cpu",
            ResourceKind::Memory => "memory",
            ResourceKind::EphemeralStorage => "ephemeral-storage",
            ResourceKind::Extended(name) => name,
        }
    }

    /// The request of the pod.
    pub(super) fn wanted(&self, pod: &PodInfo, basis: RequestBasis) -> i128 {
        match (&self.kind, basis) {
            (ResourceKind::Cpu, RequestBasis::NonZero) => pod.nonzero.milli_cpu,
            (ResourceKind::Cpu, RequestBasis::Actual) => pod.requests.milli_cpu.into(),
            (ResourceKind::Memory, RequestBasis::NonZero) => pod.nonzero.memory,
            (ResourceKind::Memory, RequestBasis::Actual) => pod.requests.memory.into(),
            (ResourceKind::EphemeralStorage, _) => pod.requests.ephemeral_storage.into(),
            (ResourceKind::Extended(name), _) => pod.requests.extended(name).into(),
        }
    }

    /// The use of the resource with the pod on the node. `None` if the resource does not count there: the node has none of it, or it is
    /// an extended one that the pod does not request.
    pub(super) fn used(&self, pod: &PodInfo, node: &NodeState, basis: RequestBasis) -> Option<ResourceUse> {
        let (all, actual, nonzero) = (&node.info().allocatable, node.requested(), node.nonzero());
        let wanted = self.wanted(pod, basis);
        let (taken, allocatable) = match (&self.kind, basis) {
            (ResourceKind::Cpu, RequestBasis::NonZero) => (nonzero.milli_cpu, all.milli_cpu),
            (ResourceKind::Cpu, RequestBasis::Actual) => (actual.milli_cpu, all.milli_cpu),
            (ResourceKind::Memory, RequestBasis::NonZero) => (nonzero.memory, all.memory),
            (ResourceKind::Memory, RequestBasis::Actual) => (actual.memory, all.memory),
            (ResourceKind::EphemeralStorage, _) => (actual.ephemeral_storage, all.ephemeral_storage),
            (ResourceKind::Extended(_), _) if wanted == 0 => return None,
            (ResourceKind::Extended(name), _) => (actual.extended(name), all.extended(name)),
        };
        let use_of = ResourceUse { taken, wanted, allocatable: allocatable.into() };
        (allocatable > 0).then_some(use_of)
    }
}

impl ResourceKind {
    fn of(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            other => Self::Extended(other.to_owned()),
        }
    }
}
