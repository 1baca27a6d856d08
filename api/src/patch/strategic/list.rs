//! Merging of lists: by the merge key of their elements, or as sets of scalars.

use super::{
    DIRECTIVE, ObjectShape, PatchError, bad_type, go_type, in_go, merge_map, unclassified, unknown_directive,
    without_directives,
};
use crate::distinct::Distinct;
use crate::schema::Field;
use crate::schema::limits::MAX_REPEATED_ELEMENTS;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Identity of an element inside its list: the JSON text of the merge key's value, or of the scalar itself.
type Identity = String;

/// Merges a list; its order follows `patch`.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &'static Field,
) -> Result<Vec<Value>, PatchError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let is_map = of_one_type(&original, &patch)? == "map[string]interface {}";
    let (merged, server, order) = match (is_map, field.merge_key) {
        (true, Some(key)) => merge_by_key(original, patch, key, ObjectShape::of_elem(field.elem))?,
        (true, None) => {
            return Err(unclassified(format!("cannot merge lists without merge key for {}", field.name)));
        }
        (false, Some(_)) => {
            return Err(bad_type("map[string]interface {}", original.first().or(patch.first())));
        }
        (false, None) => {
            let merged = unique(original.iter().chain(&patch));
            (merged, identities(&original, None)?, identities(&patch, None)?)
        }
    };
    ordered(merged, &order, &server, if is_map { field.merge_key } else { None })
}

/// Merges a list; its order follows the elements of `$setElementOrder`.
pub(super) fn merge_in_order(
    original: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    field: &'static Field,
) -> Result<Vec<Value>, PatchError> {
    let key = field.merge_key;
    check_order(patch.as_deref().unwrap_or_default(), order, key)?;
    let server = identities(original.as_deref().unwrap_or_default(), key)?;
    let merged = match (original, patch) {
        (Some(original), Some(patch)) if field.patch.merge => merge(original, patch, field)?,
        (_, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (original, None) => original.unwrap_or_default(),
    };
    ordered(merged, &identities(order, key)?, &server, key)
}

/// Removes the scalars of `$deleteFromPrimitiveList`.
pub(super) fn delete_scalars(list: Option<&mut Value>, gone: &Value) {
    if let (Some(Value::Array(items)), Value::Array(gone)) = (list, gone) {
        let gone = Distinct::of(gone);
        items.retain(|item| !gone.contains(item));
    }
}

/// The common type of all elements, in Go's spelling.
fn of_one_type(original: &[Value], patch: &[Value]) -> Result<&'static str, PatchError> {
    let mut types = original.iter().chain(patch).map(|item| go_type(Some(item)));
    let first = types.next().unwrap_or("<nil>");
    if original.iter().chain(patch).any(Value::is_array) {
        return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
    }
    if types.any(|other| other != first) {
        let lists = [original, patch].map(|list| in_go(&Value::from(list))).join(" ");
        return Err(unclassified(format!("list element types are not identical: [{lists}]")));
    }
    Ok(first)
}

/// The merged elements (current order, new ones last), the identities of the current list, and those of the
/// patch.
type Merged = (Vec<Value>, Vec<Identity>, Vec<Identity>);

fn merge_by_key(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &'static str,
    shaped: ObjectShape,
) -> Result<Merged, PatchError> {
    let special = take_directives(patch, key)?;
    if special.replace {
        return Ok((special.rest.into_iter().map(Value::Object).collect(), Vec::new(), Vec::new()));
    }
    let mut merged: Vec<Value> = Vec::with_capacity(original.len() + special.rest.len());
    for item in original {
        let gone = identity(&item, Some(key)).is_ok_and(|id| special.deleted.contains(&id));
        if !gone {
            merged.push(item);
        }
    }
    let server = identities(&merged, Some(key))?;
    let mut index: BTreeMap<Identity, usize> = BTreeMap::new();
    for (at, id) in server.iter().enumerate() {
        index.entry(id.clone()).or_insert(at);
    }
    let mut order = Vec::with_capacity(special.rest.len());
    let mut repeats: BTreeMap<Identity, usize> = BTreeMap::new();
    for item in special.rest {
        let id = key_of(&item, key)?;
        order.push(id.clone());
        let times = repeats.entry(id.clone()).or_default();
        *times += 1;
        if *times > MAX_REPEATED_ELEMENTS {
            return Err(PatchError::TooLarge(format!(
                "a list of the patch names the element with {key} {id} more than {MAX_REPEATED_ELEMENTS} times"
            )));
        }
        match index.get(&id) {
            Some(&at) => {
                let current = merged[at].as_object_mut().map(std::mem::take).unwrap_or_default();
                merged[at] = Value::Object(merge_map(current, item, shaped)?);
            }
            None => {
                index.insert(id, merged.len());
                merged.extend(without_directives(Value::Object(item)));
            }
        }
    }
    Ok((merged, server, order))
}

