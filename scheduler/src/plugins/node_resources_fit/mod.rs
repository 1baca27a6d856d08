//! The plugin NodeResourcesFit: the node may hold one more pod and has enough of everything it requests. The score is by default
//! LeastAllocated: the mean, over CPU and memory, of the free percentage with the pod on the node. Containers without requests count there
//! with a default, so that they spread too. A profile may choose another of the strategies in `scoring`.

mod scoring;

use crate::devices::{DeviceEvent, Devices};
use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange, PodFreed};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::fields::Fields;
use crate::gates::Gates;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::resources::{RequestedTotal, is_extended, is_of_devices};
use crate::score::Candidates;
use kstore_api::name::qualified_name;
use scoring::{Scoring, free_percent};
use serde_json::{Value, json};
use std::sync::Arc;

/// The plugin, with its arguments.
pub(crate) struct NodeResourcesFit {
    /// The extended resources that the filter does not look at, because others do.
    ignored: Vec<String>,
    /// The same by the part of a resource's name before the slash.
    ignored_groups: Vec<String>,
    scoring: Scoring,
    /// The gate `DRAExtendedResource`.
    extends_resources: bool,
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        let (ignored, ignored_groups) = (Vec::new(), Vec::new());
        Self { ignored, ignored_groups, scoring: Scoring::default(), extends_resources: true }
    }
}

/// What the filter knows about a pod.
#[derive(Default)]
pub(crate) struct FitState {
    /// The reasons for the pod's extended resources, in their order.
    texts: Vec<Arc<str>>,
    /// Whether devices of a class satisfy requests for each extended resource; empty if they satisfy none.
    by_devices: Vec<bool>,
}

/// Indices of the reasons.
const TOO_MANY_PODS: u32 = 0;
const CPU: u32 = 1;
const MEMORY: u32 = 2;
const EPHEMERAL_STORAGE: u32 = 3;

impl Plugin for NodeResourcesFit {
    type State<'a> = FitState;

    const ROW: &'static Row = &Row {
        name: "NodeResourcesFit",
        points: &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ],
        weight: 1,
        reasons: &[
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
        ],
        events: EventSet::of(&[NodeAdded, NodeChanged, PodFreed, OwnChange, EventKind::Devices]),
    };

    fn gated(self, gates: Gates) -> Self {
        Self { extends_resources: gates.extends_resources, ..self }
    }

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let ignored = names(args, "ignoredResources", |_| None);
        let has_slash = |group: &str| group.contains('/').then_some("resource group name can't contain '/'");
        let ignored_groups = names(args, "ignoredResourceGroups", has_slash);
        let scoring = Scoring::read(args);
        Some(Self { ignored, ignored_groups, scoring, extends_resources: self.extends_resources })
    }

    fn arguments(&self) -> Option<Value> {
        let mut printed = json!({ "scoringStrategy": self.scoring.print() });
        for (name, list) in
            [("ignoredResources", &self.ignored), ("ignoredResourceGroups", &self.ignored_groups)]
        {
            if !list.is_empty() {
                printed[name] = json!(list);
            }
        }
        Some(printed)
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, FitState> {
        let extended = pod.requests.iter_extended();
        let texts = extended.map(|(name, _)| format!("Insufficient {name}").into()).collect();
        let by_devices = self.by_devices(pod, &cluster.inventory.devices);
        PreFilter::Check(FitState { texts, by_devices })
    }

    fn check(&self, pod: &PodInfo, state: &FitState, node: &NodeState) -> Result<(), Refused> {
        let room = Room { node: node.info(), pods: node.pod_count(), taken: node.requested() };
        let shortage = self.shortage(pod, &state.by_devices, room);
        if shortage.is_none() {
            return Ok(());
        }
        let texts = shortage.extended.iter().map(|index| Arc::clone(&state.texts[*index])).collect();
        Err(Refused::by(!shortage.is_beyond_allocatable, shortage.reasons).with_texts(texts))
    }

    /// The removal of a pod always helps. A node helps if the pod would fit on it empty and the node is new or
    /// has more than before of a requested resource. Smaller requests help, and so does a class for a requested resource.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let fits_empty = |node, devices| {
            let room = Room { node, pods: 0, taken: &RequestedTotal::default() };
            self.shortage(pod, &self.by_devices(pod, devices), room).is_none()
        };
        match event {
            ClusterEvent::PodFreed(_) => true,
            ClusterEvent::NodeAdded(node, devices) => fits_empty(node, devices),
            ClusterEvent::NodeChanged { old, new, devices } => {
                fits_empty(new, devices) && has_more(pod, old, new)
            }
            ClusterEvent::OwnChange(old) => old.requests.exceeds(&pod.requests),
            ClusterEvent::Devices(DeviceEvent::Class(class), devices) => {
                let of_class = |resource: &str| {
                    devices.class_of_resource(resource).is_some_and(|found| *found.key.name() == **class)
                };
                self.extends_resources
                    && pod.requests.iter_extended().any(|(name, amount)| amount > 0 && of_class(name))
            }
            _ => false,
        }
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        Some(match self.scoring.is_default() {
            true => candidates.map(|node| least_allocated(pod, node)),
            false => candidates.map(|node| self.scoring.score(pod, node)),
        })
    }
}

