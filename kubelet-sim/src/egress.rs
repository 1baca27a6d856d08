//! What programs of this machine in simulated pods reach outside of the cluster: [`Egress`], as `--egress` and `--egress-host` say. Pure.

use kstore_api::cidr::Cidr;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The word for all addresses that are routed over the Internet.
const INTERNET: &str = "internet";
/// The names of services of this machine end so.
const HOST_ZONE: &str = "host.kstore.internal";
/// The network of the addresses of such services, in which the first has the number one. Its addresses are link-local, so no pod, Service
/// or machine elsewhere has them; a gateway's own are in another part of 169.254.0.0/16.
const HOST_NETWORK: [u8; 3] = [169, 254, 7];
/// Services of this machine that have an address.
pub const HOST_SERVICES: usize = 254;

/// Blocks of the address space that are not routed over the Internet, or lead to IPv4 addresses that are not.
const PRIVATE: [&str; 19] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    // Teredo and other tunnels, documentation, 6to4.
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "3fff::/20",
];
/// The block of IPv6 from which all addresses of the Internet are.
const GLOBAL_V6: &str = "2000::/3";
/// Blocks that only a rule for a part of them opens: neighbours on the machine's own links, such as the metadata of clouds.
const LINK_LOCAL: [&str; 2] = ["169.254.0.0/16", "fe80::/10"];
/// Blocks that no rule opens, with what their addresses are.
const CLOSED: [(&str, EgressError); 6] = [
    ("127.0.0.0/8", EgressError::Loopback),
    ("::1/128", EgressError::Loopback),
    // Linux takes them for its loopback.
    ("0.0.0.0/8", EgressError::Loopback),
    ("::/128", EgressError::Loopback),
    ("224.0.0.0/4", EgressError::Multicast),
    ("ff00::/8", EgressError::Multicast),
];

/// Why a rule or a service of this machine cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EgressError {
    /// It is no rule.
    #[error("expected internet, an address or a CIDR block, such as 192.0.2.0/24 or internet:443 with ports")]
    Form,
    /// Its ports are none.
    #[error("expected a port or a range of ports, such as 443 or 8000-8099")]
    Ports,
    /// It names the loopback of the machine.
    #[error("the host's loopback is never reachable; use --egress-host")]
    Loopback,
    /// It names addresses of groups.
    #[error("multicast is not carried")]
    Multicast,
    /// It is no service of this machine.
    #[error(
        "expected NAME=ADDRESS:PORT, such as db=127.0.0.1:5432; NAME has lower-case letters, digits and dashes"
    )]
    Service,
}

/// Addresses and ports that programs reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRule {
    /// `None`: the Internet.
    block: Option<Cidr>,
    ports: RangeInclusive<u16>,
}

impl FromStr for EgressRule {
    type Err = EgressError;

    /// Parses `internet`, `ADDRESS` or `CIDR`, and after a colon the port or the ports `FIRST-LAST`. An IPv6 address with ports is in
    /// brackets.
    fn from_str(text: &str) -> Result<Self, EgressError> {
        let (block, ports) = match split(text)? {
            (INTERNET, ports) => (None, ports),
            (block, ports) => (Some(parse_block(block)?), ports),
        };
        let ports = ports.map_or(Ok(0..=u16::MAX), parse_ports)?;
        if let Some(block) = block {
            for (closed, why) in CLOSED {
                if is_within(block, closed) {
                    return Err(why);
                }
            }
        }
        Ok(Self { block, ports })
    }
}

/// The addresses and the ports of a rule.
fn split(text: &str) -> Result<(&str, Option<&str>), EgressError> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, ports) = rest.split_once(']').ok_or(EgressError::Form)?;
        return match ports.strip_prefix(':') {
            None if ports.is_empty() => Ok((address, None)),
            Some(ports) => Ok((address, Some(ports))),
            None => Err(EgressError::Form),
        };
    }
    let after = text.find('/').unwrap_or(0);
    // An IPv6 address alone has several colons.
    match text[after..].matches(':').count() {
        1 => {
            let colon = after + text[after..].find(':').ok_or(EgressError::Form)?;
            Ok((&text[..colon], Some(&text[colon + 1..])))
        }
        _ => Ok((text, None)),
    }
}

