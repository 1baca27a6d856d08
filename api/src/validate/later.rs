//! Rules of validation in versions of Kubernetes after 1.36, whose rules the hand-written validation has: what such a version accepts, or
//! refuses, otherwise.
//!
//! Follows `ValidateHorizontalPodAutoscaler`.

use crate::convert::autoscaler::in_v2;
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::object::list;
use crate::resource::Resource;
use crate::version::Minor;
use FieldErrorKind::{Invalid, Required};
use serde_json::Value;

/// Corrects the errors of metadata for the resource's version.
pub(super) fn metadata(resource: &Resource, errors: &mut ErrorList) {
    if resource.minor < Minor::V37 {
        return;
    }
    errors.replace(|error| {
        let (kind, value, detail) = match error.field.strip_prefix("metadata.ownerReferences.")? {
            "apiVersion" if error.value.as_deref() != Some("\"\"") => {
                (Invalid, error.value.clone(), "must be <group>/<version> or <version>")
            }
            "apiVersion" | "kind" | "name" | "uid" => (Required, None, "must not be empty"),
            _ => return None,
        };
        Some(FieldError { kind, field: error.field.clone(), value, detail: detail.to_owned() })
    });
}

/// Corrects the errors of a write of an object itself for the resource's version.
pub(super) fn errors(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    if resource.minor >= Minor::V37 && resource.is("autoscaling", "horizontalpodautoscalers") {
        scale_to_zero(&in_v2(object), errors);
    }
}

/// Since 1.37 (`HPAScaleToZero`) the lowest size may be zero, if a metric needs no pods.
fn scale_to_zero(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    match spec["minReplicas"].as_i64() {
        Some(0) => errors.retain(|error| error.field != "spec.minReplicas"),
        Some(..0) => {
            let detail = || "must be greater than or equal to 0".to_owned();
            errors.replace(|error| {
                (error.field == "spec.minReplicas").then(|| FieldError { detail: detail(), ..error.clone() })
            });
            return;
        }
        _ => return,
    }
    let needs_no_pods = |metric: &Value| metric["type"] == "Object" || metric["type"] == "External";
    if !list(&spec["metrics"]).iter().any(needs_no_pods) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&Path::new("spec.metrics"), detail);
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::{Kinds, OptIn};
    use crate::validate;
    use crate::version::Minor;
    use serde_json::{Value, json};

    fn faults(minor: Minor, min: i32, kind: &str) -> Vec<(String, String)> {
        let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
        let row = kinds.lookup("autoscaling", "v2", "horizontalpodautoscalers").unwrap();
        let source = match kind {
            "External" => json!({"metric": {"name": "queued"}, "target": {"type": "Value", "value": "1"}}),
            _ => json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}),
        };
        let mut metric = json!({"type": kind});
        metric[kind.to_lowercase()] = source;
        let object: Value = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"minReplicas": min, "maxReplicas": 3, "metrics": [metric],
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        });
        let errors = validate::create(row, &object);
        errors.iter().map(|error| (error.field.clone(), error.detail.clone())).collect()
    }

    #[test]
    fn autoscalers_may_scale_to_zero_since_1_37_by_a_metric_that_needs_no_pods() {
        let least = vec![("spec.minReplicas".to_owned(), "must be greater than or equal to 1".to_owned())];
        for minor in Minor::ALL {
            let is_new = minor >= Minor::V37;
            assert_eq!(faults(minor, 1, "Resource"), [], "{minor}");
            assert_eq!(faults(minor, 0, "External"), if is_new { vec![] } else { least.clone() }, "{minor}");
            let resource = faults(minor, 0, "Resource");
            match is_new {
                true => assert_eq!(resource[0].0, "spec.metrics"),
                false => assert_eq!(resource, least),
            }
            assert_eq!(resource.len(), 1, "{minor}");
            let negative = &faults(minor, -1, "External")[0].1;
            assert!(
                negative.ends_with(if is_new { "equal to 0" } else { "equal to 1" }),
                "{minor}: {negative}"
            );
        }
    }

    #[test]
    fn owners_without_a_kind_are_incomplete_since_1_37() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "b",
                "ownerReferences": [{"apiVersion": "", "kind": "", "name": "c", "uid": "d"}, {"apiVersion": "a/b/c", "kind": "K", "name": "c", "uid": "d"}]},
        });
        let texts = |minor| -> Vec<String> {
            let row = Kinds::new(OptIn::version(minor), &[], &[]).lookup("", "v1", "configmaps").unwrap();
            validate::create(row, &object).iter().map(|error| error.to_string()).collect()
        };
        let path = "metadata.ownerReferences";
        assert_eq!(
            texts(Minor::V36),
            [
                format!("{path}.apiVersion: Invalid value: \"\": version must not be empty"),
                format!("{path}.kind: Invalid value: \"\": must not be empty"),
                format!("{path}.apiVersion: Invalid value: \"a/b/c\": version must not be empty"),
            ]
        );
        assert_eq!(
            texts(Minor::V37),
            [
                format!("{path}.apiVersion: Required value: must not be empty"),
                format!("{path}.kind: Required value: must not be empty"),
                format!(
                    "{path}.apiVersion: Invalid value: \"a/b/c\": must be <group>/<version> or <version>"
                ),
            ]
        );
    }
}
