//! What a pod says about other pods: near which it wants to be, from which it keeps away, and how evenly it wants to be
//! spread among its like. Types and matching; the judgement is in `filter::inter_pod_affinity` and
//! `filter::pod_topology_spread`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::affinity::Requirement;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// The labels of every namespace.
pub type Namespaces = BTreeMap<String, Labels>;

/// Chooses objects by their labels. The empty selector chooses all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be equal.
    pub match_labels: Labels,
    /// Further conditions.
    pub match_expressions: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether it chooses an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|r| r.admits(labels.get(&r.key).map(String::as_str)))
    }
}

/// Some other pods, and what counts as being near them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityTerm {
    /// The other pods' labels; `None` chooses no pod.
    pub label_selector: Option<LabelSelector>,
    /// The node label that, if equal, makes two nodes near each other.
    pub topology_key: String,
    /// The other pods' namespaces; filled in at decoding if neither these nor a selector are given.
    pub namespaces: Vec<String>,
    /// More namespaces, by their labels; the empty selector is every namespace.
    pub namespace_selector: Option<LabelSelector>,
}

impl AffinityTerm {
    /// Whether the term means the pod with these labels in this namespace.
    pub fn means(&self, namespace: &str, labels: &Labels, namespaces: &Namespaces) -> bool {
        let none = Labels::new();
        let listed = || self.namespaces.iter().any(|ns| ns == namespace);
        let chosen = |s: &LabelSelector| s.matches(namespaces.get(namespace).unwrap_or(&none));
        self.label_selector.as_ref().is_some_and(|s| s.matches(labels))
            && (listed() || self.namespace_selector.as_ref().is_some_and(chosen))
    }
}

/// The required terms of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companions {
    /// Near each of which there must be someone.
    pub wanted: Vec<AffinityTerm>,
    /// Near none of which there may be anyone.
    pub shunned: Vec<AffinityTerm>,
}

impl Companions {
    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.shunned.is_empty()
    }
}

/// A limit on how unevenly pods may be spread over domains (`whenUnsatisfiable: DoNotSchedule`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// By how much a domain may exceed the emptiest.
    pub max_skew: i64,
    /// With fewer domains than this the emptiest counts as empty.
    pub min_domains: i64,
    /// Whose spread it is; `None` chooses no pod.
    pub selector: Option<LabelSelector>,
    /// Whether nodes that the pod's node affinity excludes do not count.
    pub honor_affinity: bool,
    /// Whether nodes whose taints the pod does not bear do not count.
    pub honor_taints: bool,
}

impl Spread {
    /// Whether a pod with these labels is counted.
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
    fn a_term_means_pods_by_label_in_namespaces_by_name_or_label() {
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
                term(json).means(namespace, &labels("app"), &namespaces),
                expected,
                "{json} {namespace}"
            );
        }
    }
}
