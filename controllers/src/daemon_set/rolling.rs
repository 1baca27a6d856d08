//! Rolling update of a DaemonSet: one step for nodes that have their pods. Pure.

use super::placement::Eligibility;
use super::plan::{Changes, PodsByNode, Run};
use crate::portion::{Round, portion};
use crate::view::Pod;
use k8s_openapi::api::apps::v1::{DaemonSetSpec, RollingUpdateDaemonSet};
use std::sync::Arc;

/// Update strategy of a DaemonSet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strategy<'a> {
    /// Only pods that a user deletes are replaced by new ones.
    OnDelete,
    /// Node by node, within these bounds.
    Rolling(Option<&'a RollingUpdateDaemonSet>),
}

impl<'a> Strategy<'a> {
    /// The strategy of a spec.
    pub(crate) fn of(spec: &'a DaemonSetSpec) -> Self {
        let strategy = spec.update_strategy.as_ref();
        match strategy.and_then(|s| s.type_.as_deref()) {
            Some("OnDelete") => Self::OnDelete,
            _ => Self::Rolling(strategy.and_then(|s| s.rolling_update.as_ref())),
        }
    }

    /// Whether an update creates new pods beside old ones.
    pub(crate) fn allows_surge(self) -> bool {
        self.surge(1) > 0
    }

    /// Number of new pods that may run beside available old ones. Percentages of `nodes` are rounded up.
    fn surge(self, nodes: i32) -> i32 {
        match self {
            Self::OnDelete => 0,
            Self::Rolling(rolling) => {
                rolling.and_then(|r| r.max_surge.as_ref()).map_or(0, |n| portion(n, nodes, Round::Up))
            }
        }
    }

    /// Number of nodes that may be without an available pod.
    fn unavailable(self, nodes: i32) -> i32 {
        match self {
            Self::OnDelete => 0,
            Self::Rolling(rolling) => {
                rolling.and_then(|r| r.max_unavailable.as_ref()).map_or(0, |n| portion(n, nodes, Round::Up))
            }
        }
    }
}

/// Pods of a node that are not terminating.
enum OnNode<'a> {
    /// At most one new and one old pod.
    Pair { new: Option<&'a Arc<Pod>>, old: Option<&'a Arc<Pod>> },
    /// More pods: the surplus must be deleted first.
    Excess,
}

/// The pods to create and to delete for the next step of the update.
pub(crate) fn update<'a>(run: &Run<'a>) -> Changes<'a> {
    let strategy = Strategy::of(run.spec);
    if matches!(strategy, Strategy::OnDelete) {
        return Changes::default();
    }
    let mut pods: PodsByNode<'a> = run.pods.clone();
    let wanted = run.eligible.iter().filter(|(_, e)| **e == Eligibility::Run);
    let mut desired = 0;
    for (node, _) in wanted {
        desired += 1;
        pods.entry(node).or_default();
    }
    let (surge, unavailable) = (strategy.surge(desired), strategy.unavailable(desired));
    // Validation requires one to be nonzero, but a percentage of few nodes may round to zero and block the
    // update forever.
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    let nodes = pods.into_iter().map(|(node, pods)| (node, on_node(run, &pods)));
    if surge == 0 { replace(run, nodes, unavailable) } else { surge_over(run, nodes, surge, desired) }
}

fn on_node<'a>(run: &Run<'a>, pods: &[&'a Arc<Pod>]) -> OnNode<'a> {
    let staying = pods.iter().copied().filter(|pod| !pod.metadata.is_deleting());
    let (new, old): (Vec<_>, Vec<_>) = staying.partition(|pod| run.version.is_of(pod));
    if new.len() > 1 || old.len() > 1 {
        return OnNode::Excess;
    }
    OnNode::Pair { new: new.first().copied(), old: old.first().copied() }
}

/// Deletes old pods; the next run creates their successors. Unavailable old pods are deleted freely,
/// available ones within the unavailability bound.
fn replace<'a>(
    run: &Run<'a>,
    nodes: impl Iterator<Item = (&'a str, OnNode<'a>)>,
    most_unavailable: i32,
) -> Changes<'a> {
    let (mut unavailable, mut delete, mut candidates) = (0, vec![], vec![]);
    for (_, pods) in nodes {
        match pods {
            OnNode::Excess
            | OnNode::Pair { new: None, old: None }
            | OnNode::Pair { new: Some(_), old: Some(_) } => unavailable += 1,
            OnNode::Pair { new: Some(new), old: None } => unavailable += i32::from(!run.is_available(new)),
            OnNode::Pair { new: None, old: Some(old) } if run.is_available(old) => candidates.push(old),
            OnNode::Pair { new: None, old: Some(old) } => {
                delete.push(old);
                unavailable += 1;
            }
        }
    }
    let left = usize::try_from(most_unavailable.saturating_sub(unavailable)).unwrap_or(0);
    delete.extend(candidates.into_iter().take(left));
    Changes { delete, ..Changes::default() }
}

/// Creates new pods beside old ones, and deletes an old pod when the new one beside it is available. At most
/// `most` new pods are unavailable beside available old ones.
fn surge_over<'a>(
    run: &Run<'a>,
    nodes: impl Iterator<Item = (&'a str, OnNode<'a>)>,
    most: i32,
    desired: i32,
) -> Changes<'a> {
    let (mut surging, mut available) = (0, 0);
    let (mut create, mut delete, mut candidates, mut leaving) = (vec![], vec![], vec![], vec![]);
    for (node, pods) in nodes {
        let OnNode::Pair { new, old } = pods else {
            surging += 1;
            continue;
        };
        available += i32::from(old.or(new).is_some_and(|pod| run.is_available(pod)));
        let Some(old) = old else { continue };
        match new {
            Some(new) if run.is_available(new) => delete.push(old),
            Some(_) => surging += 1,
            None => {
                let is_wanted = run.eligible.get(node) == Some(&Eligibility::Run);
                match (is_wanted, run.is_available(old)) {
                    (true, true) => candidates.push(node),
                    (true, false) => create.push(node),
                    (false, true) => leaving.push(old),
                    (false, false) => delete.push(old),
                }
            }
        }
    }
    // The pod of a no longer eligible node is deleted only when enough other nodes are available.
    let spare = usize::try_from(available - desired).unwrap_or(0);
    delete.extend(leaving.into_iter().take(spare));
    let left = usize::try_from(most - surging).unwrap_or(0);
    create.extend(candidates.into_iter().take(left));
    Changes { create, delete, ..Changes::default() }
}
