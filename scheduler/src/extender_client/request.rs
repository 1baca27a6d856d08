//! The bodies of requests to extenders: `ExtenderArgs` and its like of `k8s.io/kube-scheduler/extender/v1`, whose members have the names of
//! Go's fields.

use crate::action::Binding;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The question for nodes that may take a pod, or for their scores. Either the nodes or their names are there.
#[derive(Serialize)]
pub(super) struct ExtenderArgs<'a> {
    #[serde(rename = "Pod")]
    pub(super) pod: &'a RawValue,
    #[serde(rename = "Nodes")]
    pub(super) nodes: Option<NodeList<'a>>,
    #[serde(rename = "NodeNames")]
    pub(super) node_names: Option<Vec<&'a str>>,
}

/// Nodes as objects.
#[derive(Serialize)]
pub(super) struct NodeList<'a> {
    pub(super) metadata: ListMeta,
    pub(super) items: Vec<&'a RawValue>,
}

/// The metadata of a list, which has none here.
#[derive(Serialize)]
pub(super) struct ListMeta {}

/// The question for victims. Either the pods or their uids are there.
#[derive(Serialize)]
pub(super) struct ExtenderPreemptionArgs<'a> {
    #[serde(rename = "Pod")]
    pub(super) pod: &'a RawValue,
    #[serde(rename = "NodeNameToVictims")]
    pub(super) node_name_to_victims: Option<BTreeMap<&'a str, Victims<&'a RawValue>>>,
    #[serde(rename = "NodeNameToMetaVictims")]
    pub(super) node_name_to_meta_victims: Option<BTreeMap<&'a str, Victims<MetaPod<'a>>>>,
}

/// The victims on a node, each as `P`.
#[derive(Serialize)]
pub(super) struct Victims<P> {
    #[serde(rename = "Pods")]
    pub(super) pods: Vec<P>,
    #[serde(rename = "NumPDBViolations")]
    pub(super) violations: usize,
}

/// A pod by its uid.
#[derive(Serialize)]
pub(super) struct MetaPod<'a> {
    #[serde(rename = "UID")]
    pub(super) uid: &'a str,
}

/// The request to bind a pod.
#[derive(Serialize)]
pub(super) struct ExtenderBindingArgs<'a> {
    #[serde(rename = "PodName")]
    pod_name: &'a str,
    #[serde(rename = "PodNamespace")]
    pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pod_uid: &'a str,
    #[serde(rename = "Node")]
    node: &'a str,
}

impl<'a> ExtenderBindingArgs<'a> {
    /// The request for this binding.
    pub(super) fn of(binding: &'a Binding) -> Self {
        let pod = &binding.pod;
        Self {
            pod_name: pod.key.name(),
            pod_namespace: pod.key.namespace(),
            pod_uid: &pod.uid,
            node: &binding.choice.node,
        }
    }
}
