//! [`Nominations`]: waiting pods and the nodes for which they are nominated. A nominated pod waits for the end of
//! the pods that were evicted for it; the node counts as occupied by it for pods of its priority and below.

use crate::pod::{PodInfo, Uid};
use kstore_nondet::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The nominated pods by node.
///
/// The scheduler's own nominations count at once. Later the watch shows them in the pods' status. A version of the
/// pod with an unchanged status does not end a nomination that the API does not have yet.
#[derive(Debug, Default)]
pub struct Nominations {
    pods: HashMap<Uid, Nomination>,
    nodes: HashMap<Arc<str>, BTreeMap<Uid, Arc<PodInfo>>>,
}

#[derive(Clone, Debug, Default)]
struct Nomination {
    node: Option<Arc<str>>,
    /// The node in the status of the newest known version of the pod.
    stored: Option<Arc<str>>,
}

impl Nominations {
    /// Processes a version of a waiting pod: a change of its status counts.
    pub fn observe(&mut self, pod: &Arc<PodInfo>) {
        let known = self.pods.get(&pod.uid).cloned().unwrap_or_default();
        let node = if known.stored == pod.nominated_node { known.node } else { pod.nominated_node.clone() };
        self.nominate(pod, node);
    }

    /// Nominates the pod for a node, or for none.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: Option<Arc<str>>) {
        self.remove(&pod.uid);
        if let Some(node) = &node {
            let there = self.nodes.entry(Arc::clone(node)).or_default();
            there.insert(Arc::clone(&pod.uid), Arc::clone(pod));
        }
        if node.is_some() || pod.nominated_node.is_some() {
            let nomination = Nomination { node, stored: pod.nominated_node.clone() };
            self.pods.insert(Arc::clone(&pod.uid), nomination);
        }
    }

    /// Forgets the pod and returns the node for which it was nominated.
    pub fn remove(&mut self, uid: &Uid) -> Option<Arc<str>> {
        let node = self.pods.remove(uid)?.node?;
        if let Some(there) = self.nodes.get_mut(&node) {
            there.remove(uid);
            if there.is_empty() {
                self.nodes.remove(&node);
            }
        }
        Some(node)
    }

    /// The node for which the pod is nominated.
    pub fn node_of(&self, uid: &Uid) -> Option<&Arc<str>> {
        self.pods.get(uid)?.node.as_ref()
    }

    /// The pods that are nominated for the node, by uid.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.nodes.get(node).into_iter().flat_map(BTreeMap::values)
    }

    /// The pods that are nominated for the node and go before `pod`: others of its priority or above.
    pub fn ahead_of(&self, pod: &PodInfo, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority >= pod.priority && other.uid != pod.uid)
    }

    /// The pods that are nominated for the node and have a lower priority than `pod`.
    pub fn below(&self, pod: &PodInfo, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority < pod.priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_pod, with};

    #[test]
    fn a_nomination_counts_at_once_and_ends_with_a_change_of_the_status() {
        let mut nominations = Nominations::default();
        let pod = cpu_pod("p", "1");
        let stored = |node: Option<&str>| with(&pod, |pod| pod.nominated_node = node.map(Into::into));
        let node = |nominations: &Nominations| nominations.node_of(&pod.uid).map(ToString::to_string);
        nominations.observe(&pod);
        assert_eq!(node(&nominations), None);
        nominations.nominate(&pod, Some("n1".into()));
        nominations.observe(&pod);
        assert_eq!(node(&nominations).as_deref(), Some("n1"), "the API does not have it yet");
        nominations.observe(&stored(Some("n1")));
        nominations.nominate(&stored(Some("n1")), Some("n2".into()));
        nominations.observe(&stored(Some("n1")));
        assert_eq!(node(&nominations).as_deref(), Some("n2"));
        assert_eq!((nominations.on("n1").count(), nominations.on("n2").count()), (0, 1));
        nominations.observe(&stored(Some("n2")));
        nominations.observe(&stored(None));
        assert_eq!((node(&nominations), nominations.on("n2").count()), (None, 0), "another client ended it");
        nominations.observe(&stored(Some("n3")));
        assert_eq!(node(&nominations).as_deref(), Some("n3"), "the nomination of a scheduler before");
        assert_eq!(nominations.remove(&pod.uid).as_deref(), Some("n3"));
    }

    #[test]
    fn nominated_pods_of_the_same_priority_go_first_and_lower_ones_do_not() {
        let mut nominations = Nominations::default();
        for priority in 1..4 {
            let pod = with(&cpu_pod(&format!("p{priority}"), "1"), |pod| pod.priority = priority);
            nominations.nominate(&pod, Some("n".into()));
        }
        let pod = with(&cpu_pod("p2", "1"), |pod| pod.priority = 2);
        let other = with(&cpu_pod("q", "1"), |pod| pod.priority = 2);
        let names = |pods: Vec<&Arc<PodInfo>>| pods.iter().map(|pod| pod.uid.to_string()).collect::<Vec<_>>();
        assert_eq!(names(nominations.ahead_of(&pod, "n").collect()), ["p3"]);
        assert_eq!(names(nominations.ahead_of(&other, "n").collect()), ["p2", "p3"]);
        assert_eq!(names(nominations.below(&other, "n").collect()), ["p1"]);
        assert_eq!(nominations.ahead_of(&other, "elsewhere").count(), 0);
    }
}
