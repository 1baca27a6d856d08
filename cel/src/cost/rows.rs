//! Cost rules that many functions share. Those of cel-go: where its estimate and its count look at different values,
//! so do these.

use super::{CallEstimate, CostEstimate, CostRule, LIST, PATTERN, SizeEstimate, TRAVERSAL, scaled};
use crate::types::Type;
use crate::value::Val;

/// One traversal of the first argument of a function, whose result has the size that `result` computes.
pub(crate) fn conversion(result: fn(SizeEstimate) -> SizeEstimate) -> CostRule {
    CostRule::new(
        move |call| {
            let size = call.arg_size(0);
            Some(CallEstimate::sized(size.cost(TRAVERSAL), result(size)))
        },
        |call| Some(scaled(call.arg_size(0), TRAVERSAL)),
    )
}

/// One traversal of the target of a method, with a result of the same size.
pub(crate) fn target_traversal() -> CostRule {
    CostRule::new(
        |call| {
            let size = call.target?.size();
            Some(CallEstimate::sized(size.cost(TRAVERSAL), size))
        },
        |call| Some(scaled(call.target_size(), TRAVERSAL)),
    )
}

/// A comparison with the beginning or the end of the target: estimated by the argument, counted by the target.
pub(crate) fn affix_comparison() -> CostRule {
    CostRule::new(
        |call| Some(CallEstimate::of(call.arg_size(0).cost(TRAVERSAL))),
        |call| Some(scaled(call.target_size(), TRAVERSAL)),
    )
}

/// A search for the argument in the target.
pub(crate) fn search() -> CostRule {
    CostRule::new(
        |call| {
            let (text, part) = (call.target_size().cost(TRAVERSAL), call.arg_size(0).cost(TRAVERSAL));
            Some(CallEstimate::of(text.times(part)))
        },
        |call| {
            let part = scaled(call.arg_size(0), TRAVERSAL);
            Some(scaled(call.target_size(), TRAVERSAL).saturating_mul(part))
        },
    )
}

/// A comparison of two arguments that may be long. It ends with the shorter one.
pub(crate) fn comparison() -> CostRule {
    CostRule::new(
        |call| {
            let (left, right) = (call.args.first()?, call.args.get(1)?);
            let is_opaque = matches!(left.ty, Type::Opaque(..)) && left.ty.unwrapped().is_none();
            if is_opaque && left.ty == right.ty {
                return Some(CallEstimate::of(CostEstimate::fixed(1)));
            }
            let max = left.size().max.min(right.size().max);
            let size = SizeEstimate { min: u64::from(max > 0), max };
            Some(CallEstimate::of(size.cost(TRAVERSAL)))
        },
        |call| Some(scaled(call.arg_size(0).min(call.arg_size(1)), TRAVERSAL)),
    )
}

/// A concatenation of strings or bytes.
pub(crate) fn concatenation() -> CostRule {
    CostRule::new(
        |call| {
            let size = call.arg_size(0).plus(call.arg_size(1));
            Some(CallEstimate::sized(size.cost(TRAVERSAL), size))
        },
        |call| Some(scaled(call.arg_size(0).saturating_add(call.arg_size(1)), TRAVERSAL)),
    )
}

/// A concatenation of lists; its cost does not depend on their lengths.
pub(crate) fn list_concatenation() -> CostRule {
    CostRule::new(
        |call| {
            let size = call.arg_size(0).plus(call.arg_size(1));
            Some(CallEstimate::sized(CostEstimate::fixed(1), size))
        },
        |_| Some(1),
    )
}

/// A match of a regular expression, the argument, on the target; the result has the size that `result` computes of the
/// target's.
pub(crate) fn pattern_match(result: fn(SizeEstimate) -> Option<SizeEstimate>) -> CostRule {
    CostRule::new(
        move |call| {
            let size = call.target?.size();
            let text = size.plus(SizeEstimate::fixed(1)).cost(TRAVERSAL);
            let cost = text.times(call.arg_size(0).cost(PATTERN));
            Some(CallEstimate { cost, result: result(size) })
        },
        |call| {
            let text = scaled(call.target_size().saturating_add(1), TRAVERSAL);
            Some(text.saturating_mul(scaled(call.arg_size(0), PATTERN)))
        },
    )
}

/// A visit of every element of a target that is a list, with a traversal of elements that are strings; or a traversal
/// of a target that is a string. The count visits the parts of elements too.
pub(crate) fn element_visits() -> CostRule {
    CostRule::new(
        |call| {
            let target = call.target?;
            let Some((ty, size)) = call.element(target) else {
                return Some(CallEstimate::of(target.size().cost(TRAVERSAL)));
            };
            let one = CostEstimate::fixed(1);
            let is_text = matches!(ty, Type::String | Type::Bytes);
            let each = if is_text { one.plus(size.cost(TRAVERSAL)) } else { one };
            Some(CallEstimate::of(target.size().times_cost(each)))
        },
        |call| Some(call.target.or(call.args.first()).map_or(0, through)),
    )
}

/// The cost of visiting every part of a value.
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
