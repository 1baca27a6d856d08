//! Sizes of a schema's values, as cost estimates assume them: the largest number of elements or bytes, and the smallest number of bytes
//! in a request.

use super::types::{CelKind, CelNode, fields, kind};
use crate::expression::limits::REQUEST_BYTES;
use crate::structural::check::Checks;
use crate::structural::node::{Node, NodeId};
use crate::structural::tree::Tree;
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes of the longest string in a request, without its quotation marks.
const TEXT_MAX: u64 = REQUEST_BYTES - 2;
/// Bytes of a character, at most.
const CHARACTER_MAX: u64 = 4;
/// Bytes of the longest duration, and of the longest timestamp.
const TIME_MAX: u64 = 32;
/// Bytes of a date with its quotation marks.
const DATE_SIZE: u64 = 12;
/// Bytes of the shortest duration with its quotation marks.
const DURATION_MIN: u64 = 3;
/// Bytes of the shortest timestamp with its quotation marks.
const DATE_TIME_MIN: u64 = 21;
/// Bytes of the empty string with its quotation marks.
const TEXT_MIN: u64 = 2;
/// Bytes of `true`.
const BOOL_MIN: u64 = 4;
/// Bytes of a number with one digit.
const NUMBER_MIN: u64 = 1;
/// Bytes of an empty list, map or object.
const BRACKETS: u64 = 2;
/// Bytes between two items of a list.
const COMMA: u64 = 1;
/// Bytes of a map entry without its value: the shortest key, its quotation marks, colon and comma.
const KEY: u64 = 6;
/// Bytes of an object member without its name and value: quotation marks, colon and comma.
const MEMBER: u64 = 4;

/// Bytes of the smallest value of a node in a request.
pub(crate) fn min_size(tree: &Tree, node: NodeId) -> u64 {
    smallest(tree, CelNode::Schema(node), &mut BTreeMap::new())
}

fn smallest(tree: &Tree, node: CelNode, known: &mut BTreeMap<CelNode, u64>) -> u64 {
    match kind(tree, node) {
        None => 0,
        Some(CelKind::Dyn | CelKind::Int | CelKind::Double) => NUMBER_MIN,
        Some(CelKind::Bool) => BOOL_MIN,
        Some(CelKind::String | CelKind::Bytes) => TEXT_MIN,
        Some(CelKind::Duration) => DURATION_MIN,
        Some(CelKind::Date) => DATE_SIZE,
        Some(CelKind::DateTime) => DATE_TIME_MIN,
        Some(CelKind::List(_) | CelKind::Map(_)) => BRACKETS,
        Some(CelKind::Object) => {
            if let Some(size) = known.get(&node) {
                return *size;
            }
            let required =
                schema_node(tree, node).and_then(checks).map(|checks| &*checks.required).unwrap_or_default();
            let mut size = BRACKETS;
            for (name, field) in fields(tree, node) {
                let has_default = schema_node(tree, field).is_some_and(|field| field.default.is_some());
                let counts = !has_default && required.iter().any(|own| **own == *name);
                if counts && kind(tree, field).is_some() {
                    size = size.saturating_add(name.len() as u64 + smallest(tree, field, known) + MEMBER);
                }
            }
            known.insert(node, size);
            size
        }
    }
}

/// The size of a node's largest value: items of a list, entries of a map, bytes of a string; 0 for other values.
pub(super) fn max_elements(tree: &Tree, node: CelNode) -> u64 {
    let checks = schema_node(tree, node).and_then(checks);
    let bound = |read: fn(&Checks) -> Option<i64>| {
        checks.and_then(read).map(|bound| u64::try_from(bound).unwrap_or(0))
    };
    let max_length = || bound(|checks| checks.max_length);
    let most_in_request = |each: u64| (REQUEST_BYTES - BRACKETS) / each;
    match kind(tree, node) {
        None | Some(CelKind::Bool | CelKind::Int | CelKind::Double | CelKind::Object) => 0,
        Some(CelKind::Dyn) => max_length().map_or(TEXT_MAX, |length| length.saturating_mul(CHARACTER_MAX)),
        Some(CelKind::Duration | CelKind::DateTime) => TIME_MAX,
        Some(CelKind::Date) => DATE_SIZE,
        Some(CelKind::Bytes) => max_length().unwrap_or(TEXT_MAX),
        Some(CelKind::String) => match (max_length(), checks) {
            (Some(length), _) => length.saturating_mul(CHARACTER_MAX),
            (None, Some(checks)) if !checks.values.is_empty() => {
                let lengths = checks.values.iter().filter_map(Value::as_str).map(str::len);
                lengths.max().unwrap_or(0) as u64
            }
            _ => TEXT_MAX,
        },
        Some(CelKind::List(items)) => bound(|checks| checks.max_items)
            .unwrap_or_else(|| most_in_request(smallest(tree, items, &mut BTreeMap::new()) + COMMA)),
        Some(CelKind::Map(values)) => bound(|checks| checks.max_properties)
            .unwrap_or_else(|| most_in_request(smallest(tree, values, &mut BTreeMap::new()) + KEY)),
    }
}

fn schema_node(tree: &Tree, node: CelNode) -> Option<&Node> {
    match node {
        CelNode::Schema(id) => Some(tree.schema(id).node()),
        CelNode::Text | CelNode::Metadata => None,
    }
}

fn checks(node: &Node) -> Option<&Checks> {
    node.checks.as_deref()
}
