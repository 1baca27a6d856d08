//! Merges an apply configuration into an object along the schema. Modules `typed` and `custom` check the
//! configuration's type.

use super::node::{Node, View};
use super::walk::element;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Merges the configuration into the object.
pub(super) fn merge(live: &Value, config: &Value, node: Node<'_>) -> Value {
    match (node.view([Some(live), Some(config)]), live, config) {
        (View::Map, Value::Object(live), Value::Object(config)) => merge_maps(live, config, node),
        (View::List, Value::Array(live), Value::Array(config)) => merge_lists(live, config, node),
        // Null has no members of its own and removes none.
        (View::Map, Value::Object(members), Value::Null) if !members.is_empty() => live.clone(),
        (View::List, Value::Array(items), Value::Null) if !items.is_empty() => live.clone(),
        _ => config.clone(),
    }
}

fn merge_maps(live: &Map<String, Value>, config: &Map<String, Value>, node: Node<'_>) -> Value {
    let mut out = live.clone();
    for (name, value) in config {
        let merged = match live.get(name) {
            Some(current) => merge(current, value, node.member(name).0),
            None => value.clone(),
        };
        out.insert(name.clone(), merged);
    }
    Value::Object(out)
}

/// Merges two lists: elements of the configuration keep its order; the other elements keep their position
/// relative to those.
///
/// Both lists are walked in step. Elements only in the live list are emitted at their position; shared
/// elements wait for their turn in the configuration. An element that the live list holds twice is replaced,
/// since the configuration cannot say which one it means.
fn merge_lists(live: &[Value], config: &[Value], node: Node<'_>) -> Value {
    let ids = |items: &[Value]| -> Vec<String> {
        items.iter().enumerate().map(|(at, item)| element(node, item, at)).collect()
    };
    let (live_ids, config_ids) = (ids(live), ids(config));
    let mut current: BTreeMap<&String, Option<&Value>> = BTreeMap::new();
    for (id, item) in live_ids.iter().zip(live) {
        current.entry(id).and_modify(|twice| *twice = None).or_insert(Some(item));
    }
    let wanted: BTreeSet<&String> = config_ids.iter().collect();
    let mut shared: VecDeque<&String> = config_ids.iter().filter(|id| current.contains_key(id)).collect();
    let mut rest = config_ids.iter().zip(config);
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let mut out = Vec::new();
    let emit = |id: &String, value: &Value, out: &mut Vec<Value>| {
        let now = current.get(id).copied().flatten();
        out.push(now.map_or_else(|| value.clone(), |now| merge(now, value, node.item())));
    };
    for (id, item) in live_ids.iter().zip(live) {
        if !wanted.contains(id) {
            out.push(item.clone());
            continue;
        }
        // An element that is not next in the configuration waits for the configuration's order.
        if done.contains(id) || shared.front() != Some(&id) {
            continue;
        }
        // Emits the configuration's elements up to this one, new elements included.
        for (next, value) in rest.by_ref() {
            emit(next, value, &mut out);
            done.insert(next);
            if shared.front() == Some(&next) {
                shared.pop_front();
            }
            if next == id {
                break;
            }
        }
    }
    for (next, value) in rest {
        emit(next, value, &mut out);
    }
    Value::Array(out)
}

/// Adds back structs that pruning removed, where the configuration states them and empty differs from
/// absent.
pub(super) fn restore(object: &mut Value, config: &Value, node: Node<'_>) {
    match (node.view([Some(config), None]), object, config) {
        (View::Map, Value::Object(map), Value::Object(config)) => {
            for (name, stated) in config {
                let below = node.member(name).0;
                if let Some(value) = map.get_mut(name) {
                    restore(value, stated, below);
                } else if stated.is_array() && node.unstated(name).is_some_and(Value::is_null) {
                    map.insert(name.clone(), Value::Array(Vec::new()));
                } else if stated.is_object() {
                    let mut value = Value::Object(Map::new());
                    restore(&mut value, stated, below);
                    if node.keeps_empty(name) || value.as_object().is_some_and(|found| !found.is_empty()) {
                        map.insert(name.clone(), value);
                    }
                }
            }
        }
        (View::List, Value::Array(items), Value::Array(config)) => {
            let stated: BTreeMap<String, &Value> =
                config.iter().enumerate().map(|(at, item)| (element(node, item, at), item)).collect();
            for (at, item) in items.iter_mut().enumerate() {
                if let Some(stated) = stated.get(&element(node, item, at)) {
                    restore(item, stated, node.item());
                }
            }
        }
        _ => {}
    }
}
