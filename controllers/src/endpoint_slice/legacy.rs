//! The Endpoints object of a Service, for clients that do not read EndpointSlices. Pure.

use super::endpoints::{Port, address, families, hostname, ports, publishes_all, reference};
use super::plan::is_managed;
use crate::action::{Action, Propagation, Target};
use crate::limits::ENDPOINTS_ADDRESSES;
use crate::object::Object;
use crate::resource::ENDPOINTS;
use crate::view::Pod;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The update of a Service's Endpoints object, if it is outdated.
pub(crate) fn plan(service: &Service, pods: &[Arc<Pod>], have: Option<&Endpoints>) -> Option<Action> {
    let spec = service.spec.as_ref().filter(|_| is_managed(service))?;
    let family = families(spec).swap_remove(0);
    let mut groups: BTreeMap<Vec<Port>, EndpointSubset> = BTreeMap::new();
    let mut left = ENDPOINTS_ADDRESSES;
    let mut truncated = false;
    for pod in pods {
        let leaves = pod.metadata.is_deleting() && !publishes_all(spec);
        let Some(ip) = address(pod, &family).filter(|_| !leaves && !pod.status.phase.is_terminal()) else {
            continue;
        };
        if left == 0 {
            truncated = true;
            break;
        }
        left -= 1;
        let address = EndpointAddress {
            ip: ip.to_owned(),
            hostname: hostname(service, pod),
            node_name: Some(pod.spec.node_name.clone()).filter(|n| !n.is_empty()),
            target_ref: Some(reference(pod)),
        };
        let ports = ports(spec, pod);
        let subset = groups.entry(ports).or_default();
        let list = if publishes_all(spec) || pod.ready() {
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.get_or_insert_default().push(address);
    }
    let subsets: Vec<EndpointSubset> =
        groups.into_iter().map(|(ports, subset)| with_ports(subset, &ports)).collect();
    write(service, Some(subsets).filter(|s| !s.is_empty()), truncated, have)
}

fn with_ports(mut subset: EndpointSubset, ports: &[Port]) -> EndpointSubset {
    for list in [&mut subset.addresses, &mut subset.not_ready_addresses].into_iter().flatten() {
        list.sort_by(|a, b| a.ip.cmp(&b.ip));
    }
    let ports = ports.iter().map(|port| EndpointPort {
        name: Some(port.name.clone()).filter(|n| !n.is_empty()),
        protocol: Some(port.protocol.clone()),
        port: port.number,
        app_protocol: port.app_protocol.clone(),
    });
    subset.ports = Some(ports.collect::<Vec<_>>()).filter(|p| !p.is_empty());
    subset
}

fn write(
    service: &Service,
    subsets: Option<Vec<EndpointSubset>>,
    truncated: bool,
    have: Option<&Endpoints>,
) -> Option<Action> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    if service.spec.as_ref().is_some_and(|s| s.cluster_ip.as_deref() == Some("None")) {
        labels.insert("service.kubernetes.io/headless".into(), String::new());
    }
    let mut annotations = have.and_then(|h| h.metadata.annotations.clone()).unwrap_or_default();
    if truncated {
        annotations.insert(OVER_CAPACITY.into(), "truncated".into());
    } else {
        annotations.remove(OVER_CAPACITY);
    }
    let annotations = Some(annotations).filter(|a| !a.is_empty());
    let Some(have) = have else {
        let metadata = ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            annotations,
            ..ObjectMeta::default()
        };
        return Some(Action::Create(Object::of(&Endpoints { metadata, subsets })));
    };
    let metadata = ObjectMeta { labels: Some(labels), annotations, ..have.metadata.clone() };
    let want = Endpoints { metadata, subsets };
    (want != *have).then(|| Action::Update(Object::of(&want)))
}

/// Deletes the Endpoints object of a deleted Service, if this controller manages it.
pub(crate) fn orphaned(have: &Endpoints) -> Option<Action> {
    let ours = have.metadata.labels.as_ref().and_then(|l| l.get(MANAGED_BY)).is_some_and(|m| m == MANAGER);
    ours.then(|| Action::Delete {
        target: Target {
            resource: ENDPOINTS,
            namespace: have.metadata.namespace.clone().unwrap_or_default(),
            name: have.metadata.name.clone().unwrap_or_default(),
            uid: have.metadata.uid.clone().unwrap_or_default(),
            resource_version: None,
        },
        propagation: Propagation::Default,
        force: false,
    })
}
