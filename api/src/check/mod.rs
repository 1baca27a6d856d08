//! Checks of single values that many kinds share, and of the metadata of any object. Each function appends its errors to
//! the given list.

pub(crate) mod metadata;

use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name::{self, Faults};
use crate::object::{int, is_empty, list, semantically_equal, text};
use crate::quantity::Quantity;
use serde_json::Value;

/// Message for a change of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";
/// Message for a number that must be above zero.
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";
/// Message for a number that must not be negative.
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Reports each fault of a value's grammar as an `Invalid` error.
pub(crate) fn grammar(errors: &mut ErrorList, path: &Path<'_>, value: &str, faults: Faults) {
    for fault in faults {
        errors.invalid(path, value, fault);
    }
}

/// Checks the grammar of a required text.
pub(crate) fn required_grammar(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &Value,
    grammar_of: fn(&str) -> Faults,
) {
    match text(value) {
        "" => errors.required(path, ""),
        value => grammar(errors, path, value, grammar_of(value)),
    }
}

/// Checks the grammar of an optional text.
pub(crate) fn optional_grammar(
    errors: &mut ErrorList,
    path: &Path<'_>,
    value: &Value,
    grammar_of: fn(&str) -> Faults,
) {
    if !text(value).is_empty() {
        required_grammar(errors, path, value, grammar_of);
    }
}

/// Checks that a text is not empty.
pub(crate) fn required(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if text(value).is_empty() {
        errors.required(path, "");
    }
}

/// Checks that a required text is one of the supported values.
pub(crate) fn one_of(errors: &mut ErrorList, path: &Path<'_>, value: &Value, supported: &[&str]) {
    match text(value) {
        "" => errors.required(path, ""),
        _ => optional_one_of(errors, path, value, supported),
    }
}

/// Checks that an optional text is one of the supported values.
pub(crate) fn optional_one_of(errors: &mut ErrorList, path: &Path<'_>, value: &Value, supported: &[&str]) {
    let value = text(value);
    if !value.is_empty() && !supported.contains(&value) {
        errors.not_supported(path, value, supported);
    }
}

/// Checks that a required text is one of the supported values. The message lists them in the given order.
pub(crate) fn one_of_listed(errors: &mut ErrorList, path: &Path<'_>, value: &Value, supported: &[&str]) {
    match text(value) {
        "" => errors.required(path, ""),
        value if !supported.contains(&value) => errors.not_supported_as_listed(path, value, supported),
        _ => {}
    }
}

/// Checks that a value, if present, is one of the supported texts; the empty text is not.
pub(crate) fn given_one_of(errors: &mut ErrorList, path: &Path<'_>, value: &Value, supported: &[&str]) {
    if !value.is_null() && !supported.contains(&text(value)) {
        errors.not_supported(path, text(value), supported);
    }
}

/// Checks that these members of an object are not empty.
pub(crate) fn need(errors: &mut ErrorList, path: &Path<'_>, object: &Value, members: &[&str]) {
    for member in members {
        required(errors, &path.child(member), &object[*member]);
    }
}

/// Checks that an optional number is above zero.
pub(crate) fn positive(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if !value.is_null() && int(value) <= 0 {
        errors.invalid(path, value, NOT_POSITIVE);
    }
}

/// Checks that a path is relative and has no `..`.
pub(crate) fn relative(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    no_parent_references(errors, path, value);
}

