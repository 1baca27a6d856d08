//! Fields of a kind that field selectors can name: values, accepted labels, and the message for others.

use crate::selector::field::{FieldRule, NAME, NAMESPACE};

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
    format!("\"{field}\" is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"")
}

fn unsupported(field: &str) -> String {
    format!("field label not supported: {field}")
}
