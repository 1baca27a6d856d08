//! Cost rules that many functions share: for each rule, the estimate and the count of actual cost.

use super::{
    ActualCall, CallEstimate, CostEstimate, EstimateCall, LIST, PATTERN, SizeEstimate, TRAVERSAL, scaled,
};
use crate::types::Type;
use crate::value::Val;

/// Estimates one traversal of an argument, with a result of the same size.
pub(crate) fn traverse_arg(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.arg_size(0).cost(TRAVERSAL)))
}

/// Estimates one traversal of the target of a method call, with a result of the same size.
pub(crate) fn traverse_target(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    call.target?;
    let size = call.target_size();
    Some(CallEstimate::sized(size.cost(TRAVERSAL), size))
}

/// Counts one traversal of the first value.
pub(crate) fn traversed(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.size(0), TRAVERSAL))
}

/// Counts two traversals of the first value.
pub(crate) fn traversed_twice(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.size(0), 2.0 * TRAVERSAL))
}

/// Estimates a comparison of two values that may be long.
pub(crate) fn comparison(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let (left, right) = (call.args.first()?, call.args.get(1)?);
    let is_opaque = matches!(left.ty, Type::Opaque(..)) && left.ty.unwrapped().is_none();
    if is_opaque && left.ty == right.ty {
        return Some(CallEstimate::of(CostEstimate::fixed(1)));
    }
    let max = left.size().max.min(right.size().max);
    let size = SizeEstimate { min: u64::from(max > 0), max };
    Some(CallEstimate::of(size.cost(TRAVERSAL)))
}

/// Counts a comparison up to the length of the shorter value.
pub(crate) fn compared(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.size(0).min(call.size(1)), TRAVERSAL))
}

/// Estimates a concatenation of strings or bytes.
pub(crate) fn concatenation(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let size = call.arg_size(0).plus(call.arg_size(1));
    Some(CallEstimate::sized(size.cost(TRAVERSAL), size))
}

/// Counts a concatenation of strings or bytes.
pub(crate) fn concatenated(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.size(0).saturating_add(call.size(1)), TRAVERSAL))
}

/// Estimates a concatenation of lists; its cost does not depend on their lengths.
pub(crate) fn list_concatenation(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let size = call.arg_size(0).plus(call.arg_size(1));
    Some(CallEstimate::sized(CostEstimate::fixed(1), size))
}

/// Estimates a match of a regular expression on the target of a method call.
pub(crate) fn matching(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    call.target?;
    let text = call.target_size().plus(SizeEstimate::fixed(1)).cost(TRAVERSAL);
    Some(CallEstimate::of(text.times(call.arg_size(0).cost(PATTERN))))
}

/// Counts a match of a regular expression.
pub(crate) fn matched(call: &ActualCall<'_, '_>) -> Option<u64> {
    let text = scaled(call.size(0).saturating_add(1), TRAVERSAL);
    Some(text.saturating_mul(scaled(call.size(1), PATTERN)))
}

/// Estimates a visit of every element of a list, with a traversal of elements that are strings; or a traversal of a string.
pub(crate) fn elements(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let Some((ty, size)) = call.element(target) else {
        return Some(CallEstimate::of(target.size().cost(TRAVERSAL)));
    };
    let one = CostEstimate::fixed(1);
    let each = if matches!(ty, Type::String | Type::Bytes) { one.plus(size.cost(TRAVERSAL)) } else { one };
    Some(CallEstimate::of(target.size().times_cost(each)))
}

/// Counts a visit of every part of a value.
pub(crate) fn looked_through(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(call.args.first().map_or(0, through))
}

fn through(value: &Val<'_>) -> u64 {
    match value {
        Val::String(text) => (text.len() as f64 * TRAVERSAL) as u64,
        Val::Bytes(bytes) => (bytes.len() as f64 * TRAVERSAL) as u64,
        Val::List(list) => {
            list.iter().fold(0, |sum, item| sum.saturating_add(item.as_ref().map_or(1, through)))
        }
        Val::Map(map) => map.keys().iter().fold(0, |sum, key| {
            let value = map.get(key).ok().flatten();
            sum.saturating_add(through(key)).saturating_add(value.as_ref().map_or(1, through))
        }),
        Val::Object(object) => object.names().into_iter().fold(0, |sum, name| {
            let value = object.get(name).ok().flatten();
            let name = (name.len() as f64 * TRAVERSAL) as u64;
            sum.saturating_add(name).saturating_add(value.as_ref().map_or(1, through))
        }),
        _ => 1,
    }
}

/// Estimates a call that makes a list.
pub(crate) fn making_list(factor: f64, size: SizeEstimate) -> CallEstimate {
    CallEstimate::sized(size.cost(factor).plus(CostEstimate::fixed(LIST + 1)), size)
}

/// Counts a call that made a list: the size times the factor, rounded down.
pub(crate) fn made_list(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(LIST + 1)
}
