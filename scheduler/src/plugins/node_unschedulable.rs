//! The plugin NodeUnschedulable: a cordoned node takes only pods that tolerate the cordon's taint.

use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange};
use crate::event::{ClusterEvent, EventSet};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::taint::{Effect, Taint, tolerated};

const CORDON_KEY: &str = "node.kubernetes.io/unschedulable";

/// The plugin.
#[derive(Default)]
pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeUnschedulable",
        points: &[ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) were unschedulable"],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange]),
    };

    fn prefilter<'a>(&self, _pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        PreFilter::Check(())
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if admits(pod, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// A node that is not cordoned helps if it is new or was cordoned, and so do other tolerations.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node, _) => admits(pod, node),
            ClusterEvent::NodeChanged { old, new, .. } => !admits(pod, old) && admits(pod, new),
            ClusterEvent::OwnChange(old) => old.tolerations != pod.tolerations,
            _ => false,
        }
    }
}

fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    if !node.unschedulable {
        return true;
    }
    let cordon = Taint { key: CORDON_KEY.to_owned(), value: String::new(), effect: Effect::NoSchedule };
    tolerated(&cordon, &pod.tolerations)
}
