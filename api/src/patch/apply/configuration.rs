//! Merges apply configurations without field ownership, for admission policies. Nothing is removed, and a
//! configuration must not set atomic lists, maps or structs.

use super::node::{Node, View};
use super::path::{Path, Problems};
use super::{ObjectType, custom, merge, typed};
use serde_json::Value;

/// Merges the configuration into the object and keeps the object's managed fields.
///
/// # Errors
/// Kubernetes' message: the configuration is not of its type, or sets an atomic list, map or struct.
pub fn merge_configuration(live: &Value, config: &Value, object: ObjectType<'_>) -> Result<Value, String> {
    let found = match object {
        ObjectType::BuiltIn(ty) => typed::check(config, ty),
        ObjectType::Custom(tree) => custom::check(config, tree),
    };
    match &found[..] {
        [] => {}
        [only] => return Err(format!("failed to convert patch object to typed object: {only}")),
        many => {
            let texts = many.join("\n  ");
            return Err(format!("failed to convert patch object to typed object: errors:\n  {texts}"));
        }
    }
    let mut atomics = Problems::default();
    find_atomics(config, Node::root(object), &Path::ROOT, &mut atomics);
    let atomics = atomics.into_texts();
    if !atomics.is_empty() {
        let paths = atomics.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"
        ));
    }
    Ok(merge::merge(live, config, Node::root(object)))
}

/// Reports the atomic lists, maps and structs that a configuration sets. List elements are shown by their
/// index.
fn find_atomics(value: &Value, node: Node<'_>, path: &Path<'_>, found: &mut Problems) {
    if found.is_full() {
        return;
    }
    match (node.view([Some(value), None]), value) {
        (View::Leaf, Value::Object(_) | Value::Array(_)) => found.push(format_args!("{path}")),
        (View::Map, Value::Object(members)) => {
            for (name, value) in members {
                find_atomics(value, node.member(name).0, &path.member(name), found);
            }
        }
        (View::List, Value::Array(items)) => {
            for (at, item) in items.iter().enumerate() {
                find_atomics(item, node.item(), &path.index(at), found);
            }
        }
        _ => {}
    }
}
