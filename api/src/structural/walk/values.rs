//! Value checks in the order of errors: type, nested schemas, text, number, list, enum, object. The walk
//! counts passed checks: of several alternatives, the one with the most passed checks is reported.

use super::compare::{OldItems, is_unchanged};
use super::report::{ErrorLocation, Report, quoted, shown};
use super::{number, value_type};
use crate::field::FieldErrorKind;
use crate::structural::check::Checks;
use crate::structural::node::{Additional, Node, NodeId};
use crate::structural::tree::Tree;
use serde_json::{Map, Value};

/// Value to check, with its schema and its old value.
#[derive(Clone, Copy)]
pub(super) struct Subject<'v> {
    /// Schema to check: a structural node, or one nested in `allOf`, `anyOf`, `oneOf` or `not`.
    pub(super) schema: NodeId,
    /// Structural node, by which old and new values are correlated.
    pub(super) structure: Option<NodeId>,
    /// The value.
    pub(super) value: &'v Value,
    /// The old value, if correlation found it.
    pub(super) old: Option<&'v Value>,
}

/// Result of a check, except errors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    /// Number of passed checks.
    passed: usize,
    /// Whether a value is known to have changed.
    has_changed: bool,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.has_changed |= other.has_changed;
    }

    fn pass(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }
}

/// State of a walk that checks values.
pub(super) struct Checker<'t> {
    tree: &'t Tree,
    report: Report,
}

impl<'t> Checker<'t> {
    pub(super) fn new(tree: &'t Tree) -> Self {
        Self { tree, report: Report::default() }
    }

    pub(super) fn into_report(self) -> Report {
        self.report
    }

    /// Checks a value at a structural position. Errors of unchanged values are dropped.
    pub(super) fn value(&mut self, subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let before = self.report.len();
        let mut outcome = self.schema(subject, location);
        let Some(old) = subject.old.filter(|_| self.report.len() > before && !outcome.has_changed) else {
            return outcome;
        };
        let structure = subject.structure.map(|id| self.tree.node(id));
        if structure.map_or(subject.value == old, |node| is_unchanged(self.tree, node, subject.value, old)) {
            self.report.truncate(before);
        } else {
            outcome.has_changed = true;
        }
        outcome
    }

    /// Checks a value by one schema.
    fn schema(&mut self, subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let (node, value) = (self.tree.node(subject.schema), subject.value);
        let mut outcome = Outcome::default();
        if value_type::applies(node) {
            if value_type::check(value, node, location, &mut self.report) {
                outcome.pass();
            }
            outcome.passed += usize::from(!value.is_null());
        }
        let checks = node.checks.as_deref();
        if value.is_null() {
            enumerated(value, checks, location, &mut self.report);
            return outcome;
        }
        if let Some(checks) = checks {
            outcome.add(self.nested(checks, subject, location));
        }
        // Four passed checks: nested schemas, their result, the enum, and the value as a whole.
        outcome.passed += 4;
        match value {
            Value::String(text) => outcome.passed += texts(text, checks, location, &mut self.report),
            Value::Number(value) => {
                number::check(value, node, location, &mut self.report);
                outcome.passed += 2;
            }
            Value::Array(items) => {
                outcome.add(self.items(items, node, subject, location));
                outcome.passed += 2;
            }
            _ => {}
        }
        enumerated(value, checks, location, &mut self.report);
        if let Value::Object(map) = value {
            outcome.add(self.object(map, node, subject, location));
            outcome.pass();
        }
        outcome
    }

    fn nested(&mut self, checks: &Checks, subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if !checks.any_of.is_empty() {
            outcome.add(self.any_of(&checks.any_of, subject, location));
        }
        if !checks.one_of.is_empty() {
            outcome.add(self.one_of(&checks.one_of, subject, location));
        }
        if !checks.all_of.is_empty() {
            outcome.add(self.all_of(&checks.all_of, subject, location));
        }
        if let Some(schema) = checks.not {
            // A value must not match only because its errors are dropped as unchanged.
            let (report, _) = self.branch(schema, Subject { old: None, ..subject }, location);
            if report.is_empty() {
                let text =
                    format!("{} must not validate the schema (not)", quoted(&location.path.to_string()));
                self.report.push(location.unplaced(text));
            }
        }
        outcome
    }

