//! Functions that make lists: `slice`, `flatten`, `sort`, `sortBy`, `reverse`, `distinct`, `lists.range`.

use super::{COMPARABLE, Outcome, int, list};
use crate::cost::{ActualCall, CostRule, SizeEstimate, TRAVERSAL, rows};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::limits::{RANGE_ELEMENTS, VALUE_DEPTH};
use crate::parse::operator;
use crate::types::Type;
use crate::value::{List, Val, compare, equal};
use std::cmp::Ordering;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    let items = || Type::list(Type::param("T"));
    let slice = Overload::method("list_slice", [items(), Type::Int, Type::Int], items(), slice);
    d.add(
        "slice",
        slice.cost(CostRule::new(
            |call| {
                let (start, end) = (call.args.first()?.literal_or(0), call.args.get(1)?);
                let end = end.literal_or(call.target_size().max);
                Some(rows::making_list(1.0, SizeEstimate::fixed(end.wrapping_sub(start))))
            },
            made,
        )),
    );
    let flat = Overload::method("list_flatten", [Type::list(items())], items(), flatten);
    let deep = Overload::method(
        "list_flatten_int",
        [Type::list(Type::Dyn), Type::Int],
        Type::list(Type::Dyn),
        flatten,
    );
    for overload in [flat, deep] {
        d.add(
            "flatten",
            overload.cost(CostRule::new(
                |call| {
                    let depth = call.args.first().map_or(1, |depth| depth.literal_or(u64::MAX));
                    Some(rows::making_list(depth as f64, call.target_size()))
                },
                |call| {
                    let depth = int(call.args, 0).unwrap_or(1);
                    Some(rows::made_list(depth as f64, call.target_size()))
                },
            )),
        );
    }
    let range = Overload::function("lists_range", [Type::Int], Type::list(Type::Int), range);
    d.add(
        "lists.range",
        range.cost(CostRule::new(
            |call| {
                let size = SizeEstimate::fixed(call.args.first()?.literal_or(u64::MAX));
                Some(rows::making_list(1.0, size))
            },
            made,
        )),
    );
    let reverse = Overload::method("list_reverse", [items()], items(), |args| {
        let mut items = list(args, 0)?.to_vec()?;
        items.reverse();
        Ok(Val::list(items))
    });
    d.add(
        "reverse",
        reverse.cost(CostRule::new(|call| Some(rows::making_list(1.0, call.target_size())), made)),
    );
    let distinct = Overload::method("list_distinct", [items()], items(), distinct);
    d.add(
        "distinct",
        distinct.cost(CostRule::new(
            |call| Some(rows::making_list(2.0, call.target_size().times(call.target_size()))),
            |call| compared_with_itself(call.target),
        )),
    );
    for (name, ty) in COMPARABLE {
        sorts(d, name, ty);
    }
}

/// Declares the sort functions for keys of a type.
fn sorts(d: &mut Declarations, name: &str, ty: Type) {
    let items = || Type::list(Type::param("T"));
    let factor = if matches!(ty, Type::String | Type::Bytes) { 2.0 + TRAVERSAL } else { 2.0 };
    let keys = || Type::list(ty.clone());
    let sort = Overload::method(&format!("list_{name}_sort"), [keys()], keys(), |args| {
        let items = list(args, 0)?;
        sorted(items, items)
    });
    d.add(
        "sort",
        sort.cost(CostRule::new(
            move |call| Some(rows::making_list(factor, call.target_size().times(call.target_size()))),
            |call| compared_with_itself(call.target),
        )),
    );
    let id = format!("list_{name}_sortByAssociatedKeys");
    let sort_by =
        Overload::method(&id, [items(), keys()], items(), |args| sorted(list(args, 0)?, list(args, 1)?));
    d.add(
        operator::SORT_BY_KEYS,
        sort_by.cost(CostRule::new(
            move |call| Some(rows::making_list(factor, call.arg_size(0).times(call.arg_size(0)))),
            |call| compared_with_itself(call.args.first()),
        )),
    );
}

/// The cost of a list as large as the result.
fn made(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(rows::made_list(1.0, call.result.size()))
}

/// Counts the cost of comparing all elements of a list with each other.
fn compared_with_itself(list: Option<&Val<'_>>) -> Option<u64> {
    let Some(Val::List(items)) = list else { return None };
    let is_text = matches!(items.get(0), Ok(Val::String(_) | Val::Bytes(_)));
    let size = list.map_or(1, Val::size);
    Some(rows::made_list(if is_text { 2.0 + TRAVERSAL } else { 2.0 }, size.saturating_mul(size)))
}

fn slice<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let (items, start, end) = (list(args, 0)?, int(args, 1)?, int(args, 2)?);
    let fail = |why: String| Err(EvalError::other(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(end)) else {
        return fail("negative indexes not supported".to_owned());
    };
    if from > to {
        return fail("start index must be less than or equal to end index".to_owned());
    }
    if to > items.len() {
        return fail(format!("list is length {}", items.len()));
    }
    Ok(Val::list((from..to).map(|index| items.get(index)).collect::<Result<_, _>>()?))
}

fn flatten<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let depth = if args.len() == 2 { int(args, 1)? } else { 1 };
    let depth = usize::try_from(depth).map_err(|_| EvalError::other("level must be non-negative"))?;
    let mut out = Vec::new();
    flatten_into(list(args, 0)?, depth.min(VALUE_DEPTH), &mut out)?;
    Ok(Val::list(out))
}

fn flatten_into<'a>(items: &List<'a>, depth: usize, out: &mut Vec<Val<'a>>) -> Result<(), EvalError> {
    for item in items.iter() {
        match item? {
            Val::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, out)?,
            item => out.push(item),
        }
    }
    Ok(())
}

fn range<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let end = int(args, 0)?;
    if end > RANGE_ELEMENTS {
        return Err(EvalError::other(format!("lists.range({end}) is longer than {RANGE_ELEMENTS} elements")));
    }
    Ok(Val::list((0..end).map(Val::Int).collect()))
}

fn distinct<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let mut out: Vec<Val<'a>> = Vec::new();
    for item in list(args, 0)?.iter() {
        let item = item?;
        let mut is_known = false;
        for known in &out {
            is_known = is_known || equal(known, &item)?;
        }
        if !is_known {
            out.push(item);
        }
    }
    Ok(Val::list(out))
}

/// Sorts the elements of a list by the keys at the same indices. The sort is stable.
fn sorted<'a>(items: &List<'a>, keys: &List<'a>) -> Outcome<'a> {
    if items.len() != keys.len() {
        let (items, keys) = (items.len(), keys.len());
        return Err(EvalError::other(format!("a list of {items} elements has {keys} keys to sort by")));
    }
    let keys = keys.to_vec()?;
    let first = keys.first().map(Val::type_name);
    if keys.iter().any(|key| Some(key.type_name()) != first) {
        return Err(EvalError::other("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    let mut failure = None;
    order.sort_by(|a, b| {
        compare(&keys[*a], &keys[*b]).unwrap_or_else(|error| {
            failure.get_or_insert(error);
            Ordering::Equal
        })
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(Val::list(order.into_iter().map(|index| items.get(index)).collect::<Result<_, _>>()?)),
    }
}
