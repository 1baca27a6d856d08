//! Reference implementation of strategic merge patch: slow list searches, and one rule per function. Fuzzers
//! and tests compare the fast implementation with it.

use super::ObjectShape;
use crate::schema::{Field, Type};
use serde_json::{Map, Value};

/// Applies a patch; `Err` if it is refused.
pub(crate) fn apply(current: &Value, patch: &Value, ty: &'static Type) -> Result<Value, ()> {
    let patch = patch.as_object().ok_or(())?;
    map(&current.as_object().cloned().unwrap_or_default(), patch, ObjectShape::Struct(ty)).map(Value::Object)
}

fn map(
    current: &Map<String, Value>,
    patch: &Map<String, Value>,
    shaped: ObjectShape,
) -> Result<Map<String, Value>, ()> {
    match patch.get("$patch").map(Value::as_str) {
        Some(Some("replace")) => {
            return Ok(patch.iter().filter(|(name, _)| *name != "$patch").map(own).collect());
        }
        Some(Some("delete")) => return Ok(Map::new()),
        Some(_) => return Err(()),
        None => {}
    }
    let mut out = current.clone();
    if let Some(keys) = patch.get("$retainKeys") {
        let keys = keys.as_array().ok_or(())?;
        let listed = |name: &str| keys.iter().any(|key| key == name);
        let sets = patch.iter().filter(|(name, value)| !value.is_null() && !name.starts_with('$'));
        if sets.clone().any(|(name, _)| !listed(name)) {
            return Err(());
        }
        out = out.into_iter().filter(|(name, _)| listed(name)).collect();
    }
    let order_of = |name: &str| patch.get(&format!("$setElementOrder/{name}"));
    let stated = || patch.iter().filter(|(name, _)| !name.starts_with('$'));
    // Lists with an order come first, then deletions, then everything else.
    for (name, value) in stated().filter(|(name, _)| order_of(name).is_some()) {
        put(&mut out, name, value, order_of(name), shaped)?;
    }
    for (name, order) in
        patch.iter().filter_map(|(name, order)| Some((name.strip_prefix("$setElementOrder/")?, order)))
    {
        let (order, field) = (order.as_array().ok_or(())?, shaped.field(name).ok_or(())?);
        if patch.get(name).is_none()
            && let Some(items) = out.get(name)
        {
            let items = items.as_array().ok_or(())?;
            let items = arrange(items, order, items, field.merge_key)?;
            out.insert(name.to_owned(), items.into());
        }
    }
    for (name, gone) in
        patch.iter().filter_map(|(name, gone)| Some((name.strip_prefix("$deleteFromPrimitiveList/")?, gone)))
    {
        if let (Some(Value::Array(items)), Value::Array(gone)) = (out.get_mut(name), gone) {
            items.retain(|item| !gone.contains(item));
        }
    }
    for (name, value) in stated().filter(|(name, _)| order_of(name).is_none()) {
        put(&mut out, name, value, None, shaped)?;
    }
    Ok(out)
}

fn put(
    out: &mut Map<String, Value>,
    name: &str,
    patch: &Value,
    order: Option<&Value>,
    shaped: ObjectShape,
) -> Result<(), ()> {
    let merged = member(out.get(name), patch, order, shaped, name)?;
    out.remove(name);
    out.extend(merged.map(|value| (name.to_owned(), value)));
    Ok(())
}

