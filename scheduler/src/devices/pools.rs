//! Pools of devices: the slices of the newest generation, indexed by the nodes that can use their devices.

use super::slice::{Device, Slice, SliceNodes};
use crate::change::Change;
use crate::node::NodeInfo;
use crate::storage::{Record, store};
use kstore_informer::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The names of a driver and of a pool.
pub type PoolId = (String, String);

/// The pools of the cluster.
#[derive(Debug, Default)]
pub struct Pools {
    /// The slices of each pool by key, in every generation.
    pools: BTreeMap<PoolId, BTreeMap<Key, Arc<Record<Slice>>>>,
    /// The pool of each slice.
    pool_of: BTreeMap<Key, PoolId>,
    /// The slices for one node, by the node's name.
    local: BTreeMap<String, BTreeMap<PoolId, BTreeSet<Key>>>,
    /// The slices that more than one node can use.
    common: BTreeMap<PoolId, BTreeSet<Key>>,
}

/// A pool as one node sees it.
#[derive(Debug)]
pub struct NodePool<'a> {
    /// The names of the driver and of the pool.
    pub id: &'a PoolId,
    /// The slices with devices for the node, by name; or why they cannot be used.
    pub slices: Result<Vec<&'a Record<Slice>>, PoolFault>,
    /// The slices of the newest generation, by name.
    pub all: Vec<&'a Record<Slice>>,
}

/// Why no device of a pool can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolFault {
    /// The driver is about to publish the pool.
    Incomplete,
    /// Devices or counters contradict each other.
    Invalid,
}

impl Pools {
    /// Applies a change of a slice. Returns whether the slice has other fields than before.
    pub(super) fn apply(&mut self, change: Change<Record<Slice>>) -> bool {
        let (Change::Set(record) | Change::Gone(record)) = &change;
        let key = record.key.clone();
        let before = self.remove(&key);
        let mut records: BTreeMap<Key, Arc<Record<Slice>>> =
            before.into_iter().map(|record| (key.clone(), record)).collect();
        let is_news = store(&mut records, change).is_some();
        if let Some(record) = records.remove(&key) {
            self.insert(record);
        }
        is_news
    }

    fn insert(&mut self, record: Arc<Record<Slice>>) {
        let (key, id) = (record.key.clone(), (record.driver.clone(), record.pool.clone()));
        let index = match &record.nodes {
            SliceNodes::Node(name) => self.local.entry(name.clone()).or_default(),
            _ => &mut self.common,
        };
        index.entry(id.clone()).or_default().insert(key.clone());
        self.pool_of.insert(key.clone(), id.clone());
        self.pools.entry(id).or_default().insert(key, record);
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Record<Slice>>> {
        let id = self.pool_of.remove(key)?;
        let slices = self.pools.get_mut(&id)?;
        let record = slices.remove(key)?;
        if slices.is_empty() {
            self.pools.remove(&id);
        }
        match &record.nodes {
            SliceNodes::Node(name) => {
                if let Some(index) = self.local.get_mut(name) {
                    remove_key(index, &id, key);
                    if index.is_empty() {
                        self.local.remove(name);
                    }
                }
            }
            _ => remove_key(&mut self.common, &id, key),
        }
        Some(record)
    }

    /// The pools with devices for the node, by name. Pools with devices that must be prepared before a pod is
    /// bound come last. A pool is left out if the node sees only an old generation of it.
    pub fn of_node(&self, node: &NodeInfo) -> Vec<NodePool<'_>> {
        let local = self.local.get(&*node.name);
        let ids: BTreeSet<&PoolId> =
            local.into_iter().flat_map(BTreeMap::keys).chain(self.common.keys()).collect();
        let mut pools: Vec<NodePool<'_>> = ids.into_iter().filter_map(|id| self.of(id, node)).collect();
        pools.sort_by_key(NodePool::has_binding_conditions);
        pools
    }

    /// The slices of a pool in its newest generation, by name.
    pub(super) fn all_of(&self, id: &PoolId) -> Vec<&Record<Slice>> {
        let Some(slices) = self.pools.get(id) else { return Vec::new() };
        let newest = slices.values().map(|slice| slice.generation).max();
        slices.values().filter(|slice| Some(slice.generation) == newest).map(|slice| &**slice).collect()
    }

    fn of<'a>(&'a self, id: &'a PoolId, node: &NodeInfo) -> Option<NodePool<'a>> {
        let all = self.all_of(id);
        let here: Vec<&Record<Slice>> = all.iter().copied().filter(|slice| slice.is_for(node)).collect();
        let first = here.first()?;
        let slices = if all.len() != first.slice_count {
            Err(PoolFault::Incomplete)
        } else if has_duplicates(&here) || !has_counters(&all) {
            Err(PoolFault::Invalid)
        } else {
            Ok(here)
        };
        Some(NodePool { id, slices, all })
    }
}

fn remove_key(index: &mut BTreeMap<PoolId, BTreeSet<Key>>, id: &PoolId, key: &Key) {
    if let Some(keys) = index.get_mut(id) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(id);
        }
    }
}

impl<'a> NodePool<'a> {
    fn has_binding_conditions(&self) -> bool {
        let slices = self.slices.iter().flatten();
        slices.flat_map(|slice| &slice.devices).any(|device| !device.binding_conditions.is_empty())
    }

    /// The devices for the node, in order.
    pub fn devices(&self) -> impl Iterator<Item = (&'a Slice, &'a Device)> {
        let slices: Vec<&'a Record<Slice>> = self.slices.iter().flatten().copied().collect();
        slices.into_iter().flat_map(|slice| slice.devices.iter().map(move |device| (&slice.fields, device)))
    }
}

fn has_duplicates(slices: &[&Record<Slice>]) -> bool {
    let mut seen = BTreeSet::new();
    !slices.iter().flat_map(|slice| &slice.devices).all(|device| seen.insert(&device.id.device))
}

/// Whether each set of counters occurs once, and each counter that a device consumes exists.
fn has_counters(slices: &[&Record<Slice>]) -> bool {
    let mut sets = BTreeMap::new();
    let is_unique = |(name, counters)| sets.insert(name, counters).is_none();
    let mut counters = slices.iter().flat_map(|slice| &slice.counters).map(|(name, set)| (name, set));
    if !counters.all(is_unique) {
        return false;
    }
    let mut consumed = slices.iter().flat_map(|slice| &slice.devices).flat_map(|device| &device.consumes);
    consumed.all(|(name, counters)| {
        sets.get(name).is_some_and(|set| counters.keys().all(|counter| set.contains_key(counter)))
    })
}
