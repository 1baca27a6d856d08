//! CEL rules of schemas (`x-kubernetes-validations`) as far as no CEL is needed: the parsed rules, and the hook by which another crate
//! compiles them when a definition is written ([`super::validate::check_rules`]).

use serde_json::Value;

use crate::field::ErrorList;

/// One rule of a schema node.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule<'a> {
    /// Path of the rule in the definition, in the form of its errors, such as
    /// `spec.validation.openAPIV3Schema.x-kubernetes-validations[0]`.
    pub path: String,
    /// The rule object: `rule`, `message`, `messageExpression`, `reason`, `fieldPath`, `optionalOldSelf`.
    pub rule: &'a Value,
    /// The schema node that the rule belongs to: `self` has its type.
    pub schema: &'a Value,
    /// Path of the outermost list above the node whose items cannot be matched between old and new objects: below it no rule may use
    /// `oldSelf`.
    pub uncorrelatable: Option<String>,
}

impl Rule<'_> {
    /// The rule as errors of the compiler show it: all members, with Go's names.
    #[must_use]
    pub fn shown(&self) -> String {
        super::validate::print_rule(self.rule)
    }
}

/// Rules of one schema, for the compiler of rules. A schema that all versions share comes once.
#[derive(Clone, Debug)]
pub struct VersionRules<'a> {
    /// Index into `spec.versions`; 0 for a shared schema.
    pub version: usize,
    /// Path of the schema, in the form of its errors.
    pub path: String,
    /// The whole schema.
    pub schema: &'a Value,
    /// The same version's schema of the stored definition. If it is equal, single rules may be as costly as they are.
    pub old_schema: Option<&'a Value>,
    /// All schemas of the stored definition: rule and message texts that are in any of them compile in the environment of stored ones.
    pub old_schemas: Vec<&'a Value>,
    /// Rules of all nodes, in the order of errors.
    pub rules: Vec<Rule<'a>>,
}

/// Compiles the rules of a schema and appends what is wrong with them. Called once for every schema that has rules, at create and at
/// update, after the checks that need no CEL.
pub trait RuleCompiler {
    /// Appends one error per rule that does not compile or costs too much.
    fn check(&self, rules: &VersionRules<'_>, errors: &mut ErrorList);
}

/// A compiler that accepts every rule: for tests of what is not CEL.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptAll;

impl RuleCompiler for AcceptAll {
    fn check(&self, _: &VersionRules<'_>, _: &mut ErrorList) {}
}
