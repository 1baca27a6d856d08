//! Functions that read fields of timestamps and durations.

use super::Outcome;
use crate::declarations::{Declarations, Overload};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Val;
use crate::value::time::{TimeField, duration_field, field};

/// The functions of timestamps: name, id of the overload, and the field that the function returns.
const FIELDS: [(&str, &str, TimeField); 10] = [
    ("getFullYear", "year", TimeField::FullYear),
    ("getMonth", "month", TimeField::Month),
    ("getDayOfYear", "day_of_year", TimeField::DayOfYear),
    ("getDayOfMonth", "day_of_month", TimeField::DayOfMonth),
    ("getDate", "day_of_month_1_based", TimeField::Date),
    ("getDayOfWeek", "day_of_week", TimeField::DayOfWeek),
    ("getHours", "hours", TimeField::Hours),
    ("getMinutes", "minutes", TimeField::Minutes),
    ("getSeconds", "seconds", TimeField::Seconds),
    ("getMilliseconds", "milliseconds", TimeField::Milliseconds),
];

/// Declares the functions of this module.
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

fn read(args: &[Val<'_>], wanted: TimeField) -> Result<i64, EvalError> {
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
