//! Evaluates the rules of a schema on an object: validation rules, transition rules, message expressions, cost budgets and ratcheting.
//!
//! Ratcheting: a rule that an unchanged value breaks gives a warning instead of an error.

use super::compile::{CompiledNode, CompiledRule, CompiledRules};
use crate::expression::limits::{CALL_COST, COSTLY, MESSAGE_BYTES, OBJECT_COST};
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::structural::node::NodeId;
use crate::structural::rule::{Rule, RuleReason};
use crate::structural::tree::{Schema, Tree};
use crate::structural::walk::{NO_FIELD, shown};
use kstore_cel::{EvalError, Program, Val};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The CEL cost that is left for the rules of one object, or of all defaults of a schema.
#[derive(Clone, Debug)]
pub struct RuleBudget {
    /// None after a rule exceeded the budget; no further rule runs then.
    left: Option<u64>,
}

impl Default for RuleBudget {
    fn default() -> Self {
        Self { left: Some(OBJECT_COST) }
    }
}

impl RuleBudget {
    /// Whether a rule exceeded the budget, so that no further rule may run.
    #[must_use]
    pub const fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    /// The smaller of two budgets; spent if either is.
    pub(crate) fn min(self, other: Self) -> Self {
        Self { left: self.left.zip(other.left).map(|(a, b)| a.min(b)) }
    }

    /// Takes a cost from the budget. Returns whether the budget covered it.
    fn spend(&mut self, cost: u64) -> bool {
        self.left = self.left.and_then(|left| left.checked_sub(cost));
        self.left.is_some()
    }

    fn end(&mut self) {
        self.left = None;
    }
}

/// The errors and warnings of a schema's rules on one object.
#[derive(Clone, Debug, Default)]
pub struct RuleReport {
    /// Broken rules: those of a value come before those of its members and items.
    pub errors: ErrorList,
    /// Texts of warnings: rules that values break which did not change.
    pub warnings: Vec<String>,
}

impl Tree {
    /// Evaluates the rules of this schema on an object that is valid otherwise; see [`rules_blocked`].
    ///
    /// `old` is the object before an update. Rules that mention `oldSelf` run only on values that `old` has too. If an unchanged value
    /// breaks another rule, the report has a warning instead of an error.
    ///
    /// [`rules_blocked`]: crate::structural::rules_blocked
    #[must_use]
    pub fn validate_rules(self: &Arc<Self>, object: &Value, old: Option<&Value>) -> RuleReport {
        let mut report = RuleReport::default();
        if self.has_rules() {
            let old = old.filter(|old| !old.is_null());
            let subject = Subject { schema: self.root(), value: object, old };
            let correlation = Correlation { own: old.map(|old| (subject.schema, object, old)), parent: None };
            let (mut budget, compiled) = (RuleBudget::default(), self.compiled_rules());
            let mut evaluator = RuleEvaluator { compiled, report: &mut report, budget: &mut budget };
            evaluator.visit(subject, correlation, &Path::ROOT);
            if budget.left.is_none_or(|left| OBJECT_COST - left >= COSTLY) {
                compiled.costly.store(true, Ordering::Relaxed);
            }
        }
        report
    }

    /// Whether the rules of this schema have cost [`COSTLY`] or more on any object since they were compiled.
    ///
    /// The rules may cost as much on the next object.
    #[must_use]
    pub fn has_costly_rules(&self) -> bool {
        self.rules.get().is_some_and(|compiled| compiled.costly.load(Ordering::Relaxed))
    }

    /// Evaluates the rules of a node and of its descendants on a default, as an update of `old`. Without ratcheting: unchanged values
    /// give errors too. Fields of errors begin with `path`.
    pub(crate) fn validate_default_rules(
        self: &Arc<Self>,
        node: NodeId,
        path: &Path<'_>,
        value: &Value,
        old: Option<&Value>,
        budget: &mut RuleBudget,
    ) -> ErrorList {
        let subject = Subject { schema: self.schema(node), value, old };
        let mut report = RuleReport::default();
        if subject.schema.below.rules {
            let mut evaluator =
                RuleEvaluator { compiled: self.compiled_rules(), report: &mut report, budget };
            evaluator.visit(subject, Correlation { own: None, parent: None }, path);
        }
        report.errors
    }

