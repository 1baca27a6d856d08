//! Arithmetic: `+ - * / %` and negation.

use super::{Outcome, contains};
use crate::cost::rows;
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::limits::STRING_BYTES;
use crate::parse::operator;
use crate::types::Type;
use crate::value::{List, ListKind, Val, time};
use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
use serde_json::Value as Json;
use std::sync::Arc;

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    let list = || Type::list(Type::param("A"));
    let text = |overload: Overload| overload.cost(rows::concatenation());
    d.add(operator::ADD, text(Overload::function("add_bytes", [Bytes, Bytes], Bytes, plus)));
    binary(
        d,
        operator::ADD,
        plus,
        &[
            ("add_double", Double, Double, Double),
            ("add_duration_duration", Duration, Duration, Duration),
            ("add_duration_timestamp", Duration, Timestamp, Timestamp),
            ("add_timestamp_duration", Timestamp, Duration, Timestamp),
            ("add_int64", Int, Int, Int),
        ],
    );
    let add_list = Overload::function("add_list", [list(), list()], list(), plus);
    d.add(operator::ADD, add_list.cost(rows::list_concatenation()));
    d.add(operator::ADD, text(Overload::function("add_string", [String, String], String, plus)));
    binary(d, operator::ADD, plus, &[("add_uint64", Uint, Uint, Uint)]);
    binary(
        d,
        "_-_",
        minus,
        &[
            ("subtract_double", Double, Double, Double),
            ("subtract_duration_duration", Duration, Duration, Duration),
            ("subtract_int64", Int, Int, Int),
            ("subtract_timestamp_duration", Timestamp, Duration, Timestamp),
            ("subtract_timestamp_timestamp", Timestamp, Timestamp, Duration),
            ("subtract_uint64", Uint, Uint, Uint),
        ],
    );
    let numbers =
        |name: &'static str| [(name, Double, "double"), (name, Int, "int64"), (name, Uint, "uint64")];
    for (name, function, implementation) in
        [("multiply", "_*_", times as BinaryFunction), ("divide", "_/_", divide)]
    {
        for (prefix, ty, suffix) in numbers(name) {
            let id = format!("{prefix}_{suffix}");
            d.add(function, Overload::function(&id, [ty.clone(), ty.clone()], ty, implementation));
        }
    }
    binary(d, "_%_", modulo, &[("modulo_int64", Int, Int, Int), ("modulo_uint64", Uint, Uint, Uint)]);
    d.add(operator::NEGATE, Overload::function("negate_double", [Double], Double, negate));
    d.add(operator::NEGATE, Overload::function("negate_int64", [Int], Int, negate));
}

type BinaryFunction = for<'a> fn(&[Val<'a>]) -> Outcome<'a>;

fn binary(
    d: &mut Declarations,
    name: &str,
    implementation: BinaryFunction,
    rows: &[(&str, Type, Type, Type)],
) {
    for (id, left, right, result) in rows {
        let args = [left.clone(), right.clone()];
        d.add(name, Overload::function(id, args, result.clone(), implementation));
    }
}

fn int<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Val::Int).ok_or(EvalError::IntegerOverflow)
}

fn uint<'a>(value: Option<u64>) -> Outcome<'a> {
    value.map(Val::Uint).ok_or(EvalError::UnsignedOverflow)
}

fn duration<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Val::Duration).ok_or(EvalError::DurationOverflow)
}

/// A timestamp plus nanoseconds.
fn moved<'a>(at: &jiff::Timestamp, nanos: i128) -> Outcome<'a> {
    time::timestamp(at.as_nanosecond() + nanos).map(Val::Timestamp).ok_or(EvalError::TimestampOverflow)
}

fn plus<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_add(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_add(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a + b)),
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_add(*b)),
        [Val::Timestamp(at), Val::Duration(by)] | [Val::Duration(by), Val::Timestamp(at)] => {
            moved(at, i128::from(*by))
        }
        [Val::String(a), Val::String(b)] => {
            if a.len() + b.len() > STRING_BYTES {
                return Err(EvalError::other("string is too long"));
            }
            Ok(Val::string([&**a, &**b].concat()))
        }
        [Val::Bytes(a), Val::Bytes(b)] => Ok(Val::Bytes(Arc::from([&**a, &**b].concat()))),
        [Val::List(a), Val::List(b)] => lists(a, b),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// Concatenates two lists, or merges them if the kind of the left list asks for it.
fn lists<'a>(a: &List<'a>, b: &List<'a>) -> Outcome<'a> {
    let mut items = a.to_vec()?;
    let kind = if let List::Json(_, _, kind) = a { kind } else { &ListKind::Ordered };
    for (index, item) in b.iter().enumerate() {
        let item = item?;
        match kind {
            ListKind::Ordered => items.push(item),
            ListKind::Set if contains(a, &item)? => {}
            ListKind::Set => items.push(item),
            ListKind::Keyed(keys) => match same_keys(a, b, index, keys) {
                Some(at) => items[at] = item,
                None => items.push(item),
            },
        }
    }
    Ok(Val::list(items))
}

/// The index in `a` of the element with the same keys as an element of `b`.
fn same_keys(a: &List<'_>, b: &List<'_>, index: usize, keys: &[Box<str>]) -> Option<usize> {
    let (List::Json(left, ..), List::Json(right, ..)) = (a, b) else { return None };
    let wanted = right.get(index)?;
    let same = |item: &Json| keys.iter().all(|key| item.get(&**key) == wanted.get(&**key));
    left.iter().position(same)
}

fn minus<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_sub(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_sub(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a - b)),
        [Val::Duration(a), Val::Duration(b)] => duration(a.checked_sub(*b)),
        [Val::Timestamp(at), Val::Duration(by)] => moved(at, -i128::from(*by)),
        [Val::Timestamp(a), Val::Timestamp(b)] => {
            duration(i64::try_from(a.as_nanosecond() - b.as_nanosecond()).ok())
        }
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn times<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(a), Val::Int(b)] => int(a.checked_mul(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_mul(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a * b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn divide<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::DivisionByZero),
        [Val::Int(a), Val::Int(b)] => int(a.checked_div(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_div(*b)),
        [Val::Double(a), Val::Double(b)] => Ok(Val::Double(a / b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn modulo<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)] => Err(EvalError::ModulusByZero),
        [Val::Int(a), Val::Int(b)] => int(a.checked_rem(*b)),
        [Val::Uint(a), Val::Uint(b)] => uint(a.checked_rem(*b)),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn negate<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(value)] => int(value.checked_neg()),
        [Val::Double(value)] => Ok(Val::Double(-value)),
        _ => Err(EvalError::NoSuchOverload),
    }
}
