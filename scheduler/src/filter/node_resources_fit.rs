//! The NodeResourcesFit filter: the node may hold one more pod and has enough of everything it requests.

use std::sync::Arc;

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::resources::RequestedTotal;

/// The insufficient resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    too_many_pods: bool,
    cpu: bool,
    memory: bool,
    ephemeral_storage: bool,
    /// The insufficient extended resources, by name.
    extended: Vec<Arc<str>>,
    /// Whether a request exceeds the allocatable amount of the empty node.
    beyond_allocatable: bool,
}

impl Shortage {
    /// Whether removing pods from the node could help.
    pub fn is_resolvable(&self) -> bool {
        !self.beyond_allocatable
    }

    /// Calls `emit` with each reason.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        let fixed = [
            (self.too_many_pods, "Too many pods"),
            (self.cpu, "Insufficient cpu"),
            (self.memory, "Insufficient memory"),
            (self.ephemeral_storage, "Insufficient ephemeral-storage"),
        ];
        fixed.into_iter().filter(|(holds, _)| *holds).for_each(|(_, reason)| emit(reason));
        self.extended.iter().for_each(|name| emit(&format!("Insufficient {name}")));
    }

    fn is_none(&self) -> bool {
        !(self.too_many_pods || self.cpu || self.memory || self.ephemeral_storage) && self.extended.is_empty()
    }
}

/// Whether the pod fits in addition to the pods on the node.
///
/// # Errors
///
/// All insufficient resources.
pub fn check(pod: &PodInfo, node: &NodeState) -> Result<(), Shortage> {
    fit(pod, node.info(), node.pod_count(), node.requested())
}

fn fit(pod: &PodInfo, node: &NodeInfo, pods: i64, taken: &RequestedTotal) -> Result<(), Shortage> {
    let (wanted, all) = (&pod.requests, &node.allocatable);
    let mut short = Shortage { too_many_pods: pods + 1 > node.allowed_pods, ..Shortage::default() };
    if !wanted.is_nothing() {
        let mut lacks = |wanted: i64, all: i64, taken: i128| {
            short.beyond_allocatable |= wanted > 0 && wanted > all;
            wanted > 0 && i128::from(wanted) + taken > i128::from(all)
        };
        short.cpu = lacks(wanted.milli_cpu, all.milli_cpu, taken.milli_cpu);
        short.memory = lacks(wanted.memory, all.memory, taken.memory);
        short.ephemeral_storage =
            lacks(wanted.ephemeral_storage, all.ephemeral_storage, taken.ephemeral_storage);
        for (name, amount) in wanted.iter_extended() {
            if lacks(amount, all.extended(name), taken.extended(name)) {
                short.extended.push(Arc::clone(name));
            }
        }
    }
    if short.is_none() { Ok(()) } else { Err(short) }
}

/// The removal of a pod always helps. A node helps if the pod would fit on it empty and the node is new or
/// has more than before of a requested resource.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    let fits_empty = |node| fit(pod, node, 0, &RequestedTotal::default()).is_ok();
    match event {
        ClusterEvent::PodFreed(_) => true,
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) => false,
        ClusterEvent::NodeAdded(node) => fits_empty(node),
        ClusterEvent::NodeChanged { old, new } => fits_empty(new) && has_more(pod, old, new),
    }
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
