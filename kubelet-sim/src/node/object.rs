//! The Node and Lease objects that a simulated node writes. Pure.

use crate::config::{Config, Network};
use crate::image::hash;
use crate::limits::{IMAGES_REPORTED, LEASE_DURATION_SECONDS};
use crate::time::api_time;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec,
    NodeStatus, NodeSystemInfo,
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
    /// The identity of node `index`; `None` if the networks are too small.
    pub fn new(config: &Config, index: usize) -> Option<Self> {
        // By convention the first two addresses are the network itself and its gateway.
        let ip = config.node_network.nth(index as u64 + 2)?.to_string();
        let network = config.pod_network.slice(index, config.pods)?;
        Some(Self { name: config.node_name(index), ip, network })
    }
}

/// The Node object for registration. It is ready at once, because nothing has to start first.
pub fn node(config: &Config, identity: &Identity, now: Timestamp) -> Node {
    let annotations = [("volumes.kubernetes.io/controller-managed-attach-detach", "true")];
    Node {
        metadata: ObjectMeta {
            name: Some(identity.name.clone()),
            labels: Some(labels(config, &identity.name)),
            annotations: Some(annotations.map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: Some(identity.network.to_string()),
            pod_cidrs: Some(vec![identity.network.to_string()]),
            provider_id: Some(format!("kstore://{}", identity.name)),
            ..NodeSpec::default()
        }),
        status: Some(status(config, identity, &[], None, now)),
    }
}

/// The well-known labels and the configured ones.
pub fn labels(config: &Config, name: &str) -> BTreeMap<String, String> {
    let known = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", "amd64"),
    ];
    let known = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
    known.into_iter().chain(config.labels.clone()).collect()
}

/// The status at `now`. Keeps from `previous` the conditions of other writers and the transition times of
/// unchanged conditions. `images` are full names and sizes.
pub fn status(
    config: &Config,
    identity: &Identity,
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
        capacity: Some(resources(config)),
        allocatable: Some(resources(config)),
        conditions: Some(conditions(previous, now)),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: 10250 }),
        }),
        images: (!images.is_empty()).then_some(images),
        node_info: Some(node_info(config, &identity.name)),
        ..NodeStatus::default()
    }
}

/// The capacity of a node, all of which is for pods.
pub fn resources(config: &Config) -> BTreeMap<String, Quantity> {
    let pods = config.pods.to_string();
    let all = [
        ("cpu", config.cpu.as_str()),
        ("memory", &config.memory),
        ("ephemeral-storage", &config.ephemeral_storage),
        ("pods", &pods),
    ];
    all.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into()
}

/// Type, status, reason and message of the conditions of a healthy node.
const HEALTHY: [(&str, &str, &str, &str); 4] = [
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

fn conditions(previous: Option<&NodeStatus>, now: Timestamp) -> Vec<NodeCondition> {
    let known = previous.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let foreign = known.iter().filter(|c| HEALTHY.iter().all(|(type_, ..)| *type_ != c.type_)).cloned();
    let own = HEALTHY.iter().map(|(type_, status, reason, message)| {
        let before = known.iter().find(|c| c.type_ == *type_ && c.status == *status);
        NodeCondition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some((*message).to_owned()),
            last_heartbeat_time: Some(api_time(now)),
            last_transition_time: before
                .and_then(|c| c.last_transition_time.clone())
                .or_else(|| Some(api_time(now))),
        }
    });
    foreign.chain(own).collect()
}

/// Whether the object differs from the node in health, size or address. Heartbeat times and images do not
/// count.
pub fn stale(ours: &NodeStatus, seen: Option<&NodeStatus>) -> bool {
    let Some(seen) = seen else { return true };
    let conditions = |status: &NodeStatus| {
        let all = status.conditions.clone().unwrap_or_default();
        HEALTHY.map(|(type_, ..)| all.iter().find(|c| c.type_ == type_).map(|c| c.status.clone()))
    };
    conditions(ours) != conditions(seen)
        || !same_amounts(ours.capacity.as_ref(), seen.capacity.as_ref())
        || ours.addresses != seen.addresses
        || ours.node_info != seen.node_info
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

fn node_info(config: &Config, name: &str) -> NodeSystemInfo {
    let id = |purpose: &str| {
        let (a, b) = (hash(0, &[purpose, name]), hash(1, &[purpose, name]));
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            a >> 16 & 0xFFFF,
            a & 0xFFFF,
            b >> 48,
            b & 0xFFFF_FFFF_FFFF
        )
    };
    NodeSystemInfo {
        architecture: "amd64".to_owned(),
        boot_id: id("boot"),
        container_runtime_version: format!("sim://{}", env!("CARGO_PKG_VERSION")),
        kernel_version: "6.12.0".to_owned(),
        kube_proxy_version: String::new(),
        kubelet_version: config.version.clone(),
        machine_id: id("machine").replace('-', ""),
        operating_system: "linux".to_owned(),
        os_image: "kstore simulated node".to_owned(),
        system_uuid: id("system"),
        ..NodeSystemInfo::default()
    }
}

/// The lease of a node, renewed at `now`; its Node object, if known, owns it.
pub fn lease(name: &str, node_uid: Option<&str>, now: Timestamp) -> Lease {
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
            lease_duration_seconds: Some(LEASE_DURATION_SECONDS),
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
        let identity = Identity::new(&config, 0).unwrap();
        let ours = status(&config, &identity, &[], None, Timestamp::UNIX_EPOCH);
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
