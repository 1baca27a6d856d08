//! [`Constraints`]: by which a pod is spread softly, its own topology spread constraints or the default ones. Pods without any constraint
//! are spread among the pods of their Services and of their controller, over nodes and zones.

use crate::node::ZONE;
use crate::node_state::NodeState;
use crate::pod::PodInfo;
use crate::pod_constraints::{LabelSelector, Spread};
use crate::workloads::Workloads;
use crate::zones::HOSTNAME;
use std::borrow::Cow;

/// The keys and maximum skews of the constraints of pods without their own.
const DEFAULTS: [(&str, i64); 2] = [(HOSTNAME, 3), (ZONE, 5)];

/// The constraints by which the pod is scored.
pub enum Constraints<'a> {
    /// The pod's own ones. Nodes without the label of any of them do not count.
    Own(&'a [Spread]),
    /// The default ones, for pods that this selector selects.
    Default(Cow<'a, LabelSelector>),
}

/// A constraint by which the pod is scored.
#[derive(Clone, Copy)]
pub struct Constraint<'a> {
    pub(crate) key: &'a str,
    pub(crate) max_skew: i64,
    /// The selector for the pods to count; `None` selects no pod.
    pub selector: Option<&'a LabelSelector>,
    pub(crate) honor_affinity: bool,
    pub(crate) honor_taints: bool,
}

impl<'a> Constraints<'a> {
    /// The constraints of `pod`; `None` if it has none.
    pub fn of(pod: &'a PodInfo, workloads: &'a Workloads) -> Option<Self> {
        let preferences = pod.preferences.as_ref()?;
        if preferences.has_spread {
            return (!preferences.spread.is_empty()).then_some(Self::Own(&preferences.spread));
        }
        workloads.selector(pod).map(Self::Default)
    }

    /// The constraints one by one.
    pub fn iter(&self) -> impl Iterator<Item = Constraint<'_>> {
        let (own, default) = match self {
            Self::Own(spreads) => (*spreads, None),
            Self::Default(selector) => (&[][..], Some(&**selector)),
        };
        let own = own.iter().map(|spread: &Spread| Constraint {
            key: &spread.topology_key,
            max_skew: spread.max_skew,
            selector: spread.selector.as_ref(),
            honor_affinity: spread.honor_affinity,
            honor_taints: spread.honor_taints,
        });
        let default = default.into_iter().flat_map(|selector| {
            DEFAULTS.map(|(key, max_skew)| Constraint {
                key,
                max_skew,
                selector: Some(selector),
                honor_affinity: true,
                honor_taints: false,
            })
        });
        own.chain(default)
    }

    /// Whether the node has the label of every constraint of the pod.
    pub(crate) fn are_labelled(&self, node: &NodeState) -> bool {
        match self {
            Self::Own(spreads) => {
                spreads.iter().all(|spread| node.location().has_label(node.info(), &spread.topology_key))
            }
            Self::Default(_) => true,
        }
    }
}
