//! Rules of validation in versions of Kubernetes after 1.36, whose rules the hand-written validation has: what such a version accepts, or
//! refuses, otherwise.
//!
//! Follows `ValidateHorizontalPodAutoscaler`.

use crate::convert::autoscaler::in_v2;
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::name;
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

/// Corrects the errors of conditions and of pods' statuses for the resource's version.
pub(super) fn statuses(resource: &Resource, errors: &mut ErrorList) {
    if resource.minor < Minor::V37 {
        return;
    }
    let is_type = |error: &FieldError| error.field.contains("onditions[") && error.field.ends_with("].type");
    let is_unset = |error: &FieldError| is_type(error) && error.value.as_deref() == Some("\"\"");
    // The grammar of names finds several faults in an absent type.
    errors.retain(|error| !is_unset(error) || error.detail.starts_with("name part must be non-empty"));
    errors.replace(|error| {
        (is_unset(error) && error.kind == Invalid).then(|| FieldError {
            kind: Required,
            field: error.field.clone(),
            value: None,
            detail: "is required".to_owned(),
        })
    });
    if resource.is("", "pods") {
        users(errors);
    }
}

/// Since 1.37 the users of containers, as nodes report them, are numbers of 32 bits without a sign.
fn users(errors: &mut ErrorList) {
    let user = |error: &FieldError| -> Option<i64> {
        let is_user = error.kind == Invalid && error.field.ends_with(".linux.uid");
        error.value.as_deref().filter(|_| is_user)?.parse().ok()
    };
    errors.retain(|error| user(error).is_none_or(|id| u32::try_from(id).is_err()));
    errors.replace(|error| {
        user(error).map(|_| FieldError { detail: name::in_range(0, i64::from(u32::MAX)), ..error.clone() })
    });
}

/// Corrects the errors of a write of an object itself for the resource's version.
pub(super) fn errors(resource: &Resource, object: &Value, errors: &mut ErrorList) {
    if resource.is("autoscaling", "horizontalpodautoscalers") && resource.has_gate(SCALE_TO_ZERO) {
        scale_to_zero(&in_v2(object), errors);
    }
}

/// The gate of autoscalers without a lowest size, which is on since 1.37.
const SCALE_TO_ZERO: &str = "HPAScaleToZero";

/// With the gate, the lowest size may be zero, if a metric needs no pods.
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
    fn a_condition_without_a_type_is_incomplete_since_1_37() {
        let object = |kind: &str| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"minAvailable": 1}, "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0,
                    "expectedPods": 0, "conditions": [{"type": kind, "status": "True", "reason": "R", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
        };
        let of = |minor, kind: &str| -> Vec<String> {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            let row = kinds.lookup("policy", "v1", "poddisruptionbudgets").unwrap();
            let errors = validate::update_subresource(row, "status", &object(kind), &object("Old"));
            errors.iter().map(ToString::to_string).collect()
        };
        for minor in Minor::SERVED {
            assert!(of(minor, "New").is_empty(), "{minor}");
            assert!(!of(minor, "-").is_empty(), "{minor}");
        }
        assert_eq!(of(Minor::V37, ""), ["status.conditions[0].type: Required value: is required"]);
        assert!(of(Minor::V36, "").iter().all(|fault| fault.contains("Invalid value: \"\"")));
    }

    #[test]
    fn users_of_containers_have_32_bits_since_1_37() {
        let object = |uid: i64| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"containers": [{"name": "c", "image": "d"}]},
                "status": {"containerStatuses": [{"name": "c", "image": "d", "imageID": "", "ready": false, "restartCount": 0,
                    "user": {"linux": {"uid": uid, "gid": 0}}}]}})
        };
        let of = |minor, uid| -> Vec<String> {
            let row = Kinds::new(OptIn::version(minor), &[], &[]).lookup("", "v1", "pods").unwrap();
            let errors = validate::update_subresource(row, "status", &object(uid), &object(0));
            errors.iter().map(|error| error.detail.clone()).collect()
        };
        let (former, present) =
            ("must be between 0 and 2147483647, inclusive", "must be between 0 and 4294967295, inclusive");
        for minor in Minor::SERVED {
            let is_new = minor >= Minor::V37;
            assert!(of(minor, 1000).is_empty(), "{minor}");
            assert_eq!(of(minor, i64::from(u32::MAX)), if is_new { vec![] } else { vec![former] }, "{minor}");
            assert_eq!(
                of(minor, i64::from(u32::MAX) + 1),
                [if is_new { present } else { former }],
                "{minor}"
            );
            assert_eq!(of(minor, -1).len(), 1, "{minor}");
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
