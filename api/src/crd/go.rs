//! Formatting of values like Go's `%v`, as in Kubernetes' error texts, table cells and field selectors.

use super::schema;
use serde_json::{Map, Number, Value};
use std::fmt::Write as _;

/// Formats a value like `%v`: `map[a:1 b:[x y]]`, `<nil>`.
pub(super) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(value, &mut out);
    out
}

fn write_plain(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(own) => out.push_str(if *own { "true" } else { "false" }),
        Value::Number(own) => out.push_str(&number(own)),
        Value::String(own) => out.push_str(own),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_plain(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push_str("map[");
            for (i, (name, member)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(name);
                out.push(':');
                write_plain(member, out);
            }
            out.push(']');
        }
    }
}

/// Formats a number: integers in full, others with the fewest digits, in scientific notation below 10⁻⁴ and
/// from a million on.
pub(super) fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_u64(), value.as_f64()) {
        (Some(own), _, _) => own.to_string(),
        (None, Some(own), _) => own.to_string(),
        (None, None, Some(own)) => float(own),
        (None, None, None) => value.to_string(),
    }
}

/// Formats a floating-point number like `%v`: the shortest digits, scientific for exponents below -4 or from
/// 6 on.
fn float(value: f64) -> String {
    /// Lowest decimal exponent that is printed in scientific notation.
    const EXPONENT_MAX: i32 = 6;
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific };
    if (-4..EXPONENT_MAX).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let mut out = digits.to_owned();
    let _ = write!(out, "e{sign}{:02}", exponent.abs());
    out
}

/// Encodes a value like Go's JSON encoder: members sorted, whole numbers without a fraction, `<`, `>` and `&`
/// escaped.
pub(super) fn json(value: &Value) -> String {
    let text = sorted(value).to_string();
    // JSON has these characters only inside strings.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(_) => {
            let members = schema::members(value).into_iter();
            Value::Object(
                members.map(|(name, member)| (name.to_owned(), sorted(member))).collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Number(own) => whole(own).map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

/// The integer value of a floating-point number; `None` if it has a fraction or is too large to be exact.
pub(super) fn whole(own: &Number) -> Option<i64> {
    /// 2⁵³: integers up to here are exact.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    let whole = |own: f64| (own.fract() == 0.0 && own.abs() < EXACT_MAX).then_some(own as i64);
    own.as_i64().or_else(|| own.as_f64().and_then(whole))
}

/// Name of the Go type that a JSON value decodes into.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(own) if own.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Value at a path of members. `None` if a member is absent.
///
/// # Errors
/// Kubernetes' message if a value on the way is not an object.
pub(super) fn nested<'v>(object: &'v Value, path: &[String]) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    for (i, step) in path.iter().enumerate() {
        if i > 0 && value.is_null() {
            return Ok(None);
        }
        let Some(members) = value.as_object() else {
            return Err(accessor_error(&path[..=i], value, "map[string]interface{}"));
        };
        match members.get(step) {
            Some(member) => value = member,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Kubernetes' message for a value of an unexpected type.
pub(super) fn accessor_error(path: &[String], value: &Value, expected: &str) -> String {
    let (shown, kind) = (plain(value), type_name(value));
    format!(".{} accessor error: {shown} is of the type {kind}, expected {expected}", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_formatted_like_go() {
        let cases = [
            (json!(null), "<nil>"),
            (json!(0.5), "0.5"),
            (json!(2.0), "2"),
            (json!(1e21), "1e+21"),
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(1.5e-7), "1.5e-07"),
            (json!(12_345_678), "12345678"),
            (json!({"b": [1, "x"], "a": true}), "map[a:true b:[1 x]]"),
        ];
        for (value, text) in cases {
            assert_eq!(plain(&value), text);
        }
    }
}