    fn compiled_rules(self: &Arc<Self>) -> &CompiledRules {
        self.rules.get_or_init(|| CompiledRules::of(self))
    }
}

/// A value under evaluation, its schema, and the old value that transition rules compare it with.
#[derive(Clone, Copy)]
struct Subject<'a> {
    schema: Schema<'a>,
    value: &'a Value,
    old: Option<&'a Value>,
}

/// The pairs of new and old values that ratcheting compares, each with its schema.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    /// The value itself and its old value, if the update can be correlated down to the value.
    own: Option<(Schema<'a>, &'a Value, &'a Value)>,
    /// The nearest value around it that has an old value; used if `own` is none.
    parent: Option<(Schema<'a>, &'a Value, &'a Value)>,
}

impl<'a> Correlation<'a> {
    fn is_unchanged(self) -> bool {
        self.own.or(self.parent).is_some_and(|(schema, new, old)| schema.is_unchanged(new, old))
    }

    /// The correlation of a member or item of the value.
    fn of_child(self, schema: Schema<'a>, new: &'a Value, old: Option<&'a Value>) -> Self {
        if self.own.is_none() {
            return self;
        }
        Self { own: old.map(|old| (schema, new, old)), parent: self.own }
    }
}

/// Walks an object along its schema and evaluates the rules of each node.
struct RuleEvaluator<'a, 'r> {
    compiled: &'a CompiledRules,
    report: &'r mut RuleReport,
    budget: &'r mut RuleBudget,
}

impl<'a> RuleEvaluator<'a, '_> {
    /// Evaluates the rules of a value, then those of its members and items.
    fn visit(&mut self, subject: Subject<'a>, correlation: Correlation<'a>, path: &Path<'_>) {
        let Subject { schema, value, old } = subject;
        if value.is_null() || !schema.below.rules || self.budget.is_spent() {
            return;
        }
        if !schema.node().rules.is_empty()
            && let Some(node) = self.compiled.nodes.get(&schema.id())
        {
            self.evaluate(node, subject, correlation, path);
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
                        self.visit_member(below, correlation, name, value, old, &path);
                    }
                }
                // Properties and members have one order, ascending by name. Most properties have no rules.
                for (name, below) in schema.properties().filter(|(_, below)| below.below.rules) {
                    if let Some(value) = members.get(name) {
                        self.visit_member(below, correlation, name, value, old, &path.child(name));
                    }
                }
            }
            Value::Array(items) => {
                let Some(below) = schema.items().filter(|below| below.below.rules) else { return };
                let old_items = schema.old_items(old);
                for (at, value) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|items| items.get(value));
                    let item = Subject { schema: below, value, old };
                    self.visit(item, correlation.of_child(below, value, old), &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn visit_member(
        &mut self,
        schema: Schema<'a>,
        parent: Correlation<'a>,
        name: &str,
        value: &'a Value,
        old: Option<&'a serde_json::Map<String, Value>>,
        path: &Path<'_>,
    ) {
        let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
        self.visit(Subject { schema, value, old }, parent.of_child(schema, value, old), path);
    }

    /// Evaluates the rules of one node on a value.
    fn evaluate(
        &mut self,
        node: &'a CompiledNode,
        subject: Subject<'a>,
        correlation: Correlation<'a>,
        path: &Path<'_>,
    ) {
        const OUT_OF_BUDGET: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        // Only errors need the text of the path, and most values have no error.
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
                Ok(_) => self.report_broken(rule, compiled, variables, subject, correlation, path),
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

    /// Reports a rule that could not be compiled or evaluated.
    fn fail(&mut self, subject: Subject<'_>, field: String, detail: String) {
        let value = format!("\"{}\"", type_name(subject.schema));
        let error = FieldError { kind: FieldErrorKind::Invalid, field, value: Some(value), detail };
        self.report.errors.push(error);
    }

    /// Reports a rule that is false: a warning if ratcheting spares the value, else an error.
    fn report_broken(
        &mut self,
        rule: &Rule,
        compiled: &'a CompiledRule,
        variables: Variables<'_, 'a>,
        subject: Subject<'_>,
        correlation: Correlation<'_>,
        path: &Path<'_>,
    ) {
        let field = field_at(path, &compiled.field);
        let message = compiled.message.as_ref().map(|program| self.message(program, rule, variables));
        let error = match message {
            Some(Err(BudgetExceeded(detail))) => FieldError {
                kind: FieldErrorKind::Invalid,
                field,
                value: Some(format!("\"{}\"", type_name(subject.schema))),
                detail,
            },
            Some(Ok(Some(detail))) => error_for(rule.reason, field, subject, detail),
            Some(Ok(None)) | None => error_for(rule.reason, field, subject, message_of(rule)),
        };
        if !compiled.uses_old_self && correlation.is_unchanged() {
            self.report.warnings.push(error.to_string());
        } else {
            self.report.errors.push(error);
        }
    }

    /// The message of a message expression; none if the expression fails or its text is empty, too long or has line breaks.
    fn message(
        &mut self,
        program: &'a Program,
        rule: &Rule,
        variables: Variables<'_, 'a>,
    ) -> Result<Option<String>, BudgetExceeded> {
        let (result, cost) = variables.eval(program);
        if !self.budget.spend(cost) {
            let what = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(BudgetExceeded(what.to_owned()));
        }
        if result == Err(EvalError::CostLimitExceeded) {
            self.budget.end();
            let text = rule.message_expression.as_deref().unwrap_or_default();
            let what = "no further validation rules will be run due to call cost exceeds limit for messageExpression";
            return Err(BudgetExceeded(format!("{what}: {text:?}")));
        }
        let text = result.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned()));
        Ok(text
            .filter(|text| !text.is_empty() && text.len() <= MESSAGE_BYTES && !text.contains(['\n', '\r'])))
    }
}

