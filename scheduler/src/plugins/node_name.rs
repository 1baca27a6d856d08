//! The plugin NodeName: a pod that names its node runs there or not at all. Such a pod normally bypasses the
//! scheduler.

use crate::event::EventKind::NodeAdded;
use crate::event::{ClusterEvent, EventSet};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;

/// The plugin.
#[derive(Default)]
pub(crate) struct NodeName;

impl Plugin for NodeName {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeName",
        points: &[ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) didn't match the requested node name"],
        events: EventSet::of(&[NodeAdded]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        if pod.node_name.is_none() { PreFilter::Skip } else { PreFilter::Check(()) }
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if admits(pod, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// Only a new node of that name helps.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::NodeAdded(node, _) if admits(pod, node))
    }
}

fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.node_name.as_ref().is_none_or(|name| *name == node.name)
}
