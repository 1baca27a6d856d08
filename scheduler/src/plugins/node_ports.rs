//! The plugin NodePorts: the pod's host ports are free on the node.

use crate::event::EventKind::{NodeAdded, PodFreed};
use crate::event::{ClusterEvent, EventSet};
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::ports::any_conflict;

/// The plugin.
#[derive(Default)]
pub(crate) struct NodePorts;

impl Plugin for NodePorts {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodePorts",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) didn't have free ports for the requested pod ports"],
        events: EventSet::of(&[NodeAdded, PodFreed]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        if pod.ports.is_empty() { PreFilter::Skip } else { PreFilter::Check(()) }
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if any_conflict(&pod.ports, node.ports()) { Err(Refused::resolvable(0)) } else { Ok(()) }
    }

    /// A new node helps, and so does the removal of a pod whose port conflicts with one of this pod.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::PodFreed(freed) => any_conflict(&pod.ports, &freed.ports),
            _ => false,
        }
    }
}
