//! The cluster as the scheduler counts it: nodes, the pods on them, and assumed pods, whose bind is in
//! flight. Every update costs O(1) in the number of nodes and pods (O(log n) for the list of recent changes).
//! The objects themselves are in the informers.
//!
//! A pod is on at most one node. Assumed pods do not expire: every bind finishes, and then the watch confirms
//! the pod or the scheduler forgets it.

use crate::budgets::Budgets;
use crate::devices::Devices;
use crate::inventory::Inventory;
use crate::node::NodeInfo;
use crate::node_order::NodeOrder;
use crate::node_state::NodeState;
use crate::nominations::Nominations;
use crate::pod::{PodInfo, Uid};
#[cfg(test)]
use crate::pod_constraints::LabelSelector;
use crate::pod_constraints::{Labels, Namespaces};
use crate::pod_groups::PodGroups;
use crate::spread_constraints::{Constraints, SpreadDefaults};
use crate::storage::Storage;
use crate::workloads::Workloads;
use crate::zones::{Location, Zones};
use kstore_nondet::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

struct PlacedPod {
    pod: Arc<PodInfo>,
    node: Arc<str>,
    /// The position among the pods of the node.
    at: usize,
    assumed: bool,
}

/// The nodes, pods, storage objects and devices of the cluster, with the assumed pods counted on their nodes.
#[derive(Default)]
pub struct Cache {
    nodes: HashMap<Arc<str>, NodeState>,
    pods: HashMap<Uid, PlacedPod>,
    order: NodeOrder,
    zones: Zones,
    /// The indices below the largest one that no node has.
    free_indices: Vec<usize>,
    namespaces: Arc<Namespaces>,
    inventory: Inventory,
    /// The node that changed in each generation. Each node occurs once, at its latest change.
    recent: BTreeMap<u64, Arc<str>>,
    generation: u64,
    /// The generation of the last change of the list of nodes.
    order_generation: u64,
}

impl Cache {
    /// Adds or replaces a node. Returns the previous one.
    pub fn set_node(&mut self, info: Arc<NodeInfo>) -> Option<Arc<NodeInfo>> {
        let name = Arc::clone(&info.name);
        let before = self.node_state(&name).location;
        let location = self.zones.enter(&info, before.index);
        let state = self.node_state(&name);
        let existed = state.exists();
        let old = std::mem::replace(&mut state.info, Arc::clone(&info));
        state.location = location;
        if existed {
            self.zones.leave(&old);
        }
        self.inventory.tallies.move_node(location.index, before.zone, location.zone);
        self.inventory.images.change(existed.then_some(&*old), Some(&info));
        self.touch(&name);
        if !existed || old.zone() != info.zone() {
            if existed {
                self.order.remove(&old);
            }
            self.order.add(&info);
        }
        if !existed {
            self.order_generation = self.generation;
        }
        existed.then_some(old)
    }

