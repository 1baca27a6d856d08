//! Errors of decoding, with what decides whether another round helps: the absent member that ended this one.

use serde::de::{self, Expected, IgnoredAny, Unexpected};
use std::fmt;

/// A member of a struct: the names of both.
pub(super) type Member = (&'static str, &'static str);

/// Why a round of decoding ended. Small, because every decoder of a type returns it.
#[derive(Debug)]
pub(super) struct Error(Box<Failure>);

#[derive(Debug)]
struct Failure {
    text: String,
    missing: Missing,
}

/// A required member that is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Missing {
    /// Something else is wrong.
    Nothing,
    /// The struct is not known yet.
    Field(&'static str),
    Member(Member),
}

impl Error {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(Box::new(Failure { text: text.into(), missing: Missing::Nothing }))
    }

    /// A value of another type than the expected one.
    pub(super) fn wrong_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        match found {
            // JSON's word for it.
            Unexpected::Unit => Self::new(format!("invalid type: null, expected {expected}")),
            found => de::Error::invalid_type(found, expected),
        }
    }

    /// The same error, found in the struct `owner` with these members.
    pub(super) fn within(mut self, owner: &'static str, fields: &'static [&'static str]) -> Self {
        if let Missing::Field(name) = self.0.missing
            && fields.contains(&name)
        {
            self.0.missing = Missing::Member((owner, name));
        }
        self
    }

    /// The absent required member that ended the round.
    pub(super) fn missing(&self) -> Option<Member> {
        match self.0.missing {
            Missing::Member(member) => Some(member),
            Missing::Nothing | Missing::Field(_) => None,
        }
    }

    /// The error for callers: that of `serde_json` if `json` is not JSON, else this one with the position `at`.
    pub(super) fn in_json(self, json: &[u8], at: usize) -> serde_json::Error {
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(json) {
            return error;
        }
        let read = &json[..at.min(json.len())];
        let line_start = read.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = read.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = read.len() - line_start;
        de::Error::custom(format_args!("{} at line {line} column {column}", self.0.text))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Self::new(text.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        let text = format!("missing field `{field}`");
        Self(Box::new(Failure { text, missing: Missing::Field(field) }))
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::new(error.to_string())
    }
}