    /// Checks a value by a nested schema, with a separate report.
    fn branch(
        &mut self,
        schema: NodeId,
        subject: Subject<'_>,
        location: &ErrorLocation<'_>,
    ) -> (Report, Outcome) {
        let outside = std::mem::take(&mut self.report);
        let outcome = self.schema(Subject { schema, ..subject }, location);
        (std::mem::replace(&mut self.report, outside), outcome)
    }

    fn any_of(&mut self, schemas: &[NodeId], subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let mut best: Option<(Report, Outcome)> = None;
        for schema in schemas {
            let (report, outcome) = self.branch(*schema, subject, location);
            if report.is_empty() {
                return outcome;
            }
            if best.as_ref().is_none_or(|(_, best)| outcome.passed > best.passed) {
                best = Some((report, outcome));
            }
        }
        let text =
            format!("{} must validate at least one schema (anyOf)", quoted(&location.path.to_string()));
        self.report.push(location.unplaced(text));
        self.merge(best)
    }

    fn one_of(&mut self, schemas: &[NodeId], subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let mut best: Option<(Report, Outcome)> = None;
        let mut valid: Vec<Outcome> = Vec::new();
        for schema in schemas {
            let (report, outcome) = self.branch(*schema, subject, location);
            if report.is_empty() {
                valid.push(outcome);
            } else if best.as_ref().is_none_or(|(_, best)| outcome.passed > best.passed) {
                best = Some((report, outcome));
            }
        }
        let found = match valid[..] {
            [only] => return only,
            [] => "Found none valid".to_owned(),
            _ => format!("Found {} valid alternatives", valid.len()),
        };
        let path = quoted(&location.path.to_string());
        let text = format!("{path} must validate one and only one schema (oneOf). {found}");
        self.report.push(location.unplaced(text));
        self.merge(best.filter(|_| valid.is_empty()))
    }

    fn all_of(&mut self, schemas: &[NodeId], subject: Subject<'_>, location: &ErrorLocation<'_>) -> Outcome {
        let (mut all, mut valid) = (Outcome::default(), 0);
        for schema in schemas {
            let (report, outcome) = self.branch(*schema, subject, location);
            valid += usize::from(report.is_empty());
            all.add(self.merge(Some((report, outcome))));
        }
        if valid < schemas.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let path = quoted(&location.path.to_string());
            self.report
                .push(location.unplaced(format!("{path} must validate all the schemas (allOf){none}")));
        }
        all
    }

    fn merge(&mut self, branch: Option<(Report, Outcome)>) -> Outcome {
        let Some((report, outcome)) = branch else { return Outcome::default() };
        self.report.extend(report);
        outcome
    }

    fn items(
        &mut self,
        items: &[Value],
        node: &Node,
        of: Subject<'_>,
        location: &ErrorLocation<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(schema) = node.items {
            let structure = of.structure.map(|id| self.tree.node(id));
            let old = structure.and_then(|node| OldItems::of(of.old, node));
            let structure = structure.and_then(|node| node.items);
            for (at, value) in items.iter().enumerate() {
                if self.report.is_full() {
                    break;
                }
                let old = old.as_ref().and_then(|old| old.get(value));
                outcome.add(self.value(Subject { schema, structure, value, old }, &location.index(at)));
            }
        }
        if let Some(checks) = &node.checks {
            let (least, most) = (checks.min_items, checks.max_items);
            self.count(items.len(), least, most, "items", location);
        }
        outcome
    }

    fn object(
        &mut self,
        map: &Map<String, Value>,
        node: &Node,
        of: Subject<'_>,
        location: &ErrorLocation<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(checks) = &node.checks {
            self.count(map.len(), checks.min_properties, checks.max_properties, "properties", location);
        }
        let is_extra = |name: &str| node.property(name).is_none();
        if let Additional::Schema(schema) = node.additional {
            for (name, value) in map.iter().filter(|(name, _)| is_extra(name)) {
                outcome.add(self.member(name, value, schema, of, location));
            }
        }
        for (name, value) in map {
            if let Some(schema) = node.property(name) {
                outcome.add(self.member(name, value, schema, of, location));
            }
        }
        let required = node.checks.iter().flat_map(|checks| &checks.required);
        for name in required.filter(|name| !map.contains_key(&***name)) {
            let error = location.child(name).error(FieldErrorKind::Required, None, String::new());
            self.report.push(error);
        }
        outcome
    }

    fn member(
        &mut self,
        name: &str,
        value: &Value,
        schema: NodeId,
        of: Subject<'_>,
        location: &ErrorLocation<'_>,
    ) -> Outcome {
        if self.report.is_full() {
            return Outcome::default();
        }
        let structure = of.structure.and_then(|id| self.tree.node(id).member(name));
        // apiVersion and kind never count as unchanged.
        let is_kind = of.structure == Some(self.tree.root) && matches!(name, "apiVersion" | "kind");
        let old = of.old.filter(|_| !is_kind).and_then(|old| old.get(name));
        self.value(Subject { schema, structure, value, old }, &location.child(name))
    }

    /// Checks the number of items or members.
    fn count(
        &mut self,
        count: usize,
        least: Option<i64>,
        most: Option<i64>,
        what: &str,
        location: &ErrorLocation<'_>,
    ) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if let Some(least) = least.filter(|least| count < *least) {
            let text = format!("should have at least {least} {what}");
            self.report.push(location.invalid(count.to_string(), &text));
        }
        if let Some(most) = most.filter(|most| count > *most) {
            let items = if most == 1 { "item" } else { "items" };
            let detail = format!("must have at most {most} {items}");
            self.report.push(location.error(FieldErrorKind::TooMany, Some(count.to_string()), detail));
        }
    }
}

