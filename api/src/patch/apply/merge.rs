//! Merges an apply configuration into an object along the schema, and checks that the configuration is one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::node::{Node, View};
use super::walk::element;

/// The object with the configuration laid over it.
pub(super) fn merge(live: &Value, config: &Value, node: Node<'_>) -> Value {
    match (node.view([Some(live), Some(config)]), live, config) {
        (View::Map, Value::Object(live), Value::Object(config)) => merge_maps(live, config, node),
        (View::List, Value::Array(live), Value::Array(config)) => merge_lists(live, config, node),
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

/// Elements of the configuration come in its order; elements it does not name keep their place among those it does.
fn merge_lists(live: &[Value], config: &[Value], node: Node<'_>) -> Value {
    let ids = |items: &[Value]| -> Vec<String> {
        items.iter().enumerate().map(|(at, item)| element(node, item, at)).collect()
    };
    let (live_ids, config_ids) = (ids(live), ids(config));
    let current: BTreeMap<&String, &Value> = live_ids.iter().zip(live).rev().collect();
    let wanted: BTreeSet<&String> = config_ids.iter().collect();
    let mut shared: VecDeque<&String> = config_ids.iter().filter(|id| current.contains_key(id)).collect();
    let mut rest = config_ids.iter().zip(config);
    let mut done: BTreeSet<&String> = BTreeSet::new();
    let mut out = Vec::new();
    let emit = |id: &String, value: &Value, out: &mut Vec<Value>| {
        out.push(current.get(id).map_or_else(|| value.clone(), |now| merge(now, value, node.item())));
    };
    for (id, item) in live_ids.iter().zip(live) {
        if !wanted.contains(id) {
            out.push(item.clone());
            continue;
        }
        // An element out of its turn waits for the configuration's order.
        if done.contains(id) || shared.front() != Some(&id) {
            continue;
        }
        // Everything the configuration has up to this element, new elements included.
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

/// Every list element of a configuration must have its keys, and no two the same.
///
/// # Errors
/// The text of the first violation, with its place.
pub(super) fn check(config: &Value, node: Node<'_>, path: &str) -> Result<(), String> {
    match (node.view([Some(config), None]), config) {
        (View::Map, Value::Object(map)) => map
            .iter()
            .try_for_each(|(name, value)| check(value, node.member(name).0, &format!("{path}.{name}"))),
        (View::List, Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (at, item) in items.iter().enumerate() {
                let id = node.identity(item).map_err(|text| format!("{path}: element {at}: {text}"))?;
                if !seen.insert(id.clone()) {
                    let mut set = super::set::FieldSet::default();
                    set.insert(std::slice::from_ref(&id));
                    return Err(format!("{path}: duplicate entries for key {}", set.paths().join("")));
                }
                check(item, node.item(), &format!("{path}[{at}]"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
