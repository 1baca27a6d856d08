//! Addresses of a Service of type LoadBalancer, and their release when its type changes. Pure.
//!
//! A Service keeps its addresses. For a family without one it gets `spec.loadBalancerIP`, if that is free and
//! in the pool, or the lowest free address of the pool. A Service with a `loadBalancerClass` belongs to
//! another program.

use crate::action::{Action, PatchKind, Target};
use crate::networks::Blocks;
use crate::view::subject;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, Service};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Finalizer that keeps a Service until its load balancer is removed.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const NONE_FREE: &str =
    "Error syncing load balancer: failed to ensure load balancer: no address of the pool is free";

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub service: &'a Service,
    pub pool: &'a Blocks,
    /// The addresses of other Services.
    pub taken: &'a BTreeSet<IpAddr>,
}

/// Result of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Planned {
    pub actions: Vec<Action>,
    /// The resulting addresses of the Service.
    pub addresses: Vec<IpAddr>,
    /// Whether the pool has no free address for one of its families.
    pub is_short: bool,
}

/// Whether a Service needs this controller.
pub(crate) fn concerns(service: &Service) -> bool {
    wants(service) || has_finalizer(service)
}

/// The addresses in the status of a Service.
pub(crate) fn addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    ingress(service).iter().filter_map(|one| one.ip.as_ref()?.parse().ok())
}

fn ingress(service: &Service) -> &[LoadBalancerIngress] {
    let status = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    status.and_then(|balancer| balancer.ingress.as_deref()).unwrap_or_default()
}

fn wants(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    spec.type_.as_deref() == Some("LoadBalancer")
        && spec.load_balancer_class.is_none()
        && service.metadata.deletion_timestamp.is_none()
}

fn has_finalizer(service: &Service) -> bool {
    service.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Plans the addresses of the Service.
pub(crate) fn plan(seen: Observed<'_>) -> Planned {
    let service = seen.service;
    let about = || subject("v1", "Service", &service.metadata);
    if !wants(service) {
        if !has_finalizer(service) {
            return Planned::default();
        }
        let actions = vec![
            Action::normal(about(), "DeletingLoadBalancer", "Deleting load balancer".to_owned()),
            patch(service, false, &[]),
            Action::normal(about(), "DeletedLoadBalancer", "Deleted load balancer".to_owned()),
        ];
        return Planned { actions, ..Planned::default() };
    }
    let (addresses, is_short) = choose(seen);
    let is_done = has_finalizer(service) && shown(&addresses) == json!(ingress(service));
    let mut actions = Vec::new();
    if !is_done {
        actions.push(Action::normal(about(), "EnsuringLoadBalancer", "Ensuring load balancer".to_owned()));
        actions.push(patch(service, true, &addresses));
    }
    if is_short && !is_done {
        actions.push(Action::warning(about(), "SyncLoadBalancerFailed", NONE_FREE.to_owned()));
    } else if !is_done {
        actions.push(Action::normal(about(), "EnsuredLoadBalancer", "Ensured load balancer".to_owned()));
    }
    Planned { actions, addresses, is_short }
}

/// One address for each of the Service's families in the pool, and whether one is missing.
fn choose(seen: Observed<'_>) -> (Vec<IpAddr>, bool) {
    let Some(spec) = &seen.service.spec else { return (vec![], false) };
    let have: Vec<IpAddr> = addresses(seen.service).collect();
    let requested: Option<IpAddr> = spec.load_balancer_ip.as_ref().and_then(|ip| ip.parse().ok());
    let (mut chosen, mut is_short) = (Vec::new(), false);
    let families = spec.ip_families.clone().unwrap_or_else(|| vec!["IPv4".to_owned()]);
    for family in families {
        let is_ipv4 = family == "IPv4";
        let is_free = |ip: &IpAddr| {
            let mut blocks = seen.pool.of_family(is_ipv4);
            !seen.taken.contains(ip) && blocks.any(|block| block.gives(*ip))
        };
        let requested = requested.filter(|ip| ip.is_ipv4() == is_ipv4 && is_free(ip));
        let kept = have.iter().copied().find(|ip| ip.is_ipv4() == is_ipv4 && is_free(ip));
        match requested.or(kept).or_else(|| lowest(seen, is_ipv4)) {
            Some(address) => chosen.push(address),
            // Skips a family without addresses in the pool.
            None => is_short |= seen.pool.of_family(is_ipv4).next().is_some(),
        }
    }
    let is_short = is_short || chosen.is_empty();
    (chosen, is_short)
}

/// The lowest free address of a family.
fn lowest(seen: Observed<'_>, is_ipv4: bool) -> Option<IpAddr> {
    let of_block = |block: kstore_api::cidr::Cidr| {
        let [upper, lower] = block.bands();
        lower.chain(upper).map(move |number| block.at(number)).find(|ip| !seen.taken.contains(ip))
    };
    seen.pool.of_family(is_ipv4).find_map(of_block)
}

fn shown(addresses: &[IpAddr]) -> Value {
    addresses.iter().map(|ip| json!({"ip": ip.to_string(), "ipMode": "VIP"})).collect()
}

/// Sets or clears addresses and finalizer, if the Service is unchanged. The account may only write the
/// status, and a status write may change finalizers.
fn patch(service: &Service, has_finalizer: bool, addresses: &[IpAddr]) -> Action {
    let mut finalizers = service.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if has_finalizer {
        finalizers.push(FINALIZER.to_owned());
    }
    let ingress = if addresses.is_empty() { Value::Null } else { shown(addresses) };
    let patch = json!({
        "metadata": {"finalizers": finalizers, "resourceVersion": service.metadata.resource_version},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    let target = Target { resource_version: None, ..Target::of(service) };
    Action::Patch { target, status: true, kind: PatchKind::Merge, patch }
}
