//! Pod affinity, pod anti-affinity and topology spread of a pod: types and matching. The filters and scores
//! `inter_pod_affinity` and `pod_topology_spread` evaluate them.

use crate::affinity::Requirement;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The labels of every namespace.
pub type Namespaces = BTreeMap<String, Labels>;

/// A label selector. The empty selector selects every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be equal.
    pub match_labels: Labels,
    /// Further requirements.
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether the selector has no requirement.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether the selector selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|r| r.admits(labels.get(&r.key).map(String::as_str)))
    }
}

/// A pod affinity term: other pods, and the topology domain in which they count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityTerm {
    /// The selector for the other pods; `None` selects no pod.
    pub label_selector: Option<LabelSelector>,
    /// The node label of the topology: nodes with equal values are in one domain.
    pub topology_key: String,
    /// The other pods' namespaces. If the term gives neither namespaces nor a selector, decoding fills in the
    /// pod's own.
    pub namespaces: Vec<String>,
    /// Further namespaces by their labels; the empty selector selects every namespace.
    pub namespace_selector: Option<LabelSelector>,
}

impl AffinityTerm {
    /// Whether the term selects the pod with these labels in this namespace.
    pub fn selects(&self, namespace: &str, labels: &Labels, namespaces: &Namespaces) -> bool {
        let none = Labels::new();
        let listed = || self.namespaces.iter().any(|ns| ns == namespace);
        let chosen = |s: &LabelSelector| s.matches(namespaces.get(namespace).unwrap_or(&none));
        self.label_selector.as_ref().is_some_and(|s| s.matches(labels))
            && (listed() || self.namespace_selector.as_ref().is_some_and(chosen))
    }
}

/// A preferred pod affinity term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightedTerm {
    /// The weight, 1 to 100.
    pub weight: i64,
    /// The term.
    #[serde(rename = "podAffinityTerm")]
    pub term: AffinityTerm,
}

/// The affinity and anti-affinity terms of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAffinity {
    /// Affinity terms: the domain must have a pod that matches each.
    pub required: Vec<AffinityTerm>,
    /// Anti-affinity terms: the domain must have no pod that matches any.
    pub anti_required: Vec<AffinityTerm>,
    /// Preferred affinity terms: domains with pods that match are better.
    pub preferred: Vec<WeightedTerm>,
    /// Preferred anti-affinity terms: domains with pods that match are worse.
    pub anti_preferred: Vec<WeightedTerm>,
}

impl PodAffinity {
    /// Whether the pod has a required term.
    pub fn has_required(&self) -> bool {
        !(self.required.is_empty() && self.anti_required.is_empty())
    }

    /// Whether the pod has a preferred term.
    pub fn has_preferred(&self) -> bool {
        !(self.preferred.is_empty() && self.anti_preferred.is_empty())
    }
}

/// A topology spread constraint: the maximum skew between domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The maximum difference between a domain and the domain with the fewest pods.
    pub max_skew: i64,
    /// The minimum number of domains. With fewer domains, the minimum counts as zero pods.
    pub min_domains: i64,
    /// The selector for the pods to count; `None` selects no pod.
    pub selector: Option<LabelSelector>,
    /// Whether nodes that the pod's node affinity excludes do not count.
    pub honor_affinity: bool,
    /// Whether nodes with taints that the pod does not tolerate do not count.
    pub honor_taints: bool,
}

impl Spread {
    /// Whether the constraint counts a pod with these labels.
    pub fn counts(&self, labels: &Labels) -> bool {
        self.selector.as_ref().is_some_and(|s| s.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(json: &str) -> AffinityTerm {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_term_selects_pods_by_label_and_namespace() {
        let labels = |key: &str| Labels::from([(key.to_owned(), "x".to_owned())]);
        let namespaces =
            Namespaces::from([("prod".to_owned(), labels("team")), ("dev".to_owned(), Labels::new())]);
        let cases = [
            (r#"{"labelSelector":{"matchLabels":{"app":"x"}},"namespaces":["dev"]}"#, "dev", true),
            (r#"{"labelSelector":{"matchLabels":{"app":"x"}},"namespaces":["dev"]}"#, "prod", false),
            (r#"{"labelSelector":{"matchLabels":{"app":"y"}},"namespaces":["dev"]}"#, "dev", false),
            (r#"{"labelSelector":{},"namespaceSelector":{}}"#, "unknown", true),
            (r#"{"namespaceSelector":{}}"#, "dev", false),
            (r#"{"labelSelector":{},"namespaceSelector":{"matchLabels":{"team":"x"}}}"#, "prod", true),
            (r#"{"labelSelector":{},"namespaceSelector":{"matchLabels":{"team":"x"}}}"#, "dev", false),
        ];
        for (json, namespace, expected) in cases {
            assert_eq!(
                term(json).selects(namespace, &labels("app"), &namespaces),
                expected,
                "{json} {namespace}"
            );
        }
    }
}