/// Checks a text; returns the number of passed checks.
fn texts(text: &str, checks: Option<&Checks>, location: &ErrorLocation<'_>, report: &mut Report) -> usize {
    let Some(checks) = checks else { return 1 };
    length_and_pattern(text, checks, location, report);
    let Some(named) = checks.format.as_ref().filter(|named| named.format.is_of_text()) else { return 1 };
    if !named.format.matches(text) {
        let value = Value::from(text).to_string();
        let detail = format!("{} in body must be of type {}: {}", location.path, named.name, quoted(text));
        report.push(location.error(FieldErrorKind::TypeInvalid, Some(value), detail));
    }
    2
}

/// Reports the first failed check of length and pattern.
fn length_and_pattern(text: &str, checks: &Checks, location: &ErrorLocation<'_>, report: &mut Report) {
    let is_bounded = checks.max_length.is_some() || checks.min_length.is_some();
    let length = if is_bounded { i64::try_from(text.chars().count()).unwrap_or(i64::MAX) } else { 0 };
    let value = || Value::from(text).to_string();
    if let Some(most) = checks.max_length.filter(|most| length > *most) {
        let detail = format!("may not be more than {most} bytes");
        report.push(location.error(FieldErrorKind::TooLong, None, detail));
    } else if let Some(least) = checks.min_length.filter(|least| length < *least) {
        report.push(location.invalid(value(), &format!("should be at least {least} chars long")));
    } else if let Some(pattern) = &checks.pattern {
        match pattern.matches(text) {
            Some(true) => {}
            Some(false) => {
                report.push(location.invalid(value(), &format!("should match '{}'", pattern.text())));
            }
            None => {
                let text = format!("should match '{}, but pattern is invalid'", pattern.text());
                report.push(location.invalid(value(), &text));
            }
        }
    }
}

/// Checks that a value is in the enum. Null never is.
fn enumerated(value: &Value, checks: Option<&Checks>, location: &ErrorLocation<'_>, report: &mut Report) {
    let allowed = checks.map(|checks| &*checks.values).unwrap_or_default();
    let is_same = |allowed: &Value| allowed == value || number::equal(allowed, value);
    if allowed.is_empty() || (!value.is_null() && allowed.iter().any(is_same)) {
        return;
    }
    let quoted = |allowed: &Value| match allowed {
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    };
    let supported: Vec<String> = allowed.iter().map(quoted).collect();
    let detail = format!("supported values: {}", supported.join(", "));
    report.push(location.error(FieldErrorKind::NotSupported, Some(shown(value)), detail));
}
