//! Conversions between types, such as `int()` and `string()`.

use super::Outcome;
use crate::cost::{SizeEstimate, rows};
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Text, Val, text_of, time};
use Type::{Bool, Bytes, Double, Duration, Int, String as Str, Timestamp, Uint};
use std::sync::Arc;

/// A conversion function: name, result type, implementation; ids of overloads with their argument types.
type ConversionRow = (&'static str, Type, Conversion, &'static [(&'static str, Type)]);

const CONVERSIONS: [ConversionRow; 8] = [
    ("bool", Bool, to_bool, &[("bool_to_bool", Bool), ("string_to_bool", Str)]),
    ("bytes", Bytes, to_bytes, &[("bytes_to_bytes", Bytes), ("string_to_bytes", Str)]),
    (
        "double",
        Double,
        to_double,
        &[
            ("double_to_double", Double),
            ("int64_to_double", Int),
            ("string_to_double", Str),
            ("uint64_to_double", Uint),
        ],
    ),
    ("duration", Duration, to_duration, &[("duration_to_duration", Duration), ("string_to_duration", Str)]),
    (
        "int",
        Int,
        to_int,
        &[
            ("int64_to_int64", Int),
            ("double_to_int64", Double),
            ("duration_to_int64", Duration),
            ("string_to_int64", Str),
            ("timestamp_to_int64", Timestamp),
            ("uint64_to_int64", Uint),
        ],
    ),
    (
        "string",
        Str,
        to_string,
        &[
            ("string_to_string", Str),
            ("bool_to_string", Bool),
            ("bytes_to_string", Bytes),
            ("double_to_string", Double),
            ("duration_to_string", Duration),
            ("int64_to_string", Int),
            ("timestamp_to_string", Timestamp),
            ("uint64_to_string", Uint),
        ],
    ),
    (
        "timestamp",
        Timestamp,
        to_timestamp,
        &[("timestamp_to_timestamp", Timestamp), ("int64_to_timestamp", Int), ("string_to_timestamp", Str)],
    ),
    (
        "uint",
        Uint,
        to_uint,
        &[
            ("uint64_to_uint64", Uint),
            ("double_to_uint64", Double),
            ("int64_to_uint64", Int),
            ("string_to_uint64", Str),
        ],
    ),
];

/// Declares the functions of this module.
pub(super) fn add(d: &mut Declarations) {
    let a = Type::param("A");
    d.add("type", Overload::function("type", [a.clone()], Type::type_of(a.clone()), type_of));
    d.add("dyn", Overload::function("to_dyn", [a], Type::Dyn, to_dyn));
    for (name, to, conversion, rows) in CONVERSIONS {
        for (id, from) in rows {
            let overload = Overload::function(id, [from.clone()], to.clone(), conversion);
            d.add(name, with_cost(overload));
        }
    }
}

/// The overload, with the cost of a traversal if it converts between strings and bytes.
fn with_cost(overload: Overload) -> Overload {
    // A character takes up to four bytes.
    match &*overload.id {
        "string_to_bytes" => overload
            .cost(rows::conversion(|size| SizeEstimate { min: size.min, max: size.max.saturating_mul(4) })),
        "bytes_to_string" => {
            overload.cost(rows::conversion(|size| SizeEstimate { min: size.min / 4, max: size.max }))
        }
        _ => overload,
    }
}

type Conversion = for<'a> fn(&[Val<'a>]) -> Outcome<'a>;

fn type_of<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    let value = args.first().ok_or(EvalError::NoSuchOverload)?;
    Ok(Val::Type(Text::Shared(Arc::from(value.type_name()))))
}

fn to_dyn<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    args.first().cloned().ok_or(EvalError::NoSuchOverload)
}

/// The error for a string that does not spell a value of a type.
fn unreadable(to: &str) -> EvalError {
    EvalError::other(format!("type conversion error from 'string' to '{to}'"))
}

fn to_bool<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Bool(value)] => Ok(Val::Bool(*value)),
        [Val::String(text)] => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => Err(unreadable("bool")),
        },
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_bytes<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [bytes @ Val::Bytes(_)] => Ok(bytes.clone()),
        [Val::String(text)] => Ok(Val::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_double<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Double(value)] => Ok(Val::Double(*value)),
        [Val::Int(value)] => Ok(Val::Double(*value as f64)),
        [Val::Uint(value)] => Ok(Val::Double(*value as f64)),
        [Val::String(text)] => text.parse().map(Val::Double).map_err(|_| unreadable("double")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_duration<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Duration(value)] => Ok(Val::Duration(*value)),
        [Val::String(text)] => kstore_go_duration::parse(text)
            .map(Val::Duration)
            .map_err(|_| EvalError::other(format!("time: invalid duration {:?}", &**text))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_timestamp<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Timestamp(at)] => Ok(Val::Timestamp(*at)),
        [Val::Int(seconds)] => time::timestamp(i128::from(*seconds) * 1_000_000_000)
            .map(Val::Timestamp)
            .ok_or(EvalError::TimestampOverflow),
        [Val::String(text)] => time::parse_timestamp(text)
            .map(Val::Timestamp)
            .ok_or_else(|| EvalError::other(format!("parsing time {:?}: not in RFC 3339", &**text))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

/// The number without its fraction; none unless the number is strictly between the bounds.
fn truncated(value: f64, low: f64, high: f64) -> Option<f64> {
    (value > low && value < high).then(|| value.trunc())
}

fn to_int<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Int(value)] => Ok(Val::Int(*value)),
        [Val::Uint(value)] => i64::try_from(*value).map(Val::Int).map_err(|_| EvalError::IntegerOverflow),
        [Val::Double(value)] => truncated(*value, i64::MIN as f64, i64::MAX as f64)
            .map(|whole| Val::Int(whole as i64))
            .ok_or(EvalError::IntegerOverflow),
        [Val::Duration(nanos)] => Ok(Val::Int(*nanos)),
        [Val::Timestamp(at)] => Ok(Val::Int(at.as_second())),
        [Val::String(text)] => text.parse().map(Val::Int).map_err(|_| unreadable("int")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_uint<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [Val::Uint(value)] => Ok(Val::Uint(*value)),
        [Val::Int(value)] => u64::try_from(*value).map(Val::Uint).map_err(|_| EvalError::UnsignedOverflow),
        [Val::Double(value)] => truncated(*value, -1.0, u64::MAX as f64)
            .filter(|whole| *whole >= 0.0 && *value >= 0.0)
            .map(|whole| Val::Uint(whole as u64))
            .ok_or(EvalError::UnsignedOverflow),
        [Val::String(text)] => text.parse().map(Val::Uint).map_err(|_| unreadable("uint")),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn to_string<'a>(args: &[Val<'a>]) -> Outcome<'a> {
    match args {
        [text @ Val::String(_)] => Ok(text.clone()),
        [Val::Bytes(bytes)] => std::str::from_utf8(bytes)
            .map(Val::string)
            .map_err(|_| EvalError::other("invalid UTF-8 in bytes, cannot convert to string")),
        [
            scalar @ (Val::Bool(_)
            | Val::Int(_)
            | Val::Uint(_)
            | Val::Double(_)
            | Val::Timestamp(_)
            | Val::Duration(_)),
        ] => Ok(Val::string(text_of(scalar))),
        _ => Err(EvalError::NoSuchOverload),
    }
}
