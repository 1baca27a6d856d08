//! [`Given`]: the flags of a command line as texts, with readers of single values. Which parser read the line does not matter. Pure.

use crate::dropin::parse_bool;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid argument {value:?} for \"--{name}\" flag: {reason}")]
pub struct FlagError {
    /// The flag, without dashes.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FlagError {
    pub(crate) fn new(name: &'static str, value: &str, reason: impl Display) -> Self {
        Self { name, value: value.to_owned(), reason: reason.to_string() }
    }
}

/// The flags of a command line.
pub(crate) trait Given {
    /// Every value of a flag, in the order given.
    fn values(&self, name: &str) -> Vec<&str>;

    /// The value that counts for a flag with one value: the last, if it is not empty.
    fn text(&self, name: &str) -> Option<&str> {
        self.values(name).last().copied().filter(|value| !value.is_empty())
    }

    /// A path.
    fn file(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The elements of a list.
    fn elements(&self, name: &str) -> Vec<String> {
        let elements = self.values(name).into_iter().flat_map(|value| value.split(','));
        elements.map(str::trim).filter(|element| !element.is_empty()).map(str::to_owned).collect()
    }

    /// Whether something is wanted.
    fn is_on(&self, name: &'static str, default: bool) -> Result<bool, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        parse_bool(value).ok_or_else(|| FlagError::new(name, value, "expected true or false"))
    }

    /// A number, at least 1.
    fn count<N: FromStr + PartialOrd + Default>(
        &self,
        name: &'static str,
        default: N,
    ) -> Result<N, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        let number = value.parse().ok().filter(|number| *number > N::default());
        number.ok_or_else(|| FlagError::new(name, value, "expected a number above 0"))
    }

    /// A time, as Go writes it.
    fn time(&self, name: &'static str, default: Duration) -> Result<Duration, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        duration(value)
            .ok_or_else(|| FlagError::new(name, value, "expected a time such as 30s, 1m30s or 500ms"))
    }
}

/// The longest time that Go can tell, 292 years: such a time can be added to the clock's without an overflow.
const LONGEST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// `1m30s`, `0.5s`, `500ms`, `0`: Go's form of a time. Not below zero, and not above 292 years.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty() && total <= LONGEST).then_some(total)
}

/// Flags of a test.
#[cfg(test)]
pub(super) struct Words(pub(super) Vec<(&'static str, &'static str)>);

#[cfg(test)]
impl Given for Words {
    fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_go() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("1.5s", Some(1500)),
            ("1m30s", Some(90_000)),
            ("2h", Some(7_200_000)),
            ("9223372036s", Some(9_223_372_036_000)),
            ("9223372037s", None),
            ("", None),
            ("5", None),
            ("-5s", None),
            ("s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("1e400h", None),
        ] {
            assert_eq!(duration(text).map(|time| time.as_millis()), expected, "{text}");
        }
    }
}
