//! Type checking of ValidatingAdmissionPolicies for `status.typeChecking`: [`Checks`] find expressions that
//! cannot work with the kinds that a policy names. They only warn, since a policy may know better than the
//! schemas. Validation separately checks that expressions compile. The caller provides the schemas.

use crate::admission_expression::{Environment, KindSchema, KindTypes, Uses};
use crate::group_version::split_api_version;
use crate::limits::{POLICY_KINDS_CHECKED_MAX, POLICY_VARIABLES_MAX, POLICY_WARNING_BYTES_MAX};
use crate::object::{list, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Resource in the rules of a policy, without wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Lower-case plural.
    pub resource: &'a str,
}

/// Kind of a resource that a policy names, with its fields.
#[derive(Clone, Debug)]
pub struct CheckedKind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Fields of the kind.
    pub schema: KindSchema,
}

/// Source of kinds and schemas for type checking.
pub trait Schemas {
    /// The kind of a resource; `None` if it is unknown.
    fn kind_of(&self, resource: ResourceName<'_>) -> Option<CheckedKind>;

    /// The fields of a kind by group, version and kind; `None` if they are unknown.
    fn schema_of(&self, group: &str, version: &str, kind: &str) -> Option<KindSchema>;
}

/// Type-checking warning about an expression, for `status.typeChecking.expressionWarnings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// Path of the expression.
    pub field_ref: String,
    /// Errors of the expression for each kind.
    pub warning: String,
}

impl ExpressionWarning {
    /// JSON of the warning in the status.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"fieldRef": self.field_ref, "warning": self.warning})
    }
}

/// Resources in the rules of a policy, sorted within each rule. Rules with a wildcard for groups or versions
/// name none; wildcards and subresources among the resources are skipped.
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

/// Group, version and kind of a policy's parameters, if it has any.
#[must_use]
pub fn param_kind(policy: &Value) -> Option<(&str, &str, &str)> {
    let kind = &policy["spec"]["paramKind"];
    let (group, version) = split_api_version(text(&kind["apiVersion"]));
    (!kind.is_null()).then(|| (group, version, text(&kind["kind"])))
}

/// Type checks of one policy. Creating and running them is expensive; a caller that serves requests runs them
/// one at a time.
#[derive(Debug)]
pub struct Checks<'p> {
    policy: &'p Value,
    /// Environments by group, version and kind, as errors name them.
    kinds: Vec<(String, Environment)>,
    bytes_left: usize,
}

impl<'p> Checks<'p> {
    /// The checks of a policy for up to [`POLICY_KINDS_CHECKED_MAX`] kinds that its rules name. Objects of
    /// other kinds, and parameters of unknown kinds, have the dynamic type, which fits everything.
    #[must_use]
    pub fn new(policy: &'p Value, schemas: &dyn Schemas) -> Self {
        let named = |kind: &CheckedKind| {
            let CheckedKind { group, version, kind: name, .. } = kind;
            (format!("{group}/{version}, Kind={name}"), environment(policy, kind, schemas))
        };
        let kinds = kinds(policy, schemas).iter().map(named).collect();
        Self { policy, kinds, bytes_left: POLICY_WARNING_BYTES_MAX }
    }

    /// Number of validations to check.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.kinds.is_empty() { 0 } else { list(&self.policy["spec"]["validations"]).len() }
    }

    /// Whether there is nothing to check: no validation, or no known kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Warnings about the validation at this index. After [`POLICY_WARNING_BYTES_MAX`] bytes of warnings,
    /// texts are truncated and further warnings dropped.
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

/// Kinds to check with, by group, version and kind.
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

/// Environment of the policy for objects of one kind.
fn environment(policy: &Value, kind: &CheckedKind, schemas: &dyn Schemas) -> Environment {
    let mut types = KindTypes::of(&kind.kind, kind.schema.clone());
    let param_kind = param_kind(policy);
    if let Some((group, version, name)) = param_kind
        && let Some(schema) = schemas.schema_of(group, version, name)
    {
        types = types.with_params(name, schema);
    }
    let uses = Uses::of_validating_policy(param_kind.is_some());
    let mut environment = Environment::typed(uses, types);
    for variable in list(&policy["spec"]["variables"]).iter().take(POLICY_VARIABLES_MAX) {
        // A variable with an error has the dynamic type; variables cause no warnings.
        let _ = environment.declare(text(&variable["name"]), text(&variable["expression"])).is_ok();
    }
    environment
}

#[cfg(test)]
mod tests;
