//! Formats of dates and times.

use jiff::civil;
use regex::Regex;
use std::sync::OnceLock;

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
