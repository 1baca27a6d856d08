//! [`NodeShape`]: what a simulated node reports about itself, apart from its name, addresses and health. Pure.

use crate::config::Config;
use crate::limits::{LEASE_DURATION_SECONDS, LEASE_INTERVAL};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::gate;
use kstore_api::quantity::Quantity as Amount;
use kstore_api::version::Minor;
use std::collections::BTreeMap;
use std::time::Duration;

/// The key of the taint that keeps pods from nodes of a real cluster unless they tolerate it, and of the label of these nodes.
pub const SIMULATED: &str = "sim.kstore.io/simulated";

/// The label that keeps the service controller from sending load to a node.
const NO_LOAD_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The annotation that keeps Cluster Autoscaler from removing a node.
const NO_SCALE_DOWN: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

const NO_SCHEDULE: &str = "NoSchedule";

/// Features of simulated kubelets that pods and their changes may need, by the names of their gates; sorted.
const FEATURES: [&str; 4] = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
];

/// The features that a kubelet of a version declares: those whose gates are on in it.
fn declared_features(minor: Minor) -> Vec<String> {
    let is_on = |name: &str| gate::find(minor, name).is_some_and(|gate| gate.is_on);
    let declares = is_on("NodeDeclaredFeatures");
    FEATURES.into_iter().filter(|name| declares && is_on(name)).map(str::to_owned).collect()
}

/// The features that a kubelet of a release declares; none of a release that is none of [`Minor::ALL`].
pub fn declared_by(kubelet_version: &str) -> Vec<String> {
    kubelet_version.parse().map(declared_features).unwrap_or_default()
}

/// The resource that counts the pods of a node.
const PODS: &str = "pods";

/// How a kubelet renews its Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// From one renewal to the next.
    pub interval: Duration,
    /// How long the Lease says that it holds.
    pub seconds: i32,
}

impl Default for LeaseTerms {
    fn default() -> Self {
        Self { interval: LEASE_INTERVAL, seconds: LEASE_DURATION_SECONDS }
    }
}

/// Labels, size and software of one node. Nodes of `--nodes` share one shape; each node of a group has its own, because labels may
/// name the node's zone.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeShape {
    /// Labels in addition to the well-known ones.
    pub labels: BTreeMap<String, String>,
    /// Annotations in addition to those that every node has.
    pub annotations: BTreeMap<String, String>,
    /// The taints with which the node registers.
    pub taints: Vec<Taint>,
    /// Further taints with which the node registers, and that it loses some time after it is ready.
    pub startup_taints: Vec<Taint>,
    /// How its kubelet renews its Lease.
    pub lease: LeaseTerms,
    /// Full names and sizes of images that the node has from the start.
    pub images: Vec<(String, u64)>,
    /// Whether the node registers as cordoned.
    pub is_unschedulable: bool,
    /// All resources.
    pub capacity: BTreeMap<String, Quantity>,
    /// The resources for pods.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The processor's architecture, such as `amd64`.
    pub architecture: String,
    /// The operating system's name.
    pub os_image: String,
    /// The kernel's version.
    pub kernel_version: String,
    /// The kubelet's version.
    pub kubelet_version: String,
    /// The container runtime and its version.
    pub runtime_version: String,
    /// The features that the kubelet declares, sorted.
    pub declared_features: Vec<String>,
    /// The resources of its device plugins.
    pub plugin_resources: Vec<String>,
    /// `spec.providerID`; `None`: `kstore://` and the node's name.
    pub provider_id: Option<String>,
}

impl NodeShape {
    /// All taints with which the node registers.
    pub fn first_taints(&self) -> Vec<Taint> {
        self.taints.iter().chain(&self.startup_taints).cloned().collect()
    }

    /// How many pods the node takes, which its subnet has addresses for.
    pub fn pods(&self) -> u32 {
        let amount = self.capacity.get(PODS).and_then(|amount| Amount::parse(&amount.0).ok());
        amount.map_or(0, |amount| u32::try_from(amount.units().max(0)).unwrap_or(u32::MAX))
    }

    /// The shape of the nodes of `--nodes`.
    pub fn of(config: &Config) -> Self {
        let pods = config.pods.to_string();
        let all = [
            ("cpu", config.cpu.as_str()),
            ("memory", &config.memory),
            ("ephemeral-storage", &config.ephemeral_storage),
            ("pods", &pods),
        ];
        let amounts: BTreeMap<_, _> =
            all.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).into();
        let shape = Self {
            labels: config.labels.clone(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            lease: LeaseTerms::default(),
            images: Vec::new(),
            is_unschedulable: false,
            allocatable: amounts.clone(),
            capacity: amounts,
            architecture: "amd64".to_owned(),
            os_image: "kstore simulated node".to_owned(),
            kernel_version: "6.12.0".to_owned(),
            kubelet_version: config.version.clone(),
            runtime_version: format!("sim://{}", env!("CARGO_PKG_VERSION")),
            declared_features: declared_features(config.minor),
            plugin_resources: Vec::new(),
            provider_id: None,
        };
        shape.for_cluster(config)
    }

    /// The shape with what all nodes of the cluster have: with [`Config::is_guarded`] a taint, labels and an annotation that keep pods of
    /// others, load balancers and autoscalers away. What a template says of the same keys wins, but it cannot remove the taint.
    #[must_use]
    pub fn for_cluster(mut self, config: &Config) -> Self {
        if !config.is_guarded {
            return self;
        }
        let yes = || "true".to_owned();
        for label in [SIMULATED, NO_LOAD_BALANCER] {
            self.labels.entry(label.to_owned()).or_insert_with(yes);
        }
        self.annotations.entry(NO_SCALE_DOWN.to_owned()).or_insert_with(yes);
        if !self.taints.iter().any(|taint| taint.key == SIMULATED && taint.effect == NO_SCHEDULE) {
            let (key, value, effect) = (SIMULATED.to_owned(), Some(yes()), NO_SCHEDULE.to_owned());
            self.taints.push(Taint { key, value, effect, ..Taint::default() });
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_declare_features_since_1_36() {
        let of = |minor| NodeShape::of(&Config { minor, ..Config::default() }).declared_features;
        for minor in Minor::ALL {
            let expected: &[&str] = if minor < Minor::V36 { &[] } else { &FEATURES };
            assert_eq!(of(minor), expected, "{minor}");
        }
        assert_eq!(declared_by("v1.37.0"), FEATURES);
        assert!(declared_by("v1.34.9").is_empty() && declared_by("v1.32.0").is_empty());
        assert!(FEATURES.is_sorted(), "the API server refuses an unsorted list");
    }

    #[test]
    fn a_guarded_node_is_tainted_and_labelled_once() {
        let config = Config { is_guarded: true, ..Config::default() };
        let shape = NodeShape::of(&config);
        assert_eq!((shape.taints.len(), shape.taints[0].key.as_str()), (1, SIMULATED));
        assert_eq!((&*shape.labels[SIMULATED], &*shape.labels[NO_LOAD_BALANCER]), ("true", "true"));
        assert_eq!(shape.annotations[NO_SCALE_DOWN], "true");
        assert_eq!(shape.clone().for_cluster(&config), shape, "twice is once");
        let mut own = shape;
        own.annotations.insert(NO_SCALE_DOWN.to_owned(), "false".to_owned());
        assert_eq!(own.for_cluster(&config).annotations[NO_SCALE_DOWN], "false", "what a template says wins");
        let free = NodeShape::of(&Config::default());
        assert!(free.taints.is_empty() && free.labels.is_empty() && free.annotations.is_empty());
    }
}
