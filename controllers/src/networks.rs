//! [`Networks`]: address pools of the controllers. Empty by default: load balancers stay pending and nodes
//! get no pod CIDR, as in Kubernetes without a cloud and without `--allocate-node-cidrs`.

use kstore_api::cidr::{Cidr, ParseCidrError};
use std::fmt;
use std::str::FromStr;

/// Address pools of the controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// Addresses for Services of type LoadBalancer. If empty, such Services stay pending.
    pub load_balancers: Blocks,
    /// Networks for the pod CIDRs of nodes. If empty, nodes get none.
    pub pods: PodNetworks,
}

/// Blocks of addresses of any family, in order of use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks(Vec<Cidr>);

impl Blocks {
    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of_family(&self, is_ipv4: bool) -> impl Iterator<Item = Cidr> {
        self.0.iter().copied().filter(move |block| block.is_ipv4() == is_ipv4)
    }
}

impl FromStr for Blocks {
    type Err = ParseCidrError;

    /// Parses comma-separated blocks, such as `192.0.2.0/24,2001:db8::/112`.
    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&blocks.join(","))
    }
}

/// Pod network of the cluster, of one family or both, and the size of a node's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNetworks {
    networks: Blocks,
    /// Prefix length of a node's IPv4 CIDR, 24 in Kubernetes.
    bits_v4: u8,
    /// Prefix length of a node's IPv6 CIDR, 64 in Kubernetes.
    bits_v6: u8,
}

/// The networks have no part for a node, or share a family.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected at most one network of each family, none smaller than the network of a node: {0}")]
pub struct BadPodNetworks(String);

impl Default for PodNetworks {
    fn default() -> Self {
        Self { networks: Blocks::default(), bits_v4: 24, bits_v6: 64 }
    }
}

impl PodNetworks {
    /// Networks, and the prefix length of each node's part (`None`: 24 for IPv4, 64 for IPv6).
    ///
    /// # Errors
    /// Two networks of one family, or a network smaller than a node's part.
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

    /// Whether there is no network.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Each network with the prefix length of a node's part, in the given order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Cidr, u8)> {
        let bits = |network: &Cidr| if network.is_ipv4() { self.bits_v4 } else { self.bits_v6 };
        self.networks.0.iter().map(move |network| (*network, bits(network)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_parsed_and_formatted() {
        let blocks: Blocks = "192.0.2.0/24,2001:db8::/112".parse().unwrap();
        assert_eq!(blocks.to_string(), "192.0.2.0/24,2001:db8::/112");
        assert!("192.0.2.1".parse::<Blocks>().is_err() && "".parse::<Blocks>().is_err());
    }

    #[test]
    fn pod_networks_are_validated() {
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