fn parse_block(text: &str) -> Result<Cidr, EgressError> {
    match text.parse::<IpAddr>() {
        Ok(address) => single(address),
        Err(_) => text.parse().map_err(|_| EgressError::Form),
    }
}

/// The block of one address.
fn single(address: IpAddr) -> Result<Cidr, EgressError> {
    let bits = if address.is_ipv4() { 32 } else { 128 };
    format!("{address}/{bits}").parse().map_err(|_| EgressError::Form)
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, EgressError> {
    let number = |text: &str| text.parse().ok().filter(|port| *port > 0).ok_or(EgressError::Ports);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let ports = number(first)?..=number(last)?;
    match ports.is_empty() {
        false => Ok(ports),
        true => Err(EgressError::Ports),
    }
}

fn is_within(block: Cidr, whole: &str) -> bool {
    whole.parse::<Cidr>().is_ok_and(|whole| whole.covers(block))
}

/// A service that listens on this machine, and the name that it has in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostService {
    /// The first part of its name.
    name: String,
    /// Where it listens.
    to: SocketAddr,
}

impl FromStr for HostService {
    type Err = EgressError;

    /// Parses `NAME=ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, EgressError> {
        let (name, to) = text.split_once('=').ok_or(EgressError::Service)?;
        let to: SocketAddr = to.parse().map_err(|_| EgressError::Service)?;
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = !name.is_empty()
            && name.len() <= 63
            && name.bytes().all(is_inner)
            && !name.starts_with('-')
            && !name.ends_with('-');
        match is_name && to.port() > 0 {
            true => Ok(Self { name: name.to_owned(), to }),
            false => Err(EgressError::Service),
        }
    }
}

/// What programs of this machine in simulated pods reach outside of the cluster. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    rules: Vec<EgressRule>,
    services: Vec<HostService>,
    /// The networks of the cluster's Services, which are never outside.
    cluster: Vec<Cidr>,
}

/// What an address outside of the cluster leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressTarget {
    /// The service of this machine that listens there.
    HostService(SocketAddr),
    /// The address itself, unless it is one of this machine.
    Outside(SocketAddr),
}

impl Egress {
    /// What these rules and services open. Only the first [`HOST_SERVICES`] services have an address.
    pub fn new(rules: Vec<EgressRule>, services: Vec<HostService>) -> Self {
        Self { rules, services, cluster: Vec::new() }
    }

    /// The same for a cluster whose Services have addresses in `networks`, which then are not outside of it.
    #[must_use]
    pub fn within(self, networks: impl IntoIterator<Item = Cidr>) -> Self {
        Self { cluster: networks.into_iter().collect(), ..self }
    }

    /// What a port of an address outside of the cluster leads to; `None` if it is not reached.
    pub fn target(&self, to: SocketAddr) -> Option<EgressTarget> {
        // Else an IPv4 address written as one of IPv6 would pass the rules of neither.
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        if let Some(service) =
            self.services.iter().enumerate().find(|(index, _)| address(*index) == Some(to.ip()))
        {
            let listening = service.1.to;
            return (listening.port() == to.port()).then_some(EgressTarget::HostService(listening));
        }
        let own = single(to.ip()).ok()?;
        let is_closed = CLOSED.iter().any(|(closed, _)| is_within(own, closed))
            || self.cluster.iter().any(|network| network.covers(own));
        let is_open = self.rules.iter().any(|rule| rule.ports.contains(&to.port()) && opens(rule, own));
        (is_open && !is_closed).then_some(EgressTarget::Outside(to))
    }

    /// Whether names outside of the cluster are resolved: if any address there is reached.
    pub fn has_names(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Whether some port of an address outside of the cluster is reached.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let ports = self.rules.iter().map(|rule| *rule.ports.start());
        ports.into_iter().any(|port| self.target(SocketAddr::new(address, port)).is_some())
    }

