//! Consequences of a node's health for the node and its pods. Pure.
//!
//! A node is alive while its heartbeat (the Ready condition's or its Lease's) changes *as seen by this
//! clock*; the times in it are never compared with the local clock. Each run makes one kind of write to the
//! node: first conditions, then, when the caches show them, taints.

use super::zone::{Limiter, Zones};
use crate::action::{Action, PatchKind, Plan, Target};
use crate::config::NodeMonitorConfig;
use crate::resource::NODES;
use crate::view::{Pod, elapsed, seconds, subject};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use kstore_informer::Reference;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Condition types that become Unknown when a kubelet is silent.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Conditions that become NoSchedule taints, with their status.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Remembered health of a node between runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    heartbeat: Option<Timestamp>,
    renewed: Option<Timestamp>,
    /// When a heartbeat last changed, by the local clock.
    changed: Timestamp,
    /// Ready status at the last run.
    ready: Readiness,
}

/// Status of the Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// `True`.
    Ready,
    /// `False`.
    NotReady,
    /// `Unknown`, or never reported.
    Unknown,
}

/// The Ready status of a node.
pub(crate) fn readiness(node: &Node) -> Readiness {
    match condition(node, "Ready").map(|c| c.status.as_str()) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    }
}

impl Health {
    /// Updates the health from a node and its Lease.
    pub(crate) fn observe(
        before: Option<Self>,
        node: &Node,
        renewed: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let heartbeat = condition(node, "Ready").and_then(|c| c.last_heartbeat_time.as_ref()).map(|t| t.0);
        let fresh = Self { heartbeat, renewed, changed: now, ready: readiness(node) };
        match before {
            Some(old) if old.heartbeat == heartbeat && old.renewed == renewed => old,
            // The controller's own Unknown keeps the heartbeat time, so a change always comes from the node.
            Some(old) => Self { ready: old.ready, ..fresh },
            None => fresh,
        }
    }

    /// Remembers the readiness that this run has handled.
    pub(crate) fn acted_on(&mut self, node: &Node) {
        self.ready = readiness(node);
    }
}

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The node.
    pub node: &'a Node,
    /// The node's remembered health.
    pub health: &'a Health,
    /// The node's pods. May be empty while the node is ready.
    pub pods: &'a [Arc<Pod>],
    /// The state of all zones. Used only while the node is not ready.
    pub zones: &'a Zones,
}

/// Plans writes to the node, and an independent list for each of its pods, so that a changed pod delays
/// neither other pods nor the taints. `limiter` decides when another node of the zone may be evicted.
pub(crate) fn plan(
    seen: Observed<'_>,
    patience: NodeMonitorConfig,
    limiter: &mut Limiter,
    now: Timestamp,
) -> Plan {
    let node = seen.node;
    let mut plan = Plan::nothing();
    let silence = elapsed(seen.health.changed, now);
    let grace = if condition(node, "Ready").is_some() { patience.grace } else { patience.startup };
    if let Some(left) = grace.checked_sub(silence).filter(|l| !l.is_zero()) {
        plan.wake_in(left);
    } else if let Some(lost) = lost(node, now) {
        plan.actions.push(lost);
        plan.actions.push(not_ready_event(node));
        return plan;
    }
    let ready = readiness(node);
    if ready != Readiness::Ready {
        plan.wake_in(patience.recheck);
        let turned = seen.health.ready == Readiness::Ready;
        if turned && ready == Readiness::NotReady {
            plan.actions.push(not_ready_event(node));
        }
        if turned || ready == Readiness::Unknown && condition(node, "Ready").is_some() {
            plan.independent.extend(seen.pods.iter().filter_map(|pod| mark_not_ready(pod, now)));
        }
    }
    let have = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let mut want = schedule_taints(node, &have, now);
    if let Some(wait) = execute_taint(seen, ready, &have, &mut want, limiter, now) {
        plan.wake_in(wait);
    }
    if want != have {
        plan.actions.push(set_taints(node, &want));
    }
    plan
}

fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    node.status.iter().flat_map(|s| s.conditions.iter().flatten()).find(|c| c.type_ == type_)
}

/// The patch that sets the conditions of a silent node to Unknown; `None` if they already are.
fn lost(node: &Node, now: Timestamp) -> Option<Action> {
    let mut conditions = node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let before = conditions.clone();
    for type_ in REPORTED {
        let unknown = |heartbeat, reason: &str, message: &str| NodeCondition {
            type_: type_.into(),
            status: "Unknown".into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_heartbeat_time: heartbeat,
            last_transition_time: Some(seconds(now)),
        };
        match conditions.iter_mut().find(|c| c.type_ == type_) {
            Some(c) if c.status == "Unknown" => {}
            Some(c) => {
                let heartbeat = c.last_heartbeat_time.take();
                *c = unknown(heartbeat, "NodeStatusUnknown", "Kubelet stopped posting node status.");
            }
            None => {
                let created = node.metadata.creation_timestamp.clone();
                conditions.push(unknown(
                    created,
                    "NodeStatusNeverUpdated",
                    "Kubelet never posted node status.",
                ));
            }
        }
    }
    let patch = json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    (conditions != before).then(|| Action::Patch {
        target: target(node),
        status: true,
        kind: PatchKind::Merge,
        patch,
    })
}

