//! Host ports and their conflicts on a node.

/// Wildcard address: a host port on all addresses of the node.
const ANY_ADDRESS: &str = "0.0.0.0";

/// A host port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The address; `0.0.0.0` is every address.
    pub address: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// 1 to 65535.
    pub port: u16,
}

impl HostPort {
    /// A host port; an empty address is every address, an empty protocol TCP.
    pub fn new(address: &str, protocol: &str, port: u16) -> Self {
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        Self { address: or(address, ANY_ADDRESS), protocol: or(protocol, "TCP"), port }
    }

    /// Whether two pods cannot use both ports on one node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ANY_ADDRESS || other.address == ANY_ADDRESS)
    }
}

/// Whether any port of `wanted` conflicts with any of `taken`.
pub fn any_conflict(wanted: &[HostPort], taken: &[HostPort]) -> bool {
    wanted.iter().any(|w| taken.iter().any(|t| w.conflicts_with(t)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_conflict_if_protocol_port_and_address_overlap() {
        let port = HostPort::new;
        assert!(port("", "", 80).conflicts_with(&port("0.0.0.0", "TCP", 80)));
        assert!(port("10.0.0.1", "TCP", 80).conflicts_with(&port("", "TCP", 80)));
        assert!(!port("10.0.0.1", "TCP", 80).conflicts_with(&port("10.0.0.2", "TCP", 80)));
        assert!(!port("", "UDP", 80).conflicts_with(&port("", "TCP", 80)));
        assert!(!port("", "TCP", 81).conflicts_with(&port("", "TCP", 80)));
    }
}
