//! How large the values of a schema may be, as estimates of costs assume: elements of lists and maps, bytes of texts, and the bytes
//! that a value takes at least in a request.

use std::collections::BTreeMap;

use serde_json::Value;

use super::types::{Kind, Place, fields, kind};
use crate::expression::limits::REQUEST_BYTES;
use crate::structural::check::Checks;
use crate::structural::node::{Node, NodeId};
use crate::structural::tree::Tree;

/// Bytes of the longest text in a request, between its quotation marks.
const TEXT_MAX: u64 = REQUEST_BYTES - 2;
/// Bytes of a character, at most.
const CHARACTER_MAX: u64 = 4;
/// Bytes of the longest duration and the longest point in time.
const TIME_MAX: u64 = 32;
/// Bytes of a date with its quotation marks.
const DATE_SIZE: u64 = 12;
const DURATION_MIN: u64 = 3;
const DATE_TIME_MIN: u64 = 21;
const TEXT_MIN: u64 = 2;
const BOOL_MIN: u64 = 4;
const NUMBER_MIN: u64 = 1;
/// Bytes of an empty list, map or object.
const BRACKETS: u64 = 2;
/// Bytes between two items of a list.
const COMMA: u64 = 1;
/// Bytes of a member of a map besides its value: the shortest key, its quotation marks, colon and comma.
const KEY: u64 = 6;
/// Bytes of a member of an object besides its name and value.
const MEMBER: u64 = 4;

/// Bytes of the smallest value of a node in a request.
pub(crate) fn min_size(tree: &Tree, node: NodeId) -> u64 {
    smallest(tree, Place::Node(node), &mut BTreeMap::new())
}

fn smallest(tree: &Tree, place: Place, known: &mut BTreeMap<Place, u64>) -> u64 {
    match kind(tree, place) {
        None => 0,
        Some(Kind::Dyn | Kind::Int | Kind::Double) => NUMBER_MIN,
        Some(Kind::Bool) => BOOL_MIN,
        Some(Kind::String | Kind::Bytes) => TEXT_MIN,
        Some(Kind::Duration) => DURATION_MIN,
        Some(Kind::Date) => DATE_SIZE,
        Some(Kind::DateTime) => DATE_TIME_MIN,
        Some(Kind::List(_) | Kind::Map(_)) => BRACKETS,
        Some(Kind::Object) => {
            if let Some(size) = known.get(&place) {
                return *size;
            }
            let required =
                node(tree, place).and_then(checks).map(|checks| &*checks.required).unwrap_or_default();
            let mut size = BRACKETS;
            for (name, field) in fields(tree, place) {
                let has_default = node(tree, field).is_some_and(|field| field.default.is_some());
                let counts = !has_default && required.iter().any(|own| **own == *name);
                if counts && kind(tree, field).is_some() {
                    size = size.saturating_add(name.len() as u64 + smallest(tree, field, known) + MEMBER);
                }
            }
            known.insert(place, size);
            size
        }
    }
}

/// Elements of the largest value at a place: items, members, or bytes of texts; none for values without parts.
pub(super) fn max_elements(tree: &Tree, place: Place) -> u64 {
    let checks = node(tree, place).and_then(checks);
    let bound = |read: fn(&Checks) -> Option<i64>| {
        checks.and_then(read).map(|bound| u64::try_from(bound).unwrap_or(0))
    };
    let max_length = || bound(|checks| checks.max_length);
    let room = |each: u64| (REQUEST_BYTES - BRACKETS) / each;
    match kind(tree, place) {
        None | Some(Kind::Bool | Kind::Int | Kind::Double | Kind::Object) => 0,
        Some(Kind::Dyn) => max_length().map_or(TEXT_MAX, |length| length.saturating_mul(CHARACTER_MAX)),
        Some(Kind::Duration | Kind::DateTime) => TIME_MAX,
        Some(Kind::Date) => DATE_SIZE,
        Some(Kind::Bytes) => max_length().unwrap_or(TEXT_MAX),
        Some(Kind::String) => match (max_length(), checks) {
            (Some(length), _) => length.saturating_mul(CHARACTER_MAX),
            (None, Some(checks)) if !checks.values.is_empty() => {
                let lengths = checks.values.iter().filter_map(Value::as_str).map(str::len);
                lengths.max().unwrap_or(0) as u64
            }
            _ => TEXT_MAX,
        },
        Some(Kind::List(items)) => bound(|checks| checks.max_items)
            .unwrap_or_else(|| room(smallest(tree, items, &mut BTreeMap::new()) + COMMA)),
        Some(Kind::Map(values)) => bound(|checks| checks.max_properties)
            .unwrap_or_else(|| room(smallest(tree, values, &mut BTreeMap::new()) + KEY)),
    }
}

fn node(tree: &Tree, place: Place) -> Option<&Node> {
    match place {
        Place::Node(id) => Some(tree.schema(id).node()),
        Place::Text | Place::Metadata => None,
    }
}

fn checks(node: &Node) -> Option<&Checks> {
    node.checks.as_deref()
}
