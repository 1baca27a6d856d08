//! The TaintToleration score: counts the `PreferNoSchedule` taints that the pod does not tolerate; fewer are
//! better.

use crate::cache::NodeState;
use crate::pod::PodInfo;
use crate::taint::{Effect, tolerated};

/// The raw count; the caller scales and reverses it over all nodes.
pub fn score(pod: &PodInfo, node: &NodeState) -> i64 {
    let preferred = node.info().taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
    preferred.filter(|taint| !tolerated(taint, &pod.tolerations)).count() as i64
}
