//! Functions that treat lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use super::{Outcome, contains, list};
use crate::cost::{CallEstimate, CostEstimate, CostRule};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{List, Val};

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    set(d, "contains", 1, |args| Ok(Val::Bool(covers(list(args, 0)?, list(args, 1)?)?)));
    set(d, "equivalent", 2, |args| {
        let (a, b) = (list(args, 0)?, list(args, 1)?);
        Ok(Val::Bool(covers(a, b)? && covers(b, a)?))
    });
    set(d, "intersects", 1, |args| {
        let (a, b) = (list(args, 0)?, list(args, 1)?);
        for item in a.iter() {
            if contains(b, &item?)? {
                return Ok(Val::Bool(true));
            }
        }
        Ok(Val::Bool(false))
    });
}

/// Declares a function that compares all elements of two lists this many times.
fn set(d: &mut Declarations, name: &str, times: u64, function: for<'a> fn(&[Val<'a>]) -> Outcome<'a>) {
    let list = Type::list(Type::param("T"));
    let overload =
        Overload::function(&format!("list_sets_{name}_list"), [list.clone(), list], Type::Bool, function)
            .cost(CostRule::new(
                move |call| {
                    let pairs = call.arg_size(0).times(call.arg_size(1)).cost(times as f64);
                    Some(CallEstimate::of(pairs.plus(CostEstimate::fixed(1))))
                },
                move |call| {
                    let pairs = call.arg_size(0).saturating_mul(call.arg_size(1));
                    Some(pairs.saturating_mul(times).saturating_add(1))
                },
            ));
    d.add(&format!("sets.{name}"), overload);
}

/// Whether every element of `part` is in `whole`.
fn covers(whole: &List<'_>, part: &List<'_>) -> Result<bool, EvalError> {
    for item in part.iter() {
        if !contains(whole, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}
