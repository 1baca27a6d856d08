//! Rules for a node's writes to its own Node. Pure; the texts are Kubernetes'.

use super::{Verdict, require};
use serde_json::Value;
use std::collections::BTreeSet;

/// Labels that a kubelet may set.
const KUBELET_LABELS: [&str; 10] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Prefixes of labels that a kubelet may set freely.
const KUBELET_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Prefix of labels that nodes cannot set, so that pods can be restricted by them.
const RESTRICTED: &str = "node-restriction.kubernetes.io";

/// Checks a Node that the node itself creates.
pub(super) fn created(node: &str, new: &Value) -> Verdict {
    require(new["spec"]["configSource"].is_null(), || {
        format!("node {node:?} is not allowed to create pods with a non-nil configSource")
    })?;
    let labels = forbidden(&new["metadata"]["labels"], &Value::Null);
    require(labels.is_empty(), || {
        format!("node {node:?} is not allowed to set the following labels: {}", labels.join(", "))
    })
}

/// Checks an update of the node's Node or its status.
pub(super) fn updated(node: &str, new: &Value, old: &Value) -> Verdict {
    let source = &new["spec"]["configSource"];
    require(source.is_null() || *source == old["spec"]["configSource"], || {
        format!("node {node:?} is not allowed to update configSource to a new non-nil configSource")
    })?;
    require(same_list(&new["spec"]["taints"], &old["spec"]["taints"]), || {
        format!("node {node:?} is not allowed to modify taints")
    })?;
    let labels = forbidden(&new["metadata"]["labels"], &old["metadata"]["labels"]);
    require(labels.is_empty(), || format!("is not allowed to modify labels: {}", labels.join(", ")))?;
    require(same_list(&new["metadata"]["ownerReferences"], &old["metadata"]["ownerReferences"]), || {
        format!("node {node:?} is not allowed to modify ownerReferences")
    })
}

/// Whether two lists are equal; an absent list is empty.
fn same_list(a: &Value, b: &Value) -> bool {
    let items = |list: &Value| list.as_array().map_or_else(Vec::new, Clone::clone);
    a == b || items(a) == items(b)
}

/// The changed labels that a node may not set, in order.
fn forbidden<'v>(new: &'v Value, old: &'v Value) -> Vec<&'v str> {
    let keys = |labels: &'v Value| labels.as_object().into_iter().flat_map(|labels| labels.keys());
    let all: BTreeSet<&str> = keys(new).chain(keys(old)).map(String::as_str).collect();
    all.into_iter().filter(|key| new[*key] != old[*key] && is_forbidden(key)).collect()
}

fn is_forbidden(label: &str) -> bool {
    let prefix = label.split_once('/').map_or("", |(prefix, _)| prefix);
    let is_in = |domain: &str| {
        prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
    let is_kubelet = KUBELET_LABELS.contains(&label) || KUBELET_PREFIXES.into_iter().any(is_in);
    is_in(RESTRICTED) || (is_kubernetes && !is_kubelet)
}
