//! Times in RFC 3339, as Go parses them.

use jiff::SignedDuration;
use jiff::civil::{self, DateTime};

/// Parses a time in RFC 3339 as Go's `time.Parse` does: capital `T` and `Z`, no leap seconds, any number of fractional digits. The
/// result is in UTC. It has the years 0 to 9999, some hours more than a `Timestamp`.
pub(crate) fn parse_utc(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let number = |from: usize, length: usize| -> Option<i16> {
        let digits = text.get(from..from + length)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
    };
    let small = |from: usize| number(from, 2).and_then(|number| i8::try_from(number).ok());
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
        return None;
    }
    let date = civil::Date::new(number(0, 4)?, small(5)?, small(8)?).ok()?;
    let rest = text.get(19..)?;
    let (fraction, zone) = match rest.strip_prefix(['.', ',']) {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())),
        None => ("0", rest),
    };
    if fraction.is_empty() {
        return None;
    }
    let nanos: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let time = civil::Time::new(small(11)?, small(14)?, small(17)?, nanos.parse().ok()?).ok()?;
    date.to_datetime(time).checked_sub(offset(zone)?).ok()
}

/// Parses the offset of a zone: `Z`, or hours and minutes with a sign.
fn offset(zone: &str) -> Option<SignedDuration> {
    if zone == "Z" {
        return Some(SignedDuration::ZERO);
    }
    let is_form = zone.len() == 6 && zone.is_ascii() && zone.as_bytes()[3] == b':';
    let number = |at: std::ops::Range<usize>| {
        let digits = zone.get(at)?;
        if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (number(1..3)?, number(4..6)?);
    // Go takes offsets of 24 hours and of 60 minutes.
    let seconds = (is_form && hours <= 24 && minutes <= 60).then_some(hours * 3600 + minutes * 60)?;
    match zone.as_bytes()[0] {
        b'+' => Some(SignedDuration::from_secs(seconds)),
        b'-' => Some(SignedDuration::from_secs(-seconds)),
        _ => None,
    }
}
