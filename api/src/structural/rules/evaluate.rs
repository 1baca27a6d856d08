//! Evaluates the rules of a schema on an object: transition rules against the object before, messages, budgets, and the errors that
//! unchanged values are spared.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kstore_cel::{EvalError, Program, Val};
use serde_json::Value;

use super::compile::{Compiled, CompiledNode, CompiledRules};
use crate::expression::limits::{CALL_COST, COSTLY, MESSAGE_BYTES, OBJECT_COST};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::node::NodeId;
use crate::structural::rule::{Rule, RuleReason};
use crate::structural::tree::{Schema, Tree};
use crate::structural::walk::{NO_FIELD, shown};

/// The cost that the rules of one object, or of all defaults of a schema, may still spend.
#[derive(Clone, Debug)]
pub struct RuleBudget {
    /// None once it was exceeded: no rule runs any more.
    left: Option<u64>,
}

impl Default for RuleBudget {
    fn default() -> Self {
        Self { left: Some(OBJECT_COST) }
    }
}

impl RuleBudget {
    /// Whether rules may still run.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    /// The smaller of two.
    pub(crate) fn min(self, other: Self) -> Self {
        Self { left: self.left.zip(other.left).map(|(a, b)| a.min(b)) }
    }

    /// Whether a cost was within the budget.
    fn spend(&mut self, cost: u64) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(cost));
        self.left.is_some()
    }

    fn end(&mut self) {
        self.left = None;
    }
}

/// What the rules of a schema say about an object.
#[derive(Clone, Debug, Default)]
pub struct RuleReport {
    /// Broken rules, in the order of the schema: the rules of a value, then those of its parts.
    pub errors: ErrorList,
    /// Texts of warnings: rules that are broken by values that did not change.
    pub warnings: Vec<String>,
}

impl Tree {
    /// What the rules of this schema say about an object that is valid otherwise; see [`rules_blocked`]. `old` is the object before,
    /// on an update: rules that mention `oldSelf` run only if there was a value, and other rules are not held against values that
    /// did not change.
    ///
    /// [`rules_blocked`]: crate::structural::rules_blocked
    #[must_use]
    pub fn validate_rules(self: &Arc<Self>, object: &Value, old: Option<&Value>) -> RuleReport {
        let mut report = RuleReport::default();
        if self.has_rules() {
            let old = old.filter(|old| !old.is_null());
            let subject = Subject { schema: self.root(), value: object, old };
            let matched = Matched { own: old.map(|old| (subject.schema, object, old)), parent: None };
            let (mut budget, compiled) = (RuleBudget::default(), self.compiled_rules());
            let mut walk = Walk { compiled, report: &mut report, budget: &mut budget };
            walk.value(subject, matched, &Path::ROOT);
            if budget.left.is_none_or(|left| OBJECT_COST - left >= COSTLY) {
                compiled.costly.store(true, Ordering::Relaxed);
            }
        }
        report
    }

    /// Whether the rules have cost [`COSTLY`] or more for an object since they were compiled. The next object may cost as much.
    #[must_use]
    pub fn has_costly_rules(&self) -> bool {
        self.rules.get().is_some_and(|compiled| compiled.costly.load(Ordering::Relaxed))
    }

    /// What the rules of a node and of all below it say about a default, as the successor of `old`. It is spared nothing. Fields of
    /// errors begin with `path`.
    pub(crate) fn validate_default_rules(
        self: &Arc<Self>,
        (node, path): (NodeId, &Path<'_>),
        value: &Value,
        old: Option<&Value>,
        budget: &mut RuleBudget,
    ) -> ErrorList {
        let subject = Subject { schema: self.schema(node), value, old };
        let mut report = RuleReport::default();
        if subject.schema.below.rules {
            let mut walk = Walk { compiled: self.compiled_rules(), report: &mut report, budget };
            walk.value(subject, Matched { own: None, parent: None }, path);
        }
        report.errors
    }

    fn compiled_rules(self: &Arc<Self>) -> &CompiledRules {
        self.rules.get_or_init(|| CompiledRules::of(self))
    }
}

/// A value, its schema, and the value before, by which transition rules judge it.
#[derive(Clone, Copy)]
struct Subject<'a> {
    schema: Schema<'a>,
    value: &'a Value,
    old: Option<&'a Value>,
}