    /// Removes a node and returns it if it was known. Its pods stay in the cache until they are removed.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<NodeInfo>> {
        let state = self.nodes.get_mut(name).filter(|state| state.exists())?;
        let Location { index, zone, .. } = state.location;
        state.location = Location { index, ..Location::default() };
        let info = Arc::clone(&state.info);
        self.zones.leave(&info);
        self.inventory.tallies.move_node(index, zone, None);
        self.inventory.images.change(Some(&info), None);
        self.order.remove(&info);
        self.touch(&info.name);
        self.order_generation = self.generation;
        self.drop_if_empty(&info.name);
        Some(info)
    }

    /// Sets the labels of a namespace; `None` removes the namespace.
    pub fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let namespaces = Arc::make_mut(&mut self.namespaces);
        match labels {
            Some(labels) => namespaces.insert(name.to_owned(), labels),
            None => namespaces.remove(name),
        };
    }

    /// The claims, volumes and classes.
    pub fn storage(&self) -> &Storage {
        &self.inventory.storage
    }

    /// The resource claims, device classes and resource slices.
    pub(crate) fn devices(&self) -> &Devices {
        &self.inventory.devices
    }

    /// The storage objects and devices.
    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Services and controllers of pods.
    pub(crate) fn workloads_mut(&mut self) -> &mut Workloads {
        &mut self.inventory.workloads
    }

    /// Keeps the counts that decisions on `pod` need, so that a decision counts no pods.
    pub(crate) fn keep_tallies(&mut self, pod: &PodInfo) {
        let Inventory { workloads, tallies, .. } = &mut self.inventory;
        let mut keep = |selector| tallies.keep(pod.key.namespace(), selector, || self.nodes.values());
        pod.spread.iter().filter_map(|spread| spread.selector.as_ref()).for_each(&mut keep);
        if let Some(constraints) = Constraints::of(pod, workloads, &SpreadDefaults::System) {
            constraints.iter().filter_map(|constraint| constraint.selector).for_each(keep);
        }
    }

    /// Keeps the counts of one selector.
    #[cfg(test)]
    pub(crate) fn keep_tally(&mut self, namespace: &str, selector: &LabelSelector) {
        self.inventory.tallies.keep(namespace, selector, || self.nodes.values());
    }

    /// The PodGroups with their pods.
    pub(crate) fn pod_groups_mut(&mut self) -> &mut PodGroups {
        &mut self.inventory.pod_groups
    }

    /// The disruption budgets.
    pub(crate) fn budgets_mut(&mut self) -> &mut Budgets {
        &mut self.inventory.budgets
    }

    /// The waiting pods with the nodes for which they are nominated.
    pub(crate) fn nominations_mut(&mut self) -> &mut Nominations {
        &mut self.inventory.nominations
    }

    /// Mutable access to the claims, volumes and classes.
    pub(crate) fn storage_mut(&mut self) -> &mut Storage {
        &mut self.inventory.storage
    }

    /// Mutable access to the claims, classes and slices of devices.
    pub(crate) fn devices_mut(&mut self) -> &mut Devices {
        &mut self.inventory.devices
    }

    /// The node of this name, if its object exists.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.nodes.get(name).filter(|state| state.exists()).map(NodeState::info)
    }

    /// The node of this name, and what plugins reserve for pods on it.
    pub(crate) fn reservable(&mut self, name: &str) -> Option<(&NodeInfo, &mut Inventory)> {
        let node = self.nodes.get(name).filter(|state| state.exists())?;
        Some((node.info(), &mut self.inventory))
    }

    /// Counts `pod` on `node` while its bind is in flight.
    ///
    /// # Panics
    ///
    /// If the cache already counts the pod: to decide twice is a defect of the caller.
    pub fn assume(&mut self, pod: Arc<PodInfo>, node: &Arc<str>) {
        assert!(!self.pods.contains_key(&pod.uid), "a pod is assumed once");
        self.add_to_node(pod, node, true);
    }

    /// Removes an assumed pod whose bind failed and returns it. Returns `None` and changes nothing if the
    /// watch has confirmed the pod or the pod is gone.
    pub fn forget(&mut self, uid: &Uid) -> Option<Arc<PodInfo>> {
        if self.is_assumed(uid) { self.remove_pod(uid) } else { None }
    }

    /// Counts a pod on the node that the API reports, and confirms or corrects an assumption. Returns the
    /// previously counted pod if the pod's node or what it occupies there has changed.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>, node: &Arc<str>) -> Option<Arc<PodInfo>> {
        if let Some(placed) = self.pods.get_mut(&pod.uid)
            && placed.node == *node
            && placed.pod.occupies_same(&pod)
        {
            placed.assumed = false;
            if !placed.pod.preempts_same(&pod) {
                placed.pod = Arc::clone(&pod);
                let at = placed.at;
                self.node_state(node).replace(at, pod);
                self.touch(node);
            }
            return None;
        }
        let before = self.remove_pod(&pod.uid);
        self.add_to_node(pod, node, false);
        before
    }

    /// Removes a pod, assumed or not. Returns it if the cache counted it.
    pub fn remove_pod(&mut self, uid: &Uid) -> Option<Arc<PodInfo>> {
        let placed = self.pods.remove(uid)?;
        self.inventory.storage.remove_user(&placed.pod);
        let state = self.node_state(&placed.node);
        let moved = state.remove_at(placed.at).map(|pod| Arc::clone(&pod.uid));
        let location = state.location;
        if let Some(moved) = moved {
            self.pods.get_mut(&moved).expect("the cache counts the pods on its nodes").at = placed.at;
        }
        self.inventory.tallies.remove(&placed.pod, location);
        self.touch(&placed.node);
        self.drop_if_empty(&placed.node);
        Some(placed.pod)
    }

    /// The pod with this uid, if the cache counts it on a node.
    pub(crate) fn pod(&self, uid: &Uid) -> Option<&PodInfo> {
        self.pods.get(uid).map(|placed| &*placed.pod)
    }

    /// Whether the cache counts the pod on this node.
    pub(crate) fn is_on(&self, uid: &Uid, node: &str) -> bool {
        self.pods.get(uid).is_some_and(|placed| *placed.node == *node)
    }

    /// Whether the cache counts the pod on a node.
    pub fn holds(&self, uid: &Uid) -> bool {
        self.pods.contains_key(uid)
    }

    /// Whether the pod is assumed: the watch has not confirmed it.
    pub fn is_assumed(&self, uid: &Uid) -> bool {
        self.pods.get(uid).is_some_and(|placed| placed.assumed)
    }

    /// The labels of the namespaces.
    pub(crate) fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    /// The generation; it rises with every change of nodes and pods.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The generation of the last change of the list of nodes, but for a move of a node to another zone.
    pub(crate) fn order_generation(&self) -> u64 {
        self.order_generation
    }

    /// The existing nodes: zones take turns.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeState> {
        self.order.iter().map(|name| &self.nodes[&name])
    }

    /// The nodes that exist and changed after `generation`, oldest change first.
    pub(crate) fn changed_since(&self, generation: u64) -> impl Iterator<Item = &NodeState> {
        let recent = self.recent.range(generation + 1..);
        recent.filter_map(|(_, name)| self.nodes.get(name)).filter(|state| state.exists())
    }

    fn add_to_node(&mut self, pod: Arc<PodInfo>, node: &Arc<str>, assumed: bool) {
        self.inventory.storage.add_user(&pod);
        let state = self.node_state(node);
        let at = state.pods.len();
        state.add(Arc::clone(&pod));
        let location = state.location;
        self.inventory.tallies.add(&pod, location);
        self.touch(node);
        let uid = Arc::clone(&pod.uid);
        self.pods.insert(uid, PlacedPod { pod, node: Arc::clone(node), at, assumed });
    }

    fn node_state(&mut self, name: &Arc<str>) -> &mut NodeState {
        let nodes = self.nodes.len();
        self.nodes.entry(Arc::clone(name)).or_insert_with(|| {
            let index = self.free_indices.pop().unwrap_or(nodes);
            NodeState::new(Arc::new(NodeInfo::named(name)), Location { index, ..Location::default() })
        })
    }

    fn touch(&mut self, name: &Arc<str>) {
        self.generation += 1;
        let generation = self.generation;
        let before = std::mem::replace(&mut self.node_state(name).generation, generation);
        self.recent.remove(&before);
        self.recent.insert(generation, Arc::clone(name));
        self.inventory.tallies.set_generation(generation);
    }

    fn drop_if_empty(&mut self, name: &Arc<str>) {
        let Some(state) = self.nodes.get(name).filter(|state| !state.exists() && state.pods.is_empty())
        else {
            return;
        };
        self.recent.remove(&state.generation);
        self.free_indices.push(state.location.index);
        self.nodes.remove(name);
    }
}
