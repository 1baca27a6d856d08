//! The plugin NodeAffinity: the node satisfies `spec.nodeSelector` and one of the required affinity terms. The score is the sum of the
//! weights of the preferred terms that the node satisfies. A profile may add an affinity of its own to that of every pod.

mod added;

use crate::event::EventKind::{NodeAdded, NodeChanged, OwnChange};
use crate::event::{ClusterEvent, EventSet};
use crate::fields::Fields;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::score::{Candidates, scaled};
use added::AddedAffinity;
use serde_json::Value;
use std::borrow::Cow;

/// The reason for all nodes if the terms name nodes and contradict each other.
const CONFLICT: &str = "pod affinity terms conflict";

/// Indices of the reasons: the pod's affinity excludes the node, or that of the profile does.
const OF_POD: u32 = 0;
const OF_PROFILE: u32 = 1;

/// The plugin, with the affinity of its profile.
#[derive(Default)]
pub(crate) struct NodeAffinity(AddedAffinity);

impl Plugin for NodeAffinity {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "NodeAffinity",
        points: &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ],
        weight: 2,
        reasons: &[
            "node(s) didn't match Pod's node affinity/selector",
            "node(s) didn't match scheduler-enforced node affinity",
        ],
        events: EventSet::of(&[NodeAdded, NodeChanged, OwnChange]),
    };

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        Some(Self(AddedAffinity::read(args)))
    }

    fn arguments(&self) -> Option<Value> {
        Some(self.0.print())
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, _cluster: ClusterView<'a>) -> PreFilter<'a, ()> {
        match pod.affinity.pinned.as_deref() {
            Some([]) => PreFilter::Refuse(Cow::Borrowed(CONFLICT)),
            Some(names) => PreFilter::Narrow((), Cow::Borrowed(names)),
            None if pod.affinity.is_open() && self.0.is_open() => PreFilter::Skip,
            None => PreFilter::Check(()),
        }
    }

    fn check(&self, pod: &PodInfo, (): &(), node: &NodeState) -> Result<(), Refused> {
        match admits(pod, node.info()) {
            _ if !self.0.admits(node.info()) => Err(Refused::unresolvable(OF_PROFILE)),
            true => Ok(()),
            false => Err(Refused::unresolvable(OF_POD)),
        }
    }

    /// A matching node helps if it is new or did not match before, and so does another affinity.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let admits = |node| self.0.admits(node) && admits(pod, node);
        match event {
            ClusterEvent::NodeAdded(node, _) => admits(node),
            ClusterEvent::NodeChanged { old, new, .. } => !admits(old) && admits(new),
            ClusterEvent::OwnChange(old) => old.affinity != pod.affinity,
            _ => false,
        }
    }

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        if pod.affinity.preferred.is_empty() && !self.0.has_preferences() {
            return None;
        }
        let own = |node: &NodeInfo| pod.affinity.preference(&node.name, &node.labels);
        let preference = |node: &NodeInfo| own(node).saturating_add(self.0.preference(node));
        Some(scaled(candidates.map(|node| preference(node.info()))))
    }
}

fn admits(pod: &PodInfo, node: &NodeInfo) -> bool {
    pod.affinity.admits(&node.name, &node.labels)
}
