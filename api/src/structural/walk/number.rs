//! Number checks with the arithmetic of Kubernetes' validator: integers are compared as integers, with
//! truncated bounds, and everything else as doubles.

use super::report::{ErrorLocation, Report};
use crate::field::FieldErrorKind;
use crate::format::Format;
use crate::structural::check::Bound;
use crate::structural::node::{Node, ValueType};
use serde_json::{Number, Value};
use std::cmp::Ordering;

/// Relative distance within which a double counts as a whole number.
const WHOLE_WITHIN: f64 = 1e-9;
/// Largest whole number that a double represents exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// JSON number as Go decodes it: an integer if it is written as one and fits, else a double.
#[derive(Clone, Copy, Debug)]
pub(super) enum GoNumber {
    Integer(i64),
    Float(f64),
}

impl GoNumber {
    pub(super) fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(integer) => Self::Integer(integer),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
    fn as_float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::Integer(integer) => integer.to_string(),
            Self::Float(float) => in_go(float),
        }
    }
}

/// Whether a double counts as a whole number.
pub(super) fn is_whole(number: f64) -> bool {
    if !number.is_finite() || number.abs() > EXACT_MAX {
        return false;
    }
    let difference = (number - number.trunc()).abs();
    difference == 0.0 || difference / (number.abs() + number.trunc().abs()) < WHOLE_WITHIN
}

/// Formats a double like Go: the shortest text that parses back, with an exponent for very large and small
/// values.
pub(super) fn in_go(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-4..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Reports all errors of a number.
pub(super) fn check(number: &Number, node: &Node, location: &ErrorLocation<'_>, report: &mut Report) {
    let mut check = NumberCheck { value: GoNumber::of(number), node, location, report };
    check.in_range(check.value, "Checked");
    let Some(checks) = &node.checks else { return };
    if let Some(factor) = &checks.multiple_of {
        check.multiple(factor);
    }
    if let Some(minimum) = &checks.minimum {
        check.minimum(minimum);
    }
    if let Some(maximum) = &checks.maximum {
        check.maximum(maximum);
    }
}

/// Check of one number against its schema node.
struct NumberCheck<'a> {
    value: GoNumber,
    node: &'a Node,
    location: &'a ErrorLocation<'a>,
    report: &'a mut Report,
}

impl NumberCheck<'_> {
    fn minimum(&mut self, bound: &Bound) {
        let (order, limit) = self.compare(bound, "Minimum boundary");
        if order.is_lt() || (bound.exclusive && order.is_eq()) {
            let words = if bound.exclusive { "greater than" } else { "greater than or equal to" };
            self.outside(words, limit);
        }
    }

    fn maximum(&mut self, bound: &Bound) {
        let (order, limit) = self.compare(bound, "Maximum boundary");
        if order.is_gt() || (bound.exclusive && order.is_eq()) {
            let words = if bound.exclusive { "less than" } else { "less than or equal to" };
            self.outside(words, limit);
        }
    }

    /// Compares the number with a bound; also returns the bound in the form that was compared.
    fn compare(&mut self, bound: &Bound, name: &str) -> (Ordering, GoNumber) {
        let fits = self.in_range(GoNumber::of(&bound.value), name);
        let (value, limit) = alike(self.value, &bound.value, fits);
        let order = match (value, limit) {
            (GoNumber::Integer(value), GoNumber::Integer(limit)) => value.cmp(&limit),
            (value, limit) => value.as_float().partial_cmp(&limit.as_float()).unwrap_or(Ordering::Equal),
        };
        (order, limit)
    }

    fn outside(&mut self, words: &str, limit: GoNumber) {
        let text = format!("should be {words} {}", limit.shown());
        self.report.push(self.location.invalid(self.value.shown(), &text));
    }

    fn multiple(&mut self, factor: &Number) {
        let fits = self.in_range(GoNumber::of(factor), "MultipleOf");
        let (value, factor) = alike(self.value, factor, fits);
        let shown = factor.shown();
        if factor.as_float() <= 0.0 {
            let path = self.location.path;
            let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            return self.report.push(self.location.error(FieldErrorKind::Invalid, Some(shown), text));
        }
        let is_multiple = match (value, factor) {
            (GoNumber::Integer(value), GoNumber::Integer(factor)) => value % factor == 0,
            (value, factor) if factor.as_float() < 1.0 => {
                is_whole(1.0 / factor.as_float() * value.as_float())
            }
            (value, factor) => is_whole(value.as_float() / factor.as_float()),
        };
        if !is_multiple {
            self.report
                .push(self.location.invalid(value.shown(), &format!("should be a multiple of {shown}")));
        }
    }

    /// Whether a number (value or bound) fits the node's type and format; reports it if not.
    fn in_range(&mut self, number: GoNumber, name: &str) -> bool {
        let fits = match (self.node.value_type, self.node.format()) {
            (Some(ValueType::Integer), Some(Format::Int32)) => {
                as_integer(number).is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Some(ValueType::Integer), _) => as_integer(number).is_some(),
            (Some(ValueType::Number), Some(Format::Float)) => number.as_float().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let (of, path) = (described(self.node), self.location.path);
            self.report.push(self.location.unplaced(format!("{name} value must be of type {of} in {path}")));
        }
        fits
    }
}

/// Converts value and operand to the same form: integers if the value is one and the operand fits its type,
/// else doubles.
#[expect(clippy::cast_possible_truncation, reason = "as Go cuts the bounds of integers")]
fn alike(value: GoNumber, other: &Number, fits: bool) -> (GoNumber, GoNumber) {
    let other = other.as_f64().unwrap_or_default();
    match value {
        GoNumber::Integer(value) if fits => (GoNumber::Integer(value), GoNumber::Integer(other as i64)),
        value => (GoNumber::Float(value.as_float()), GoNumber::Float(other)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
#[expect(clippy::cast_precision_loss, reason = "powers of two")]
fn as_integer(value: GoNumber) -> Option<i64> {
    match value {
        GoNumber::Integer(value) => Some(value),
        GoNumber::Float(value) => {
            let in_range = value.fract() == 0.0 && value >= i64::MIN as f64 && value < i64::MAX as f64;
            in_range.then_some(value as i64)
        }
    }
}

fn described(node: &Node) -> String {
    let name = node.value_type.map_or("", ValueType::name);
    match node.format() {
        Some(Format::Int32) => format!("{name} with format int32"),
        Some(Format::Int64) => format!("{name} with format int64"),
        Some(Format::Float) => format!("{name} with format float"),
        _ => format!("{name} (default format)"),
    }
}

/// Whether two JSON numbers have the same value.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (GoNumber::of(a), GoNumber::of(b)) {
            (GoNumber::Integer(a), GoNumber::Integer(b)) => a == b,
            (a, b) => a.as_float() == b.as_float(),
        },
        _ => false,
    }
}
