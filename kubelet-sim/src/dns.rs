//! Names of the cluster's DNS: what a whole name means, and the records of Services and of pods behind them, as CoreDNS answers. Pure.

use crate::service::{Backend, ZONE, is_headless};
use k8s_openapi::api::core::v1::Service;
use kstore_container_sim::{DnsRecord, RecordKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many seconds answers may be kept.
const TTL: u32 = 30;

/// What a whole name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DnsName {
    /// A Service: namespace and name.
    Service(String, String),
    /// A pod behind a Service: its host name, and namespace and name of the Service.
    PodOf(String, String, String),
    /// A port of a Service: its name, protocol, and namespace and name of the Service.
    PortOf(String, String, String, String),
    /// The address that the name spells, and the namespace that must exist.
    Address(IpAddr, String),
    /// The name of an address is asked for.
    Reverse(IpAddr),
    /// A part of the zone that has no records of its own.
    Zone,
}

impl DnsName {
    /// What a name means; `None` outside the zone, or if the zone has no such names.
    pub(crate) fn of(name: &str) -> Option<Self> {
        if let Some(address) = reversed(name) {
            return Some(Self::Reverse(address));
        }
        let inner = name.strip_suffix(ZONE)?;
        if matches!(inner, "" | "svc." | "pod.") {
            return Some(Self::Zone);
        }
        let parts: Vec<&str> = inner.strip_suffix('.')?.split('.').collect();
        let owned = |text: &str| text.to_owned();
        match parts[..] {
            [_, "svc"] => Some(Self::Zone),
            [service, namespace, "svc"] => Some(Self::Service(owned(namespace), owned(service))),
            [host, service, namespace, "svc"] => {
                Some(Self::PodOf(owned(host), owned(namespace), owned(service)))
            }
            [port, protocol, service, namespace, "svc"] => {
                let (port, protocol) = (port.strip_prefix('_')?, protocol.strip_prefix('_')?);
                Some(Self::PortOf(owned(port), owned(protocol), owned(namespace), owned(service)))
            }
            [address, namespace, "pod"] => {
                let is_v6 = address.contains("--") || address.matches('-').count() != 3;
                let address = address.replace('-', if is_v6 { ":" } else { "." }).parse().ok()?;
                Some(Self::Address(address, owned(namespace)))
            }
            _ => None,
        }
    }
}

/// The address whose name a name below `in-addr.arpa` or `ip6.arpa` asks for.
fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(".in-addr.arpa") {
        let parts: Vec<u8> = digits.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [d, c, b, a] = parts[..] else { return None };
        return Some(Ipv4Addr::new(a, b, c, d).into());
    }
    let digits: Vec<&str> = name.strip_suffix(".ip6.arpa")?.split('.').collect();
    if digits.len() != 32 || digits.iter().any(|digit| digit.len() != 1) {
        return None;
    }
    let bits = digits
        .iter()
        .rev()
        .try_fold(0u128, |bits, digit| u128::from_str_radix(digit, 16).ok().map(|digit| bits << 4 | digit))?;
    Some(Ipv6Addr::from(bits).into())
}

/// The name of a Service.
pub(crate) fn service_name(namespace: &str, service: &str) -> String {
    format!("{service}.{namespace}.svc.{ZONE}")
}

/// A record.
pub(crate) fn record(name: &str, kind: RecordKind, value: String) -> DnsRecord {
    DnsRecord { name: name.to_owned(), kind, value, ttl: TTL }
}

/// The records of addresses that have the wanted kind.
pub(crate) fn addresses(
    name: &str,
    kind: RecordKind,
    all: impl IntoIterator<Item = IpAddr>,
) -> Vec<DnsRecord> {
    let is_wanted = |ip: &IpAddr| match kind {
        RecordKind::A => ip.is_ipv4(),
        RecordKind::Aaaa => ip.is_ipv6(),
        RecordKind::Cname | RecordKind::Ptr | RecordKind::Srv => false,
    };
    all.into_iter().filter(is_wanted).map(|ip| record(name, kind, ip.to_string())).collect()
}

