//! Pod networks of nodes: which part of the cluster's pod network each node has. Synchronous.

use super::Manager;
use super::nodes::NodeEntry;
use crate::config::Network;
use crate::node::object::Identity;
use crate::record::NodeRecord;
use crate::shape::NodeShape;
use jiff::Timestamp;
use kstore_informer::Object as _;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Subnets of one network by the nodes that hold them. A subnet that is taken overlaps no other; those that Nodes had already may overlap,
/// because other clients chose them.
pub(super) struct Subnets {
    network: Network,
    holders: BTreeMap<String, Network>,
    /// First address and prefix of each held subnet, with the number of its holders. Two subnets are disjoint, or one contains the other.
    held: BTreeMap<(u32, u8), usize>,
    /// By prefix an address below which no subnet of that prefix is free, so that thousands of nodes do not search the same addresses.
    searched: BTreeMap<u8, u64>,
}

impl Subnets {
    /// The subnets of a network, all free.
    pub(super) fn new(network: Network) -> Self {
        let (holders, held, searched) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { network, holders, held, searched }
    }

    /// Gives the node the free subnet with the lowest addresses that has space for its pods. `None` if none has.
    pub(super) fn take(&mut self, node: &str, pods: u32) -> Option<Network> {
        self.give_back(node);
        let prefix = Network::prefix_for(pods)?.max(self.network.prefix);
        let (size, first) = (1u64 << (32 - prefix), u64::from(u32::from(self.network.base)));
        if first.next_multiple_of(size) != first || size > self.network.len() {
            return None;
        }
        let end = first + self.network.len();
        let mut at = *self.searched.get(&prefix).unwrap_or(&first);
        while at < end {
            match self.next_after_overlap(at, size) {
                Some(next) => at = next.next_multiple_of(size),
                None => break,
            }
        }
        self.searched.insert(prefix, at.min(end));
        let base = u32::try_from(at).ok().filter(|_| at < end)?;
        let network = Network { base: Ipv4Addr::from(base), prefix };
        self.reserve(node, network);
        Some(network)
    }

    /// Where the held subnet ends that overlaps the addresses from `at` on; `None` if none does.
    fn next_after_overlap(&self, at: u64, size: u64) -> Option<u64> {
        let start = u32::try_from(at).ok()?;
        let last = u32::try_from(at + size - 1).ok()?;
        if self.held.range((start, 0)..=(last, 32)).next().is_some() {
            return Some(at + size);
        }
        // A subnet that begins before contains these addresses: it has one of the addresses that shorter prefixes leave.
        (1..=32u8).find_map(|prefix| {
            let base = start & u32::MAX << (32 - prefix);
            self.held.contains_key(&(base, prefix)).then(|| u64::from(base) + (1u64 << (32 - prefix)))
        })
    }

    /// Notes that the node has this subnet, wherever it comes from.
    pub(super) fn reserve(&mut self, node: &str, network: Network) {
        if self.holders.get(node) == Some(&network) {
            return;
        }
        self.give_back(node);
        self.holders.insert(node.to_owned(), network);
        *self.held.entry((network.base.into(), network.prefix)).or_default() += 1;
    }

    /// Frees the subnet of a node. A node without one changes nothing.
    pub(super) fn give_back(&mut self, node: &str) {
        let Some(network) = self.holders.remove(node) else { return };
        let key = (u32::from(network.base), network.prefix);
        if let Some(count) = self.held.get_mut(&key) {
            *count -= 1;
            if *count > 0 {
                return;
            }
        }
        self.held.remove(&key);
        let (first, from) = (u64::from(u32::from(self.network.base)), u64::from(key.0));
        for (prefix, searched) in &mut self.searched {
            let size = 1u64 << (32 - *prefix);
            *searched = (*searched).min(from / size * size).max(first);
        }
    }
}

