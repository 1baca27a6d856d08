//! [`Question`]: what a decision asks extenders before it goes on, as data.

use super::Extender;
use crate::pod::PodInfo;
use std::sync::Arc;

/// Calls for the decision on one pod that are made at the same time. The decision goes on with an answer for each, in their order.
#[derive(Clone, Debug)]
pub struct Question {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The calls, at least one.
    pub calls: Vec<Call>,
}

/// A call of an extender.
#[derive(Clone, Debug)]
pub struct Call {
    /// The extender.
    pub extender: Arc<Extender>,
    /// What it is asked.
    pub topic: Topic,
}

/// What an extender is asked about a pod.
#[derive(Clone, Debug)]
pub enum Topic {
    /// Which of these nodes may take it.
    Filter(Arc<[Arc<str>]>),
    /// The score of each of these nodes.
    Prioritize(Arc<[Arc<str>]>),
    /// Which pods may be evicted for it, on which of these nodes.
    Preempt(Arc<[NodeVictims]>),
}

/// A node and the pods that would be evicted there.
#[derive(Clone, Debug)]
pub struct NodeVictims {
    /// The node.
    pub node: Arc<str>,
    /// The pods.
    pub victims: Vec<Arc<PodInfo>>,
    /// The number of victims whose eviction exceeds a disruption budget.
    pub violations: usize,
}

impl Call {
    /// The path below the extender's URL.
    pub fn verb(&self) -> &str {
        match self.topic {
            Topic::Filter(_) => &self.extender.filter_verb,
            Topic::Prioritize(_) => &self.extender.prioritize_verb,
            Topic::Preempt(_) => &self.extender.preempt_verb,
        }
    }
}
