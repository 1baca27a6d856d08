//! The plugin NodeDeclaredFeatures: a pod that uses a feature of kubelets runs only on a node that declares it. Of the features that
//! Kubernetes' framework knows, only the restart of all containers is needed by new pods; the others are needed by resizes.

use crate::event::EventKind::{NodeAdded, NodeChanged};
use crate::event::{ClusterEvent, EventSet};
use crate::gates::Gates;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;

/// The feature by which the end of a container restarts all containers of its pod.
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";

/// The plugin.
#[derive(Default)]
pub(crate) struct NodeDeclaredFeatures {
    /// Whether the gate of its name is on.
    is_on: bool,
}

impl Plugin for NodeDeclaredFeatures {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeDeclaredFeatures",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) didn't match Pod's required features"],
        events: EventSet::of(&[NodeAdded, NodeChanged]),
    };

    fn gated(self, gates: Gates) -> Self {
        Self { is_on: gates.matches_declared_features }
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        if self.is_on && pod.restarts_all_containers { PreFilter::Check(()) } else { PreFilter::Skip }
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if admits(pod, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// A node helps that is new or declares more than before. What a pod requires does not change.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node, _) => admits(pod, node),
            ClusterEvent::NodeChanged { old, new, .. } => !admits(pod, old) && admits(pod, new),
            _ => false,
        }
    }
}

fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    !pod.restarts_all_containers || node.declared_features.iter().any(|feature| feature == RESTART_ALL)
}
