//! Addresses: of nodes, the subnets of the pod network, and the pool of addresses in a subnet. Pure.

use crate::config::Network;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

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

    /// The `index`-th of equal subnets, each with `pods` addresses besides the first and last, and at least
    /// 256 in all. `None` beyond the last.
    pub fn slice(&self, index: usize, pods: u32) -> Option<Self> {
        let size = (u64::from(pods) + 2).next_power_of_two().max(256);
        let base = self.nth((index as u64).checked_mul(size)?).filter(|_| size <= self.len())?;
        let prefix = 32 - u8::try_from(size.trailing_zeros()).ok()?;
        Some(Self { base, prefix })
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
    fn slices_are_as_small_as_their_pods_allow_and_do_not_overlap() {
        let network = Network::parse("10.128.0.0/9").unwrap();
        assert_eq!(network.slice(0, 1000).unwrap().to_string(), "10.128.0.0/22");
        assert_eq!(network.slice(2, 1000).unwrap().to_string(), "10.128.8.0/22");
        assert_eq!(network.slice(1, 110).unwrap().to_string(), "10.128.1.0/24");
        assert_eq!(network.slice(8191, 1000).unwrap().to_string(), "10.255.252.0/22");
        assert_eq!(network.slice(8192, 1000), None);
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
