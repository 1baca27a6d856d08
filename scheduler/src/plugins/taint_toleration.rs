//! The plugin TaintToleration: the pod must tolerate every NoSchedule and NoExecute taint of the node. The score counts the
//! `PreferNoSchedule` taints that the pod does not tolerate; fewer are better.

use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange};
use crate::event::{ClusterEvent, EventSet};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::score::{Candidates, reversed, scaled};
use crate::taint::{Effect, tolerated};

/// The plugin.
#[derive(Default)]
pub(crate) struct TaintToleration;

impl Plugin for TaintToleration {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "TaintToleration",
        points: &[ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score],
        weight: 3,
        // The text of 1.35 and later; older versions printed the taint.
        reasons: &["node(s) had untolerated taint(s)"],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange]),
    };

    fn prefilter<'a>(&self, _pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        PreFilter::Check(())
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        if admits(pod, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// A node helps if the pod tolerates all its taints and the node is new or had an untolerated taint before. Other tolerations help.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node, _) => admits(pod, node),
            ClusterEvent::NodeChanged { old, new, .. } => !admits(pod, old) && admits(pod, new),
            ClusterEvent::OwnChange(old) => old.tolerations != pod.tolerations,
            _ => false,
        }
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        Some(reversed(scaled(candidates.map(|node| untolerated(pod, node)))))
    }
}

/// Whether the pod tolerates the node's taints that keep pods away.
pub(super) fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    let keeps_away = |effect| matches!(effect, Effect::NoSchedule | Effect::NoExecute);
    node.taints
        .iter()
        .filter(|taint| keeps_away(taint.effect))
        .all(|taint| tolerated(taint, &pod.tolerations))
}

/// The number of `PreferNoSchedule` taints that the pod does not tolerate.
fn untolerated(pod: &PodInfo, node: &NodeState) -> i64 {
    let preferred = node.info().taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
    preferred.filter(|taint| !tolerated(taint, &pod.tolerations)).count() as i64
}
