//! The plugin NodeResourcesFit: the node may hold one more pod and has enough of everything it requests. The score is by default
//! LeastAllocated: the mean, over CPU and memory, of the free percentage with the pod on the node. Containers without requests count there
//! with a default, so that they spread too. A profile may choose another of the strategies in `scoring`.

mod scoring;

use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange, PodFreed};
use crate::event::{ClusterEvent, EventSet};
use crate::fields::Fields;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::resources::RequestedTotal;
use crate::score::Candidates;
use kstore_api::name::qualified_name;
use scoring::{Scoring, free_percent};
use serde_json::{Value, json};
use std::sync::Arc;

/// The plugin, with its arguments.
#[derive(Default)]
pub(crate) struct NodeResourcesFit {
    /// The extended resources that the filter does not look at, because others do.
    ignored: Vec<String>,
    /// The same by the part of a resource's name before the slash.
    ignored_groups: Vec<String>,
    scoring: Scoring,
}

/// Indices of the reasons.
const TOO_MANY_PODS: u32 = 0;
const CPU: u32 = 1;
const MEMORY: u32 = 2;
const EPHEMERAL_STORAGE: u32 = 3;

impl Plugin for NodeResourcesFit {
    /// The reasons for the pod's extended resources, in their order.
    type State<'a> = Vec<Arc<str>>;

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
        events: EventSet::of(&[NodeAdded, NodeChanged, PodFreed, OwnChange]),
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let ignored = names(args, "ignoredResources", |_| None);
        let has_slash = |group: &str| group.contains('/').then_some("resource group name can't contain '/'");
        let ignored_groups = names(args, "ignoredResourceGroups", has_slash);
        Some(Self { ignored, ignored_groups, scoring: Scoring::read(args) })
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

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, Vec<Arc<str>>> {
        let extended = pod.requests.iter_extended();
        PreFilter::Check(extended.map(|(name, _)| format!("Insufficient {name}").into()).collect())
    }

    fn check(&self, pod: &PodInfo, extended: &Vec<Arc<str>>, node: &NodeState) -> Result<(), Refused> {
        let shortage = self.shortage(pod, node.info(), node.pod_count(), node.requested());
        if shortage.is_none() {
            return Ok(());
        }
        let texts = shortage.extended.iter().map(|index| Arc::clone(&extended[*index])).collect();
        Err(Refused::by(!shortage.is_beyond_allocatable, shortage.reasons).with_texts(texts))
    }

    /// The removal of a pod always helps. A node helps if the pod would fit on it empty and the node is new or
    /// has more than before of a requested resource. Smaller requests help.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let fits_empty = |node| self.shortage(pod, node, 0, &RequestedTotal::default()).is_none();
        match event {
            ClusterEvent::PodFreed(_) => true,
            ClusterEvent::NodeAdded(node) => fits_empty(node),
            ClusterEvent::NodeChanged { old, new } => fits_empty(new) && has_more(pod, old, new),
            ClusterEvent::OwnChange(old) => old.requests.exceeds(&pod.requests),
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
    fn shortage(&self, pod: &PodInfo, node: &NodeInfo, pods: i64, taken: &RequestedTotal) -> Shortage {
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
            if !self.ignores(name) && lacks(amount, all.extended(name), taken.extended(name)) {
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

/// Whether the resource is none of Kubernetes' own.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
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