/// The records of the port of a Service with this name and protocol: one for a Service with an address, else one for each of its
/// endpoints. `None` if it has no such port.
pub(crate) fn ports(
    question: &str,
    (port, protocol): (&str, &str),
    name: &str,
    service: &Service,
    endpoints: &[Backend],
) -> Option<Vec<DnsRecord>> {
    let all = service.spec.as_ref()?.ports.iter().flatten();
    let mut meant = all.filter(|one| {
        one.name.as_deref() == Some(port)
            && one.protocol.as_deref().unwrap_or("TCP").eq_ignore_ascii_case(protocol)
    });
    let meant = meant.next()?;
    if !is_headless(service) {
        let value = format!("0 100 {} {name}.", meant.port);
        return Some(vec![record(question, RecordKind::Srv, value)]);
    }
    let weight = 100 / endpoints.len().max(1);
    let of = |one: &Backend| format!("0 {weight} {} {}.{name}.", one.to.port(), one.host);
    Some(endpoints.iter().map(|one| record(question, RecordKind::Srv, of(one))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_names_mean_services_pods_ports_and_addresses() {
        let own = |text: &str| text.to_owned();
        let service = || DnsName::Service(own("ns"), own("web"));
        for (name, meaning) in [
            ("web.ns.svc.cluster.local", Some(service())),
            ("p-0.web.ns.svc.cluster.local", Some(DnsName::PodOf(own("p-0"), own("ns"), own("web")))),
            (
                "_http._tcp.web.ns.svc.cluster.local",
                Some(DnsName::PortOf(own("http"), own("tcp"), own("ns"), own("web"))),
            ),
            ("http.tcp.web.ns.svc.cluster.local", None),
            ("10-1-2-3.ns.pod.cluster.local", Some(DnsName::Address("10.1.2.3".parse().unwrap(), own("ns")))),
            ("3.2.1.10.in-addr.arpa", Some(DnsName::Reverse("10.1.2.3".parse().unwrap()))),
            ("2.1.10.in-addr.arpa", None),
            ("cluster.local", Some(DnsName::Zone)),
            ("svc.cluster.local", Some(DnsName::Zone)),
            ("ns.svc.cluster.local", Some(DnsName::Zone)),
            ("web.ns.svc", None),
            ("example.com", None),
        ] {
            assert_eq!(DnsName::of(name), meaning, "{name}");
        }
        let six = format!("1.{}d.f.ip6.arpa", "0.".repeat(29));
        assert_eq!(DnsName::of(&six), Some(DnsName::Reverse("fd00::1".parse().unwrap())));
    }

    #[test]
    fn named_ports_have_records_of_the_service_or_of_each_endpoint() {
        let service = |ip: &str| -> Service {
            let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
            serde_json::from_value(
                json!({"metadata": {"name": "web"}, "spec": {"clusterIP": ip, "ports": ports}}),
            )
            .unwrap()
        };
        let name = service_name("ns", "web");
        let endpoints = ["10.0.0.1:8080", "10.0.0.2:8080"]
            .map(|to| Backend { to: to.parse().unwrap(), host: to[..8].replace('.', "-") });
        let values = |service: &Service, port: (&str, &str)| {
            let all = ports("q", port, &name, service, &endpoints)?;
            Some(all.into_iter().map(|record| record.value).collect::<Vec<_>>())
        };
        assert_eq!(
            values(&service("10.96.0.7"), ("http", "tcp")).unwrap(),
            ["0 100 80 web.ns.svc.cluster.local."]
        );
        assert_eq!(
            values(&service("10.96.0.7"), ("dns", "udp")).unwrap(),
            ["0 100 53 web.ns.svc.cluster.local."]
        );
        assert_eq!(values(&service("10.96.0.7"), ("dns", "tcp")), None);
        assert_eq!(
            values(&service("None"), ("http", "tcp")).unwrap(),
            ["0 50 8080 10-0-0-1.web.ns.svc.cluster.local.", "0 50 8080 10-0-0-2.web.ns.svc.cluster.local."]
        );
        let own = crate::service::cluster_addresses(&service("10.96.0.7"));
        assert_eq!(own, ["10.96.0.7".parse::<IpAddr>().unwrap()]);
        assert_eq!(addresses("q", RecordKind::Aaaa, own), []);
    }
}
