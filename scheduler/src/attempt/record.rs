//! [`Attempt`]: the result of one attempt to place a pod, or of several consecutive ones with equal results.

use crate::action::{Evict, Notice, SchedulingFailure};
use crate::decide::{Choice, Refusal};
use crate::explain;
use crate::limits::{ATTEMPT_REASONS, ATTEMPT_VICTIMS};
use crate::plugin::Rejection;
use jiff::Timestamp;
use kstore_informer::{Key, Revision};
use std::sync::Arc;

/// Consecutive attempts for a pod with equal results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The number of the first of these attempts among the pod's, from one.
    pub number: u32,
    /// The number of further attempts with this result.
    pub repeats: u32,
    /// The time of the first one.
    pub first: Timestamp,
    /// The time of the last one.
    pub last: Timestamp,
    /// The newest revision that the scheduler had read of pods and nodes before the last one.
    pub seen: Revision,
    /// The revision that made the pod ready for the last one.
    pub cause: Revision,
    /// The result.
    pub result: AttemptResult,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod got a node.
    Placed(Placement),
    /// No node fits the pod.
    Refused(RefusedAttempt),
    /// The attempt ended with an error, or the API refused the decision.
    Failed(String),
}

/// The node that a pod got, and the numbers behind the choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: Arc<str>,
    /// The number of nodes that the scheduler looked at.
    pub evaluated: usize,
    /// The number of nodes that fit.
    pub feasible: usize,
    /// The number of nodes with the highest score.
    pub best: usize,
    /// The node's weighted score; zero if it was the only one that fits.
    pub total: i64,
    /// The node's unweighted score by plugin; empty if it was the only one that fits.
    pub scores: Vec<(&'static str, i64)>,
}

/// Why no node fits a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedAttempt {
    /// The message of the pod's condition, cut as that of an event.
    pub message: String,
    /// The number of nodes.
    pub nodes: usize,
    /// The nodes by reason, in the order in which the search met the reasons: at most [`ATTEMPT_REASONS`].
    pub reasons: Vec<ReasonCount>,
    /// The number of nodes with other reasons.
    pub others: usize,
    /// The evictions that make room, if any do.
    pub evictions: Option<PlannedEvictions>,
}

/// The nodes that a filter refused for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    /// The filter.
    pub plugin: &'static str,
    /// The reasons in kube-scheduler's words, separated by commas.
    pub reason: String,
    /// The number of nodes.
    pub nodes: usize,
    /// Whether the removal of pods from the nodes could change the result.
    pub is_resolvable: bool,
}

/// The evictions for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvictions {
    /// The node on which they make room.
    pub node: Arc<str>,
    /// The number of pods to evict.
    pub count: usize,
    /// Some of these pods: at most [`ATTEMPT_VICTIMS`].
    pub victims: Vec<Key>,
}

impl Placement {
    pub(super) fn of(choice: &Choice) -> Self {
        let Choice { node, evaluated, feasible, best, total, scores } = choice;
        let (node, scores) = (Arc::clone(node), scores.clone());
        Self { node, evaluated: *evaluated, feasible: *feasible, best: *best, total: *total, scores }
    }
}

impl PlannedEvictions {
    pub(super) fn of(evict: &Evict) -> Self {
        let withdrawn = evict.withdrawn.iter().map(|notice| &notice.pod);
        let all = evict.victims.iter().chain(withdrawn);
        let victims = all.clone().take(ATTEMPT_VICTIMS).map(|pod| pod.key.clone()).collect();
        Self { node: Arc::clone(&evict.node), count: all.count(), victims }
    }
}

impl AttemptResult {
    pub(super) fn of(notice: &Notice, evictions: Option<PlannedEvictions>) -> Self {
        match &notice.failure {
            SchedulingFailure::Unfit(refusal) => {
                let (reasons, others) = counted(refusal);
                let (message, nodes) = (explain::for_event(&notice.message), refusal.nodes);
                Self::Refused(RefusedAttempt { message, nodes, reasons, others, evictions })
            }
            SchedulingFailure::AttemptFailed
            | SchedulingFailure::BindFailed
            | SchedulingFailure::VolumesFailed
            | SchedulingFailure::DevicesFailed => Self::Failed(explain::for_event(&notice.message)),
        }
    }
}

/// The refusals by filter and reason, and the number of nodes whose reasons are beyond the bound. Nodes are compared by the filter's bits,
/// so that only distinct reasons become text.
fn counted(refusal: &Refusal) -> (Vec<ReasonCount>, usize) {
    let mut groups: Vec<(&Rejection, usize)> = Vec::new();
    let mut others = 0;
    for (_, rejection) in &refusal.rejections {
        match groups.iter().position(|(known, _)| *known == rejection) {
            Some(at) => groups[at].1 += 1,
            None if groups.len() < ATTEMPT_REASONS => groups.push((rejection, 1)),
            None => others += 1,
        }
    }
    let reason = |(rejection, nodes): (&Rejection, usize)| {
        let mut texts: Vec<String> = Vec::new();
        rejection.reasons(&mut |text| texts.push(text.to_owned()));
        let (plugin, is_resolvable) = (rejection.name(), rejection.is_resolvable());
        ReasonCount { plugin, reason: texts.join(", "), nodes, is_resolvable }
    };
    (groups.into_iter().map(reason).collect(), others)
}

impl Attempt {
    /// The estimated size in memory.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + match &self.result {
                AttemptResult::Placed(placement) => placement.scores.len() * size_of::<(&str, i64)>(),
                AttemptResult::Failed(message) => message.len(),
                AttemptResult::Refused(refused) => {
                    let reason = |reason: &ReasonCount| size_of::<ReasonCount>() + reason.reason.len();
                    let victims = refused.evictions.iter().flat_map(|evictions| &evictions.victims);
                    refused.message.len()
                        + refused.reasons.iter().map(reason).sum::<usize>()
                        + victims.map(|key| size_of::<Key>() + key.as_str().len()).sum::<usize>()
                }
            }
    }
}
