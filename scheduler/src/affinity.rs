//! Node affinity: requirements on a node's labels and name. Pod affinity is a different thing (`pod_constraints`).

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The only field that a field requirement can name.
const NAME_FIELD: &str = "metadata.name";

/// The comparison of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Operator {
    /// The value is in the list.
    In,
    /// The value is absent or not in the list.
    NotIn,
    /// The label or field has a value.
    Exists,
    /// The label or field has no value.
    DoesNotExist,
    /// The value is an integer above the listed one.
    Gt,
    /// The value is an integer below the listed one.
    Lt,
}

/// One condition on a label or field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Requirement {
    /// The name of the label or field.
    pub key: String,
    /// The comparison.
    pub operator: Operator,
    /// The values to compare with.
    #[serde(default)]
    pub values: Vec<String>,
}

impl Requirement {
    /// Whether `actual` (`None`: no value) satisfies the requirement.
    pub fn admits(&self, actual: Option<&str>) -> bool {
        let listed = |value| self.values.iter().any(|v| v == value);
        match self.operator {
            Operator::In => actual.is_some_and(listed),
            Operator::NotIn => !actual.is_some_and(listed),
            Operator::Exists => actual.is_some(),
            Operator::DoesNotExist => actual.is_none(),
            Operator::Gt => self.bound().zip(integer(actual)).is_some_and(|(bound, value)| value > bound),
            Operator::Lt => self.bound().zip(integer(actual)).is_some_and(|(bound, value)| value < bound),
        }
    }

    fn bound(&self) -> Option<i64> {
        integer(self.values.first().map(String::as_str))
    }
}

fn integer(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

/// A node selector term: requirements that must all hold. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Term {
    /// Requirements on labels.
    #[serde(default)]
    pub match_expressions: Vec<Requirement>,
    /// Requirements on fields.
    #[serde(default)]
    pub match_fields: Vec<Requirement>,
}

impl Term {
    /// Whether the node of this name and with these labels satisfies the term.
    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let field = |r: &Requirement| (r.key == NAME_FIELD).then_some(name);
        !self.is_empty()
            && self.match_expressions.iter().all(|r| r.admits(labels.get(&r.key).map(String::as_str)))
            && self.match_fields.iter().all(|r| r.admits(field(r)))
    }

    fn is_empty(&self) -> bool {
        self.match_expressions.is_empty() && self.match_fields.is_empty()
    }

    /// The node names this term is limited to; `None` when it names none.
    fn names(&self) -> Option<BTreeSet<&str>> {
        let pinning = |r: &&Requirement| r.key == NAME_FIELD && r.operator == Operator::In;
        let sets =
            self.match_fields.iter().filter(pinning).map(|r| r.values.iter().map(String::as_str).collect());
        sets.reduce(|a: BTreeSet<&str>, b| a.intersection(&b).copied().collect())
    }
}

/// A preferred term with its weight.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Preference {
    /// The weight, 1 to 100.
    pub weight: i64,
    /// The preferred term.
    #[serde(rename = "preference")]
    pub term: Term,
}

/// The node affinity and the node selector of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAffinity {
    /// `spec.nodeSelector`: labels that must be equal.
    pub selector: BTreeMap<String, String>,
    /// Required terms; one must hold. `None`: the pod requires nothing.
    pub required: Option<Vec<Term>>,
    /// Preferred terms.
    pub preferred: Vec<Preference>,
    /// The names of the only nodes that the required terms can admit, sorted. `None`: the terms do not limit
    /// the names.
    pub pinned: Option<Vec<String>>,
}

impl NodeAffinity {
    /// Makes the affinity and computes `pinned` from the required terms.
    pub fn new(
        selector: BTreeMap<String, String>,
        required: Option<Vec<Term>>,
        preferred: Vec<Preference>,
    ) -> Self {
        let pinned = required.as_deref().and_then(pinned);
        Self { selector, required, preferred, pinned }
    }

    /// Whether the node satisfies the node selector and one required term.
    pub fn admits(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.required.as_ref().is_none_or(|terms| terms.iter().any(|t| t.matches(name, labels)))
    }

    /// Whether every node satisfies the node selector and the required terms.
    pub fn is_open(&self) -> bool {
        self.selector.is_empty() && self.required.is_none()
    }

    /// The summed weights of the preferences that the node satisfies; saturates.
    pub fn preference(&self, name: &str, labels: &BTreeMap<String, String>) -> i64 {
        let weights = self.preferred.iter().filter(|p| p.term.matches(name, labels)).map(|p| p.weight);
        weights.fold(0, i64::saturating_add)
    }
}

/// The union of the terms' names, if every term is limited to names.
fn pinned(terms: &[Term]) -> Option<Vec<String>> {
    let mut union = BTreeSet::new();
    for term in terms {
        union.extend(term.names()?);
    }
    (!terms.is_empty()).then(|| union.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(json: &str) -> Term {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn terms_match_labels_and_names() {
        let labels = BTreeMap::from([("zone".into(), "a".into()), ("cores".into(), "8".into())]);
        let cases = [
            (r#"{}"#, false),
            (r#"{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"zone","operator":"NotIn","values":["a"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"disk","operator":"NotIn","values":["a"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"disk","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"disk","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"cores","operator":"Gt","values":["7"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"cores","operator":"Lt","values":["8"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"zone","operator":"Gt","values":["7"]}]}"#, false),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}"#, true),
            (r#"{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n1"]}]}"#, false),
        ];
        for (json, expected) in cases {
            assert_eq!(term(json).matches("n1", &labels), expected, "{json}");
        }
    }

    #[test]
    fn names_are_pinned_only_when_every_term_names_some() {
        let pin = |names: &str| {
            term(&format!(
                r#"{{"matchFields":[{{"key":"metadata.name","operator":"In","values":[{names}]}}]}}"#
            ))
        };
        let label = term(r#"{"matchExpressions":[{"key":"zone","operator":"Exists"}]}"#);
        assert_eq!(pinned(&[pin(r#""b""#), pin(r#""a""#)]), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(pinned(&[pin(r#""b""#), label]), None);
        let mut conflict = pin(r#""a""#);
        conflict.match_fields.extend(pin(r#""b""#).match_fields);
        assert_eq!(pinned(&[conflict]), Some(vec![]));
        assert_eq!(pinned(&[]), None);
    }
}
