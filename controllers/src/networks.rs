//! [`Networks`]: the blocks of addresses that controllers give away. None by default: load balancers stay pending and nodes without pod
//! networks stay so, as in Kubernetes without a cloud and without `--allocate-node-cidrs`.

use kstore_api::cidr::{Cidr, NoCidr};
use std::fmt;
use std::str::FromStr;

/// What controllers give addresses from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// The addresses of Services of type LoadBalancer. Without any, such Services stay pending.
    pub load_balancers: Blocks,
    /// The networks that nodes without one get their pod networks from. Without any, nodes get none.
    pub pods: PodNetworks,
}

/// Blocks of addresses of any family, in the order in which they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks(Vec<Cidr>);

impl Blocks {
    /// No block.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of_family(&self, is_ipv4: bool) -> impl Iterator<Item = Cidr> {
        self.0.iter().copied().filter(move |block| block.is_ipv4() == is_ipv4)
    }
}

impl FromStr for Blocks {
    type Err = NoCidr;

    /// Blocks with commas between them, as `192.0.2.0/24,2001:db8::/112`.
    fn from_str(text: &str) -> Result<Self, NoCidr> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&blocks.join(","))
    }
}

/// The network of all pods, of one family or both, and how large the part of a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNetworks {
    networks: Blocks,
    /// Bits of a node's IPv4 network, 24 in Kubernetes.
    bits_v4: u8,
    /// Bits of a node's IPv6 network, 64 in Kubernetes.
    bits_v6: u8,
}

/// Networks that have no part for a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected at most one network of each family, none smaller than the network of a node: {0}")]
pub struct BadPodNetworks(String);

impl Default for PodNetworks {
    fn default() -> Self {
        Self { networks: Blocks::default(), bits_v4: 24, bits_v6: 64 }
    }
}

impl PodNetworks {
    /// Networks, and the length of the prefix of each node's part (`None`: 24 for IPv4, 64 for IPv6).
    ///
    /// # Errors
    /// Two networks of one family, or one that is smaller than the part of a node.
    pub fn new(networks: Blocks, v4: Option<u8>, v6: Option<u8>) -> Result<Self, BadPodNetworks> {
        let (bits_v4, bits_v6) = (v4.unwrap_or(24), v6.unwrap_or(64));
        for (is_ipv4, bits) in [(true, bits_v4), (false, bits_v6)] {
            let of_family: Vec<Cidr> = networks.of_family(is_ipv4).collect();
            let most = if is_ipv4 { 32 } else { 128 };
            if of_family.len() > 1 || bits > most || of_family.iter().any(|network| network.bits() > bits) {
                return Err(BadPodNetworks(networks.to_string()));
            }
        }
        Ok(Self { networks, bits_v4, bits_v6 })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Each network with the bits of a node's part, in the order that was given.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Cidr, u8)> {
        let bits = |network: &Cidr| if network.is_ipv4() { self.bits_v4 } else { self.bits_v6 };
        self.networks.0.iter().map(move |network| (*network, bits(network)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_and_printed() {
        let blocks: Blocks = "192.0.2.0/24,2001:db8::/112".parse().unwrap();
        assert_eq!(blocks.to_string(), "192.0.2.0/24,2001:db8::/112");
        assert!("192.0.2.1".parse::<Blocks>().is_err() && "".parse::<Blocks>().is_err());
    }

    #[test]
    fn a_network_has_room_for_a_node_and_is_the_only_one_of_its_family() {
        let of = |text: &str, v4| PodNetworks::new(text.parse().unwrap(), v4, None);
        assert_eq!(
            of("10.0.0.0/16,fd00::/48", None).unwrap().parts().map(|(_, bits)| bits).collect::<Vec<_>>(),
            [24, 64]
        );
        for (text, v4) in [
            ("10.0.0.0/25", None),
            ("10.0.0.0/16,10.1.0.0/16", None),
            ("fd00::/65", None),
            ("10.0.0.0/16", Some(33)),
        ] {
            assert!(of(text, v4).is_err(), "{text}");
        }
    }
}
