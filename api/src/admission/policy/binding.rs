//! [`Binding`]: a ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding, and grouping of
//! bindings by policy.

use super::checks::Enforcement;
use super::params::ParamRef;
use crate::admission::attributes::Attributes;
use crate::admission::selection::{ClusterFacts, Selection};
use crate::meta;
use crate::object::{list, text};
use crate::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// Action for a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Deny,
    Warn,
    Audit,
}

impl Action {
    pub(super) fn enforcement(self) -> Enforcement {
        match self {
            Self::Deny => Enforcement::Deny,
            Self::Warn => Enforcement::Warn,
            Self::Audit => Enforcement::Audit,
        }
    }
}

/// Compiled binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: Arc<str>,
    /// Further match resources of the binding; `None` if it matches all requests of its policy.
    selection: Option<Selection>,
    pub(super) param_ref: Option<ParamRef>,
    /// Actions of a validating policy's binding.
    pub(super) actions: Vec<Action>,
    /// JSON of the actions, for the audit log.
    pub(super) stated_actions: Value,
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let action = |action: &Value| match text(action) {
            "Deny" => Some(Action::Deny),
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            _ => None,
        };
        let resources = &spec["matchResources"];
        Self {
            name: meta::name(binding).into(),
            selection: (!resources.is_null()).then(|| Selection::of_binding(resources)),
            param_ref: ParamRef::read(&spec["paramRef"]),
            actions: list(&spec["validationActions"]).iter().filter_map(action).collect(),
            stated_actions: spec["validationActions"].clone(),
        }
    }

    /// Whether the binding matches a request that its policy matches.
    pub(super) fn matches(
        &self,
        attributes: &Attributes<'_>,
        facts: &ClusterFacts<'_>,
    ) -> Result<bool, Status> {
        match &self.selection {
            None => Ok(true),
            Some(selection) => Ok(selection.matches(attributes, facts)?.is_some()),
        }
    }

    /// Bindings of one policy, sorted by name.
    pub(super) fn of_policy(policy: &str, bindings: &[&Value]) -> Vec<Self> {
        let mut own: Vec<&Value> =
            bindings.iter().copied().filter(|binding| binding["spec"]["policyName"] == policy).collect();
        own.sort_by_key(|binding| meta::name(binding));
        own.into_iter().map(Self::read).collect()
    }
}
