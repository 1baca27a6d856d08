//! Formatting that cells of many kinds share: placeholders, shortened lists, labels, container names.

pub(super) use crate::object::{int, list, text as of};
use crate::selector::label::Selector;
use serde_json::{Map, Value};

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// A text, or a placeholder if it is absent or empty.
pub(super) fn or<'v>(value: &'v Value, placeholder: &'v str) -> &'v str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(placeholder)
}

/// A count, 0 where absent.
pub(super) fn count(value: &Value) -> Value {
    value.as_i64().unwrap_or_default().into()
}

/// A number or text (IntOrString), or a placeholder.
pub(super) fn int_or_string(value: &Value, placeholder: &str) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => placeholder.to_owned(),
    }
}

/// The texts joined, or a placeholder if there are none.
pub(super) fn join_or<I: AsRef<str>>(
    texts: impl IntoIterator<Item = I>,
    separator: &str,
    placeholder: &str,
) -> String {
    let mut out = String::new();
    for (i, text) in texts.into_iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        out.push_str(text.as_ref());
    }
    if out.is_empty() { placeholder.to_owned() } else { out }
}

/// The first `max` texts and the number of the others.
pub(super) fn first_of(texts: &[String], max: usize, separator: &str, placeholder: &str) -> String {
    let more = texts.len().saturating_sub(max);
    let shown = join_or(texts.iter().take(max), separator, placeholder);
    if more == 0 { shown } else { format!("{shown} + {more} more...") }
}

/// Labels as `a=b,c=d`, or `<none>`.
pub(super) fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={}", of(value)));
    join_or(pairs, ",", NONE)
}

/// Text form of a label selector; `<none>` if it selects everything.
pub(super) fn selector(object: &Value) -> String {
    selector_or(object, NONE, "<error>")
}

/// Text form of a label selector, with texts for an empty and for a malformed one.
pub(super) fn selector_or(object: &Value, all: &str, broken: &str) -> String {
    let empty = Value::Object(Map::new());
    match Selector::from_object(if object.is_null() { &empty } else { object }) {
        Ok(selector) => join_or([selector.to_string()], "", all),
        Err(_) => broken.to_owned(),
    }
}

/// Names and images of a pod spec's containers.
pub(super) fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|member| {
        join_or(list(&spec["containers"]).iter().map(|container| of(&container[member])), ",", "").into()
    })
}

/// Number of items in a list, or of entries in a map.
pub(super) fn length(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.len().into(),
        Value::Object(members) => members.len().into(),
        _ => 0.into(),
    }
}
