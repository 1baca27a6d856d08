//! The cluster IPs of a Service, and the mark of their IPAddresses. Pure.

use k8s_openapi::api::core::v1::Service;
use std::net::IpAddr;

/// Label with the manager of an IPAddress.
pub(crate) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
/// Manager value of addresses that servers allocate for Services.
pub(crate) const MANAGER: &str = "ipallocator.k8s.io";

/// The addresses of a Service, in the canonical form of IPAddress names.
pub(crate) fn addresses_of(service: &Service) -> impl Iterator<Item = IpAddr> {
    let spec = service.spec.as_ref();
    let named = spec.is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"));
    let all = spec.filter(|_| !named).and_then(|spec| spec.cluster_ips.as_deref()).unwrap_or_default();
    all.iter().filter_map(|ip| ip.parse().ok())
}
