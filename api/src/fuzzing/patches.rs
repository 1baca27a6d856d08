//! Laws of patches without field ownership.

use super::{Dice, kind};
use crate::patch::{json, merge, strategic};
use crate::schema::{Elem, Field, Shape, Type};
use serde_json::{Map, Value, json};

/// Fuzzes JSON patch: a computed difference gives the other document, tests of the result pass, and random
/// operations apply or fail.
pub(super) fn json_patch(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let (a, b) = (dice.map(4), dice.map(4));
    let mut operations = Vec::new();
    difference(&a, &b, "", &mut operations);
    let mut tests = Vec::new();
    testing(&b, "", &mut tests);
    operations.extend(tests.iter().cloned());
    assert_eq!(json::apply(&a, &operations.into()), Ok(b.clone()));
    let any: Vec<Value> = (0..dice.below(8)).map(|_| operation(&mut dice)).collect();
    if let Ok(changed) = json::apply(&b, &any.into()) {
        // If all tests pass, no tested value has changed.
        if json::apply(&changed, &tests.into()).is_ok() {
            assert_eq!(changed, b);
        }
    }
}

/// Operations that turn `a` into `b`.
fn difference(a: &Value, b: &Value, path: &str, out: &mut Vec<Value>) {
    let (Value::Object(from), Value::Object(to)) = (a, b) else {
        if a != b {
            out.push(json!({"op": "replace", "path": path, "value": b}));
        }
        return;
    };
    let below = |name: &String| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        out.push(json!({"op": "remove", "path": below(name)}));
    }
    for (name, value) in to {
        match from.get(name) {
            Some(current) => difference(current, value, &below(name), out),
            None => out.push(json!({"op": "add", "path": below(name), "value": value})),
        }
    }
}

/// Test operations that pass for this document, and not all for another one.
fn testing(value: &Value, path: &str, out: &mut Vec<Value>) {
    out.push(json!({"op": "test", "path": path, "value": value}));
    for (name, value) in value.as_object().into_iter().flatten() {
        testing(value, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), out);
    }
}

fn operation(dice: &mut Dice<'_>) -> Value {
    let pointer = |dice: &mut Dice<'_>| -> String {
        (0..dice.below(4)).map(|_| dice.pick(&["/a", "/b", "/c~1d", "/0", "/1", "/-", "/~0", "x"])).collect()
    };
    let name = dice.pick(&["add", "remove", "replace", "move", "copy", "test", "other"]);
    let (path, from) = (pointer(dice), pointer(dice));
    json!({"op": name, "path": path, "from": from, "value": dice.json(2)})
}

/// Fuzzes merge patch: it is idempotent, sets what the patch states, and keeps the rest.
pub(super) fn merge_patch(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let (current, patch) = (dice.map(4), dice.map(4));
    let once = merge::apply(&current, &patch).expect("an object is a patch");
    assert_eq!(merge::apply(&once, &patch).as_ref(), Ok(&once));
    assert!(merged(&current, &patch, &once), "{current} and {patch} made {once}");
}

fn merged(current: &Value, patch: &Value, result: &Value) -> bool {
    let Value::Object(patch) = patch else { return result == patch };
    let (Some(result), empty) = (result.as_object(), Map::new()) else { return false };
    let current = current.as_object().unwrap_or(&empty);
    let kept = current.iter().filter(|(name, _)| !patch.contains_key(*name));
    kept.clone().all(|(name, value)| result.get(name) == Some(value))
        && result.keys().all(|name| current.contains_key(name) || patch.contains_key(name))
        && patch.iter().all(|(name, value)| match (value, result.get(name)) {
            (Value::Null, found) => found.is_none(),
            (value, Some(found)) => merged(current.get(name).unwrap_or(&Value::Null), value, found),
            (_, None) => false,
        })
}

/// Fuzzes strategic merge patch against the reference implementation.
pub(super) fn strategic_patch(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let ty = kind(&mut dice);
    let current = dice.object(ty, 6);
    let mut patch = dice.variation(&current, ty, 6);
    direct(&mut dice, &mut patch, ty);
    let got = strategic::apply(&current, &patch, ty).ok();
    let want = strategic::reference::apply(&current, &patch, ty).ok();
    assert_eq!(got, want, "{current} patched by {patch}");
    if let Some(got) = got {
        assert_eq!(strategic::apply(&got, &json!({}), ty), Ok(got.clone()), "an empty patch changes nothing");
    }
}

/// Adds directives to a patch, most of them valid in their position.
fn direct(dice: &mut Dice<'_>, patch: &mut Value, ty: &'static Type) {
    let Value::Object(map) = patch else { return };
    if dice.is_empty() {
        return;
    }
    for name in map.keys().cloned().collect::<Vec<_>>() {
        let Some(field) = ty.field(&name) else { continue };
        if dice.one_in(8) {
            map.insert(name, Value::Null);
            continue;
        }
        if let (Some(nested), Some(value)) = (field.struct_type(), map.get_mut(&name)) {
            match value {
                Value::Array(items) => items.iter_mut().for_each(|item| direct(dice, item, nested)),
                value => direct(dice, value, nested),
            }
        }
        if field.shape == Shape::List && field.patch.merge {
            direct_list(dice, map, field);
        }
    }
    match dice.below(24) {
        22 => drop(map.insert("$patch".into(), json!(dice.pick(&["replace", "delete", "merge", "other"])))),
        23 => {
            let keys: Vec<&String> = map.keys().filter(|_| !dice.one_in(6)).collect();
            let keys = json!(keys);
            map.insert("$retainKeys".into(), keys);
        }
        _ => {}
    }
}

fn direct_list(dice: &mut Dice<'_>, map: &mut Map<String, Value>, field: &Field) {
    let name = field.name;
    let items = map[name].as_array().cloned().unwrap_or_default();
    let key = |item: &Value| field.merge_key.map_or_else(|| item.clone(), |key| json!({key: item[key]}));
    if dice.one_in(4) {
        let mut order: Vec<Value> = items.iter().map(key).collect();
        if field.elem == Elem::String || dice.one_in(2) {
            order.insert(0, key(&json!("k0")));
        }
        map.insert(format!("$setElementOrder/{name}"), order.into());
    }
    if field.merge_key.is_none() && dice.one_in(4) {
        map.insert(format!("$deleteFromPrimitiveList/{name}"), json!(["a", "b"]));
    }
}
