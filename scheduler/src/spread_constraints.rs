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

/// The constraints of pods that have no constraint of their own, each with the selector of the pod's workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpreadDefaults {
    /// Soft ones over nodes and zones. A node without the label of one is a domain of its kind.
    #[default]
    System,
    /// Those of a profile, whose selectors are empty places. Nodes without the label of any of them do not count.
    Listed {
        /// Those that a node must keep.
        hard: Vec<Spread>,
        /// Those that nodes should keep.
        soft: Vec<Spread>,
    },
}

impl SpreadDefaults {
    /// The constraints that a node must keep for `pod`: its own ones, or else the default ones.
    pub(crate) fn hard_of<'a>(&self, pod: &'a PodInfo, workloads: &Workloads) -> Cow<'a, [Spread]> {
        let Some(hard) = self.hard_for(pod) else { return Cow::Borrowed(&pod.spread) };
        let Some(selector) = workloads.selector(pod) else { return Cow::Borrowed(&[]) };
        let with =
            |spread: &Spread| Spread { selector: Some(selector.clone().into_owned()), ..spread.clone() };
        Cow::Owned(hard.iter().map(with).collect())
    }

    /// The default constraints that a node must keep for `pod`, without their selectors; `None` if it has constraints of its own, or there
    /// are no default ones.
    pub(crate) fn hard_for(&self, pod: &PodInfo) -> Option<&[Spread]> {
        let Self::Listed { hard, soft: _ } = self else { return None };
        let has_own = pod.preferences.as_ref().is_none_or(|preferences| preferences.has_spread);
        (!has_own && !hard.is_empty()).then_some(hard)
    }
}

/// The constraints by which the pod is scored.
pub enum Constraints<'a> {
    /// The pod's own ones. Nodes without the label of any of them do not count.
    Own(&'a [Spread]),
    /// The default ones, for pods that this selector selects.
    Default(Cow<'a, LabelSelector>),
    /// Those of a profile, for pods that this selector selects. Nodes without the label of any of them do not count.
    Listed(&'a [Spread], Cow<'a, LabelSelector>),
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
    pub fn of(pod: &'a PodInfo, workloads: &'a Workloads, defaults: &'a SpreadDefaults) -> Option<Self> {
        let preferences = pod.preferences.as_ref()?;
        if preferences.has_spread {
            return (!preferences.spread.is_empty()).then_some(Self::Own(&preferences.spread));
        }
        match defaults {
            SpreadDefaults::System => workloads.selector(pod).map(Self::Default),
            SpreadDefaults::Listed { soft, hard: _ } if soft.is_empty() => None,
            SpreadDefaults::Listed { soft, hard: _ } => {
                workloads.selector(pod).map(|selector| Self::Listed(soft, selector))
            }
        }
    }

    /// The constraints one by one.
    pub fn iter(&self) -> impl Iterator<Item = Constraint<'_>> {
        let (own, listed, default) = match self {
            Self::Own(spreads) => (*spreads, None, None),
            Self::Listed(spreads, selector) => (*spreads, Some(&**selector), None),
            Self::Default(selector) => (&[][..], None, Some(&**selector)),
        };
        let own = own.iter().map(move |spread: &Spread| Constraint {
            key: &spread.topology_key,
            max_skew: spread.max_skew,
            selector: listed.or(spread.selector.as_ref()),
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
            Self::Own(spreads) | Self::Listed(spreads, _) => {
                spreads.iter().all(|spread| node.location().has_label(node.info(), &spread.topology_key))
            }
            Self::Default(_) => true,
        }
    }
}
