//! Formats that older versions of Kubernetes do not check: their errors are removed.

use crate::field::{ErrorList, FieldError, FieldErrorKind};
use crate::version::Minor;

/// The first version that checks formats of numbers.
const NUMBERS: Minor = Minor::V36;
/// The first version that knows the formats of Kubernetes' names.
const NAMES: Minor = Minor::V34;

/// Removes the errors of formats that a version does not know from those of a custom object.
pub fn accept_unknown_formats(minor: Minor, errors: &mut ErrorList) {
    if minor < NUMBERS {
        errors.retain(|error| !is_of_number(error));
    }
    if minor < NAMES {
        errors.retain(|error| !is_of_name(error));
    }
}

/// Whether an error says that a number, or a bound of the schema, does not fit its format. Such an error has no place in the object.
fn is_of_number(error: &FieldError) -> bool {
    error.field == "<nil>"
        && error.detail.contains(" value must be of type ")
        && ["integer with format int32 in ", "number with format float in "]
            .iter()
            .any(|of| error.detail.contains(of))
}

/// Whether an error says that a text is no name.
fn is_of_name(error: &FieldError) -> bool {
    let formats = ["k8s-short-name", "k8s-long-name"];
    let says = |format: &&str| error.detail.contains(&format!(" in body must be of type {format}: "));
    error.kind == FieldErrorKind::TypeInvalid && formats.iter().any(says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structural::{Tree, ValidationScope};
    use serde_json::{Value, json};

    fn faults(minor: Minor, spec: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "small": {"type": "integer", "format": "int32"}, "float": {"type": "number", "format": "float"},
            "short": {"type": "string", "format": "k8s-short-name"}, "long": {"type": "string", "format": "k8s-long-name"},
            "date": {"type": "string", "format": "date"}}}}});
        let tree = Tree::compile(&schema).unwrap();
        let object = json!({"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "d"}, "spec": spec});
        let mut errors = tree.validate(&object, None, ValidationScope::Whole);
        accept_unknown_formats(minor, &mut errors);
        errors.iter().map(|error| error.detail.clone()).collect()
    }

    #[test]
    fn a_version_checks_the_formats_that_it_knows() {
        for minor in Minor::SERVED {
            for (spec, first) in [
                (json!({"small": 1_i64 << 40}), NUMBERS),
                (json!({"float": 1e300}), NUMBERS),
                (json!({"short": "A"}), NAMES),
                (json!({"long": "A.b"}), NAMES),
                (json!({"date": "today"}), Minor::V33),
                (json!({"small": "1"}), Minor::V33),
            ] {
                assert_eq!(faults(minor, &spec).is_empty(), minor < first, "{minor} {spec}");
            }
            let good = json!({"small": 1, "float": 1.5, "short": "a", "long": "a.b", "date": "2026-01-01"});
            assert!(faults(minor, &good).is_empty(), "{minor}");
        }
    }
}
