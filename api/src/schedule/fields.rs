//! [`Fields`]: the five fields of a cron schedule, as parsed by robfig/cron's standard parser, and the
//! matching civil times. Pure.
//!
//! A range is `*`, `?`, `n`, `n-m`, each with an optional `/step`; `n/step` extends to the maximum. Months
//! and days of the week have names. If both day fields are restricted, one match suffices; a field is
//! unrestricted if it has `*` or `?` without a step above one.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};

/// Bit set of the values of a field, and whether it is unrestricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    is_open: bool,
}

/// Smallest and largest value and names of a field.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { low: 0, high: 59, names: &[] };
const HOURS: Bounds = Bounds { low: 0, high: 23, names: &[] };
const DAYS_OF_MONTH: Bounds = Bounds { low: 1, high: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAYS_OF_WEEK: Bounds =
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Calendar schedule: minute, hour, day of month, month, day of week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: Field,
    hours: Field,
    days_of_month: Field,
    months: Field,
    days_of_week: Field,
}

impl Fields {
    /// Parses five fields.
    ///
    /// # Errors
    /// A description in robfig/cron's words.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let all: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days_of_month, months, days_of_week] = all.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", all.len(), all.join(" ")));
        };
        Ok(Self {
            minutes: Field::parse(minutes, &MINUTES)?,
            hours: Field::parse(hours, &HOURS)?,
            days_of_month: Field::parse(days_of_month, &DAYS_OF_MONTH)?,
            months: Field::parse(months, &MONTHS)?,
            days_of_week: Field::parse(days_of_week, &DAYS_OF_WEEK)?,
        })
    }

    /// The first full minute that matches the fields, at or after `from` and before `end`.
    pub(super) fn first(&self, from: DateTime, end: DateTime) -> Option<DateTime> {
        let mut at = round_up(from)?;
        while at < end {
            if !self.months.has(at.month()) {
                at = next_month(at)?;
            } else if !self.has_day(at.date()) {
                at = at.date().tomorrow().ok()?.to_datetime(Time::midnight());
            } else if let Some(hour) = self.hours.next(at.hour()) {
                let start = if hour == at.hour() { at.minute() } else { 0 };
                if let Some(minute) = self.minutes.next(start) {
                    return Some(at.date().at(hour, minute, 0, 0)).filter(|found| *found < end);
                }
                at = at.date().at(hour, 0, 0, 0).checked_add(1.hour()).ok()?;
            } else {
                at = at.date().tomorrow().ok()?.to_datetime(Time::midnight());
            }
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        let (of_month, of_week) = (&self.days_of_month, &self.days_of_week);
        let (month, week) = (of_month.has(date.day()), of_week.has(date.weekday().to_sunday_zero_offset()));
        if of_month.is_open || of_week.is_open { month && week } else { month || week }
    }
}

fn round_up(from: DateTime) -> Option<DateTime> {
    let floor = from.date().at(from.hour(), from.minute(), 0, 0);
    if floor == from { Some(from) } else { floor.checked_add(1.minute()).ok() }
}

fn next_month(at: DateTime) -> Option<DateTime> {
    Some(at.date().first_of_month().checked_add(1.month()).ok()?.to_datetime(Time::midnight()))
}

impl Field {
    fn parse(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let mut field = Self { bits: 0, is_open: false };
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let range = Self::range(range, bounds)?;
            field.bits |= range.bits;
            field.is_open |= range.is_open;
        }
        Ok(field)
    }

    fn range(text: &str, bounds: &Bounds) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (range, step) = match parts.as_slice() {
            [range] => (*range, None),
            [range, step] => (*range, Some(number(step)?)),
            _ => return Err(format!("too many slashes: {text}")),
        };
        let ends: Vec<&str> = range.split('-').collect();
        let is_all = matches!(ends.first(), Some(&("*" | "?")));
        let (low, high) = match ends.as_slice() {
            _ if is_all => (bounds.low, bounds.high),
            [only] => {
                let low = value(only, bounds)?;
                (low, if step.is_some() { bounds.high } else { low })
            }
            [low, high] => (value(low, bounds)?, value(high, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        if low < bounds.low {
            return Err(format!("beginning of range ({low}) below minimum ({}): {text}", bounds.low));
        }
        if high > bounds.high {
            return Err(format!("end of range ({high}) above maximum ({}): {text}", bounds.high));
        }
        if low > high {
            return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        let stride = usize::try_from(step).unwrap_or(usize::MAX);
        let bits = (low..=high).step_by(stride).fold(0, |bits, value| bits | 1 << value);
        Ok(Self { bits, is_open: is_all && step == 1 })
    }

    fn has(&self, value: i8) -> bool {
        self.next(value) == Some(value)
    }

    /// The lowest value of the field at or above `from`.
    fn next(&self, from: i8) -> Option<i8> {
        let left = self.bits.checked_shr(u32::from(from.unsigned_abs()))?;
        let skipped = i8::try_from(left.trailing_zeros()).ok()?;
        (left != 0).then(|| from.saturating_add(skipped))
    }
}

fn number(text: &str) -> Result<u32, String> {
    // Go's Atoi accepts a sign, and robfig/cron refuses a negative number with another message.
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    match bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
        Some(at) => Ok(u32::try_from(at).unwrap_or(u32::MAX).saturating_add(bounds.low)),
        None => number(text),
    }
}
