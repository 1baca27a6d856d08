//! Texts of values, as the function `string` makes them.

use super::{Val, time};

/// The string that `string()` gives for a scalar; the name of the type for other values.
pub(crate) fn text_of(value: &Val<'_>) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => value.to_string(),
        Val::Double(value) => double(*value),
        Val::String(text) | Val::Type(text) => text.to_string(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(at) => time::format_timestamp(*at),
        Val::Duration(nanos) => time::format_duration(*nanos),
        other => other.type_name().to_owned(),
    }
}

/// The shortest decimal form that parses to the same floating-point number.
fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    value.to_string()
}