/// The values whose sameness spares errors: the value itself if it can be matched with an old one, else the nearest value around it
/// that can.
#[derive(Clone, Copy)]
struct Matched<'a> {
    own: Option<(Schema<'a>, &'a Value, &'a Value)>,
    parent: Option<(Schema<'a>, &'a Value, &'a Value)>,
}

impl<'a> Matched<'a> {
    fn is_unchanged(self) -> bool {
        self.own.or(self.parent).is_some_and(|(schema, new, old)| schema.is_unchanged(new, old))
    }

    /// For a part of the value.
    fn part(self, schema: Schema<'a>, new: &'a Value, old: Option<&'a Value>) -> Self {
        if self.own.is_none() {
            return self;
        }
        Self { own: old.map(|old| (schema, new, old)), parent: self.own }
    }
}

struct Walk<'a, 'r> {
    compiled: &'a CompiledRules,
    report: &'r mut RuleReport,
    budget: &'r mut RuleBudget,
}

impl<'a> Walk<'a, '_> {
    fn value(&mut self, subject: Subject<'a>, matched: Matched<'a>, path: &Path<'_>) {
        let Subject { schema, value, old } = subject;
        if value.is_null() || !schema.below.rules || self.budget.is_spent() {
            return;
        }
        if let Some(node) = self.compiled.nodes.get(&schema.id()) {
            self.rules(node, subject, matched, path);
        }
        if self.budget.is_spent() {
            return;
        }
        match value {
            Value::Object(members) => {
                let old = old.and_then(Value::as_object);
                // Values of maps come before properties.
                if let Some(below) = schema.values().filter(|below| below.below.rules) {
                    for (name, value) in members {
                        let is_property = schema.node().property(name).is_some();
                        let path = if is_property { path.child(name) } else { path.key(name) };
                        self.member((below, matched), name, value, old, &path);
                    }
                }
                for (name, value) in members {
                    if let Some(below) = schema.property(name).filter(|below| below.below.rules) {
                        self.member((below, matched), name, value, old, &path.child(name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = schema.items().filter(|below| below.below.rules) else { return };
                let old_items = schema.old_items(old);
                for (at, value) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|items| items.get(value));
                    let part = Subject { schema: below, value, old };
                    self.value(part, matched.part(below, value, old), &path.index(at));
                }
            }
            _ => {}
        }
    }

    /// A member of an object, by its schema.
    fn member(
        &mut self,
        (schema, around): (Schema<'a>, Matched<'a>),
        name: &str,
        value: &'a Value,
        old: Option<&'a serde_json::Map<String, Value>>,
        path: &Path<'_>,
    ) {
        let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
        self.value(Subject { schema, value, old }, around.part(schema, value, old), path);
    }

    fn rules(&mut self, node: &'a CompiledNode, subject: Subject<'a>, matched: Matched<'a>, path: &Path<'_>) {
        const OUT_OF_BUDGET: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        // Written out only for errors: most values have none.
        let field = || field_at(path, "");
        let Some(shape) = &node.shape else {
            let why =
                "rule compiler initialization error: failed to convert to declType for CEL validation rules";
            return self.fail(subject, field(), why.to_owned());
        };
        if self.budget.left == Some(0) {
            self.fail(subject, field(), OUT_OF_BUDGET.to_owned());
            return self.budget.end();
        }
        let value = shape.value(subject.value);
        let old = subject.old.map(|old| shape.value(old));
        for (rule, compiled) in subject.schema.node().rules.iter().zip(&node.rules) {
            if let Some(fault) = &compiled.fault {
                self.fail(subject, field(), format!("rule compile error: {fault}"));
                continue;
            }
            let Some(program) = &compiled.program else { continue };
            if compiled.uses_old_self && subject.old.is_none() && !rule.optional_old_self {
                continue;
            }
            let variables =
                Variables { value: &value, old: old.as_ref(), is_optional: rule.optional_old_self };
            let (result, cost) = variables.eval(program);
            if !self.budget.spend(cost) {
                return self.fail(subject, field(), OUT_OF_BUDGET.to_owned());
            }
            match result {
                Ok(Val::Bool(true)) => {}
                Ok(_) => self.broken((rule, compiled), variables, subject, matched, path),
                Err(error) => {
                    self.fail(subject, field(), failure(&error, rule));
                    if error == EvalError::CostLimitExceeded {
                        self.budget.end();
                    }
                }
            }
            if self.budget.is_spent() {
                return;
            }
        }
    }

    /// Reports an expression that has no value.
    fn fail(&mut self, subject: Subject<'_>, field: String, detail: String) {
        let value = format!("\"{}\"", type_name(subject.schema));
        let error = FieldError { kind: FieldErrorKind::Invalid, field, value: Some(value), detail };
        self.report.errors.push(error);
    }

    /// Reports a rule that is false.
    fn broken(
        &mut self,
        (rule, compiled): (&Rule, &'a Compiled),
        variables: Variables<'_, 'a>,
        subject: Subject<'_>,
        matched: Matched<'_>,
        path: &Path<'_>,
    ) {
        let field = field_at(path, &compiled.field);
        let made = compiled.message.as_ref().map(|program| self.message(program, rule, variables));
        let error = match made {
            Some(Err(Exceeded(detail))) => FieldError {
                kind: FieldErrorKind::Invalid,
                field,
                value: Some(format!("\"{}\"", type_name(subject.schema))),
                detail,
            },
            Some(Ok(Some(detail))) => error_for(rule.reason, field, subject, detail),
            Some(Ok(None)) | None => error_for(rule.reason, field, subject, message_of(rule)),
        };
        if !compiled.uses_old_self && matched.is_unchanged() {
            self.report.warnings.push(error.to_string());
        } else {
            self.report.errors.push(error);
        }
    }

    /// The message that an expression makes; none if it makes none that could be used.
    fn message(
        &mut self,
        program: &'a Program,
        rule: &Rule,
        variables: Variables<'_, 'a>,
    ) -> Result<Option<String>, Exceeded> {
        let (result, cost) = variables.eval(program);
        if !self.budget.spend(cost) {
            let what = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(Exceeded(what.to_owned()));
        }
        if result == Err(EvalError::CostLimitExceeded) {
            self.budget.end();
            let text = rule.message_expression.as_deref().unwrap_or_default();
            let what = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
            return Err(Exceeded(format!("{what}: {text:?}")));
        }
        let text = result.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
        Ok(text
            .filter(|text| !text.is_empty() && text.len() <= MESSAGE_BYTES && !text.contains(['\n', '\r'])))
    }
}

/// The text of an error after which no rule runs.
struct Exceeded(String);

/// The values of the variables of a rule.
#[derive(Clone, Copy)]
struct Variables<'v, 'a> {
    value: &'v Result<Val<'a>, EvalError>,
    old: Option<&'v Result<Val<'a>, EvalError>>,
    is_optional: bool,
}

impl<'a> Variables<'_, 'a> {
    fn eval(self, program: &'a Program) -> (Result<Val<'a>, EvalError>, u64) {
        program.eval(&self, CALL_COST)
    }
}

impl<'a> kstore_cel::Activation<'a> for Variables<'_, 'a> {
    fn variable(&self, name: &str) -> Option<Result<Val<'a>, EvalError>> {
        match name {
            "self" => Some(self.value.clone()),
            "oldSelf" if self.is_optional => {
                Some(self.old.map_or(Ok(Val::none()), |old| old.clone().map(Val::some)))
            }
            "oldSelf" => self.old.cloned(),
            _ => None,
        }
    }
}

/// The field of an error: a path, and a path from there.
fn field_at(path: &Path<'_>, below: &str) -> String {
    match (path.to_string(), below) {
        (path, "") if path.is_empty() => NO_FIELD.to_owned(),
        (path, "") => path,
        (path, below) if path.is_empty() => below.to_owned(),
        (path, below) => format!("{path}.{below}"),
    }
}

/// The `type` of a schema; empty if it has none.
fn type_name(schema: Schema<'_>) -> &'static str {
    schema.node().value_type.map_or("", crate::structural::ValueType::name)
}

fn error_for(reason: RuleReason, field: String, subject: Subject<'_>, detail: String) -> FieldError {
    let is_scalar = !matches!(type_name(subject.schema), "object" | "array");
    let value = || is_scalar.then(|| shown(subject.value));
    let (kind, value, detail) = match reason {
        RuleReason::Invalid => (FieldErrorKind::Invalid, value(), detail),
        RuleReason::Forbidden => (FieldErrorKind::Forbidden, None, detail),
        RuleReason::Required => (FieldErrorKind::Required, None, detail),
        RuleReason::Duplicate => (FieldErrorKind::Duplicate, value(), String::new()),
    };
    FieldError { kind, field, value, detail }
}

/// How errors name a rule.
fn name_of(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

fn message_of(rule: &Rule) -> String {
    match &rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", name_of(rule)),
    }
}

/// Why a rule has no value.
fn failure(error: &EvalError, rule: &Rule) -> String {
    let rule = name_of(rule);
    match error {
        EvalError::NoSuchOverload => format!(
            "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {rule}"
        ),
        EvalError::CostLimitExceeded => format!(
            "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
        ),
        _ => format!("{error} evaluating rule: {rule}"),
    }
}