/// A message expression exceeded the budget, and no further rule runs. Holds the text of the error.
struct BudgetExceeded(String);

/// The variables of a rule: `self`, and `oldSelf` if there is an old value.
#[derive(Clone, Copy)]
struct Variables<'v, 'a> {
    value: &'v Result<Val<'a>, EvalError>,
    old: Option<&'v Result<Val<'a>, EvalError>>,
    /// Whether `oldSelf` is an optional value (`optionalOldSelf`).
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

/// The field of an error: the path of a value, joined with a path relative to the value, which may be empty.
fn field_at(path: &Path<'_>, relative: &str) -> String {
    match (path.to_string(), relative) {
        (path, "") if path.is_empty() => NO_FIELD.to_owned(),
        (path, "") => path,
        (path, relative) if path.is_empty() => relative.to_owned(),
        (path, relative) => format!("{path}.{relative}"),
    }
}

/// The `type` of a schema; empty if it has none.
fn type_name(schema: Schema<'_>) -> &'static str {
    schema.node().value_type.map_or("", crate::structural::ValueType::name)
}

/// The error of a broken rule, by the reason that the rule gives.
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

/// The name of a rule in errors: its message, or else its expression.
fn name_of(rule: &Rule) -> &str {
    rule.message.as_deref().unwrap_or(&rule.rule).trim()
}

/// The message of a broken rule without a message expression.
fn message_of(rule: &Rule) -> String {
    match &rule.message {
        Some(message) => message.trim().to_owned(),
        None => format!("failed rule: {}", name_of(rule)),
    }
}

/// The text of the error that a failed evaluation of a rule gives.
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
