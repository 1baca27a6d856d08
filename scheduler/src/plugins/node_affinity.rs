//! The plugin NodeAffinity: the node satisfies `spec.nodeSelector` and one of the required affinity terms. The score is the sum of the
//! weights of the preferred terms that the node satisfies.

use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange};
use crate::event::{ClusterEvent, EventSet};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::score::{Candidates, scaled};
use std::borrow::Cow;

/// The reason for all nodes if the terms name nodes and contradict each other.
const CONFLICT: &str = "pod affinity terms conflict";

/// The plugin.
pub(crate) struct NodeAffinity;

impl Plugin for NodeAffinity {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeAffinity",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::Score],
        weight: 2,
        reasons: &["node(s) didn't match Pod's node affinity/selector"],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        match pod.affinity.pinned.as_deref() {
            Some([]) => PreFilter::Refuse(Cow::Borrowed(CONFLICT)),
            Some(names) => PreFilter::Narrow((), Cow::Borrowed(names)),
            None if pod.affinity.is_open() => PreFilter::Skip,
            None => PreFilter::Check(()),
        }
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if admits(pod, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// A matching node helps if it is new or did not match before, and so does another affinity.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => admits(pod, node),
            ClusterEvent::NodeChanged { old, new } => !admits(pod, old) && admits(pod, new),
            ClusterEvent::OwnChange(old) => old.affinity != pod.affinity,
            _ => false,
        }
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        if pod.affinity.preferred.is_empty() {
            return None;
        }
        let preference = |node: &NodeInfo| pod.affinity.preference(&node.name, &node.labels);
        Some(scaled(candidates.map(|node| preference(node.info()))))
    }
}

fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.affinity.admits(&node.name, &node.labels)
}
