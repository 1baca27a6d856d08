//! Formats and bounds of numbers. Kubernetes knows `int32`, `int64`, `float` and `double`. Its exclusive
//! bounds are flags, as in draft 4 of JSON Schema.

use super::node::Node;
use serde_json::{Map, Value};

/// Reads `format` of numbers, `minimum`, `maximum`, their exclusive forms and `multipleOf`.
pub(super) fn bounds(keywords: &Map<String, Value>, node: &mut Node) {
    let checks = &mut node.checks.keywords;
    for name in ["minimum", "maximum", "multipleOf"] {
        if let Some(value) = keywords.get(name) {
            checks.insert(name.to_owned(), value.clone());
        }
    }
    exclusive(keywords, checks, "minimum", "exclusiveMinimum", |exclusive, bound| exclusive >= bound);
    exclusive(keywords, checks, "maximum", "exclusiveMaximum", |exclusive, bound| exclusive <= bound);
    let format = keywords.get("format").and_then(Value::as_str).unwrap_or_default();
    let known = match format {
        "int8" | "int16" | "uint8" | "uint16" | "int32" => "int32",
        "int64" | "int" | "uint32" | "uint64" | "uint" => "int64",
        "float" | "double" => format,
        // 128-bit integers have no format.
        _ => return,
    };
    checks.insert("format".to_owned(), known.into());
    if format == "uint32" {
        checks.entry("maximum").or_insert_with(|| u32::MAX.into());
    }
}

/// An exclusive bound: in JSON Schema a number of its own, in Kubernetes a flag next to the bound. Of two
/// bounds the narrower one stays.
fn exclusive(
    keywords: &Map<String, Value>,
    checks: &mut Map<String, Value>,
    bound: &str,
    keyword: &str,
    is_narrower: fn(f64, f64) -> bool,
) {
    match keywords.get(keyword) {
        Some(Value::Bool(true)) => {
            checks.insert(keyword.to_owned(), true.into());
        }
        Some(Value::Number(number)) => {
            let (own, other) = (number.as_f64(), checks.get(bound).and_then(Value::as_f64));
            if own.zip(other).is_none_or(|(own, other)| is_narrower(own, other)) {
                checks.insert(bound.to_owned(), Value::Number(number.clone()));
                checks.insert(keyword.to_owned(), true.into());
            }
        }
        _ => {}
    }
}
