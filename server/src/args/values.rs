//! [`FlagValues`]: flags that are read together, by name, with typed readers for single values. Independent of the parser. Pure.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A flag value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid argument {value:?} for \"--{name}\" flag: {reason}")]
pub struct FlagError {
    /// The flag's name, without dashes.
    pub name: &'static str,
    pub value: String,
    pub reason: String,
}

impl FlagError {
    pub(crate) fn new(name: &'static str, value: &str, reason: impl Display) -> Self {
        Self { name, value: value.to_owned(), reason: reason.to_string() }
    }
}

/// The flags of a command line.
pub(crate) trait FlagValues {
    /// Every value of a flag, in the order given.
    fn values(&self, name: &str) -> Vec<&str>;

    /// The effective value of a flag with one value: the last, unless it is empty.
    fn text(&self, name: &str) -> Option<&str> {
        self.values(name).last().copied().filter(|value| !value.is_empty())
    }

    /// The value as a path.
    fn file(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The elements of a comma-separated list, over all occurrences of the flag.
    fn elements(&self, name: &str) -> Vec<String> {
        let elements = self.values(name).into_iter().flat_map(|value| value.split(','));
        elements.map(str::trim).filter(|element| !element.is_empty()).map(str::to_owned).collect()
    }

    /// The value as a boolean, or `default`.
    fn is_on(&self, name: &'static str, default: bool) -> Result<bool, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        parse_bool(value).ok_or_else(|| FlagError::new(name, value, "expected true or false"))
    }

    /// The value as a number above 0, or `default`.
    fn count<N: FromStr + PartialOrd + Default>(
        &self,
        name: &'static str,
        default: N,
    ) -> Result<N, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        let number = value.parse().ok().filter(|number| *number > N::default());
        number.ok_or_else(|| FlagError::new(name, value, "expected a number above 0"))
    }

    /// The value as a duration in Go's notation, or `default`.
    fn time(&self, name: &'static str, default: Duration) -> Result<Duration, FlagError> {
        let Some(value) = self.text(name) else { return Ok(default) };
        go_time(value).map_err(|reason| FlagError::new(name, value, reason))
    }
}

/// Parses a duration in Go's notation, of zero or more.
pub(super) fn go_time(text: &str) -> Result<Duration, String> {
    let time = kstore_go_duration::parse_non_negative(text);
    time.map_err(|_| "expected a time such as 30s, 1m30s or 500ms".to_owned())
}

/// The values of flags by name, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedValues(Vec<(&'static str, String)>);

impl NamedValues {
    pub(super) fn push(&mut self, name: &'static str, value: &str) {
        self.0.push((name, value.to_owned()));
    }
}

impl FlagValues for NamedValues {
    fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// Go's `strconv.ParseBool`.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Flags given by a test.
#[cfg(test)]
pub(crate) struct TestFlags(pub(crate) Vec<(&'static str, &'static str)>);

#[cfg(test)]
impl FlagValues for TestFlags {
    fn values(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_durations_of_go_from_zero() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("1.5s", Some(1500)),
            ("1m30s", Some(90_000)),
            ("2h", Some(7_200_000)),
            ("9223372036s", Some(9_223_372_036_000)),
            ("9223372037s", None),
            ("5", None),
            ("-5s", None),
            ("s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("1e400h", None),
        ] {
            let time = TestFlags(vec![("a", text)]).time("a", Duration::MAX).ok();
            assert_eq!(time.map(|time| time.as_millis()), expected, "{text}");
        }
    }
}
