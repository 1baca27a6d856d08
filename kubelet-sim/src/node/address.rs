//! Addresses: of nodes, the subnets of the pod network, and the pool of addresses in a subnet. Pure.

use crate::config::Network;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// Addresses of the smallest subnet of a node, so that a node whose kubelet takes few pods can be given more later.
const LEAST_SUBNET: u64 = 32;

impl Network {
    /// Parses a network such as `10.0.0.0/8`.
    pub fn parse(text: &str) -> Option<Self> {
        let (base, prefix) = text.split_once('/')?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
        Some(Self { base: base.parse().ok()?, prefix })
    }

    /// The number of addresses.
    pub fn len(&self) -> u64 {
        1 << (32 - u64::from(self.prefix.min(32)))
    }

    /// Whether an address is in the network.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
        u32::from(address) & mask == u32::from(self.base) & mask
    }

    /// Always false: a network has at least one address.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The `index`-th address, counted from the base; `None` beyond the last.
    pub fn nth(&self, index: u64) -> Option<Ipv4Addr> {
        let offset = u32::try_from(index).ok().filter(|_| index < self.len())?;
        Some(Ipv4Addr::from(u32::from(self.base).wrapping_add(offset)))
    }

    /// The prefix of the smallest network with `pods` addresses besides the first and last; it has at least 32. `None` if IPv4
    /// has no such network.
    pub fn prefix_for(pods: u32) -> Option<u8> {
        let size = (u64::from(pods) + 2).next_power_of_two().max(LEAST_SUBNET);
        u8::try_from(size.trailing_zeros()).ok().and_then(|bits| 32u8.checked_sub(bits))
    }

    /// How many pods a node can have, at most, if each of `nodes` nodes gets an equal subnet.
    pub fn pods_of_each(&self, nodes: usize) -> u32 {
        let share = self.len() / (nodes as u64).max(1);
        let size = share.checked_ilog2().map_or(0, |bits| 1u64 << bits);
        u32::try_from(size.saturating_sub(2)).unwrap_or(u32::MAX)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// The free and taken addresses of a subnet. Addresses are taken in order, round robin, so that an address is
/// not reused soon.
#[derive(Clone, Debug)]
pub struct Pool {
    network: Network,
    taken: BTreeSet<u64>,
    cursor: u64,
}

impl Pool {
    /// A pool of all addresses of `network` except the first and last.
    pub fn new(network: Network) -> Self {
        Self { network, taken: BTreeSet::new(), cursor: 1 }
    }

    /// Takes the next free address after the one taken last; `None` if all are taken.
    pub fn take(&mut self) -> Option<IpAddr> {
        let usable = self.network.len().saturating_sub(2);
        if self.taken.len() as u64 >= usable {
            return None;
        }
        let mut index = self.cursor;
        while self.taken.contains(&index) || index > usable {
            index = if index >= usable { 1 } else { index + 1 };
        }
        self.taken.insert(index);
        self.cursor = index + 1;
        self.network.nth(index).map(IpAddr::V4)
    }

    /// Marks `ip` as taken. Addresses outside the subnet are ignored.
    pub fn reserve(&mut self, ip: IpAddr) {
        if let Some(index) = self.index(ip) {
            self.taken.insert(index);
            self.cursor = self.cursor.max(index + 1);
        }
    }

    /// Marks `ip` as free.
    pub fn give_back(&mut self, ip: IpAddr) {
        if let Some(index) = self.index(ip) {
            self.taken.remove(&index);
        }
    }

    fn index(&self, ip: IpAddr) -> Option<u64> {
        let IpAddr::V4(ip) = ip else { return None };
        let index = u64::from(u32::from(ip).checked_sub(u32::from(self.network.base))?);
        (index < self.network.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, proptest};

    #[test]
    fn subnets_are_as_small_as_their_pods_allow() {
        let prefixes = [0, 30, 31, 110, 126, 127, 254, 1000, 1022, 1023].map(Network::prefix_for);
        assert_eq!(prefixes, [27, 27, 26, 25, 25, 24, 24, 22, 22, 21].map(Some));
        assert_eq!(Network::prefix_for(u32::MAX), None);
        let network = Network::parse("10.128.0.0/9").unwrap();
        let pods =
            [0, 1, 8192, 8193, 16_384, 16_385, 20_000, 65_536].map(|nodes| network.pods_of_each(nodes));
        assert_eq!(pods, [8_388_606, 8_388_606, 1022, 510, 510, 254, 254, 126]);
    }

    #[test]
    fn an_exhausted_pool_returns_none_until_an_address_is_freed() {
        let mut pool = Pool::new(Network::parse("10.0.0.0/29").unwrap());
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), 6);
        pool.give_back(taken[2]);
        assert_eq!((pool.take(), pool.take()), (Some(taken[2]), None));
    }

    proptest! {
        #[test]
        fn no_address_is_given_out_twice(steps in prop::collection::vec(any::<(bool, u8)>(), 0..200)) {
            let mut pool = Pool::new(Network::parse("10.0.0.0/27").unwrap());
            let mut live = Vec::new();
            for (take, pick) in steps {
                if take {
                    match pool.take() {
                        Some(ip) => { assert!(!live.contains(&ip)); live.push(ip); }
                        None => assert_eq!(live.len(), 30),
                    }
                } else if !live.is_empty() {
                    pool.give_back(live.swap_remove(usize::from(pick) % live.len()));
                }
            }
        }
    }
}
