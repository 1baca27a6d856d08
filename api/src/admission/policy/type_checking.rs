//! Type checks of ValidatingAdmissionPolicies, for `status.typeChecking`: [`Checks`] say which expressions cannot work with the kinds that
//! a policy names. They refuse nothing, since a policy may know better than the schemas: whether an expression compiles with objects of
//! any kind is a matter of validation. Where schemas come from is the caller's.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::validating_uses;
use crate::expression::admission::{Environment, KindSchema, KindTypes, Uses};
use crate::kind::split_api_version;
use crate::limits::{POLICY_KINDS_CHECKED_MAX, POLICY_VARIABLES_MAX, POLICY_WARNING_BYTES_MAX};
use crate::object::{list, text};

/// A resource that the rules of a policy name, without wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Lower-case plural.
    pub resource: &'a str,
}

/// A kind of a resource of a policy, and its fields.
#[derive(Clone, Debug)]
pub struct CheckedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Its fields.
    pub schema: KindSchema,
}

/// What checks need to know of the kinds of a cluster.
pub trait Schemas {
    /// The kind of a resource; `None` if there is none.
    fn kind_of(&self, resource: ResourceName<'_>) -> Option<CheckedKind>;

    /// The fields of a kind by group, version and kind; `None` if they are not known.
    fn schema_of(&self, group: &str, version: &str, kind: &str) -> Option<KindSchema>;
}

/// An expression that does not fit some of its kinds, as `status.typeChecking.expressionWarnings` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The path of the expression.
    pub field_ref: String,
    /// What is wrong with it, for each kind.
    pub warning: String,
}

impl ExpressionWarning {
    /// The warning as the status has it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"fieldRef": self.field_ref, "warning": self.warning})
    }
}

/// The resources that the rules of a policy name, sorted within each rule. Rules with a wildcard for groups or versions name none;
/// wildcards and subresources among the resources are passed over.
#[must_use]
pub fn resources(policy: &Value) -> Vec<ResourceName<'_>> {
    let mut named = Vec::new();
    for rule in list(&policy["spec"]["matchConstraints"]["resourceRules"]) {
        let sorted = |member: &str| list(&rule[member]).iter().map(text).collect::<BTreeSet<&str>>();
        let (groups, versions) = (sorted("apiGroups"), sorted("apiVersions"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        for group in &groups {
            for version in &versions {
                let resources = sorted("resources").into_iter().filter(|name| !name.contains(['*', '/']));
                named.extend(resources.map(|resource| ResourceName { group, version, resource }));
            }
        }
    }
    named
}

/// The group, version and kind of the parameters of a policy, if it has any.
#[must_use]
pub fn param_kind(policy: &Value) -> Option<(&str, &str, &str)> {
    let kind = &policy["spec"]["paramKind"];
    let (group, version) = split_api_version(text(&kind["apiVersion"]));
    (!kind.is_null()).then(|| (group, version, text(&kind["kind"])))
}

/// The checks of one policy. Expensive to make and to run: a caller that serves others beside runs them one by one.
#[derive(Debug)]
pub struct Checks<'p> {
    policy: &'p Value,
    /// By group, version and kind, as errors name them.
    kinds: Vec<(String, Environment)>,
    bytes_left: usize,
}

impl<'p> Checks<'p> {
    /// The checks of a policy with the types of up to [`POLICY_KINDS_CHECKED_MAX`] kinds that its rules name. Objects of other kinds, and
    /// parameters of unknown kinds, are of any type, which fits everything.
    #[must_use]
    pub fn new(policy: &'p Value, schemas: &dyn Schemas) -> Self {
        let named = |kind: &CheckedKind| {
            let CheckedKind { group, version, kind: name, .. } = kind;
            (format!("{group}/{version}, Kind={name}"), environment(policy, kind, schemas))
        };
        let kinds = kinds(policy, schemas).iter().map(named).collect();
        Self { policy, kinds, bytes_left: POLICY_WARNING_BYTES_MAX }
    }

    /// How many validations there are to check.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.kinds.is_empty() { 0 } else { list(&self.policy["spec"]["validations"]).len() }
    }

    /// Whether there is nothing to check: no validation, or no known kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is wrong with the expressions of the validation of this index. Beyond [`POLICY_WARNING_BYTES_MAX`] bytes of all warnings
    /// their texts are cut, and there are no more.
    pub fn run(&mut self, index: usize) -> Vec<ExpressionWarning> {
        let validation = &list(&self.policy["spec"]["validations"])[index];
        let mut warnings = Vec::new();
        for member in ["expression", "messageExpression"] {
            let expression = text(&validation[member]);
            if (expression.is_empty() && member != "expression") || self.bytes_left == 0 {
                continue;
            }
            let found = self.kinds.iter().filter_map(|(kind, environment)| {
                environment.type_errors(expression).map(|errors| format!("{kind}: {errors}\n"))
            });
            let mut warning = found.collect::<Vec<_>>().join("\n");
            if warning.len() <= self.bytes_left {
                self.bytes_left -= warning.len();
            } else {
                warning.truncate(warning.floor_char_boundary(self.bytes_left));
                self.bytes_left = 0;
            }
            if !warning.is_empty() {
                let field_ref = format!("spec.validations[{index}].{member}");
                warnings.push(ExpressionWarning { field_ref, warning });
            }
        }
        warnings
    }
}

/// The kinds to check with, by group, version and kind.
fn kinds(policy: &Value, schemas: &dyn Schemas) -> Vec<CheckedKind> {
    let mut kinds: Vec<CheckedKind> = Vec::new();
    for resource in resources(policy) {
        let Some(kind) = schemas.kind_of(resource) else { continue };
        if kinds.iter().all(|known| known.name() != kind.name()) {
            kinds.push(kind);
        }
        if kinds.len() == POLICY_KINDS_CHECKED_MAX {
            break;
        }
    }
    kinds.sort_by(|a, b| a.name().cmp(&b.name()));
    kinds
}

impl CheckedKind {
    fn name(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.kind)
    }
}

/// The environment of a policy whose objects are of one kind.
fn environment(policy: &Value, kind: &CheckedKind, schemas: &dyn Schemas) -> Environment {
    let mut types = KindTypes::of(&kind.kind, kind.schema.clone());
    let param_kind = param_kind(policy);
    if let Some((group, version, name)) = param_kind
        && let Some(schema) = schemas.schema_of(group, version, name)
    {
        types = types.with_params(name, schema);
    }
    let uses: Uses = validating_uses(param_kind.is_some());
    let mut environment = Environment::typed(uses, types);
    for variable in list(&policy["spec"]["variables"]).iter().take(POLICY_VARIABLES_MAX) {
        // A variable with an error is of any type; there are no warnings about variables.
        let _ = environment.declare(text(&variable["name"]), text(&variable["expression"])).is_ok();
    }
    environment
}

#[cfg(test)]
mod tests;