fn own((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn member(
    current: Option<&Value>,
    patch: &Value,
    order: Option<&Value>,
    shaped: ObjectShape,
    name: &str,
) -> Result<Option<Value>, ()> {
    let field = shaped.field(name);
    Ok(match (current, patch) {
        (current, Value::Null) => {
            // `$setElementOrder` keeps a list that null would remove.
            let kept = current.filter(|_| order.is_some());
            let Some(Value::Array(items)) = kept else { return Ok(None) };
            let order = order.and_then(Value::as_array).ok_or(())?;
            Some(arrange(items, order, items, field.ok_or(())?.merge_key)?.into())
        }
        (Some(Value::Object(current)), Value::Object(patch)) => {
            let replaced = field.is_some_and(|field| field.patch.replace);
            let merged = if replaced { patch.clone() } else { map(current, patch, shaped.member(name))? };
            Some(Value::Object(merged))
        }
        (current, Value::Array(patch)) => {
            let merged = match (current, field) {
                (Some(Value::Array(current)), Some(field)) if field.patch.merge => {
                    list(current, patch, field)?
                }
                (Some(other), _) if order.is_some() && !other.is_array() => return Err(()),
                _ => patch.iter().filter_map(plain).collect(),
            };
            let Some(order) = order else {
                let whole =
                    current.is_some_and(Value::is_array) && !field.is_some_and(|field| field.patch.merge);
                return Ok(Some(if whole { patch.clone().into() } else { merged.into() }));
            };
            let (field, order) = (field.ok_or(())?, order.as_array().ok_or(())?);
            in_order(patch, order, field.merge_key)?;
            let before = current.and_then(Value::as_array).cloned().unwrap_or_default();
            Some(arrange(&merged, order, &before, field.merge_key)?.into())
        }
        (_, patch) if order.is_some() && !patch.is_array() => return Err(()),
        (_, patch) => plain(patch),
    })
}

fn list(current: &[Value], patch: &[Value], field: &'static Field) -> Result<Vec<Value>, ()> {
    let all = || current.iter().chain(patch);
    let maps = all().any(Value::is_object);
    if all().any(Value::is_array) || all().any(|a| all().any(|b| kind(a) != kind(b))) {
        return Err(());
    }
    if all().next().is_none() {
        return Ok(Vec::new());
    }
    let Some(key) = field.merge_key.filter(|_| maps) else {
        if maps || field.merge_key.is_some() {
            return Err(());
        }
        let mut out: Vec<Value> = Vec::new();
        all().for_each(|item| {
            if !out.contains(item) {
                out.push(item.clone());
            }
        });
        return arrange(&out, patch, current, None);
    };
    let mut out = current.to_vec();
    let mut replace = false;
    for item in patch {
        match item.get("$patch").map(Value::as_str) {
            None => {}
            Some(Some("delete")) => {
                let id = item.get(key).ok_or(())?;
                out.retain(|other| other.get(key) != Some(id));
            }
            Some(Some("replace")) => replace = true,
            Some(_) => return Err(()),
        }
    }
    let stated: Vec<Value> = patch.iter().filter(|item| item.get("$patch").is_none()).cloned().collect();
    if replace {
        return if stated.iter().all(|item| item.get(key).is_some()) { Ok(stated) } else { Err(()) };
    }
    let before = out.clone();
    for item in &stated {
        let id = item.get(key).ok_or(())?;
        match out.iter().position(|other| other.get(key) == Some(id)) {
            Some(at) => {
                let (Some(current), Some(patch)) = (out[at].as_object(), item.as_object()) else {
                    return Err(());
                };
                out[at] = Value::Object(map(current, patch, ObjectShape::of_elem(field.elem))?);
            }
            None => out.extend(plain(item)),
        }
    }
    arrange(&out, &stated, &before, Some(key))
}

/// Sorts named elements by `order`; the others are placed between them by their position in `before`.
fn arrange(items: &[Value], order: &[Value], before: &[Value], key: Option<&str>) -> Result<Vec<Value>, ()> {
    let id = |item: &Value| match key {
        Some(key) => item.get(key).cloned().ok_or(()),
        None => Ok(item.clone()),
    };
    let find = |list: &[Value], wanted: &Value| -> Result<Option<usize>, ()> {
        let ids = list.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        Ok(ids.iter().position(|id| id == wanted))
    };
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in items {
        match find(order, &id(item)?)? {
            Some(at) => named.push((at, item.clone())),
            None => others.push(item.clone()),
        }
    }
    find(before, &Value::Null)?;
    named.sort_by_key(|(at, _)| *at);
    let mut out = Vec::new();
    for (_, item) in named {
        while let Some(other) = others.first() {
            match (find(before, &id(other)?)?, find(before, &id(&item)?)?) {
                (Some(one), Some(two)) if one < two => out.push(others.remove(0)),
                _ => break,
            }
        }
        out.push(item);
    }
    out.append(&mut others);
    Ok(out)
}

/// Checks that the elements of a patch are in the order that it states.
fn in_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), ()> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let id = |item: &Value| key.map_or_else(|| Some(item.clone()), |key| item.get(key).cloned()).ok_or(());
    let mut at = 0;
    for item in patch.iter().filter(|item| item.get("$patch").is_none()) {
        let wanted = id(item)?;
        loop {
            let next = id(order.get(at).ok_or(())?)?;
            at += 1;
            if next == wanted {
                break;
            }
        }
    }
    order.iter().try_for_each(|item| id(item).map(drop))
}

/// A new value without nulls and directives.
fn plain(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key("$patch") => None,
        Value::Object(map) => {
            let stated = map.iter().filter(|(name, value)| !value.is_null() && !is_directive(name));
            Some(Value::Object(
                stated.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect(),
            ))
        }
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(plain).collect())),
        other => Some(other.clone()),
    }
}

fn is_directive(name: &str) -> bool {
    ["$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}
