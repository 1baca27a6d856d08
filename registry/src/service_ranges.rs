//! [`ServiceRanges`]: the networks from which the server assigns service addresses: one, or one of each
//! family. ServiceCIDR objects add further networks (`registry::service`).

use kstore_api::cidr::Cidr;
use std::net::IpAddr;
use std::str::FromStr;

/// Kubernetes' default network, which clusters have that were set up with its own tools.
const USUAL: &str = "10.96.0.0/12";
/// The smallest number of addresses in a network: the API's own service and some others must fit.
const FEWEST: u128 = 8;
/// The shortest prefix of an IPv6 network: a search for a free address takes too long in a larger one.
pub(crate) const WIDEST_V6: u8 = 64;

/// The networks of `--service-cluster-ip-range`. The first one determines the family of services that name
/// none. With a second one, of the other family, services can have an address of each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    primary: Cidr,
    secondary: Option<Cidr>,
}

/// The networks are invalid: the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangesError {
    /// There are three or more networks.
    #[error("--service-cluster-ip-range must not contain more than two entries")]
    TooMany,
    /// The first is not a network.
    #[error("service-cluster-ip-range[0] is not a valid cidr")]
    Primary,
    /// The second is not a network.
    #[error("service-cluster-ip-range[1] is not an ip net")]
    Secondary,
    /// The first network has too few addresses.
    #[error(
        "error determining service IP ranges for primary service cidr: the service cluster IP range must be at least 8 IP addresses"
    )]
    TooSmall,
    /// An IPv6 network is too large.
    #[error("shortest allowed prefix length for service CIDR is 64, got {0}")]
    TooLarge(u8),
    /// Both networks are of the same family.
    #[error("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family")]
    OneFamily,
}

impl Default for ServiceRanges {
    fn default() -> Self {
        Self { primary: USUAL.parse().expect("the usual network is one"), secondary: None }
    }
}

impl FromStr for ServiceRanges {
    type Err = ServiceRangesError;

    /// Parses one network, or two separated by a comma. An empty text is the default network.
    fn from_str(text: &str) -> Result<Self, ServiceRangesError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut parts = text.split(',');
        let primary: Cidr =
            parts.next().unwrap_or_default().parse().map_err(|_| ServiceRangesError::Primary)?;
        if primary.size() < FEWEST {
            return Err(ServiceRangesError::TooSmall);
        }
        let secondary: Option<Cidr> =
            parts.next().map(str::parse).transpose().map_err(|_| ServiceRangesError::Secondary)?;
        if parts.next().is_some() {
            return Err(ServiceRangesError::TooMany);
        }
        if secondary.is_some_and(|other| other.is_ipv4() == primary.is_ipv4()) {
            return Err(ServiceRangesError::OneFamily);
        }
        let both = [Some(primary), secondary].into_iter().flatten();
        match both.into_iter().find(|range| !range.is_ipv4() && range.bits() < WIDEST_V6) {
            Some(range) => Err(ServiceRangesError::TooLarge(range.bits())),
            None => Ok(Self { primary, secondary }),
        }
    }
}

impl ServiceRanges {
    /// The first network: it determines the family of services that name none.
    pub fn primary(&self) -> Cidr {
        self.primary
    }

    /// The address of the Service `default/kubernetes`: the first address.
    pub fn api_address(&self) -> IpAddr {
        self.primary.first()
    }

    /// The networks in the form of a ServiceCIDR.
    pub fn cidrs(&self) -> Vec<String> {
        [Some(self.primary), self.secondary].into_iter().flatten().map(|range| range.to_string()).collect()
    }

    /// The families of service addresses, the default family first.
    pub(crate) fn families(&self) -> Vec<&'static str> {
        [Some(self.primary), self.secondary]
            .into_iter()
            .flatten()
            .map(|range| family(range.is_ipv4()))
            .collect()
    }
}

/// The name of an address family.
pub(crate) fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_one_network_or_one_of_each_family() {
        for (text, cidrs, address) in [
            ("", vec!["10.96.0.0/12"], "10.96.0.1"),
            ("10.1.2.3/24", vec!["10.1.2.0/24"], "10.1.2.1"),
            ("fd00:96::/112", vec!["fd00:96::/112"], "fd00:96::1"),
            ("10.0.0.0/29,fd00::/64", vec!["10.0.0.0/29", "fd00::/64"], "10.0.0.1"),
            ("fd00::/120,10.0.0.0/8", vec!["fd00::/120", "10.0.0.0/8"], "fd00::1"),
        ] {
            let ranges: ServiceRanges = text.parse().unwrap();
            assert_eq!(ranges.cidrs(), cidrs, "{text}");
            assert_eq!(ranges.api_address().to_string(), address, "{text}");
        }
    }

    #[test]
    fn invalid_service_ranges_are_refused_with_kubernetes_messages() {
        for (text, error) in [
            ("10.0.0.0", ServiceRangesError::Primary),
            ("10.0.0.0/30", ServiceRangesError::TooSmall),
            ("10.0.0.0/24,x", ServiceRangesError::Secondary),
            ("10.0.0.0/24,fd00::/64,fd01::/64", ServiceRangesError::TooMany),
            ("10.0.0.0/24,10.1.0.0/24", ServiceRangesError::OneFamily),
            ("fd00::/48", ServiceRangesError::TooLarge(48)),
        ] {
            assert_eq!(text.parse::<ServiceRanges>(), Err(error), "{text}");
        }
    }
}
