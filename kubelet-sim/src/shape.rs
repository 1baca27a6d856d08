//! [`NodeShape`]: what a simulated node reports about itself, apart from its name, addresses and health. Pure.

use crate::config::Config;
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

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
    /// `spec.providerID`; `None`: `kstore://` and the node's name.
    pub provider_id: Option<String>,
}

impl NodeShape {
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
        Self {
            labels: config.labels.clone(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            is_unschedulable: false,
            allocatable: amounts.clone(),
            capacity: amounts,
            architecture: "amd64".to_owned(),
            os_image: "kstore simulated node".to_owned(),
            kernel_version: "6.12.0".to_owned(),
            kubelet_version: config.version.clone(),
            runtime_version: format!("sim://{}", env!("CARGO_PKG_VERSION")),
            provider_id: None,
        }
    }
}
