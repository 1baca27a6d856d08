//! EndpointSlices that mirror an Endpoints object. Pure.
//!
//! The addresses of each family and set of ports are sorted and split into slices. Existing slices are
//! refilled in name order, so that unchanged slices are not written; surplus slices are deleted.

use crate::action::{Action, Propagation, Target};
use crate::claim::controller_ref;
use crate::endpoint_slice::{MANAGED_BY, SERVICE_LABEL};
use crate::limits::MIRRORED_ENDPOINTS;
use crate::object::Object;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointPort as SlicePort, EndpointSlice,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::net::IpAddr;

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations of the Endpoints object that are not copied.
const OWN_ANNOTATIONS: [&str; 3] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "endpoints.kubernetes.io/over-capacity",
];

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    pub service: Option<&'a Service>,
    pub endpoints: Option<&'a Endpoints>,
    /// The slices of this controller.
    pub slices: &'a [&'a EndpointSlice],
}

/// Whether this controller manages the slice.
pub(crate) fn is_ours(slice: &EndpointSlice) -> bool {
    slice
        .metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER))
}

/// Whether an Endpoints object may be mirrored: it does not opt out and is no leader-election record.
pub(crate) fn is_mirrored(endpoints: &Endpoints) -> bool {
    let metadata = &endpoints.metadata;
    let skips = metadata.labels.as_ref().is_some_and(|l| l.get(SKIP_LABEL).is_some_and(|v| v == "true"));
    !skips && !metadata.annotations.as_ref().is_some_and(|a| a.contains_key(LEADER_ANNOTATION))
}

/// Plans the mirrored slices.
pub(crate) fn plan(seen: Observed<'_>) -> Vec<Action> {
    let is_manual = |service: &&Service| service.spec.as_ref().is_some_and(|spec| spec.selector.is_none());
    let mirrored = seen.service.filter(is_manual).and(seen.endpoints);
    let mirrored = mirrored
        .filter(|endpoints| is_mirrored(endpoints) && endpoints.metadata.deletion_timestamp.is_none());
    let mut have: Vec<&EndpointSlice> =
        seen.slices.iter().copied().filter(|slice| slice.metadata.deletion_timestamp.is_none()).collect();
    have.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut actions = Vec::new();
    for wanted in mirrored.map(slices_of).unwrap_or_default() {
        let fits =
            |slice: &&EndpointSlice| slice.address_type == wanted.address_type && slice.ports == wanted.ports;
        let Some(at) = have.iter().position(fits) else {
            actions.push(Action::Create(Object::of(&wanted)));
            continue;
        };
        actions.extend(update(have.remove(at), wanted));
    }
    actions.extend(have.into_iter().map(delete));
    actions
}

fn delete(slice: &EndpointSlice) -> Action {
    let target = Target { resource_version: None, ..Target::of(slice) };
    Action::Delete { target, propagation: Propagation::Background, force: false }
}

fn update(have: &EndpointSlice, wanted: EndpointSlice) -> Option<Action> {
    let (labels, annotations) = (wanted.metadata.labels, wanted.metadata.annotations);
    let metadata = ObjectMeta { labels, annotations, ..have.metadata.clone() };
    let next = EndpointSlice { metadata, endpoints: wanted.endpoints, ..have.clone() };
    (next != *have).then(|| Action::Update(Object::of(&next)))
}

type Ports = Vec<(String, String, i32, Option<String>)>;

/// The slices for an Endpoints object.
fn slices_of(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let mut groups: BTreeMap<(&'static str, Ports), BTreeMap<IpAddr, Endpoint>> = BTreeMap::new();
    for subset in endpoints.subsets.iter().flatten() {
        let ports: Ports = subset.ports.iter().flatten().map(port).collect();
        for (address, is_ready) in addresses(subset) {
            // Skips host names and invalid addresses: slices of these families contain only IP addresses.
            let Ok(ip) = address.ip.parse::<IpAddr>() else { continue };
            let family = if ip.is_ipv6() { "IPv6" } else { "IPv4" };
            let group = groups.entry((family, ports.clone())).or_default();
            group.entry(ip).or_insert_with(|| endpoint(address, is_ready));
        }
    }
    let mut slices = Vec::new();
    for ((family, ports), addresses) in groups {
        let all: Vec<Endpoint> = addresses.into_values().collect();
        let chunks = all.chunks(MIRRORED_ENDPOINTS);
        slices.extend(chunks.map(|chunk| slice(endpoints, family, &ports, chunk.to_vec())));
    }
    slices
}

/// The addresses of a subset up to the bound, ready ones first, with their readiness.
fn addresses(subset: &EndpointSubset) -> impl Iterator<Item = (&EndpointAddress, bool)> {
    let ready = subset.addresses.iter().flatten().map(|address| (address, true));
    let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
    ready.chain(others).take(MIRRORED_ENDPOINTS)
}

fn port(port: &EndpointPort) -> (String, String, i32, Option<String>) {
    let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    (port.name.clone().unwrap_or_default(), protocol, port.port, port.app_protocol.clone())
}

fn endpoint(address: &EndpointAddress, is_ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(is_ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn slice(endpoints: &Endpoints, family: &str, ports: &Ports, chunk: Vec<Endpoint>) -> EndpointSlice {
    let metadata = &endpoints.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let mut labels = metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    let ports = ports.iter().map(|(name, protocol, port, app_protocol)| SlicePort {
        name: Some(name.clone()),
        protocol: Some(protocol.clone()),
        port: Some(*port),
        app_protocol: app_protocol.clone(),
    });
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: Some(chunk),
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(vec![controller_ref("v1", "Endpoints", metadata)]),
            ..ObjectMeta::default()
        },
        ports: Some(ports.collect::<Vec<_>>()).filter(|ports| !ports.is_empty()),
    }
}