/// NoSchedule taints follow the conditions at once. Taints with other keys and effects stay.
fn schedule_taints(node: &Node, have: &[Taint], now: Timestamp) -> Vec<Taint> {
    let mut wanted: Vec<&str> = CONDITION_TAINTS
        .iter()
        .filter(|(type_, status, _)| condition(node, type_).is_some_and(|c| c.status == *status))
        .map(|(_, _, key)| *key)
        .collect();
    if node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false) {
        wanted.push(UNSCHEDULABLE);
    }
    let ours = |t: &Taint| {
        t.effect == "NoSchedule"
            && (t.key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, key)| t.key == *key))
    };
    // A node that has not reported yet keeps the taints of its registration.
    let silent = condition(node, "Ready").is_none();
    let keep = |t: &Taint| !ours(t) || wanted.contains(&t.key.as_str()) || silent && t.key == NOT_READY;
    let mut result: Vec<Taint> = have.iter().filter(|t| keep(t)).cloned().collect();
    for key in wanted {
        if !result.iter().any(|t| t.key == key && t.effect == "NoSchedule") {
            result.push(taint(key, "NoSchedule", now));
        }
    }
    result
}

/// The NoExecute taint. It changes its key and disappears at once; it is added only at the zone's rate.
/// Returns the wait for that.
fn execute_taint(
    seen: Observed<'_>,
    ready: Readiness,
    have: &[Taint],
    want: &mut Vec<Taint>,
    limiter: &mut Limiter,
    now: Timestamp,
) -> Option<Duration> {
    let ours = |t: &Taint| t.effect == "NoExecute" && (t.key == NOT_READY || t.key == UNREACHABLE);
    let key = match ready {
        Readiness::Ready => None,
        _ if condition(seen.node, "Ready").is_none() => return None,
        _ if seen.zones.all_down() => None,
        Readiness::NotReady => Some(NOT_READY),
        Readiness::Unknown => Some(UNREACHABLE),
    };
    let Some(key) = key else {
        want.retain(|t| !ours(t));
        return None;
    };
    if want.iter().any(|t| ours(t) && t.key == key) {
        return None;
    }
    let other = have.iter().find(|t| ours(t));
    let since = match other {
        // The toleration time of pods continues from the old taint.
        Some(other) => other.time_added.clone(),
        None => match limiter.take(seen.zones.rate_of(seen.node), now) {
            Ok(()) => None,
            Err(wait) => return wait,
        },
    };
    want.retain(|t| !ours(t));
    let mut fresh = taint(key, "NoExecute", now);
    fresh.time_added = since.or(fresh.time_added);
    want.push(fresh);
    None
}

fn taint(key: &str, effect: &str, now: Timestamp) -> Taint {
    Taint { key: key.into(), effect: effect.into(), value: None, time_added: Some(seconds(now)) }
}

fn set_taints(node: &Node, taints: &[Taint]) -> Action {
    let taints = if taints.is_empty() { serde_json::Value::Null } else { json!(taints) };
    let patch = json!({
        "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
        "spec": {"taints": taints},
    });
    Action::Patch { target: target(node), status: false, kind: PatchKind::Merge, patch }
}

/// Sets the Ready condition of a pod to false if its node is not ready, regardless of its containers.
fn mark_not_ready(pod: &Pod, now: Timestamp) -> Option<Vec<Action>> {
    let mut conditions = pod.status.conditions.clone();
    let ready = conditions.iter_mut().find(|c| c.type_ == "Ready" && c.status == "True")?;
    ready.status = "False".into();
    ready.last_transition_time = Some(seconds(now));
    let patch = json!({
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    Some(vec![
        Action::warning(pod.subject(), "NodeNotReady", "Node is not ready".into()),
        Action::Patch { target: pod.target(), status: true, kind: PatchKind::Merge, patch },
    ])
}

fn target(node: &Node) -> Target {
    Target {
        resource: NODES,
        namespace: String::new(),
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    }
}

fn about(node: &Node) -> Reference {
    subject("v1", "Node", &node.metadata)
}

fn not_ready_event(node: &Node) -> Action {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Action::normal(about(node), "NodeNotReady", format!("Node {name} status is now: NodeNotReady"))
}

/// The event that the controller has registered a node.
pub(crate) fn registered(node: &Node) -> Action {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Node {name} event: Registered Node {name} in Controller");
    Action::normal(about(node), "RegisteredNode", message)
}

/// The event that a node was removed.
pub(crate) fn removed(name: &str, uid: &str) -> Action {
    let about = Reference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: name.into(),
        uid: uid.into(),
        ..Reference::default()
    };
    Action::normal(about, "RemovingNode", format!("Node {name} event: Removing Node {name} from Controller"))
}