/// Checks that a path has no `..`.
pub(crate) fn no_parent_references(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// Checks that a path is relative, has no `..` elements, and does not start with two dots.
pub(crate) fn relative_unreserved(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    relative(errors, path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// Checks that an optional number is not negative.
pub(crate) fn not_negative(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if int(value) < 0 {
        errors.invalid(path, value, NOT_NEGATIVE);
    }
}

/// Checks that these members of an object are not negative.
pub(crate) fn none_negative(errors: &mut ErrorList, path: &Path<'_>, object: &Value, members: &[&str]) {
    for member in members {
        not_negative(errors, &path.child(member), &object[*member]);
    }
}

/// Checks a port: a number, or a port name.
pub(crate) fn port(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    match value {
        Value::String(text) => grammar(errors, path, text, name::port_name(text)),
        _ => port_number(errors, path, value),
    }
}

/// Checks a port number.
pub(crate) fn port_number(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    for fault in name::port_number(int(value)) {
        errors.invalid(path, &int(value), fault);
    }
}

/// Checks a count or a percentage; neither may be negative.
pub(crate) fn int_or_percent(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    match value {
        Value::String(text) if percent(value).is_none() => {
            let fault = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            errors.invalid(path, text, fault);
        }
        Value::String(_) | Value::Null => {}
        _ => not_negative(errors, path, value),
    }
}

/// Checks that a percentage is at most 100.
pub(crate) fn at_most_100_percent(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// Parses a percentage: `25` for `"25%"`.
pub(crate) fn percent(value: &Value) -> Option<u64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Parses a quantity, if there is one. Malformed quantities were refused when the object was decoded.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Checks that a quantity is not negative.
pub(crate) fn quantity_not_negative(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if quantity(value).is_some_and(Quantity::is_negative) {
        errors.invalid(path, value, NOT_NEGATIVE);
    }
}

/// Whether two objects are semantically equal except for some members. Copies nothing.
pub(crate) fn equal_except(a: &Value, b: &Value, free: &[&str]) -> bool {
    match (a.as_object(), b.as_object()) {
        (Some(left), Some(right)) => {
            let mut names = left.keys().chain(right.keys()).filter(|name| !free.contains(&name.as_str()));
            names.all(|name| semantically_equal(&a[name], &b[name]))
        }
        (Some(one), None) | (None, Some(one)) => {
            one.iter().all(|(name, value)| free.contains(&name.as_str()) || is_empty(value))
        }
        (None, None) => semantically_equal(a, b),
    }
}

/// Whether two maps of quantities are equal by value, except for some entries.
pub(crate) fn same_amounts(a: &Value, b: &Value, free: &[&str]) -> bool {
    let names = a.as_object().into_iter().chain(b.as_object()).flat_map(|amounts| amounts.keys());
    names.filter(|name| !free.contains(&name.as_str())).all(|name| quantity(&a[name]) == quantity(&b[name]))
}

/// Checks that the member at a dotted path did not change.
pub(crate) fn immutable(errors: &mut ErrorList, member: &str, new: &Value, old: &Value) {
    let (value, stored) = (at(new, member), at(old, member));
    if !semantically_equal(value, stored) {
        errors.invalid(&Path::new(member), value, IMMUTABLE);
    }
}

/// Value at a dotted path of members.
pub(crate) fn at<'o>(object: &'o Value, path: &str) -> &'o Value {
    path.split('.').fold(object, |value, member| &value[member])
}

/// Calls `each` with every item of a list member, and with the item's path.
pub(crate) fn each(path: &Path<'_>, object: &Value, member: &str, mut each: impl FnMut(&Path<'_>, &Value)) {
    let path = path.child(member);
    for (i, item) in list(&object[member]).iter().enumerate() {
        each(&path.index(i), item);
    }
}

/// Reports duplicate values of a member across the items of a list.
pub(crate) fn unique(errors: &mut ErrorList, path: &Path<'_>, items: &[Value], member: &str) {
    let mut seen = Distinct::default();
    for (i, item) in items.iter().enumerate() {
        let value = &item[member];
        if !text(value).is_empty() && !seen.insert(value) {
            errors.duplicate(&path.index(i).child(member), value);
        }
    }
}

/// Checks a fully qualified name of three or more parts.
pub(crate) fn fully_qualified(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    let faults = name::dns1123_subdomain(own);
    if own.is_empty() {
        errors.required(path, "");
    } else if !faults.is_empty() {
        errors.invalid(path, own, faults.join(","));
    } else if own.split('.').count() < 3 {
        errors.invalid(path, own, "should be a domain with at least three segments separated by dots");
    }
}
