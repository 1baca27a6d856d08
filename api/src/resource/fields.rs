//! Fields of a kind that field selectors can name: values, accepted labels, and the message for others.

use serde_json::Value;
use std::borrow::Cow;

/// Rule that computes a field's value from an object.
#[derive(Debug)]
pub(crate) enum FieldRule {
    /// The string, number or boolean at a path.
    At(&'static [&'static str]),
    /// The value at a path, or this text if it is absent.
    Or(&'static [&'static str], &'static str),
    /// The value at the first of two paths that is present; objects may have the request's or the storage
    /// version.
    Either(&'static [&'static str], &'static [&'static str]),
    /// A value computed from the values at these paths.
    By(for<'o> fn(&'o Value) -> Cow<'o, str>, &'static [&'static [&'static str]]),
}

/// Selectable fields of a kind besides name and namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelectableFields {
    /// Labels and rules of the values, sorted by label. Versions that share a storage have the same, since the
    /// watch cache keeps the values once per object.
    pub(crate) values: &'static [(&'static str, FieldRule)],
    /// Labels that requests can use.
    pub(crate) labels: Labels,
    /// Message for a field that is not selectable.
    pub(crate) refusal: fn(&str) -> String,
}

/// Labels that field selectors of one version can use. Pairs are a label of requests and the label in
/// [`SelectableFields::values`] that it stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Labels {
    /// Those of the values and these.
    Also(&'static [(&'static str, &'static str)]),
    /// Only these.
    Only(&'static [(&'static str, &'static str)]),
}

impl SelectableFields {
    /// Only name and namespace are selectable.
    pub(crate) const NONE: Self = Self { values: &[], labels: Labels::Also(&[]), refusal: unknown };

    /// Each of these fields is selectable by its label.
    pub(crate) const fn of(values: &'static [(&'static str, FieldRule)]) -> Self {
        Self { values, labels: Labels::Also(&[]), refusal: unsupported }
    }

    /// The same fields with other labels.
    pub(crate) const fn labelled(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }
}

fn unknown(field: &str) -> String {
    format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

fn unsupported(field: &str) -> String {
    format!("field label not supported: {field}")
}

impl FieldRule {
    /// Value of the field of an object.
    pub(crate) fn of<'o>(&self, object: &'o Value) -> Cow<'o, str> {
        match self {
            FieldRule::By(compute, _) => compute(object),
            FieldRule::At(path) => scalar(object, path).unwrap_or_default(),
            FieldRule::Or(path, absent) => scalar(object, path).unwrap_or((*absent).into()),
            FieldRule::Either(path, other) => {
                scalar(object, path).or_else(|| scalar(object, other)).unwrap_or_default()
            }
        }
    }
}

/// The text of a string, number or boolean.
fn scalar<'o>(object: &'o Value, path: &[&str]) -> Option<Cow<'o, str>> {
    match path.iter().fold(object, |value, member| &value[*member]) {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
