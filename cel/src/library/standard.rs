//! Standard functions: logic, equality, order, membership, size, `contains`, `startsWith`, `endsWith`.

use super::{Outcome, contains, list, string};
use crate::cost::{CallEstimate, CostRule, rows};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::parse::operator;
use crate::types::Type;
use crate::value::{Val, compare};
use std::cmp::Ordering;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    logic(d);
    order(d, "_<_", "less", Ordering::is_lt);
    order(d, "_<=_", "less_equals", Ordering::is_le);
    order(d, "_>_", "greater", Ordering::is_gt);
    order(d, "_>=_", "greater_equals", Ordering::is_ge);
    containers(d);
    texts(d);
}

/// Declares the operators that the evaluator implements; the implementations here are never called.
fn logic(d: &mut Declarations) {
    fn built_in<'a>(_: &[Val<'a>]) -> Outcome<'a> {
        Err(EvalError::NoSuchOverload)
    }
    let t = || Type::param("A");
    d.add(operator::CONDITIONAL, Overload::function("conditional", [Type::Bool, t(), t()], t(), built_in));
    for (name, id) in [(operator::AND, "logical_and"), (operator::OR, "logical_or")] {
        d.add(name, Overload::function(id, [Type::Bool, Type::Bool], Type::Bool, built_in));
    }
    d.add(
        operator::NOT,
        Overload::function("logical_not", [Type::Bool], Type::Bool, |args| match args {
            [Val::Bool(value)] => Ok(Val::Bool(!value)),
            _ => Err(EvalError::NoSuchOverload),
        }),
    );
    let lenient = Overload::function("not_strictly_false", [Type::Bool], Type::Bool, built_in);
    d.add(operator::NOT_STRICTLY_FALSE, lenient);
    for (name, id) in [(operator::EQUALS, "equals"), (operator::NOT_EQUALS, "not_equals")] {
        let overload = Overload::function(id, [t(), t()], Type::Bool, built_in);
        d.add(name, overload.cost(rows::comparison()));
    }
    let (list, map) = (Type::list(t()), Type::map(t(), Type::param("B")));
    d.add(operator::INDEX, Overload::function("index_list", [list, Type::Int], t(), built_in));
    d.add(operator::INDEX, Overload::function("index_map", [map, t()], Type::param("B"), built_in));
}

/// The pairs of types that ordering operators compare, with the suffixes of their overload ids.
const ORDERED: [(&str, Type, Type); 13] = [
    ("bool", Type::Bool, Type::Bool),
    ("int64", Type::Int, Type::Int),
    ("int64_double", Type::Int, Type::Double),
    ("int64_uint64", Type::Int, Type::Uint),
    ("uint64", Type::Uint, Type::Uint),
    ("uint64_double", Type::Uint, Type::Double),
    ("uint64_int64", Type::Uint, Type::Int),
    ("double", Type::Double, Type::Double),
    ("double_int64", Type::Double, Type::Int),
    ("double_uint64", Type::Double, Type::Uint),
    ("string", Type::String, Type::String),
    ("bytes", Type::Bytes, Type::Bytes),
    ("timestamp", Type::Timestamp, Type::Timestamp),
];

fn order(d: &mut Declarations, name: &str, prefix: &str, holds: fn(Ordering) -> bool) {
    let duration = ("duration", Type::Duration, Type::Duration);
    for (suffix, left, right) in ORDERED.into_iter().chain([duration]) {
        let is_text = matches!(left, Type::String | Type::Bytes);
        let compared = move |args: &[Val<'_>]| match args {
            [left, right] => compare(left, right).map(holds),
            _ => Err(EvalError::NoSuchOverload),
        };
        let overload =
            Overload::function(&format!("{prefix}_{suffix}"), [left, right], Type::Bool, move |args| {
                compared(args).map(Val::Bool)
            });
        d.add(name, if is_text { overload.cost(rows::comparison()) } else { overload });
    }
}

fn containers(d: &mut Declarations) {
    let (a, map) = (Type::param("A"), Type::map(Type::param("A"), Type::param("B")));
    let in_list = Overload::function("in_list", [a.clone(), Type::list(a.clone())], Type::Bool, |args| {
        Ok(Val::Bool(contains(list(args, 1)?, &args[0])?))
    });
    d.add(
        operator::IN,
        in_list.cost(CostRule::new(
            |call| Some(CallEstimate::of(call.arg_size(1).cost(1.0))),
            |call| Some(call.arg_size(1)),
        )),
    );
    d.add(operator::IN, Overload::function("in_map", [a.clone(), map.clone()], Type::Bool, in_map));
    let sized = [("bytes", Type::Bytes), ("list", Type::list(a)), ("map", map), ("string", Type::String)];
    for (name, ty) in sized {
        d.add("size", Overload::function(&format!("size_{name}"), [ty.clone()], Type::Int, size));
        d.add("size", Overload::method(&format!("{name}_size"), [ty], Type::Int, size));
    }
}

fn in_map<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [key, Val::Map(map)] => Ok(Val::Bool(map.get(key)?.is_some())),
        [Val::String(key), Val::Object(object)] => Ok(Val::Bool(object.get(key)?.is_some())),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn size<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let size = args.first().map_or(0, Val::size);
    i64::try_from(size).map(Val::Int).map_err(|_| EvalError::IntegerOverflow)
}

fn texts(d: &mut Declarations) {
    let two = [Type::String, Type::String];
    let method = |id: &str, test: fn(&str, &str) -> bool| {
        let tested = move |args: &[Val<'_>]| Ok(test(string(args, 0)?, string(args, 1)?));
        Overload::method(id, two.clone(), Type::Bool, move |args| tested(args).map(Val::Bool))
    };
    let contains = method("contains_string", |text, part| text.contains(part));
    d.add("contains", contains.cost(rows::search()));
    let ends = method("ends_with_string", |text, end| text.ends_with(end));
    d.add("endsWith", ends.cost(rows::affix_comparison()));
    let starts = method("starts_with_string", |text, start| text.starts_with(start));
    d.add("startsWith", starts.cost(rows::affix_comparison()));
}
