//! The Node and Lease objects that a simulated node writes. Pure.

use crate::config::{Config, Network};
use crate::image::hash;
use crate::limits::IMAGES_REPORTED;
use crate::node::health::{self, Health};
use crate::shape::{self, NodeShape};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kstore_api::quantity::Quantity as Amount;
use std::collections::BTreeMap;

/// The namespace of node leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Name and networks of one node.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The node's name.
    pub name: String,
    /// The node's own IP address.
    pub ip: String,
    /// The node's subnet for pods.
    pub network: Network,
}

impl Identity {
    /// The own address of node `index`; `None` if the network of nodes is too small.
    pub fn address(config: &Config, index: usize) -> Option<String> {
        // By convention the first two addresses are the network itself and its gateway.
        Some(config.node_network.nth(index as u64 + 2)?.to_string())
    }

    /// The identity of the first node of a cluster, if it takes `pods` pods; `None` if the networks are too small.
    pub fn first(config: &Config, name: &str, pods: u32) -> Option<Self> {
        let prefix = Network::prefix_for(pods).filter(|prefix| *prefix >= config.pod_network.prefix)?;
        let network = Network { prefix, ..config.pod_network };
        Some(Self { name: name.to_owned(), ip: Self::address(config, 0)?, network })
    }
}

/// The Node object for registration.
pub fn node(shape: &NodeShape, identity: &Identity, health: &Health, now: Timestamp) -> Node {
    let annotations = [("volumes.kubernetes.io/controller-managed-attach-detach", "true")];
    let annotations = annotations.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter();
    let provider = shape.provider_id.clone().unwrap_or_else(|| format!("kstore://{}", identity.name));
    let images: Vec<_> = shape.images.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    Node {
        metadata: ObjectMeta {
            name: Some(identity.name.clone()),
            labels: Some(labels(shape, &identity.name)),
            annotations: Some(annotations.chain(shape.annotations.clone()).collect()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: Some(identity.network.to_string()),
            pod_cidrs: Some(vec![identity.network.to_string()]),
            provider_id: Some(provider),
            taints: Some(shape.first_taints()).filter(|taints| !taints.is_empty()),
            unschedulable: shape.is_unschedulable.then_some(true),
            ..NodeSpec::default()
        }),
        status: Some(status(shape, identity, health, &images, None, now)),
    }
}

/// The well-known labels and those of the shape.
pub fn labels(shape: &NodeShape, name: &str) -> BTreeMap<String, String> {
    let known = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", &shape.architecture),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", &shape.architecture),
    ];
    let known = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
    known.into_iter().chain(shape.labels.clone()).collect()
}

/// The status at `now`. Keeps from `previous` the conditions of other writers and the transition times of
/// unchanged conditions. `images` are full names and sizes.
pub fn status(
    shape: &NodeShape,
    identity: &Identity,
    health: &Health,
    images: &[(&str, u64)],
    previous: Option<&NodeStatus>,
    now: Timestamp,
) -> NodeStatus {
    let address =
        |type_: &str, address: &str| NodeAddress { type_: type_.to_owned(), address: address.to_owned() };
    let images = images.iter().take(IMAGES_REPORTED).map(|(name, size)| ContainerImage {
        names: Some(vec![crate::image::digest_reference(name), (*name).to_owned()]),
        size_bytes: Some(i64::try_from(*size).unwrap_or(i64::MAX)),
    });
    let images: Vec<_> = images.collect();
    NodeStatus {
        addresses: Some(vec![address("InternalIP", &identity.ip), address("Hostname", &identity.name)]),
        capacity: Some(amounts(shape, &shape.capacity, health)),
        allocatable: Some(amounts(shape, &shape.allocatable, health)),
        conditions: Some(health::conditions(health, previous, now)),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }),
        }),
        images: (!images.is_empty()).then_some(images),
        node_info: Some(node_info(shape, &identity.name, health.boots)),
        declared_features: some_list(shape.declared_features.clone()),
        ..NodeStatus::default()
    }
}

/// The amounts of a node: none of what device plugins have that are not there.
fn amounts(
    shape: &NodeShape,
    usual: &BTreeMap<String, Quantity>,
    health: &Health,
) -> BTreeMap<String, Quantity> {
    let mut amounts = usual.clone();
    for resource in shape.plugin_resources.iter().filter(|_| health.lacks_plugins) {
        if let Some(amount) = amounts.get_mut(resource) {
            *amount = Quantity("0".to_owned());
        }
    }
    amounts
}

