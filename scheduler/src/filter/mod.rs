//! The filters: which nodes a pod may run on, and why not on the others. Pure; one file per plugin, each with its check and
//! with its queueing hint. They run in upstream's default order and the first refusal per node counts.

pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod pod_topology_spread;
pub mod taint_toleration;
pub mod volume_binding;

use crate::cache::NodeState;
use crate::companions::Namespaces;
use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use inter_pod_affinity::{Neighbours, Unwelcome};
use node_resources_fit::Shortage;
use pod_topology_spread::{Counts, Uneven};

/// The filters, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// The node is not cordoned.
    NodeUnschedulable,
    /// The node is the one the pod names.
    NodeName,
    /// The pod bears the node's taints.
    TaintToleration,
    /// The node satisfies the pod's node selector and node affinity.
    NodeAffinity,
    /// The pod's host ports are free.
    NodePorts,
    /// The node has room for the pod and its requests.
    NodeResourcesFit,
    /// The claims that the pod names exist.
    VolumeBinding,
    /// The pod's like stay evenly spread.
    PodTopologySpread,
    /// The pod is near whom it wants, and nobody near shuns the other.
    InterPodAffinity,
}

impl Plugin {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::VolumeBinding,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
    ];

    /// The name that upstream's configuration and metrics use.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::VolumeBinding => "VolumeBinding",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
        }
    }
}

/// A set of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginSet(u16);

impl PluginSet {
    /// Every filter.
    pub fn all() -> Self {
        Plugin::ALL.into_iter().collect()
    }

    /// Adds one.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u8;
    }

    /// Whether it is in the set.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u8) != 0
    }

    /// Whether no filter is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, in order.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Self {
        let mut set = Self::default();
        plugins.into_iter().for_each(|plugin| set.insert(plugin));
        set
    }
}

/// Why a node was refused: the first filter that did, with what it has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The node is cordoned.
    NodeUnschedulable,
    /// The pod names another node.
    NodeName,
    /// A taint is not tolerated.
    TaintToleration,
    /// Node selector or affinity do not match.
    NodeAffinity,
    /// A host port is taken.
    NodePorts,
    /// Something does not suffice.
    NodeResourcesFit(Shortage),
    /// The pod's like would be spread too unevenly.
    PodTopologySpread(Uneven),
    /// Other pods stand against it.
    InterPodAffinity(Unwelcome),
}

impl Rejection {
    /// The filter that refused.
    pub fn plugin(&self) -> Plugin {
        match self {
            Self::NodeUnschedulable => Plugin::NodeUnschedulable,
            Self::NodeName => Plugin::NodeName,
            Self::TaintToleration => Plugin::TaintToleration,
            Self::NodeAffinity => Plugin::NodeAffinity,
            Self::NodePorts => Plugin::NodePorts,
            Self::NodeResourcesFit(_) => Plugin::NodeResourcesFit,
            Self::PodTopologySpread(_) => Plugin::PodTopologySpread,
            Self::InterPodAffinity(_) => Plugin::InterPodAffinity,
        }
    }

    /// Whether removing pods from the node could change the answer.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Self::NodeUnschedulable | Self::NodeName | Self::TaintToleration | Self::NodeAffinity => false,
            Self::NodePorts => true,
            Self::NodeResourcesFit(shortage) => shortage.is_resolvable(),
            Self::PodTopologySpread(uneven) => *uneven == Uneven::TooMany,
            Self::InterPodAffinity(unwelcome) => *unwelcome != Unwelcome::Lonely,
        }
    }

    /// Calls `emit` with each reason, in upstream's words.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        match self {
            Self::NodeUnschedulable => emit(node_unschedulable::REASON),
            Self::NodeName => emit(node_name::REASON),
            Self::TaintToleration => emit(taint_toleration::REASON),
            Self::NodeAffinity => emit(node_affinity::REASON),
            Self::NodePorts => emit(node_ports::REASON),
            Self::NodeResourcesFit(shortage) => shortage.reasons(emit),
            Self::PodTopologySpread(Uneven::TooMany) => emit(pod_topology_spread::REASON),
            Self::PodTopologySpread(Uneven::NoDomain) => emit(pod_topology_spread::NO_DOMAIN),
            Self::InterPodAffinity(Unwelcome::Lonely) => emit(inter_pod_affinity::LONELY),
            Self::InterPodAffinity(Unwelcome::Shuns) => emit(inter_pod_affinity::SHUNS),
            Self::InterPodAffinity(Unwelcome::Shunned) => emit(inter_pod_affinity::SHUNNED),
        }
    }
}

