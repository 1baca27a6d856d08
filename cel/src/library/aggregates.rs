//! Functions that aggregate lists: `sum`, `min`, `max`, `isSorted`, `indexOf`, `lastIndexOf`.

use super::{COMPARABLE, Outcome, list};
use crate::cost::rows;
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Val, compare, equal};
use std::cmp::Ordering;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    for (name, ty) in COMPARABLE {
        let of = || [Type::list(ty.clone())];
        let sorted = Overload::method(&format!("list_{name}_is_sorted_bool"), of(), Type::Bool, is_sorted);
        d.add("isSorted", sorted);
        d.add(
            "max",
            Overload::method(&format!("list_{name}_max_{name}"), of(), ty.clone(), |args| {
                extreme(args, "max", Ordering::Less)
            }),
        );
        d.add(
            "min",
            Overload::method(&format!("list_{name}_min_{name}"), of(), ty.clone(), |args| {
                extreme(args, "min", Ordering::Greater)
            }),
        );
    }
    sum(d, "int", Type::Int, Val::Int(0));
    sum(d, "uint", Type::Uint, Val::Uint(0));
    sum(d, "double", Type::Double, Val::Double(0.0));
    sum(d, "duration", Type::Duration, Val::Duration(0));
    let (a, items) = (Type::param("A"), Type::list(Type::param("A")));
    let index = Overload::method("list_a_index_of_int", [items.clone(), a.clone()], Type::Int, |args| {
        element_index(args, false)
    });
    d.add("indexOf", index);
    let last =
        Overload::method("list_a_last_index_of_int", [items, a], Type::Int, |args| element_index(args, true));
    d.add("lastIndexOf", last);
    for name in ["isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"] {
        d.cost_all(name, rows::element_visits());
    }
}

fn is_sorted<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let items = list(args, 0)?.to_vec()?;
    for pair in items.windows(2) {
        if compare(&pair[0], &pair[1])? == Ordering::Greater {
            return Ok(Val::Bool(false));
        }
    }
    Ok(Val::Bool(true))
}

/// The least element if `replace` is `Greater`, the greatest if it is `Less`: a later element replaces the best one so far if the best
/// has this order to it.
fn extreme<'a>(args: &[Val<'a>], name: &str, replace: Ordering) -> Outcome<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list(args, 0)?.iter() {
        let item = item?;
        best = match best {
            Some(known) if compare(&known, &item)? != replace => Some(known),
            _ => Some(item),
        };
    }
    best.ok_or_else(|| EvalError::other(format!("{name} called on empty list")))
}

fn sum(d: &mut Declarations, name: &str, ty: Type, zero: Val<'static>) {
    let total = move |args: &[Val<'_>]| -> Result<Val<'static>, EvalError> {
        let mut total = zero.clone();
        for item in list(args, 0)?.iter() {
            total = match (&total, &item?) {
                (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_add(*b).ok_or(EvalError::IntegerOverflow)?),
                (Val::Uint(a), Val::Uint(b)) => {
                    Val::Uint(a.checked_add(*b).ok_or(EvalError::UnsignedOverflow)?)
                }
                (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
                (Val::Duration(a), Val::Duration(b)) => {
                    Val::Duration(a.checked_add(*b).ok_or(EvalError::DurationOverflow)?)
                }
                _ => return Err(EvalError::NoSuchOverload),
            };
        }
        Ok(total)
    };
    let args = [Type::list(ty.clone())];
    d.add("sum", Overload::method(&format!("list_{name}_sum_{name}"), args, ty, move |args| total(args)));
}

/// The first or last index of an element; -1 if the list lacks it.
fn element_index<'a>(args: &[Val<'a>], last: bool) -> Outcome<'a> {
    let wanted = args.get(1).ok_or(EvalError::NoSuchOverload)?;
    let mut found = -1;
    for (index, item) in list(args, 0)?.iter().enumerate() {
        if equal(&item?, wanted)? {
            found = index as i64;
            if !last {
                break;
            }
        }
    }
    Ok(Val::Int(found))
}
