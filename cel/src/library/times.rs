//! Fields of points in time and of durations.

use super::Outcome;
use crate::env::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Val;
use crate::value::time::{Field, duration_field, field};

/// Functions, the identities of their overloads, and the fields that they return.
const FIELDS: [(&str, &str, Field); 10] = [
    ("getFullYear", "year", Field::FullYear),
    ("getMonth", "month", Field::Month),
    ("getDayOfYear", "day_of_year", Field::DayOfYear),
    ("getDayOfMonth", "day_of_month", Field::DayOfMonth),
    ("getDate", "day_of_month_1_based", Field::Date),
    ("getDayOfWeek", "day_of_week", Field::DayOfWeek),
    ("getHours", "hours", Field::Hours),
    ("getMinutes", "minutes", Field::Minutes),
    ("getSeconds", "seconds", Field::Seconds),
    ("getMilliseconds", "milliseconds", Field::Milliseconds),
];

/// Declares the functions.
pub(super) fn add(d: &mut Declarations) {
    for (name, id, wanted) in FIELDS {
        let get = move |args: &[Val<'_>]| read(args, wanted);
        let overload = |id: String, args: Vec<Type>| {
            Overload::method(&id, args, Type::Int, move |args| -> Outcome<'_> { get(args).map(Val::Int) })
        };
        d.add(name, overload(format!("timestamp_to_{id}"), vec![Type::Timestamp]));
        let with_zone = vec![Type::Timestamp, Type::String];
        d.add(name, overload(format!("timestamp_to_{id}_with_tz"), with_zone));
        if duration_field(0, wanted).is_some() {
            d.add(name, overload(format!("duration_to_{id}"), vec![Type::Duration]));
        }
    }
}

fn read(args: &[Val<'_>], wanted: Field) -> Result<i64, EvalError> {
    let zoned = |at: &jiff::Timestamp, zone: &str| {
        field(*at, zone, wanted).ok_or_else(|| EvalError::other(format!("unknown time zone {zone}")))
    };
    match args {
        [Val::Timestamp(at)] => zoned(at, "UTC"),
        [Val::Timestamp(at), Val::String(zone)] => zoned(at, zone),
        [Val::Duration(nanos)] => duration_field(*nanos, wanted).ok_or(EvalError::NoSuchOverload),
        _ => Err(EvalError::NoSuchOverload),
    }
}
