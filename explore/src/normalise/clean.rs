//! N1: drops what the server keeps of an object and what no run chooses.

use serde_json::Value;

/// Members of metadata that are dropped.
const DROPPED: [&str; 7] = [
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionGracePeriodSeconds",
];

/// Annotations that are dropped: the lab's, and kubectl's copy of the object.
const ANNOTATIONS: [&str; 2] = ["lab.kstore.io/touch", "kubectl.kubernetes.io/last-applied-configuration"];

/// The object without them. `observedGeneration` becomes `current` or `behind`, a deletion's time `true`.
pub(super) fn clean(resource: &str, object: &Value) -> Value {
    let mut object = object.clone();
    let generation = object["metadata"]["generation"].as_i64();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !DROPPED.contains(&name.as_str()));
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = Value::Bool(true);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    if resource == "nodes"
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    observed(&mut object["status"], generation, 4);
    drop_revisions(&mut object, crate::limits::DEPTH);
    if object["status"].is_null()
        && let Some(members) = object.as_object_mut()
    {
        members.remove("status");
    }
    object
}

/// Removes the revisions by which an object refers to others, such as `spec.claimRef.resourceVersion` of a volume.
fn drop_revisions(value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(members) => {
            let is_revision = |value: &Value| value.as_str().is_some_and(|text| text.parse::<u64>().is_ok());
            if members.get("resourceVersion").is_some_and(is_revision) {
                members.remove("resourceVersion");
            }
            members.values_mut().for_each(|value| drop_revisions(value, depth - 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_revisions(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces each `observedGeneration` of a status and its conditions.
fn observed(status: &mut Value, generation: Option<i64>, depth: usize) {
    if depth == 0 {
        return;
    }
    match status {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value.as_i64()) {
                    ("observedGeneration", Some(observed)) => {
                        let is_current = generation.is_none_or(|generation| observed >= generation);
                        *value = Value::String(if is_current { "current" } else { "behind" }.to_owned());
                    }
                    _ => observed(value, generation, depth - 1),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| observed(item, generation, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
