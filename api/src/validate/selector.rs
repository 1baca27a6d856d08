//! Validation of label selectors in objects.
//!
//! Follows `ValidateLabelSelector`.

use crate::check::{each, grammar, metadata};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{is_empty, list, text};
use crate::selector::label::Selector;
use serde_json::Value;

/// Checks a `metav1.LabelSelector`, if it is set.
pub(in crate::validate) fn label_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    metadata::labels(errors, &path.child("matchLabels"), &selector["matchLabels"]);
    each(path, selector, "matchExpressions", |path, expression| {
        let (operator, values) = (text(&expression["operator"]), list(&expression["values"]));
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required(&path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&path.child("values"), detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
        }
        let key = text(&expression["key"]);
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
        for (i, value) in values.iter().enumerate() {
            let values = path.child("values");
            grammar(errors, &values.index(i), text(value), name::label_value(text(value)));
        }
    });
}

/// Whether a label selector is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Usable {
    Yes,
    No,
}

/// Checks the selector of a workload: present, not empty, and matching the labels of the template. Callers
/// skip the template if the selector is invalid; `broken` is the message for that case.
pub(super) fn of_template(
    errors: &mut ErrorList,
    spec: &Path<'_>,
    object: &Value,
    (kind, broken): (&str, &str),
) -> Usable {
    let (path, selector) = (spec.child("selector"), &object["spec"]["selector"]);
    if selector.is_null() {
        errors.required(&path, "");
    }
    let before = errors.len();
    label_selector(errors, &path, selector);
    let good = errors.len() == before;
    if !selector.is_null() && is_empty(selector) {
        errors.invalid(&path, selector, format!("empty selector is invalid for {kind}"));
    }
    let parsed = Selector::from_object(selector).ok().filter(|_| good);
    let Some(parsed) = parsed else {
        errors.invalid(&path, selector, broken);
        return Usable::No;
    };
    let labels = &object["spec"]["template"]["metadata"]["labels"];
    if !parsed.is_everything() && !parsed.matches(&labels.as_object()) {
        let path = spec.child("template.metadata.labels");
        errors.invalid(&path, labels, "`selector` does not match template `labels`");
    }
    Usable::Yes
}