/// What must be known of all nodes before one can be judged.
#[derive(Debug)]
pub struct Surroundings {
    counts: Counts,
    neighbours: Neighbours,
}

impl Surroundings {
    /// Looks around for `pod`. `anyone_shuns`: whether any pod on any of `nodes` has required anti-affinity terms.
    pub fn of<'a>(
        pod: &PodInfo,
        nodes: impl Iterator<Item = &'a NodeState> + Clone,
        anyone_shuns: bool,
        namespaces: &Namespaces,
    ) -> Self {
        let counts = pod_topology_spread::count(pod, nodes.clone());
        Self { counts, neighbours: inter_pod_affinity::look(pod, nodes, anyone_shuns, namespaces) }
    }
}

/// What happens to a pod on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is added.
    Comes,
    /// It is removed.
    Leaves,
}

impl Change {
    /// A count after the change of one of the things that it counts.
    fn of(self, count: i64) -> i64 {
        match self {
            Self::Comes => count + 1,
            Self::Leaves => count - 1,
        }
    }
}

impl Surroundings {
    /// Accounts for a change of `other` on `node`, as if these were the surroundings of `pod` after it.
    pub fn adjust(
        &mut self,
        pod: &PodInfo,
        node: &NodeInfo,
        other: &PodInfo,
        change: Change,
        namespaces: &Namespaces,
    ) {
        self.counts.adjust(pod, node, other, change);
        self.neighbours.adjust(pod, node, other, change, namespaces);
    }
}

/// Runs every filter for `pod`, whose surroundings these are, on `node`, in order.
///
/// # Errors
/// The first refusal.
pub fn check(pod: &PodInfo, around: &Surroundings, node: &NodeState) -> Result<(), Rejection> {
    if !node_unschedulable::admits(pod, node.info()) {
        return Err(Rejection::NodeUnschedulable);
    }
    if !node_name::admits(pod, node.info()) {
        return Err(Rejection::NodeName);
    }
    if !taint_toleration::admits(pod, node.info()) {
        return Err(Rejection::TaintToleration);
    }
    if !node_affinity::admits(pod, node.info()) {
        return Err(Rejection::NodeAffinity);
    }
    if !node_ports::admits(pod, node) {
        return Err(Rejection::NodePorts);
    }
    node_resources_fit::check(pod, node).map_err(Rejection::NodeResourcesFit)?;
    pod_topology_spread::check(&around.counts, node.info()).map_err(Rejection::PodTopologySpread)?;
    inter_pod_affinity::check(&around.neighbours, node.info()).map_err(Rejection::InterPodAffinity)
}

/// Whether `event` may have changed what `plugin` said of `pod`. A wrong yes costs an attempt; a wrong no costs the pod
/// minutes, until the pool of unschedulable pods is flushed.
pub fn may_help(plugin: Plugin, pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match plugin {
        Plugin::NodeUnschedulable => node_unschedulable::may_help(pod, event),
        Plugin::NodeName => node_name::may_help(pod, event),
        Plugin::TaintToleration => taint_toleration::may_help(pod, event),
        Plugin::NodeAffinity => node_affinity::may_help(pod, event),
        Plugin::NodePorts => node_ports::may_help(pod, event),
        Plugin::NodeResourcesFit => node_resources_fit::may_help(pod, event),
        // News of claims come by another way, see `Queue::on_claim`.
        Plugin::VolumeBinding => false,
        Plugin::PodTopologySpread => pod_topology_spread::may_help(pod, event),
        Plugin::InterPodAffinity => inter_pod_affinity::may_help(pod, event),
    }
}

/// Whether the waiting pod's own change may have changed what `plugin` said of it.
pub fn own_change_may_help(plugin: Plugin, old: &PodInfo, new: &PodInfo) -> bool {
    match plugin {
        Plugin::NodeUnschedulable | Plugin::TaintToleration => old.tolerations != new.tolerations,
        Plugin::NodeAffinity => old.affinity != new.affinity,
        Plugin::NodeResourcesFit => old.requests.exceeds(&new.requests),
        Plugin::PodTopologySpread | Plugin::InterPodAffinity => old.labels != new.labels,
        Plugin::NodeName | Plugin::NodePorts | Plugin::VolumeBinding => false,
    }
}
