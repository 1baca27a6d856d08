//! Fuzz targets: each function takes arbitrary bytes and panics if it finds a bug. Tests of this crate run
//! them on random bytes and on the stored corpus. This is not an interface for users.

mod custom;
mod patches;
#[cfg(test)]
mod tests;

use crate::dice::{Dice, kind};
use crate::schema::decode::{Mode, normalize};
use crate::schema::{self, Elem, Shape, Type};
use crate::selector::{field, label};
use crate::wire::protobuf;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Fuzz target: its name and function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All fuzz targets of this crate.
pub const TARGETS: [FuzzTarget; 12] = [
    ("admission_review", custom::admission_review),
    ("apply", crate::patch::apply::fuzz),
    ("conversion_review", custom::conversion_review),
    ("expression", custom::expression),
    ("json_patch", patches::json_patch),
    ("json_path", custom::json_path),
    ("merge_patch", patches::merge_patch),
    ("protobuf", protobuf_bytes),
    ("protobuf_object", protobuf_object),
    ("selector", selectors),
    ("strategic_patch", patches::strategic_patch),
    ("structural", custom::structural),
];

/// Runs a fuzz target.
///
/// # Panics
/// The target finds a bug, or no target has this name.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this crate");
    run(bytes);
}

/// Fuzzes decoding: bytes decode to an object or an error, and objects are canonical and survive the round
/// trip.
pub fn protobuf_bytes(bytes: &[u8]) {
    let enveloped = [&protobuf::MAGIC, bytes].concat();
    for body in [bytes, &enveloped] {
        let Ok((_, object)) = protobuf::decode(body) else { continue };
        let Ok(back) = protobuf::encode(&object) else { continue };
        let (_, again) = protobuf::decode(&back).expect("what was encoded can be decoded");
        assert_eq!(again, object, "through JSON and back");
    }
}

/// Fuzzes the round trip of a random object of any kind.
pub fn protobuf_object(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let kinds: Vec<&'static Type> = schema::all().filter(|ty| ty.has_kind).collect();
    let ty = kinds[(dice.below(256) * 256 + dice.below(256)) % kinds.len()];
    let mut object = dice.object(ty, 6);
    normalize(&mut object, ty, Mode::Whole).expect("its members have the right types");
    without_empty(&mut object, ty);
    object["apiVersion"] = json!(ty.package.api_version());
    object["kind"] = json!(ty.name);
    let bytes = protobuf::encode(&object).expect("a canonical object can be encoded");
    let (_, back) = protobuf::decode(&bytes).expect("what was encoded can be decoded");
    assert_eq!(back, object);
}

/// Removes empty lists and maps, which protobuf cannot distinguish from absent ones.
fn without_empty(value: &mut Value, ty: &'static Type) {
    let Value::Object(map) = value else { return };
    map.retain(|name, value| {
        let Some(field) = ty.field(name) else { return true };
        if let Some(nested) = field.struct_type() {
            match (field.shape, &mut *value) {
                (Shape::One, value) => without_empty(value, nested),
                (Shape::List, Value::Array(items)) => items.iter_mut().for_each(|v| without_empty(v, nested)),
                (Shape::Map, Value::Object(map)) => map.values_mut().for_each(|v| without_empty(v, nested)),
                (Shape::List | Shape::Map, _) => {}
            }
        }
        let empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        !(empty && (field.shape != Shape::One || field.elem == Elem::Items || !field.pointer))
    });
}

/// Fuzzes selectors: formatting and parsing keep their meaning, and they match like their terms.
pub fn selectors(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(selector) = label::Selector::parse(&text) {
        let again = label::Selector::parse(&selector.to_string()).expect("a printed selector can be read");
        let mut dice = Dice(bytes);
        for _ in 0..8 {
            let pairs =
                (0..dice.below(4)).map(|_| (dice.pick(&["a", "b", "x"]), dice.pick(&["", "1", "2", "a"])));
            let labels: BTreeMap<String, String> =
                pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let found = selector.matches(&labels);
            assert_eq!(found, again.matches(&labels), "{selector} against {labels:?}");
            assert_eq!(found, selector.requirements().iter().all(|term| holds(term, &labels)), "{selector}");
        }
    }
    if let Ok(selector) = field::Selector::parse(&text) {
        let all = selector.terms().iter().all(|term| term.value.is_empty() != term.negated);
        assert_eq!(selector.matches_fields(|_| ""), all, "{text}");
    }
}

/// Reference implementation of a requirement.
fn holds(term: &label::Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&term.key);
    let number = || value.and_then(|value| value.parse::<i64>().ok());
    match &term.test {
        label::Test::Exists => value.is_some(),
        label::Test::DoesNotExist => value.is_none(),
        label::Test::Equals(wanted) => value == Some(wanted),
        label::Test::NotEquals(other) => value != Some(other),
        label::Test::In(set) => set.iter().any(|one| Some(one) == value),
        label::Test::NotIn(set) => set.iter().all(|one| Some(one) != value),
        label::Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
        label::Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
    }
}
