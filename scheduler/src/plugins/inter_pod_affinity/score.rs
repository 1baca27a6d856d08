//! The InterPodAffinity score: preferred terms of the pod, preferred terms of existing pods about the pod, and the
//! required affinity terms of existing pods about the pod.

use crate::limits::MAX_NODE_SCORE;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, Namespaces, WeightedTerm};
use crate::score::Candidates;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The arguments of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AffinityScoring {
    /// The weight of a required affinity term of an existing pod: kube-scheduler's `hardPodAffinityWeight`.
    pub(super) required_weight: i64,
    /// Whether a pod without preferred terms is not scored by those of existing pods: `ignorePreferredTermsOfExistingPods`.
    pub(super) ignores_others: bool,
}

/// Weights per topology domain, by key and value of a node label.
type Weights<'a> = BTreeMap<&'a str, BTreeMap<&'a str, i64>>;

impl AffinityScoring {
    /// The scores, 0 to 100; `None` if no term applies.
    pub(super) fn scores(self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let (own, snapshot) = (pod.pod_affinity.has_preferred(), candidates.snapshot);
        if !own && (self.ignores_others || !snapshot.has_pod_terms()) {
            return None;
        }
        let mut weights = Weights::new();
        for node in snapshot.nodes() {
            let pods: &[Arc<PodInfo>] = if own { node.pods() } else { node.pods_with_terms() };
            for other in pods {
                self.weigh(pod, other, (node.info(), snapshot.namespaces()), &mut weights);
            }
        }
        if weights.is_empty() {
            return None;
        }
        let sum = |node: &NodeInfo| {
            let values =
                weights.iter().filter_map(|(key, values)| values.get(node.labels.get(*key)?.as_str()));
            values.sum::<i64>()
        };
        let raw: Vec<i64> = candidates.nodes.iter().map(|node| sum(node.info())).collect();
        Some(spanned(&raw))
    }

    /// Adds the terms between `pod` and the existing pod `other` on `node`.
    fn weigh<'a>(
        self,
        pod: &'a PodInfo,
        other: &'a PodInfo,
        (node, namespaces): (&'a NodeInfo, &Namespaces),
        weights: &mut Weights<'a>,
    ) {
        let mut add = |term: &'a AffinityTerm, about: &PodInfo, weight: i64| {
            if weight != 0
                && let Some(value) = node.labels.get(&term.topology_key)
                && term.selects(about.key.namespace(), &about.labels, namespaces)
            {
                *weights.entry(&term.topology_key).or_default().entry(value).or_default() += weight;
            }
        };
        let mut both = |whose: &'a PodInfo, about: &PodInfo| {
            let terms = &whose.pod_affinity;
            let mut all = |terms: &'a [WeightedTerm], sign| {
                terms.iter().for_each(|weighted| add(&weighted.term, about, sign * weighted.weight));
            };
            all(&terms.preferred, 1);
            all(&terms.anti_preferred, -1);
        };
        both(pod, other);
        both(other, pod);
        other.pod_affinity.required.iter().for_each(|term| add(term, pod, self.required_weight));
    }
}

/// Scales scores so that the lowest becomes 0 and the highest 100; all 0 if they are equal.
fn spanned(raw: &[i64]) -> Vec<i64> {
    let (min, max) = (raw.iter().copied().min().unwrap_or(0), raw.iter().copied().max().unwrap_or(0));
    let share = |score: i64| MAX_NODE_SCORE as f64 * ((score - min) as f64 / (max - min) as f64);
    raw.iter().map(|score| if max > min { share(*score) as i64 } else { 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_span_the_whole_range() {
        assert_eq!(spanned(&[-10, 0, 5]), [0, 66, 100]);
        assert_eq!(spanned(&[7, 7]), [0, 0]);
    }
}
