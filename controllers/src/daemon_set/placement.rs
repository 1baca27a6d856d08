//! Eligibility of nodes for a DaemonSet: its template against a node's name, labels and taints, without
//! resources. Pure.

use crate::taint_eviction::plan::tolerates;
use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};
use std::collections::BTreeMap;

/// Eligibility of a node for a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eligibility {
    /// The node should run a pod.
    Run,
    /// The node keeps an existing pod but gets no new one: it has an untolerated `NoSchedule` taint.
    Keep,
    /// The node should run no pod.
    Leave,
}

/// Node constraints of the template of a DaemonSet.
#[derive(Clone, Debug)]
pub(crate) struct Placement<'a> {
    spec: &'a PodSpec,
    tolerations: Vec<Toleration>,
}

/// Tolerations that every pod of a DaemonSet gets: an unhealthy or unschedulable node keeps its daemons.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// A pod with host network does not wait for the node's network.
const HOST_NETWORK_TOLERATION: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The tolerations of the template plus those of every DaemonSet pod.
pub(crate) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut all = spec.tolerations.clone().unwrap_or_default();
    let is_host_network = spec.host_network == Some(true);
    let added = DAEMON_TOLERATIONS.into_iter().chain(is_host_network.then_some(HOST_NETWORK_TOLERATION));
    for (key, effect) in added {
        let added = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        // A toleration that differs only in its seconds would allow eviction, so it is replaced.
        match all.iter_mut().find(|own| is_same(own, &added)) {
            Some(own) => *own = added,
            None => all.push(added),
        }
    }
    all
}

fn is_same(a: &Toleration, b: &Toleration) -> bool {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    let parts = |t: &Toleration| [text(&t.key), text(&t.operator), text(&t.effect), text(&t.value)];
    parts(a) == parts(b)
}

impl<'a> Placement<'a> {
    /// The constraints of this pod template.
    pub(crate) fn of(spec: &'a PodSpec) -> Self {
        Self { spec, tolerations: tolerations(spec) }
    }

    /// Decides the eligibility of a node. Name, selector and required affinity must match. An untolerated
    /// `NoExecute` taint removes the pod; an untolerated `NoSchedule` taint only prevents a new one.
    pub(crate) fn evaluate(&self, node: &Node) -> Eligibility {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let wanted = self.spec.node_name.as_deref().unwrap_or_default();
        if !wanted.is_empty() && wanted != name || !self.is_matched(node, name) {
            return Eligibility::Leave;
        }
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
        let is_barred_by = |effect: &str| taints.iter().any(|t| t.effect == effect && !self.is_tolerated(t));
        if is_barred_by("NoExecute") {
            Eligibility::Leave
        } else if is_barred_by("NoSchedule") {
            Eligibility::Keep
        } else {
            Eligibility::Run
        }
    }

    fn is_tolerated(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|toleration| tolerates(toleration, taint))
    }

    fn is_matched(&self, node: &Node, name: &str) -> bool {
        let empty = BTreeMap::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
        let selector = self.spec.node_selector.iter().flatten();
        let required = self.spec.affinity.as_ref().and_then(|a| {
            a.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
        });
        selector.into_iter().all(|(key, value)| labels.get(key) == Some(value))
            && required.is_none_or(|r| r.node_selector_terms.iter().any(|term| holds(term, name, labels)))
    }
}

/// Whether all requirements of a term hold. An empty term matches no node.
fn holds(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |r: &NodeSelectorRequirement| (r.key == "metadata.name").then_some(name);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| is_met(r, labels.get(&r.key).map(String::as_str)))
        && fields.iter().all(|r| is_met(r, field(r)))
}

/// Whether a requirement holds for the actual value, if any. An unknown operator never holds.
fn is_met(requirement: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = |value: &str| values.iter().any(|v| v == value);
    let numbers = || Some((actual?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => actual.is_some_and(is_listed),
        "NotIn" => !actual.is_some_and(is_listed),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => numbers().is_some_and(|(actual, bound)| actual > bound),
        "Lt" => numbers().is_some_and(|(actual, bound)| actual < bound),
        _ => false,
    }
}
