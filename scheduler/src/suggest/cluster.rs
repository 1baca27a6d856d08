//! Changes around the pod: of a node, one more node, and fewer other pods.

use super::{ChangedPart, Search};
use crate::limits::SUGGESTED_REMOVALS;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::taint::{Effect, tolerated};
use crate::verdict::{NodeVerdict, PlacementTable};
use std::sync::Arc;

/// Nodes that are changed, copied or relieved of pods.
const NEAREST: usize = 4;
/// The label with a node's name.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The name of a node that does not exist.
const NEW_NODE: &str = "(new node)";

/// Tries changes of the nearest nodes, then one more node.
pub(super) fn try_nodes(search: &mut Search<'_>, pod: &PodInfo, table: &PlacementTable) {
    for verdict in table.nodes.iter().filter(|verdict| verdict.refusals.len() == 1).take(NEAREST) {
        let Some(node) = search.cluster.node(&verdict.node).cloned() else { continue };
        let Some((changed, change)) = changed_node(pod, &node, verdict) else { continue };
        search.cluster.set_node(Arc::new(changed));
        let found = search.place(pod);
        search.cluster.set_node(Arc::new(node));
        search.note(ChangedPart::Node, change, found);
    }
    for verdict in table.nodes.iter().take(NEAREST) {
        let Some(node) = search.cluster.node(&verdict.node).cloned() else { continue };
        let mut copy = NodeInfo { name: NEW_NODE.into(), uid: NEW_NODE.to_owned(), ..node };
        copy.labels.insert(HOSTNAME.to_owned(), NEW_NODE.to_owned());
        search.cluster.set_node(Arc::new(copy));
        let found = search.place(pod);
        search.cluster.remove_node(NEW_NODE);
        if search.note(ChangedPart::Node, format!("one more node like {}", verdict.node), found) {
            break;
        }
    }
}

/// The node without what keeps the pod away, and the change in words.
fn changed_node(pod: &PodInfo, node: &NodeInfo, verdict: &NodeVerdict) -> Option<(NodeInfo, String)> {
    let name = &node.name;
    match verdict.refusals[0].plugin {
        "NodeUnschedulable" => {
            Some((NodeInfo { unschedulable: false, ..node.clone() }, format!("uncordon node {name}")))
        }
        "TaintToleration" => {
            let keeps = |taint: &&crate::taint::Taint| {
                taint.effect == Effect::PreferNoSchedule || tolerated(taint, &pod.tolerations)
            };
            let taints = node.taints.iter().filter(keeps).cloned().collect();
            let removed: Vec<_> = node.taints.iter().filter(|taint| !keeps(taint)).collect();
            let keys: Vec<_> =
                removed.iter().map(|taint| format!("{}:{:?}", taint.key, taint.effect)).collect();
            let change = format!("remove {} from node {name}", keys.join(" and "));
            Some((NodeInfo { taints, ..node.clone() }, change))
        }
        "NodeAffinity" => {
            let mut changed = node.clone();
            let selector = pod.affinity.selector.iter();
            let lacking = selector.filter(|(key, value)| node.labels.get(*key) != Some(*value));
            let lacking: Vec<_> = lacking.map(|(key, value)| (key.clone(), value.clone())).collect();
            if lacking.is_empty() {
                return None;
            }
            let words: Vec<_> = lacking.iter().map(|(key, value)| format!("{key}={value}")).collect();
            changed.labels.extend(lacking);
            Some((changed, format!("label node {name} with {}", words.join(" and "))))
        }
        _ => None,
    }
}

/// Tries the removal of one pod from each of the nearest nodes, then of several.
pub(super) fn try_removals(search: &mut Search<'_>, pod: &PodInfo, table: &PlacementTable) {
    let is_relievable = |verdict: &&NodeVerdict| {
        !verdict.refusals.is_empty() && verdict.refusals.iter().all(|refusal| refusal.is_resolvable)
    };
    for verdict in table.nodes.iter().filter(is_relievable).take(NEAREST) {
        let mut pods = search.cluster.pods_on(&verdict.node);
        let size = |pod: &PodInfo| (pod.requests.milli_cpu, pod.requests.memory);
        pods.sort_by(|a, b| (a.priority, size(a), &a.key).cmp(&(b.priority, size(b), &b.key)));
        let single = pods.iter().find(|other| helps(search, pod, std::slice::from_ref(*other))).cloned();
        let removed = match single {
            Some(one) => vec![one],
            None => {
                let fewest = (2..=SUGGESTED_REMOVALS.min(pods.len())).find(|count| {
                    // The largest of the least important make room with the fewest.
                    helps(search, pod, &largest(&pods, *count))
                });
                let Some(count) = fewest else { continue };
                largest(&pods, count)
            }
        };
        let names: Vec<_> =
            removed.iter().map(|pod| format!("{} (priority {})", pod.key, pod.priority)).collect();
        let words = if removed.len() == 1 { "pod" } else { "pods" };
        let change = format!("remove {} {words} from {}: {}", removed.len(), verdict.node, names.join(", "));
        if search.note(ChangedPart::OtherPods, change, Some(Arc::clone(&verdict.node))) {
            break;
        }
    }
}

/// This number of pods: the least important first, and of these the largest.
fn largest(pods: &[Arc<PodInfo>], count: usize) -> Vec<Arc<PodInfo>> {
    let mut pods = pods.to_vec();
    pods.sort_by(|a, b| {
        let size = |pod: &PodInfo| (pod.requests.milli_cpu, pod.requests.memory);
        (a.priority, size(b), &a.key).cmp(&(b.priority, size(a), &b.key))
    });
    pods.truncate(count);
    pods
}

/// Whether the pod has a node without these pods.
fn helps(search: &mut Search<'_>, pod: &PodInfo, removed: &[Arc<PodInfo>]) -> bool {
    let gone: Vec<_> = removed.iter().filter_map(|other| search.cluster.remove_pod(&other.uid)).collect();
    let found = search.place(pod);
    gone.into_iter().for_each(|other| search.cluster.add_pod(other));
    found.is_some()
}