/// A node, and what its pods have.
#[derive(Clone, Copy)]
struct Room<'a> {
    node: &'a NodeInfo,
    /// The number of pods.
    pods: i64,
    /// The sum of their requests.
    taken: &'a RequestedTotal,
}

/// The insufficient resources of a node.
#[derive(Default)]
struct Shortage {
    /// Those of the row.
    reasons: u32,
    /// The insufficient extended resources, by index among the pod's.
    extended: Vec<usize>,
    /// Whether a request exceeds the allocatable amount of the empty node.
    is_beyond_allocatable: bool,
}

impl Shortage {
    fn is_none(&self) -> bool {
        self.reasons == 0 && self.extended.is_empty()
    }
}

impl NodeResourcesFit {
    /// Whether devices of a class satisfy requests for each of the pod's extended resources; empty if they satisfy none.
    fn by_devices(&self, pod: &PodInfo, devices: &Devices) -> Vec<bool> {
        if !self.extends_resources || pod.device_requests.is_none() {
            return Vec::new();
        }
        let extended = pod.requests.iter_extended();
        extended.map(|(name, _)| is_of_devices(name) && devices.class_of_resource(name).is_some()).collect()
    }

    fn shortage(&self, pod: &PodInfo, by_devices: &[bool], Room { node, pods, taken }: Room<'_>) -> Shortage {
        let (wanted, all) = (&pod.requests, &node.allocatable);
        let mut short = Shortage::default();
        short.reasons |= u32::from(pods + 1 > node.allowed_pods) << TOO_MANY_PODS;
        if wanted.is_nothing() {
            return short;
        }
        let mut lacks = |wanted: i64, all: i64, taken: i128| {
            short.is_beyond_allocatable |= wanted > 0 && wanted > all;
            wanted > 0 && i128::from(wanted) + taken > i128::from(all)
        };
        let fixed = u32::from(lacks(wanted.milli_cpu, all.milli_cpu, taken.milli_cpu)) << CPU
            | u32::from(lacks(wanted.memory, all.memory, taken.memory)) << MEMORY
            | u32::from(lacks(wanted.ephemeral_storage, all.ephemeral_storage, taken.ephemeral_storage))
                << EPHEMERAL_STORAGE;
        for (index, (name, amount)) in wanted.iter_extended().enumerate() {
            // A node that does not offer the resource may have devices for it, which DynamicResources looks for.
            let is_by_devices = by_devices.get(index) == Some(&true) && all.extended(name) == 0;
            if !is_by_devices
                && !self.ignores(name)
                && lacks(amount, all.extended(name), taken.extended(name))
            {
                short.extended.push(index);
            }
        }
        short.reasons |= fixed;
        short
    }

    /// Whether the filter does not look at this extended resource.
    fn ignores(&self, name: &str) -> bool {
        let group = || name.split_once('/').map_or(name, |(group, _)| group);
        let has_any = !(self.ignored.is_empty() && self.ignored_groups.is_empty());
        has_any
            && is_extended(name)
            && (self.ignored.iter().any(|ignored| ignored == name)
                || self.ignored_groups.iter().any(|ignored| ignored == group()))
    }
}

/// The names in a list of the arguments. kube-scheduler checks them only while it starts the plugin. `fault` finds what else is wrong.
fn names(args: &mut Fields<'_>, member: &str, fault: fn(&str) -> Option<&'static str>) -> Vec<String> {
    let names = args.texts(member).unwrap_or_default();
    for (index, name) in names.iter().enumerate() {
        let faults = fault(name).map(str::to_owned).into_iter().chain(qualified_name(name));
        faults.for_each(|fault| args.fails_invalid(&format!("{member}[{index}]"), &json!(name), fault));
    }
    names
}

fn has_more(pod: &PodInfo, old: &NodeInfo, new: &NodeInfo) -> bool {
    let (wanted, old_all, new_all) = (&pod.requests, &old.allocatable, &new.allocatable);
    new.allowed_pods > old.allowed_pods
        || (wanted.milli_cpu > 0 && new_all.milli_cpu > old_all.milli_cpu)
        || (wanted.memory > 0 && new_all.memory > old_all.memory)
        || (wanted.ephemeral_storage > 0 && new_all.ephemeral_storage > old_all.ephemeral_storage)
        || wanted
            .iter_extended()
            .any(|(name, amount)| amount > 0 && new_all.extended(name) > old_all.extended(name))
}

/// The score. A resource with zero allocatable does not count.
fn least_allocated(pod: &PodInfo, node: &NodeState) -> i64 {
    let (all, taken) = (&node.info().allocatable, node.nonzero());
    let parts = [
        (taken.milli_cpu + pod.nonzero.milli_cpu, i128::from(all.milli_cpu)),
        (taken.memory + pod.nonzero.memory, i128::from(all.memory)),
    ];
    let counted = parts.iter().filter(|(_, all)| *all > 0);
    let (sum, count) =
        counted.fold((0, 0), |(sum, n), (taken, all)| (sum + free_percent(*taken, *all), n + 1));
    if count == 0 { 0 } else { sum / count }
}
