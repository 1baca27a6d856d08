//! Scale of a built-in workload (`autoscaling/v1`), the body of the `scale` subresource.

use crate::field::{ErrorList, Path};
use crate::meta;
use crate::resource::Resource;
use crate::status::Status;
use serde_json::{Value, json};

/// The Scale of a workload.
pub fn of(workload: &Value) -> Value {
    let metadata = &workload["metadata"];
    let mut scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": workload["spec"]["replicas"].as_i64().unwrap_or(0)},
        "status": {"replicas": workload["status"]["replicas"].as_i64().unwrap_or(0)},
    });
    let selector = selector_text(&workload["spec"]["selector"]);
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// Checks a Scale before it is applied.
///
/// # Errors
/// 422 if the number is missing or negative, or the Scale has the name of another object.
pub fn check(resource: &Resource, name: &str, scale: &Value) -> Result<(), Status> {
    if !meta::name(scale).is_empty() && meta::name(scale) != name {
        let message = format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            meta::name(scale)
        );
        return Err(Status::bad_request(message));
    }
    match scale["spec"]["replicas"].as_i64().unwrap_or(0) {
        replicas if replicas >= 0 => Ok(()),
        replicas => {
            let spec = Path::new("spec");
            let mut errors = ErrorList::default();
            errors.invalid(&spec.child("replicas"), &json!(replicas), "must be greater than or equal to 0");
            Err(Status::invalid(resource.group, "Scale", name, &errors))
        }
    }
}

/// Text of a label selector, or of a ReplicationController's plain map.
fn selector_text(selector: &Value) -> String {
    let plain = |map: &Value| -> Vec<String> {
        let pairs = map.as_object().into_iter().flatten();
        pairs.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect()
    };
    let is_map = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let mut terms = if is_map { plain(selector) } else { plain(&selector["matchLabels"]) };
    for requirement in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = requirement["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match requirement["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_has_replicas_and_selector() {
        let deployment = json!({"metadata": {"name": "web", "resourceVersion": "7"}, "spec": {"replicas": 3,
            "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            "status": {"replicas": 2}});
        let scale = of(&deployment);
        assert_eq!(scale["spec"]["replicas"], 3);
        assert_eq!(scale["status"], json!({"replicas": 2, "selector": "app=web,a"}));
        assert_eq!(scale["metadata"]["resourceVersion"], "7");
    }
}
