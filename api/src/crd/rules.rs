//! CEL rules of schemas (`x-kubernetes-validations`) as far as a definition is concerned: the parsed rules, and what is wrong with them
//! when a definition is written ([`super::validate::check_rules`]). Evaluating them on objects is `structural`'s.

use std::sync::Arc;

use serde_json::Value;

use crate::expression::limits::{REQUEST_BYTES, RULE_ESTIMATE, SCHEMA_ESTIMATE};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::rules::{CompiledRule, compile_node, min_size};
use crate::structural::{NodeId, Tree};

/// The rules of one schema node.
#[derive(Clone, Debug)]
pub struct NodeRules<'a> {
    /// Path of the list of rules in the definition, in the form of its errors, such as
    /// `spec.validation.openAPIV3Schema.x-kubernetes-validations`.
    pub path: String,
    /// The rule objects: `rule`, `message`, `messageExpression`, `reason`, `fieldPath`, `optionalOldSelf`.
    pub rules: &'a [Value],
    /// The schema node that the rules belong to: `self` has its type.
    pub node: NodeId,
    /// How many values of the node an object may have: the product of the bounds of the lists and maps around it. None if one of
    /// them has no bound.
    pub cardinality: Option<u64>,
    /// Path of the outermost list above the node whose items cannot be matched between old and new objects: below it no rule may use
    /// `oldSelf`.
    pub uncorrelatable: Option<String>,
}

/// The rules of one schema. A schema that all versions share comes once.
#[derive(Clone, Debug)]
pub struct SchemaRules<'a> {
    /// Path of the schema, in the form of its errors.
    pub path: String,
    /// The compiled schema.
    pub tree: Arc<Tree>,
    /// The stored definition has the same schema in this version: single rules may then be as costly as they are.
    pub is_stored: bool,
    /// Rules of all nodes that have some, in the order of errors.
    pub nodes: Vec<NodeRules<'a>>,
}

/// How many of the costliest rules are named if all rules of a schema together cost too much.
const NAMED_RULES_MAX: usize = 4;

/// Compiles the rules of a schema and appends what is wrong with them: texts and types, costs of single rules, and of all together.
pub fn check(schema: &SchemaRules<'_>, errors: &mut ErrorList) {
    let mut total = Total::default();
    for node in &schema.nodes {
        let Some(compiled) = compile_node(&schema.tree, node.node) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            let field = node.path.clone();
            let detail = detail.to_owned();
            errors.push(FieldError { kind: FieldErrorKind::Internal, field, value: None, detail });
            continue;
        };
        // Without a bound around it, as many of the smallest values as a request has room for.
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
    fn check(&self, errors: &mut ErrorList, total: &mut Total) {
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

/// The cost of all rules of a schema, and its costliest ones.
#[derive(Default)]
struct Total {
    cost: u64,
    costliest: Vec<(String, u64)>,
}

impl Total {
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

/// By how much a cost exceeds its limit.
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