/// The list, unless it is empty: then it is absent.
fn some_list(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

/// A status with what the creator of the Node set in its own: only what is absent there is new, and the conditions.
pub fn keeping(ours: NodeStatus, set: &NodeStatus) -> NodeStatus {
    let capacity = set.capacity.clone().or(ours.capacity);
    let is_named = |info: &&NodeSystemInfo| !info.kubelet_version.is_empty();
    let info = set.node_info.as_ref().filter(is_named);
    // A kubelet of the version that the creator states declares what this version has.
    let declared = match info {
        Some(info) => some_list(shape::declared_by(&info.kubelet_version)),
        None => ours.declared_features,
    };
    NodeStatus {
        declared_features: set.declared_features.clone().or(declared),
        allocatable: set.allocatable.clone().or_else(|| capacity.clone()),
        capacity,
        addresses: set.addresses.clone().or(ours.addresses),
        daemon_endpoints: set.daemon_endpoints.clone().or(ours.daemon_endpoints),
        images: set.images.clone().or(ours.images),
        node_info: info.cloned().or(ours.node_info),
        ..ours
    }
}

/// Whether the object differs from the node in health, size or address. Heartbeat times and images do not
/// count.
pub fn stale(ours: &NodeStatus, seen: Option<&NodeStatus>) -> bool {
    let Some(seen) = seen else { return true };
    let conditions = |status: &NodeStatus| {
        let all = status.conditions.clone().unwrap_or_default();
        health::TYPES.map(|type_| all.iter().find(|c| c.type_ == type_).map(|c| c.status.clone()))
    };
    conditions(ours) != conditions(seen)
        || !same_amounts(ours.capacity.as_ref(), seen.capacity.as_ref())
        || ours.addresses != seen.addresses
        || ours.node_info != seen.node_info
}

/// The same, and whether the texts of its conditions differ.
pub fn differs(ours: &NodeStatus, seen: Option<&NodeStatus>) -> bool {
    let texts = |status: &NodeStatus| -> Vec<Option<String>> {
        status.conditions.iter().flatten().map(|condition| condition.message.clone()).collect()
    };
    stale(ours, seen) || seen.is_some_and(|seen| texts(seen) != texts(ours))
}

/// Whether the amounts are equal regardless of notation: the server stores 1000 as `1k`.
fn same_amounts(
    ours: Option<&BTreeMap<String, Quantity>>,
    seen: Option<&BTreeMap<String, Quantity>>,
) -> bool {
    let (Some(ours), Some(seen)) = (ours, seen) else { return ours == seen };
    let equal = |ours: &Quantity, seen: &Quantity| {
        ours == seen || matches!((Amount::parse(&ours.0), Amount::parse(&seen.0)), (Ok(a), Ok(b)) if a == b)
    };
    ours.len() == seen.len()
        && ours.iter().all(|(name, amount)| seen.get(name).is_some_and(|other| equal(amount, other)))
}

/// The id of a node's boot, after it has booted anew so often.
pub fn boot_id(name: &str, boots: u32) -> String {
    id("boot", name, boots)
}

/// An id for one purpose of a node.
fn id(purpose: &str, name: &str, count: u32) -> String {
    let seed = u64::from(count) << 1;
    let (a, b) = (hash(seed, &[purpose, name]), hash(seed + 1, &[purpose, name]));
    let (first, second) = (a >> 16 & 0xFFFF, a & 0xFFFF);
    format!("{:08x}-{first:04x}-{second:04x}-{:04x}-{:012x}", a >> 32, b >> 48, b & 0xFFFF_FFFF_FFFF)
}

fn node_info(shape: &NodeShape, name: &str, boots: u32) -> NodeSystemInfo {
    NodeSystemInfo {
        architecture: shape.architecture.clone(),
        boot_id: boot_id(name, boots),
        container_runtime_version: shape.runtime_version.clone(),
        kernel_version: shape.kernel_version.clone(),
        kube_proxy_version: String::new(),
        kubelet_version: shape.kubelet_version.clone(),
        machine_id: id("machine", name, 0).replace('-', ""),
        operating_system: "linux".to_owned(),
        os_image: shape.os_image.clone(),
        system_uuid: id("system", name, 0),
        ..NodeSystemInfo::default()
    }
}

/// The lease of a node, renewed at `now` for so many seconds; its Node object, if known, owns it.
pub fn lease(name: &str, node_uid: Option<&str>, seconds: i32, now: Timestamp) -> Lease {
    let owner = node_uid.map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    });
    Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(seconds),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_in_other_notation_are_not_stale() {
        let config = Config { memory: "16384Mi".to_owned(), ..Config::default() };
        let identity = Identity::first(&config, &config.node_name(0), config.pods).unwrap();
        let (shape, health) = (NodeShape::of(&config), Health::default());
        let ours = status(&shape, &identity, &health, &[], None, Timestamp::UNIX_EPOCH);
        let shown = |name: &str, amount: &str| {
            let mut seen = ours.clone();
            seen.capacity.as_mut().unwrap().insert(name.to_owned(), Quantity(amount.to_owned()));
            stale(&ours, Some(&seen))
        };
        assert!(!shown("pods", "1k") && !shown("memory", "16Gi"));
        assert!(shown("pods", "999") && shown("memory", "16G") && shown("memory", "much"));
        assert!(shown("example.com/gpu", "1"));
    }
}