impl Manager {
    /// Adds the nodes of the configuration; `existing` are the Node objects that already exist, whose subnets stay theirs.
    pub(super) fn add_configured_nodes(&mut self, existing: &[Arc<NodeRecord>], now: Timestamp) {
        let by_name: BTreeMap<String, &Arc<NodeRecord>> =
            existing.iter().map(|record| (record.key().name().to_owned(), record)).collect();
        for (name, record) in &by_name {
            if let Some(network) = Network::parse(record.pod_cidr()) {
                self.subnets.reserve(name, network);
            }
        }
        let names: BTreeSet<String> = (0..self.config.nodes).map(|at| self.config.node_name(at)).collect();
        let others = by_name.iter().filter(|(name, _)| !names.contains(*name));
        self.others = others.map(|(name, record)| (name.clone(), Arc::clone(record))).collect();
        let shape = Arc::new(NodeShape::of(&self.config));
        for index in 0..self.config.nodes {
            let name = self.config.node_name(index);
            let record = by_name.get(&name).copied().cloned();
            let (shown, pods) =
                (record.as_ref().and_then(|record| Network::parse(record.pod_cidr())), self.config.pods);
            let network = shown.or_else(|| self.subnets.take(&name, pods));
            let ip = Identity::address(&self.config, index);
            let Some((network, ip)) = network.zip(ip) else {
                tracing::error!(
                    nodes = self.config.nodes,
                    index,
                    "the networks are too small for this node and those after it: other nodes have their addresses; delete Nodes, or \
                     simulate fewer"
                );
                break;
            };
            let entry = NodeEntry::new(Identity { name, ip, network }, index, Arc::clone(&shape), record);
            self.add_node(entry, now);
        }
    }

    /// Notes a Node that this process does not simulate. Its subnet is not given to another node.
    pub(super) fn note_other_node(&mut self, name: &str, record: Arc<NodeRecord>) {
        if let Some(network) = Network::parse(record.pod_cidr()) {
            self.subnets.reserve(name, network);
        }
        self.others.insert(name.to_owned(), record);
    }

    /// A Node that this process does not simulate is gone.
    pub(super) fn forget_other_node(&mut self, name: &str) {
        self.subnets.give_back(name);
        self.others.remove(name);
    }

    /// Name and networks of a new node that takes `pods` pods, besides those of the configuration; `None` if the networks are used up.
    /// `record` is its object, if it exists: the node keeps the subnet that this names.
    pub(super) fn identity(
        &mut self,
        name: &str,
        pods: u32,
        record: Option<&NodeRecord>,
    ) -> Option<(Identity, usize)> {
        // The nodes of the configuration have the numbers below.
        let ip = Identity::address(&self.config, self.config.nodes + self.groups.slots.first_free())?;
        let network = match record.and_then(|record| Network::parse(record.pod_cidr())) {
            Some(network) => {
                self.subnets.reserve(name, network);
                network
            }
            None => self.subnets.take(name, pods)?,
        };
        let slot = self.config.nodes + self.groups.slots.take();
        Some((Identity { name: name.to_owned(), ip, network }, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn overlap(a: &Network, b: &Network) -> bool {
        a.contains(b.base) || b.contains(a.base)
    }

    #[test]
    fn a_network_has_as_many_subnets_as_fit_and_the_freed_one_is_given_again() {
        let mut subnets = Subnets::new(Network::parse("10.128.0.0/9").unwrap());
        let taken: Vec<Network> = (0..).map_while(|at| subnets.take(&format!("n{at}"), 110)).collect();
        assert_eq!(taken.len(), 65_536);
        assert_eq!(taken[65_535].to_string(), "10.255.255.128/25");
        subnets.give_back("n700");
        assert_eq!(subnets.take("small", 30).unwrap().to_string(), "10.129.94.0/27");
        assert_eq!(subnets.take("large", 110), None, "part of it is used");
        subnets.give_back("small");
        assert_eq!(subnets.take("large", 110), Some(taken[700]));
    }

    proptest! {
        /// Against a model that compares every subnet with every other one.
        #[test]
        fn subnets_that_are_taken_overlap_none_and_are_the_lowest_free_ones(
            steps in prop::collection::vec((0_usize..12, 0_u8..4, 20_u32..500, 0_u32..64), 0..80),
        ) {
            let network = Network::parse("10.0.0.0/20").unwrap();
            let mut subnets = Subnets::new(network);
            let mut model: BTreeMap<String, Network> = BTreeMap::new();
            for (node, action, pods, at) in steps {
                let name = format!("n{node}");
                match action {
                    0 => {
                        model.remove(&name);
                        subnets.give_back(&name);
                    }
                    1 => {
                        let foreign = Network { base: Ipv4Addr::from(0x0A00_0000 + at * 64), prefix: 26 };
                        model.insert(name.clone(), foreign);
                        subnets.reserve(&name, foreign);
                    }
                    _ => {
                        model.remove(&name);
                        let prefix = Network::prefix_for(pods).unwrap();
                        let free = (0..1_u32 << (prefix - 20))
                            .map(|index| Network { base: Ipv4Addr::from(0x0A00_0000 + (index << (32 - prefix))), prefix })
                            .find(|one| !model.values().any(|held| overlap(one, held)));
                        prop_assert_eq!(subnets.take(&name, pods), free);
                        model.extend(free.map(|free| (name, free)));
                    }
                }
            }
        }
    }
}
