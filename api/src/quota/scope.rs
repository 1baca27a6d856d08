//! [`Quota`]: a parsed ResourceQuota: bounds, used amounts, and scopes.
//!
//! Follows `podMatchesScopeFunc`.

use super::evaluator::Evaluator;
use super::usage::{Traits, Usage};
use super::{Amounts, amounts};
use crate::meta;
use crate::object::{list, text};
use serde_json::Value;
use std::fmt;

/// Parsed ResourceQuota.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Name of the quota.
    pub name: String,
    /// Bounds in the spec (`spec.hard`).
    pub wanted: Amounts,
    /// Enforced bounds (`status.hard`). The controller copies them from the spec after it has counted the
    /// used amounts.
    pub hard: Amounts,
    /// Used amounts (`status.used`).
    pub used: Amounts,
    /// Scopes; an object must match all of them.
    pub scopes: Vec<Selector>,
}

/// One scope of a quota, with operator and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    scope: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Parses a ResourceQuota.
    pub fn of(object: &Value) -> Self {
        let (spec, status) = (&object["spec"], &object["status"]);
        let plain = list(&spec["scopes"]).iter().map(|scope| Selector {
            scope: text(scope).to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let expressions = list(&spec["scopeSelector"]["matchExpressions"]).iter().map(Selector::of);
        Self {
            name: meta::name(object).to_owned(),
            wanted: amounts(&spec["hard"]),
            hard: amounts(&status["hard"]),
            used: amounts(&status["used"]),
            scopes: plain.chain(expressions).collect(),
        }
    }

    /// Whether an object matches all scopes.
    pub fn selects(&self, evaluator: &Evaluator, usage: &Usage) -> bool {
        self.scopes.iter().all(|scope| scope.selects(evaluator, usage))
    }
}

impl fmt::Display for Selector {
    /// As Kubernetes prints it: `{PriorityClass In [a b]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{} {} [{}]}}", self.scope, self.operator, self.values.join(" "))
    }
}

impl Selector {
    /// Parses a scope with its operator and values, as in `scopeSelector.matchExpressions`.
    pub fn of(expression: &Value) -> Self {
        Self {
            scope: text(&expression["scopeName"]).to_owned(),
            operator: text(&expression["operator"]).to_owned(),
            values: list(&expression["values"]).iter().map(|value| text(value).to_owned()).collect(),
        }
    }

    /// Name of the scope.
    pub(super) fn scope(&self) -> &str {
        &self.scope
    }

    /// Whether this scope matches an object with this use.
    pub(super) fn selects(&self, evaluator: &Evaluator, usage: &Usage) -> bool {
        evaluator.has_traits() && self.matches(&usage.traits)
    }

    fn matches(&self, traits: &Traits) -> bool {
        match self.scope.as_str() {
            "Terminating" => traits.is_terminating,
            "NotTerminating" => traits.is_pod && !traits.is_terminating,
            "BestEffort" => traits.is_best_effort,
            "NotBestEffort" => traits.is_pod && !traits.is_best_effort,
            "CrossNamespacePodAffinity" => traits.crosses_namespaces,
            "PriorityClass" => traits.is_pod && self.selects_any(&[traits.priority_class.as_str()]),
            "VolumeAttributesClass" => {
                !traits.is_pod && {
                    let classes: Vec<&str> = traits.volume_classes.iter().map(String::as_str).collect();
                    self.selects_any(&classes)
                }
            }
            _ => false,
        }
    }

    /// Whether the operator accepts one of these names, or their absence. Empty names count as absent.
    fn selects_any(&self, names: &[&str]) -> bool {
        let mut names = names.iter().filter(|name| !name.is_empty()).peekable();
        let is_listed = |name: &&&str| self.values.iter().any(|value| value == **name);
        match self.operator.as_str() {
            "Exists" => names.peek().is_some(),
            "DoesNotExist" => names.peek().is_none(),
            "In" => names.any(|name| is_listed(&name)),
            "NotIn" => names.peek().is_none() || names.any(|name| !is_listed(&name)),
            _ => false,
        }
    }
}
