//! Label selectors inside objects.

use serde_json::Value;

use super::check::{each, grammar};
use super::metadata;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::selector::label::Selector;

/// A `metav1.LabelSelector`, if there is one.
pub(super) fn label_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
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

/// The selector of a workload: there, not empty, and matching its own template.
pub(super) fn of_template(errors: &mut ErrorList, spec: &Path<'_>, object: &Value, kind: &str) {
    let (path, selector) = (spec.child("selector"), &object["spec"]["selector"]);
    if selector.is_null() {
        errors.required(&path, "");
        return;
    }
    let before = errors.len();
    label_selector(errors, &path, selector);
    let Ok(parsed) = Selector::from_object(selector) else { return };
    if parsed.is_everything() {
        errors.invalid(&path, selector, format!("empty selector is invalid for {kind}"));
    } else if errors.len() == before {
        let labels = &object["spec"]["template"]["metadata"]["labels"];
        if !parsed.matches(&labels.as_object()) {
            let path = spec.child("template.metadata.labels");
            errors.invalid(&path, labels, "`selector` does not match template `labels`");
        }
    }
}