/// Directives of a patch list, and its other elements.
struct ListDirectives {
    rest: Vec<Map<String, Value>>,
    deleted: std::collections::BTreeSet<Identity>,
    replace: bool,
}

fn take_directives(patch: Vec<Value>, key: &str) -> Result<ListDirectives, PatchError> {
    let mut out =
        ListDirectives { rest: Vec::new(), deleted: std::collections::BTreeSet::new(), replace: false };
    for item in patch {
        let Value::Object(item) = item else { return Err(bad_type("map[string]interface {}", Some(&item))) };
        match item.get(DIRECTIVE) {
            None => out.rest.push(item),
            Some(Value::String(name)) if name == "replace" => out.replace = true,
            Some(Value::String(name)) if name == "delete" => {
                out.deleted.insert(key_of(&item, key)?);
            }
            Some(Value::String(name)) if name == "merge" => {
                return Err(unclassified("merging lists cannot yet be specified in the patch"));
            }
            Some(other) => return Err(unknown_directive(other, &item)),
        }
    }
    Ok(out)
}

/// Sorts elements that `order` names in that order, with the others between them. The parent module documents
/// the rule.
fn ordered(
    merged: Vec<Value>,
    order: &[Identity],
    server: &[Identity],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (order, server) = (positions(order), positions(server));
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let id = identity(&item, key)?;
        let position = server.get(&id).copied();
        match order.get(&id) {
            Some(&rank) => named.push((rank, position, item)),
            None => others.push((position, item)),
        }
    }
    named.sort_by_key(|(rank, _, _)| *rank);
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, position, item) in named {
        // Another element comes first only if both are in the current list in that order; new elements
        // precede it.
        while let Some((_, other)) = others.next_if(|(other, _)| is_before(*other, position)) {
            out.push(other);
        }
        out.push(item);
    }
    out.extend(others.map(|(_, item)| item));
    Ok(out)
}

fn is_before(one: Option<usize>, other: Option<usize>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one < other)
}

/// Checks that the elements of a patch are in the order that `$setElementOrder` states.
fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let wanted = identities(order, key)?;
    let mut rest = wanted.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let id = identity(item, key)?;
        if !rest.any(|next| *next == id) {
            let lists = (in_go(&Value::from(patch)), in_go(&Value::from(order)));
            return Err(unclassified(format!(
                "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                lists.0, lists.1
            )));
        }
    }
    Ok(())
}

fn positions(ids: &[Identity]) -> BTreeMap<&Identity, usize> {
    let mut out = BTreeMap::new();
    for (at, id) in ids.iter().enumerate() {
        out.entry(id).or_insert(at);
    }
    out
}

fn identities(items: &[Value], key: Option<&str>) -> Result<Vec<Identity>, PatchError> {
    items.iter().map(|item| identity(item, key)).collect()
}

fn identity(item: &Value, key: Option<&str>) -> Result<Identity, PatchError> {
    match (item, key) {
        (Value::Object(map), Some(key)) => key_of(map, key),
        (other, Some(_)) => Err(bad_type("map[string]interface {}", Some(other))),
        (scalar, None) => Ok(scalar.to_string()),
    }
}

fn key_of(map: &Map<String, Value>, key: &str) -> Result<Identity, PatchError> {
    let missing = || {
        unclassified(format!(
            "map: {} does not contain declared merge key: {key}",
            in_go(&Value::Object(map.clone()))
        ))
    };
    map.get(key).map(Value::to_string).ok_or_else(missing)
}

/// Each distinct scalar once, in order of first occurrence.
fn unique<'a>(items: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut seen = std::collections::BTreeSet::new();
    items.filter(|item| seen.insert(item.to_string())).cloned().collect()
}
