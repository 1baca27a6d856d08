//! Pods that no other component will delete. Pure.

use crate::action::{Action, Plan, Propagation};
use crate::disruption_target;
use crate::limits::{NODE_QUARANTINE, SWEEP_INTERVAL, TERMINATED_PODS};
use crate::view::{Pod, elapsed};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// When each missing node was first found missing.
pub(crate) type Missing = BTreeMap<String, Timestamp>;

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// All pods.
    pub pods: &'a [Arc<Pod>],
    /// All nodes, by name.
    pub nodes: &'a BTreeMap<&'a str, &'a Node>,
}

/// The forced deletions, as independent lists per pod, and the delay until the next sweep. `missing`
/// remembers since when nodes are missing.
///
/// Deleted pods are: terminated pods above the limit, oldest first (evicted ones before others); pods of
/// nodes that have been missing for long enough; terminating pods that were never scheduled; terminating pods
/// on a node that is not ready and has the out-of-service taint.
pub(crate) fn plan(seen: Observed<'_>, missing: &mut Missing, now: Timestamp) -> Plan {
    let mut removals = excess(seen.pods, now);
    record_missing(seen, missing, now);
    let mut wake: Option<Duration> = None;
    for pod in seen.pods {
        let node = pod.spec.node_name.as_str();
        if node.is_empty() {
            if pod.terminating() {
                removals.push(remove(pod, None, now));
            }
        } else if let Some(since) = missing.get(node) {
            let left = NODE_QUARANTINE.saturating_sub(elapsed(*since, now));
            if left.is_zero() {
                removals.push(remove(pod, Some("PodGC: node no longer exists"), now));
            } else {
                wake = Some(wake.map_or(left, |w| w.min(left)));
            }
        } else if pod.metadata.is_deleting() && seen.nodes.get(node).is_some_and(|n| is_out_of_service(n)) {
            removals.push(remove(pod, None, now));
        }
    }
    let wake = wake.map(|w| w.max(Duration::from_millis(1)).min(SWEEP_INTERVAL * 2));
    Plan { independent: removals, wake, ..Plan::nothing() }
}

fn excess(pods: &[Arc<Pod>], now: Timestamp) -> Vec<Vec<Action>> {
    let mut ended: Vec<&Arc<Pod>> =
        pods.iter().filter(|p| p.status.phase.is_terminal() && !p.metadata.is_deleting()).collect();
    let excess = ended.len().saturating_sub(TERMINATED_PODS);
    if excess == 0 {
        return vec![];
    }
    ended.sort_by(|a, b| {
        let age = |p: &Pod| (p.metadata.creation_timestamp.as_ref().map(|t| t.0), p.metadata.name.clone());
        age(a).cmp(&age(b))
    });
    ended.into_iter().take(excess).map(|p| remove(p, None, now)).collect()
}

fn record_missing(seen: Observed<'_>, missing: &mut Missing, now: Timestamp) {
    missing.retain(|node, _| !seen.nodes.contains_key(node.as_str()));
    let mut used: Vec<&str> = vec![];
    for pod in seen.pods {
        let node = pod.spec.node_name.as_str();
        if !node.is_empty() && !seen.nodes.contains_key(node) {
            missing.entry(node.to_owned()).or_insert(now);
            used.push(node);
        }
    }
    used.sort_unstable();
    missing.retain(|node, _| used.binary_search(&node.as_str()).is_ok());
}

/// Whether a node is not ready and has the out-of-service taint, so that its pods will not run again.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    let ready = node
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let tainted = |t: &Taint| t.key == OUT_OF_SERVICE;
    !ready && node.spec.as_ref().and_then(|s| s.taints.as_ref()).is_some_and(|t| t.iter().any(tainted))
}

/// Marks the pod as failed, so that controllers can count it, then deletes it without grace.
fn remove(pod: &Pod, why: Option<&str>, now: Timestamp) -> Vec<Action> {
    let mut actions = vec![];
    if !pod.status.phase.is_terminal() {
        let why = why.map(|message| ("DeletionByPodGC", message));
        actions.push(disruption_target::mark(pod, disruption_target::Phase::Failed, why, now));
    }
    actions.push(Action::Delete { target: pod.target(), propagation: Propagation::Default, force: true });
    actions
}
