//! [`StageNodes`]: the simulated nodes and their addresses as stages see them, and the addresses of pods that follow stages.

use crate::config::Network;
use crate::node::address::Pool;
use crate::stream::Latest;
use kstore_kwok::Addresses;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// The addresses of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeAddress {
    /// Its own.
    pub(crate) ip: String,
    /// The subnet of its pods.
    pub(crate) network: Network,
}

/// The nodes that run, which the manager publishes, and the addresses of their pods.
pub(crate) struct StageNodes {
    pub(crate) nodes: Latest<BTreeMap<String, NodeAddress>>,
    pods: Mutex<PodAddresses>,
}

#[derive(Default)]
struct PodAddresses {
    pools: BTreeMap<String, Pool>,
    /// By uid: the network and the address.
    taken: BTreeMap<String, (String, IpAddr)>,
}

impl PodAddresses {
    fn pool(&mut self, network: Network) -> (&mut Pool, String) {
        let name = network.to_string();
        (self.pools.entry(name.clone()).or_insert_with(|| Pool::new(network)), name)
    }
}

impl StageNodes {
    pub(crate) fn new(nodes: BTreeMap<String, NodeAddress>) -> Self {
        Self { nodes: Latest::new(nodes), pods: Mutex::default() }
    }

    fn network(&self, node: &str) -> Option<Network> {
        self.nodes.get().1.get(node).map(|address| address.network)
    }

    /// Takes note of the address that a pod has.
    pub(super) fn reserve(&self, node: &str, uid: &str, ip: &str) {
        let (Some(network), Ok(ip)) = (self.network(node), ip.parse::<IpAddr>()) else { return };
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if !pods.taken.contains_key(uid) {
            let (pool, name) = pods.pool(network);
            pool.reserve(ip);
            pods.taken.insert(uid.to_owned(), (name, ip));
        }
    }

    /// Frees the address of a pod that is gone.
    pub(super) fn release(&self, uid: &str) {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((network, ip)) = pods.taken.remove(uid)
            && let Some(pool) = pods.pools.get_mut(&network)
        {
            pool.give_back(ip);
        }
    }
}

impl Addresses for StageNodes {
    fn node(&self, node: &str) -> Option<String> {
        self.nodes.get().1.get(node).map(|address| address.ip.clone())
    }

    fn pod(&self, node: &str, uid: &str) -> Option<String> {
        let network = self.network(node)?;
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ip)) = pods.taken.get(uid) {
            return Some(ip.to_string());
        }
        let (pool, name) = pods.pool(network);
        let ip = pool.take()?;
        pods.taken.insert(uid.to_owned(), (name, ip));
        Some(ip.to_string())
    }
}
