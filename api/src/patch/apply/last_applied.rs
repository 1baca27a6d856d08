//! Migration from client-side to server-side kubectl apply. The annotation `last-applied-configuration` lists
//! the fields that the former applied; the latter takes them over without a conflict. It also keeps the
//! annotation current, so that users can go back to client-side apply.

use super::node::Node;
use super::{Conflict, ObjectType, walk};
use crate::limits::ANNOTATIONS_MAX;
use serde_json::Value;
use std::collections::BTreeSet;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that uses the annotation.
pub(super) const MANAGER: &str = "kubectl";

/// The conflicts that remain after dropping those over fields that client-side apply set and that still have
/// that value.
///
/// `None` if the annotation says nothing about this object; then all conflicts remain.
pub(super) fn left_over(
    conflicts: &[Conflict],
    live: &Value,
    object: ObjectType<'_>,
) -> Option<Vec<Conflict>> {
    let allowed = still_as_applied(live, object)?;
    Some(conflicts.iter().filter(|conflict| !allowed.contains(&conflict.path)).cloned().collect())
}

fn still_as_applied(live: &Value, object: ObjectType<'_>) -> Option<BTreeSet<String>> {
    let text = live["metadata"]["annotations"][ANNOTATION].as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    let same_version = |api_version: &str| match object {
        ObjectType::BuiltIn(ty) => ty.package.is_version(api_version),
        ObjectType::Custom(_) => live["apiVersion"] == api_version,
    };
    last["apiVersion"].as_str().filter(|api_version| same_version(api_version))?;
    let node = Node::root(object);
    let difference = walk::compare(&last, live, node);
    let fields = walk::fields(&last, node);
    Some(
        fields
            .difference(&difference.changed())
            .difference(&difference.removed)
            .paths()
            .into_iter()
            .collect(),
    )
}

/// Writes the configuration into the annotation, if the object has one. Removes the annotation if the
/// annotations then exceed their size limit.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(stated) = config["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        stated.remove(ANNOTATION);
    }
    annotations.insert(ANNOTATION.to_owned(), format!("{config}\n").into());
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_MAX {
        annotations.remove(ANNOTATION);
    }
}
