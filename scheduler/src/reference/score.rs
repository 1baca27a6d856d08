//! The scores of the reference that look at other nodes: soft topology spread, preferred pod affinity, images.

use super::ReferenceCluster;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::{AffinityTerm, LabelSelector, Namespaces, Spread};
use crate::taint::Effect;
use std::collections::{BTreeMap, BTreeSet};

impl ReferenceCluster {
    /// The PodTopologySpread scores; zeros without constraints.
    pub(super) fn soft_spread(&self, pod: &PodInfo, feasible: &[&NodeInfo]) -> Vec<i64> {
        let (_, spreads) = self.profile.spreads(pod);
        if spreads.is_empty() {
            return vec![0; feasible.len()];
        }
        let labelled = |node: &NodeInfo| spreads.iter().all(|s| node.labels.contains_key(&s.topology_key));
        let mut raw: Vec<Option<i64>> = Vec::new();
        for node in feasible {
            if !labelled(node) {
                raw.push(None);
                continue;
            }
            let mut sum = 0.0;
            for spread in &spreads {
                let key = &spread.topology_key;
                let domains: BTreeSet<&String> =
                    feasible.iter().filter(|n| labelled(n)).map(|n| &n.labels[key]).collect();
                let there = |other: &&std::sync::Arc<NodeInfo>| {
                    labelled(other)
                        && other.labels[key] == node.labels[key]
                        && is_included(pod, spread, other)
                };
                let pods = self.nodes.iter().filter(there).flat_map(|other| self.pods_on(other));
                let like = |p: &&PodInfo| {
                    let chosen = spread.selector.as_ref().filter(|s| **s != LabelSelector::default());
                    let selected = chosen.is_some_and(|s| s.matches(&p.labels));
                    selected && !p.deleting && p.key.namespace() == pod.key.namespace()
                };
                let count = pods.filter(like).count() as f64;
                sum += count * f64::ln(domains.len() as f64 + 2.0) + (spread.max_skew - 1) as f64;
            }
            raw.push(Some(sum.round() as i64));
        }
        let known: Vec<i64> = raw.iter().flatten().copied().collect();
        let (min, max) = (known.iter().min().copied(), known.iter().max().copied());
        let score = |raw: &Option<i64>| match (raw, min, max) {
            (Some(_), _, Some(0)) => 100,
            (Some(raw), Some(min), Some(max)) => 100 * (max + min - raw) / max,
            _ => 0,
        };
        raw.iter().map(score).collect()
    }

    /// The InterPodAffinity scores; zeros if no term applies.
    pub(super) fn soft_affinity(&self, pod: &PodInfo, feasible: &[&NodeInfo]) -> Vec<i64> {
        let selects =
            |t: &AffinityTerm, p: &PodInfo| t.selects(p.key.namespace(), &p.labels, &Namespaces::new());
        let has_wishes = pod.pod_affinity.has_preferred();
        if self.profile.ignores_others && !has_wishes {
            return vec![0; feasible.len()];
        }
        let mut raw = Vec::new();
        for node in feasible {
            let mut sum = 0;
            for other in &self.nodes {
                let near = |t: &AffinityTerm| {
                    let (here, there) = (node.labels.get(&t.topology_key), other.labels.get(&t.topology_key));
                    here.is_some() && here == there
                };
                for existing in self.pods_on(other) {
                    for (whose, about) in [(pod, existing), (existing, pod)] {
                        let terms = &whose.pod_affinity;
                        let likes = terms.preferred.iter().map(|w| (&w.term, w.weight));
                        let all = likes.chain(terms.anti_preferred.iter().map(|w| (&w.term, -w.weight)));
                        sum += all.filter(|(t, _)| near(t) && selects(t, about)).map(|(_, w)| w).sum::<i64>();
                    }
                    let required = existing.pod_affinity.required.iter();
                    let matching = required.filter(|t| near(t) && selects(t, pod)).count() as i64;
                    sum += self.profile.required_weight * matching;
                }
            }
            raw.push(sum);
        }
        let (min, max) = (raw.iter().min().copied().unwrap(), raw.iter().max().copied().unwrap());
        let share = |x: i64| if max == min { 0.0 } else { 100.0 * ((x - min) as f64 / (max - min) as f64) };
        raw.iter().map(|x| share(*x) as i64).collect()
    }

    /// The ImageLocality score.
    pub(super) fn image_locality(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let preferences = pod.preferences.as_ref().unwrap();
        let counts: BTreeMap<&String, usize> = preferences
            .images
            .iter()
            .map(|image| (image, self.nodes.iter().filter(|other| other.images.contains_key(image)).count()))
            .collect();
        let size = |image: &String| {
            let size = node.images.get(image).copied().unwrap_or(0);
            (size as f64 * (counts[image] as f64 / self.nodes.len() as f64)) as i64
        };
        let sum: i64 = preferences.images.iter().map(size).sum();
        let (low, high) = (23 << 20, (1000 << 20) * preferences.image_users as i64);
        100 * (sum.max(low).min(high) - low) / (high - low)
    }
}

/// Whether the constraint counts the pods of the node.
fn is_included(pod: &PodInfo, spread: &Spread, node: &NodeInfo) -> bool {
    let hard = node.taints.iter().filter(|taint| taint.effect != Effect::PreferNoSchedule);
    let mut untolerated = hard.filter(|taint| !pod.tolerations.iter().any(|t| t.covers(taint)));
    let chosen = pod.affinity.admits(&node.name, &node.labels) || !spread.honor_affinity;
    chosen && (!spread.honor_taints || untolerated.next().is_none())
}
