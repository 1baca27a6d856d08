//! Formats of dates, times and durations.

use std::sync::OnceLock;

use jiff::civil;
use regex::Regex;

/// A valid date `YYYY-MM-DD`.
pub(super) fn date(text: &str) -> bool {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else { return false };
    let number = |text: &str, length: usize| {
        let is_number = text.len() == length && text.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| text.parse::<i16>().ok())?
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let small = |number: i16| i8::try_from(number).unwrap_or_default();
    civil::Date::new(year, small(month), small(day)).is_ok()
}

/// A date, `T`, a time with seconds up to 59, and an offset; letters in either case.
pub(super) fn date_time(text: &str) -> bool {
    static TIME: OnceLock<Regex> = OnceLock::new();
    let pattern = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$";
    let time = TIME.get_or_init(|| Regex::new(pattern).expect("the pattern is legal"));
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(day), Some(rest)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = time.captures(rest).filter(|_| date(day)) else { return false };
    &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// A Go duration (`1h30m`), or a text with amounts of units (`2 weeks`).
pub(super) fn duration(text: &str) -> bool {
    is_go_duration(text) || is_worded(text)
}

/// Units with their nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
];

/// Longest duration in nanoseconds.
const NANOSECONDS_MAX: f64 = 9_223_372_036_854_775_807.0;

fn is_go_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let (mut rest, mut total) = (unsigned, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let has_digits = number.bytes().any(|byte| byte.is_ascii_digit());
        let factor = UNITS.iter().find(|(name, _)| *name == unit);
        let (Some((_, factor)), Ok(number), true) = (factor, number.parse::<f64>(), has_digits) else {
            return false;
        };
        total += number * factor;
        rest = after;
    }
    !unsigned.is_empty() && total <= NANOSECONDS_MAX
}

/// Whether the text contains an amount with a known unit. The last spelling of a unit also matches longer
/// ones.
fn is_worded(text: &str) -> bool {
    static AMOUNT: OnceLock<Regex> = OnceLock::new();
    let pattern = r"([0-9]+)[\t\n\x0C\r ]*([A-Za-z\x{b5}]+)";
    let amount = AMOUNT.get_or_init(|| Regex::new(pattern).expect("the pattern is legal"));
    let mut is_known = false;
    for found in amount.captures_iter(text) {
        if found[1].parse::<i64>().is_err() {
            return false;
        }
        is_known |= is_unit(&found[2].to_lowercase());
    }
    is_known
}

fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 12] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const PREFIXES: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
}
