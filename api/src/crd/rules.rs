//! Checks of CEL rules (`x-kubernetes-validations`) when a definition is written
//! ([`super::validate::check_rules`]). `structural` evaluates rules on objects.

use crate::expression::limits::{REQUEST_BYTES, RULE_ESTIMATE, SCHEMA_ESTIMATE};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::rules::{CompiledRule, compile_node, min_size};
use crate::structural::{NodeId, Tree};
use serde_json::Value;
use std::sync::Arc;

/// CEL rules of one schema node.
#[derive(Clone, Debug)]
pub struct NodeRules<'a> {
    /// Path of the rule list in errors, such as `spec.validation.openAPIV3Schema.x-kubernetes-validations`.
    pub path: String,
    /// The rule objects: `rule`, `message`, `messageExpression`, `reason`, `fieldPath`, `optionalOldSelf`.
    pub rules: &'a [Value],
    /// Schema node of the rules; `self` has its type.
    pub node: NodeId,
    /// Largest number of values of the node in one object: the product of the bounds of the surrounding lists
    /// and maps. `None` if one of them is unbounded.
    pub cardinality: Option<u64>,
    /// Path of the outermost list above the node whose items cannot be correlated between old and new object.
    /// Rules below it must not use `oldSelf`.
    pub uncorrelatable: Option<String>,
}

/// CEL rules of one schema. A schema that all versions share occurs once.
#[derive(Clone, Debug)]
pub struct SchemaRules<'a> {
    /// Path of the schema in errors.
    pub path: String,
    /// The compiled schema.
    pub tree: Arc<Tree>,
    /// Whether the stored definition has the same schema in this version; then the cost limit of single rules
    /// is not enforced.
    pub is_stored: bool,
    /// Rules of all nodes that have some, in the order of errors.
    pub nodes: Vec<NodeRules<'a>>,
}

/// Number of the costliest rules that an error names if the total cost of a schema is too high.
const NAMED_RULES_MAX: usize = 4;

/// Compiles the rules of a schema and reports syntax and type errors, costs of single rules, and their total
/// cost.
pub fn check(schema: &SchemaRules<'_>, errors: &mut ErrorList) {
    let mut total = TotalCost::default();
    for node in &schema.nodes {
        let Some(compiled) = compile_node(&schema.tree, node.node) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            let field = node.path.clone();
            let detail = detail.to_owned();
            errors.push(FieldError { kind: FieldErrorKind::Internal, field, value: None, detail });
            continue;
        };
        // Without a bound, the number of smallest values that fit into a request.
        let most = || REQUEST_BYTES / (min_size(&schema.tree, node.node) + 1);
        let cardinality = node.cardinality.unwrap_or_else(most);
        for (at, (rule, compiled)) in node.rules.iter().zip(&compiled).enumerate() {
            let path = format!("{}[{at}]", node.path);
            let one = OneRule { path: &path, rule, compiled, cardinality, is_stored: schema.is_stored };
            one.check(errors, &mut total);
            one.check_old_self(errors, node.uncorrelatable.as_deref());
        }
    }
    total.check(errors, &schema.path);
}

struct OneRule<'a> {
    path: &'a str,
    rule: &'a Value,
    compiled: &'a CompiledRule,
    cardinality: u64,
    is_stored: bool,
}

impl OneRule<'_> {
    fn check(&self, errors: &mut ErrorList, total: &mut TotalCost) {
        let path = Path::new(self.path);
        let shown = || super::validate::print_rule(self.rule);
        let own = path.child("rule");
        let cost = self.compiled.cost.saturating_mul(self.cardinality);
        if cost > RULE_ESTIMATE && !self.is_stored {
            errors.forbidden(&own, excess("estimated rule cost", cost, RULE_ESTIMATE));
        }
        total.add(own.to_string(), cost);
        if let Some(fault) = &self.compiled.fault {
            errors.invalid_raw(&own, shown(), fault.clone());
        }
        let own = path.child("messageExpression");
        if let Some(fault) = &self.compiled.message_fault {
            errors.invalid_raw(&own, shown(), fault.clone());
        }
        if let Some(cost) = self.compiled.message_cost {
            if cost > RULE_ESTIMATE && !self.is_stored {
                errors.forbidden(&own, excess("estimated messageExpression cost", cost, RULE_ESTIMATE));
            }
            total.add(own.to_string(), cost);
        }
    }

    fn check_old_self(&self, errors: &mut ErrorList, uncorrelatable: Option<&str>) {
        let path = Path::new(self.path);
        if self.compiled.uses_old_self {
            if let Some(list) = uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                errors.invalid(&path.child("rule"), &self.rule["rule"], detail);
            }
        } else if !self.rule["optionalOldSelf"].is_null() {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.invalid(&path.child("optionalOldSelf"), &self.rule["optionalOldSelf"], detail);
        }
    }
}

/// Total cost of a schema's rules, and its costliest rules.
#[derive(Default)]
struct TotalCost {
    cost: u64,
    costliest: Vec<(String, u64)>,
}

impl TotalCost {
    fn add(&mut self, path: String, cost: u64) {
        self.cost = self.cost.saturating_add(cost);
        if cost < SCHEMA_ESTIMATE / 100 {
            return;
        }
        let at = self.costliest.partition_point(|(_, other)| *other >= cost);
        self.costliest.insert(at, (path, cost));
        self.costliest.truncate(NAMED_RULES_MAX);
    }

    fn check(&self, errors: &mut ErrorList, path: &str) {
        if self.cost <= SCHEMA_ESTIMATE {
            return;
        }
        for (path, _) in &self.costliest {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(&Path::new(path), detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(&Path::new(path), excess(what, self.cost, SCHEMA_ESTIMATE));
    }
}

/// Message with the factor by which a cost exceeds its limit.
fn excess(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
