//! Why pushing out pods of lower priority would not help a refused pod: the second sentence of a refusal, in upstream's
//! words. It finds out; it pushes nobody out.

use std::collections::BTreeMap;

use crate::cache::NodeState;
use crate::decide::Refusal;
use crate::explain::{count, counted};
use crate::filter::{self, Rejection, Surroundings};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

const NOT_ELIGIBLE: &str = "not eligible due to preemptionPolicy=Never.";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// The sentence for `refusal`, which was given for `pod` on this very snapshot. `None` when there is nothing to say: no
/// nodes at all, or somewhere the pod would fit if others of lower priority left.
pub fn why_not(snapshot: &Snapshot, pod: &PodInfo, refusal: &Refusal) -> Option<String> {
    if refusal.nodes == 0 {
        return None;
    }
    if pod.never_preempts {
        return Some(NOT_ELIGIBLE.to_owned());
    }
    let mut reasons = BTreeMap::new();
    let resolvable = refusal.rejections.iter().filter(|(_, rejection)| rejection.is_resolvable());
    let mut examined = 0;
    for (slot, _) in resolvable {
        examined += 1;
        match snapshot.nodes()[*slot].without_lower(pod.priority) {
            None => count(&mut reasons, NO_VICTIMS, 1),
            Some(stripped) => match check_without(snapshot, pod, *slot, &stripped) {
                Ok(()) => return None,
                Err(rejection) => rejection.reasons(&mut |reason| count(&mut reasons, reason, 1)),
            },
        }
    }
    count(&mut reasons, NOT_HELPFUL, refusal.nodes - examined);
    Some(counted(refusal.nodes, &reasons))
}

/// The filters' answer for one node if it were `stripped`, which others' counts of its pods must then reflect, too.
fn check_without(
    snapshot: &Snapshot,
    pod: &PodInfo,
    slot: usize,
    stripped: &NodeState,
) -> Result<(), Rejection> {
    let nodes = snapshot.nodes().iter().enumerate();
    let nodes = nodes.map(|(at, node)| if at == slot { stripped } else { node });
    let around = Surroundings::of(pod, nodes, snapshot.anyone_shuns(), snapshot.namespaces());
    filter::check(pod, &around, stripped)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::cache::Cache;
    use crate::decide::{Outcome, Terms, decide};
    use crate::testing::{cpu_pod, node, on, with};

    /// Three nodes of four cores: one cordoned, one full of a pod of priority 5, one of a pod of priority 0 and of 2 cores.
    fn why(pod: &PodInfo) -> Option<String> {
        let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
        cache.set_node(node("cordoned", json!({ "unschedulable": true })));
        cache.set_node(node("full", json!({})));
        cache.set_node(node("half", json!({})));
        let place = |cache: &mut Cache, name: &str, cpu: &str, priority: i32, node: &str| {
            let pod = with(&on(&cpu_pod(name, cpu), node), |pod| pod.priority = priority);
            cache.set_pod(pod, &Arc::from(node));
        };
        place(&mut cache, "high", "4", 5, "full");
        place(&mut cache, "low", "2", 0, "half");
        place(&mut cache, "other", "1500m", 5, "half");
        snapshot.update(&cache);
        match decide(&snapshot, pod, Terms { start: 0, tie: 0, percentage: 0 }).outcome {
            Outcome::Unfit(refusal) => why_not(&snapshot, pod, &refusal),
            Outcome::Fits(choice) => panic!("{choice:?}"),
        }
    }

    #[test]
    fn the_sentence_says_for_each_node_why_nobody_could_make_room() {
        let pod = |cpu, priority| with(&cpu_pod("p", cpu), |pod| pod.priority = priority);
        let expected = "0/3 nodes are available: 1 Preemption is not helpful for scheduling, \
                        2 No preemption victims found for incoming pod.";
        assert_eq!(why(&pod("1", 0)).as_deref(), Some(expected));
        let expected = "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
                        1 Preemption is not helpful for scheduling.";
        assert_eq!(why(&pod("3", 3)).as_deref(), Some(expected));
        assert_eq!(why(&pod("2", 3)), None, "the low one could go");
        let never = with(&pod("1", 3), |pod| pod.never_preempts = true);
        assert_eq!(why(&never).as_deref(), Some("not eligible due to preemptionPolicy=Never."));
        let huge = "0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
        assert_eq!(why(&pod("5", 9)).as_deref(), Some(huge));
    }
}
