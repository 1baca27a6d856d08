//! Checks of numbers, with the arithmetic of Kubernetes' validator: integers are compared as integers, with bounds cut to integers,
//! and everything else as doubles.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::report::{Place, Report};
use crate::field::FieldErrorKind;
use crate::structural::check::Bound;
use crate::structural::format::Format;
use crate::structural::node::{Node, ValueType};

/// Doubles this close to a whole number, relatively, count as whole.
const WHOLE_WITHIN: f64 = 1e-9;
/// Whole numbers beyond it are not exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// A JSON number as Go reads it: an integer if it is written as one and fits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Parsed {
    Integer(i64),
    Float(f64),
}

impl Parsed {
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

/// A double as Go prints it: the shortest text that reads back, with an exponent for very large and small ones.
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

/// Reports everything that is wrong with a number.
pub(super) fn check(number: &Number, node: &Node, place: &Place<'_>, report: &mut Report) {
    let mut check = Check { value: Parsed::of(number), node, place, report };
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

/// One number with its schema.
struct Check<'a> {
    value: Parsed,
    node: &'a Node,
    place: &'a Place<'a>,
    report: &'a mut Report,
}

impl Check<'_> {
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

    /// How the number compares with a bound, and the bound as it was compared.
    fn compare(&mut self, bound: &Bound, name: &str) -> (Ordering, Parsed) {
        let fits = self.in_range(Parsed::of(&bound.value), name);
        let (value, limit) = alike(self.value, &bound.value, fits);
        let order = match (value, limit) {
            (Parsed::Integer(value), Parsed::Integer(limit)) => value.cmp(&limit),
            (value, limit) => value.as_float().partial_cmp(&limit.as_float()).unwrap_or(Ordering::Equal),
        };
        (order, limit)
    }

    fn outside(&mut self, words: &str, limit: Parsed) {
        let text = format!("should be {words} {}", limit.shown());
        self.report.push(self.place.invalid(self.value.shown(), &text));
    }

    fn multiple(&mut self, factor: &Number) {
        let fits = self.in_range(Parsed::of(factor), "MultipleOf");
        let (value, factor) = alike(self.value, factor, fits);
        let shown = factor.shown();
        if factor.as_float() <= 0.0 {
            let path = self.place.path;
            let text = format!("factor MultipleOf declared for {path} must be positive: {shown}");
            return self.report.push(self.place.error(FieldErrorKind::Invalid, Some(shown), text));
        }
        let is_multiple = match (value, factor) {
            (Parsed::Integer(value), Parsed::Integer(factor)) => value % factor == 0,
            (value, factor) if factor.as_float() < 1.0 => {
                is_whole(1.0 / factor.as_float() * value.as_float())
            }
            (value, factor) => is_whole(value.as_float() / factor.as_float()),
        };
        if !is_multiple {
            self.report.push(self.place.invalid(value.shown(), &format!("should be a multiple of {shown}")));
        }
    }

    /// Whether a number, the value or a bound, is within the range of the node's type and format; reports it if not.
    fn in_range(&mut self, number: Parsed, name: &str) -> bool {
        let fits = match (self.node.value_type, self.node.format()) {
            (Some(ValueType::Integer), Some(Format::Int32)) => {
                as_integer(number).is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Some(ValueType::Integer), _) => as_integer(number).is_some(),
            (Some(ValueType::Number), Some(Format::Float)) => number.as_float().abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let (of, path) = (described(self.node), self.place.path);
            self.report.push(self.place.unplaced(format!("{name} value must be of type {of} in {path}")));
        }
        fits
    }
}

/// A value and what it is compared with, both as integers if the value is one and the other fits its type, else both as doubles.
#[expect(clippy::cast_possible_truncation, reason = "as Go cuts the bounds of integers")]
fn alike(value: Parsed, other: &Number, fits: bool) -> (Parsed, Parsed) {
    let other = other.as_f64().unwrap_or_default();
    match value {
        Parsed::Integer(value) if fits => (Parsed::Integer(value), Parsed::Integer(other as i64)),
        value => (Parsed::Float(value.as_float()), Parsed::Float(other)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
#[expect(clippy::cast_precision_loss, reason = "powers of two")]
fn as_integer(value: Parsed) -> Option<i64> {
    match value {
        Parsed::Integer(value) => Some(value),
        Parsed::Float(value) => {
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
        (Value::Number(a), Value::Number(b)) => match (Parsed::of(a), Parsed::of(b)) {
            (Parsed::Integer(a), Parsed::Integer(b)) => a == b,
            (a, b) => a.as_float() == b.as_float(),
        },
        _ => false,
    }
}