    /// The address of the service of this machine with a whole name, without the final dot; `None` if the name is no such one, and
    /// `Some(None)` if there is no such service.
    pub fn host_service(&self, name: &str) -> Option<Option<IpAddr>> {
        let first = match name.strip_suffix(HOST_ZONE)? {
            "" => return Some(None),
            first => first.strip_suffix('.')?,
        };
        let index = self.services.iter().position(|service| service.name == first);
        Some(index.and_then(address))
    }
}

/// The address of a service of this machine in the cluster.
fn address(index: usize) -> Option<IpAddr> {
    let [a, b, c] = HOST_NETWORK;
    let last = u8::try_from(index + 1).ok().filter(|_| index < HOST_SERVICES)?;
    Some(Ipv4Addr::new(a, b, c, last).into())
}

/// Whether a rule opens an address.
fn opens(rule: &EgressRule, own: Cidr) -> bool {
    let Some(block) = rule.block else {
        let is_routed = own.is_ipv4() || is_within(own, GLOBAL_V6);
        return is_routed && !PRIVATE.iter().any(|private| is_within(own, private));
    };
    let is_link_local = LINK_LOCAL.iter().any(|network| is_within(own, network));
    block.covers(own) && (!is_link_local || LINK_LOCAL.iter().any(|network| is_within(block, network)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn egress(rules: &[&str]) -> Egress {
        Egress::new(rules.iter().map(|rule| rule.parse().unwrap()).collect(), Vec::new())
    }

    fn reaches(egress: &Egress, to: &str) -> bool {
        egress.target(to.parse().unwrap()).is_some()
    }

    #[test]
    fn rules_name_blocks_addresses_or_the_internet_and_ports() {
        for (rule, inside, outside) in [
            ("internet", "93.184.216.34:443", "10.1.2.3:443"),
            ("internet:443", "93.184.216.34:443", "93.184.216.34:80"),
            ("10.1.0.0/16", "10.1.255.255:1", "10.2.0.0:1"),
            ("10.1.0.0/16:8000-8099", "10.1.2.3:8099", "10.1.2.3:8100"),
            ("10.1.2.3", "10.1.2.3:5432", "10.1.2.4:5432"),
            ("10.1.2.3:5432", "10.1.2.3:5432", "10.1.2.3:5433"),
            ("fd12::/16", "[fd12::1]:80", "[fd13::1]:80"),
            ("fd12::/16:80", "[fd12::1]:80", "[fd12::1]:81"),
            ("fd12::1", "[fd12::1]:80", "[fd12::2]:80"),
            ("[fd12::1]:80", "[fd12::1]:80", "[fd12::1]:81"),
            ("[fd12::1]", "[fd12::1]:80", "10.1.2.3:80"),
        ] {
            let egress = egress(&[rule]);
            assert!(reaches(&egress, inside) && !reaches(&egress, outside), "{rule}");
        }
        for (text, why) in [
            ("", EgressError::Form),
            ("example.com", EgressError::Form),
            ("10.0.0.0/33", EgressError::Form),
            ("[fd12::1", EgressError::Form),
            ("[fd12::1]80", EgressError::Form),
            ("internet:", EgressError::Ports),
            ("internet:0", EgressError::Ports),
            ("internet:90-80", EgressError::Ports),
            ("10.1.2.3:http", EgressError::Ports),
            ("127.0.0.0/8", EgressError::Loopback),
            ("127.0.0.1:5432", EgressError::Loopback),
            ("::1", EgressError::Loopback),
            ("0.0.0.0", EgressError::Loopback),
            ("224.0.0.0/8", EgressError::Multicast),
        ] {
            assert_eq!(text.parse::<EgressRule>(), Err(why), "{text}");
        }
        assert!(EgressError::Loopback.to_string().contains("use --egress-host"));
    }

    #[test]
    fn no_rule_opens_the_loopback_and_none_but_its_own_the_links_of_the_machine() {
        let all = egress(&["0.0.0.0/0", "::/0", "internet"]);
        for to in [
            "127.0.0.1:80",
            "0.0.0.0:80",
            "[::1]:80",
            "[::]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "169.254.169.254:80",
            "[fe80::1]:80",
            "224.0.0.1:80",
            "[ff02::1]:80",
        ] {
            assert!(!reaches(&all, to), "{to}");
        }
        assert!(reaches(&all, "10.1.2.3:80") && reaches(&all, "[fd12::1]:80"));
        assert!(reaches(&egress(&["169.254.169.254"]), "169.254.169.254:80"));
        let internet = egress(&["internet"]);
        for to in [
            "[2002:7f00:1::1]:80",
            "[64:ff9b::7f00:1]:80",
            "[fd12::1]:80",
            "[2001:db8::1]:80",
            "192.168.0.1:80",
        ] {
            assert!(!reaches(&internet, to), "{to}");
        }
        assert!(reaches(&internet, "[2606:2800:220:1::1]:80"));
        let inside = egress(&["10.0.0.0/8"]).within(["10.96.0.0/12".parse().unwrap()]);
        assert!(reaches(&inside, "10.1.2.3:80") && !reaches(&inside, "10.96.0.77:80"));
        assert!(inside.has_address("10.1.2.3".parse().unwrap()) && inside.has_names());
        assert!(!inside.has_address("10.96.0.77".parse().unwrap()) && !Egress::default().has_names());
    }

    #[test]
    fn services_of_the_machine_have_a_name_an_address_and_one_port() {
        let services = ["db=127.0.0.1:5432", "reg-1=[::1]:5000"];
        let egress = Egress::new(Vec::new(), services.iter().map(|one| one.parse().unwrap()).collect());
        assert_eq!(egress.host_service("db.host.kstore.internal"), Some(Some([169, 254, 7, 1].into())));
        assert_eq!(egress.host_service("reg-1.host.kstore.internal"), Some(Some([169, 254, 7, 2].into())));
        for name in ["host.kstore.internal", "no.host.kstore.internal", "a.db.host.kstore.internal"] {
            assert_eq!(egress.host_service(name), Some(None), "{name}");
        }
        assert_eq!(egress.host_service("db.host.kstore.internal.example.com"), None);
        assert_eq!(egress.host_service("xhost.kstore.internal"), None);
        let target = |to: &str| egress.target(to.parse().unwrap());
        assert_eq!(
            target("169.254.7.2:5000"),
            Some(EgressTarget::HostService("[::1]:5000".parse().unwrap()))
        );
        assert_eq!((target("169.254.7.1:22"), target("169.254.7.3:5432")), (None, None));
        for text in [
            "db",
            "db=localhost:1",
            "db=127.0.0.1",
            "db=127.0.0.1:0",
            "=127.0.0.1:1",
            "-a=127.0.0.1:1",
            "A=127.0.0.1:1",
        ] {
            assert_eq!(text.parse::<HostService>(), Err(EgressError::Service), "{text}");
        }
    }

    proptest! {
        /// A rule opens the addresses of its block and none besides, whatever their bits are.
        #[test]
        fn a_block_opens_its_own_addresses_alone(base: u32, bits in 8u8..=32, to: u32, port in 1u16.., last in 1u16..) {
            let (base, to) = (Ipv4Addr::from(base), Ipv4Addr::from(to));
            let rule = format!("{base}/{bits}:1-{last}");
            let mask = u32::MAX << (32 - bits);
            let is_in = u32::from(base) & mask == u32::from(to) & mask;
            let is_special = |ip: Ipv4Addr| ip.is_loopback() || ip.octets()[0] == 0 || ip.is_multicast() || ip.is_link_local();
            prop_assume!(!is_special(base) && !is_special(to));
            let egress = egress(&[&rule]);
            for to in [to, Ipv4Addr::from(u32::from(base) & mask | u32::from(to) & !mask)] {
                if is_special(to) {
                    continue;
                }
                let is_in = is_in || u32::from(base) & mask == u32::from(to) & mask;
                let to = SocketAddr::new(to.into(), port);
                prop_assert_eq!(egress.target(to).is_some(), is_in && port <= last, "{} {}", rule, to);
            }
        }

        #[test]
        fn any_text_is_a_rule_or_not_without_panic(text in "[0-9a-f:./\\[\\]-]{0,30}") {
            let _ = text.parse::<EgressRule>();
            let _ = text.parse::<HostService>();
        }
    }
}
