//! N3–N7: rewrites the values of an object: owner references, strings, times, addresses, lists, encoded data.

use super::slots::Slots;
use super::{NormalState, Normaliser};
use crate::limits::DEPTH;
use crate::record::{StoredObject, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Members that name a node.
const HOSTS: [&str; 2] = ["nodeName", "hostname"];
/// Members that are ports which the server chooses.
const PORTS: [&str; 2] = ["nodePort", "healthCheckNodePort"];

/// The type of a value, for paths whose value is volatile.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Collects all strings of a value.
pub(super) fn texts(value: &Value, found: &mut BTreeSet<String>, depth: usize) {
    match value {
        _ if depth == 0 => {}
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found, depth - 1)),
        Value::Object(members) => members.values().for_each(|member| texts(member, found, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Calls `change` for each value at a path; `*` stands for any member or position.
pub(super) fn visit(value: &mut Value, path: &[String], depth: usize, change: &mut dyn FnMut(&mut Value)) {
    let Some((first, rest)) = path.split_first() else { return change(value) };
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(members) if first == "*" => {
            members.values_mut().for_each(|member| visit(member, rest, depth - 1, change));
        }
        Value::Object(members) => {
            if let Some(member) = members.get_mut(first) {
                visit(member, rest, depth - 1, change);
            }
        }
        Value::Array(items) if first == "*" => {
            items.iter_mut().for_each(|item| visit(item, rest, depth - 1, change));
        }
        Value::Array(items) => {
            let item = first.parse::<usize>().ok().and_then(|at| items.get_mut(at));
            if let Some(item) = item {
                visit(item, rest, depth - 1, change);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Rewrites a cleaned object.
pub(super) fn rewrite(
    normaliser: &Normaliser,
    stored: &StoredObject,
    mut object: Value,
    slots: &Slots,
) -> Value {
    owners(&mut object, slots);
    decode(&stored.resource, &mut object);
    let mut path = Vec::new();
    let rewriter = Rewriter { normaliser, slots, resource: &stored.resource };
    rewriter.value(&mut object, &mut path, DEPTH);
    object
}

/// N3: owner references become slots.
fn owners(object: &mut Value, slots: &Slots) {
    let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return;
    };
    for owner in owners.iter_mut() {
        if owner.get("slot").is_some() {
            continue;
        }
        let uid = owner["uid"].as_str().unwrap_or_default();
        let slot = slots.by_uid.get(uid).cloned().unwrap_or_else(|| "missing".to_owned());
        *owner = json!({"slot": slot, "kind": owner["kind"], "controller": owner["controller"] == true});
    }
    owners.sort_by_key(Value::to_string);
}

/// N7: data of Secrets and ConfigMaps is compared decoded.
fn decode(resource: &str, object: &mut Value) {
    let is_secret = resource == "secrets";
    if !is_secret && resource != "configmaps" {
        return;
    }
    let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) else { return };
    for value in data.values_mut() {
        let Some(text) = value.as_str() else { continue };
        *value = match is_secret {
            false => decoded(text).unwrap_or_else(|| Value::String(text.to_owned())),
            true => match STANDARD.decode(text).map(String::from_utf8) {
                Ok(Ok(text)) => decoded(&text).unwrap_or_else(|| json!({ "text": text })),
                Ok(Err(bytes)) => {
                    let bytes = bytes.into_bytes();
                    json!({"bytes": bytes.len(), "digest": digest(&Value::String(STANDARD.encode(&bytes)))})
                }
                Err(_) => continue,
            },
        };
    }
}

/// The value of a text that is JSON, YAML or PEM and no plain scalar.
fn decoded(text: &str) -> Option<Value> {
    if let Some(blocks) = super::pem::blocks(text) {
        return Some(json!({ "pem": blocks }));
    }
    let begin = text.trim_start();
    if begin.starts_with('{') || begin.starts_with('[') {
        return serde_json::from_str(text).ok();
    }
    if !begin.contains(": ") && !begin.contains(":\n") {
        return None;
    }
    let value = kstore_api::yaml::parse(text.as_bytes(), crate::limits::FILE_BYTES).ok()?.value;
    (value.is_object() || value.is_array()).then_some(value)
}

struct Rewriter<'r> {
    normaliser: &'r Normaliser,
    slots: &'r Slots,
    resource: &'r str,
}

impl Rewriter<'_> {
    fn value(&self, value: &mut Value, path: &mut Vec<String>, depth: usize) {
        match value {
            _ if depth == 0 => *value = Value::String(value.to_string()),
            Value::String(text) => {
                let is_given = self.normaliser.given.contains(text);
                if !is_given {
                    let replaced = self.slots.replaced(text);
                    if is_time(&replaced) {
                        "time".clone_into(text);
                    } else if let Cow::Owned(replaced) = replaced {
                        *text = replaced;
                    }
                }
            }
            Value::Number(number) => {
                if number.as_i64().is_some_and(|number| self.is_unix_time(number)) {
                    *value = Value::String("time".to_owned());
                }
            }
            Value::Array(items) => {
                path.push("*".to_owned());
                items.iter_mut().for_each(|item| self.value(item, path, depth - 1));
                path.pop();
                self.sort(items, path);
            }
            Value::Object(members) => {
                let renamed: Map<String, Value> = std::mem::take(members)
                    .into_iter()
                    .map(|(name, mut member)| {
                        path.push(name.clone());
                        self.value(&mut member, path, depth - 1);
                        path.pop();
                        let replaced = match self.slots.replaced(&name) {
                            Cow::Owned(replaced) => replaced,
                            Cow::Borrowed(_) => name,
                        };
                        (replaced, member)
                    })
                    .collect();
                *members = renamed;
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// N6: lists that are maps or sets are sorted by their keys; others only if references differ in their order alone.
    fn sort(&self, items: &mut [Value], path: &[String]) {
        let key = |item: &Value, name: &str| item[name].as_str().map(str::to_owned);
        let name = if path.last().is_some_and(|name| name == "conditions") { "type" } else { "name" };
        let keys: Option<BTreeSet<String>> = items.iter().map(|item| key(item, name)).collect();
        if keys.is_some_and(|keys| keys.len() == items.len()) {
            items.sort_by_key(|item| key(item, name));
            return;
        }
        let is_set = path.last().is_some_and(|name| name == "finalizers");
        let learned = self.normaliser.learned.iter().flat_map(|learned| &learned.unordered);
        let is_unordered = || learned.clone().any(|list| list.resource == self.resource && list.path == path);
        if is_set || is_unordered() {
            items.sort_by_key(Value::to_string);
        }
    }

    fn is_unix_time(&self, number: i64) -> bool {
        let Some((from, to)) = self.normaliser.window else { return false };
        (from..=to).contains(&number) || (from..=to).contains(&(number / 1000))
    }
}

/// Replaces all times of a value.
pub(super) fn drop_times(value: &mut Value, depth: usize) {
    match value {
        _ if depth == 0 => {}
        Value::String(text) if is_time(text) => *value = Value::String("time".to_owned()),
        Value::Array(items) => items.iter_mut().for_each(|item| drop_times(item, depth - 1)),
        Value::Object(members) => members.values_mut().for_each(|member| drop_times(member, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces all times of a text.
pub(super) fn drop_times_of_text(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ":.+-".contains(c);
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find(is_part) {
        let (before, from) = rest.split_at(begin);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        // A sentence may end with the time.
        let bare = word.trim_end_matches(['.', ':']);
        kept.push_str(before);
        kept.push_str(if is_time(bare) { "time" } else { bare });
        kept.push_str(&word[bare.len()..]);
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// N4: whether a string is a time in RFC 3339.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let has_form = bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[10] == b'T';
    has_form && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_address(text: &str) -> bool {
    let bare = text.split_once('/').map_or(text, |(address, _)| address);
    bare.parse::<IpAddr>().is_ok()
}

/// The kind of a value that N5 names, by its member's name.
fn address_kind(name: &str, value: &Value) -> Option<&'static str> {
    match value {
        Value::String(text) if HOSTS.contains(&name) && !text.is_empty() => Some("host"),
        Value::String(text) if is_address(text) => Some("ip"),
        Value::Number(_) if PORTS.contains(&name) => Some("port"),
        _ => None,
    }
}

/// N5: replaces addresses, names of nodes and chosen ports by a name per distinct value, in the order of slots.
pub(super) fn name_addresses(normaliser: &Normaliser, state: &mut NormalState) {
    let mut named: BTreeMap<(&'static str, String), String> = BTreeMap::new();
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut name = |kind: &'static str, value: &Value| -> Value {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if normaliser.given.contains(&text) {
            return value.clone();
        }
        let known = named.entry((kind, text)).or_insert_with(|| {
            let count = counts.entry(kind).or_default();
            *count += 1;
            format!("{kind}-{count}")
        });
        Value::String(known.clone())
    };
    for value in state.objects.values_mut() {
        addresses(value, "", DEPTH, &mut name);
    }
}

/// Replaces all addresses by their kind.
pub(super) fn blind_addresses(value: &mut Value, depth: usize) {
    addresses(value, "", depth, &mut |kind, _| Value::String(kind.to_owned()));
}

fn addresses(
    value: &mut Value,
    name: &str,
    depth: usize,
    replace: &mut dyn FnMut(&'static str, &Value) -> Value,
) {
    if let Some(kind) = address_kind(name, value) {
        *value = replace(kind, value);
        return;
    }
    match value {
        _ if depth == 0 => {}
        Value::Array(items) => items.iter_mut().for_each(|item| addresses(item, name, depth - 1, replace)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| addresses(member, name, depth - 1, replace));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
