//! Durations as Go parses and prints them: `time.ParseDuration` and `Duration.String`, and `strfmt.ParseDuration` on top of them.
//! A duration is a number of nanoseconds in an `i64`, as in Go. Pure.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod parse;
mod print;
mod strfmt;
#[cfg(test)]
mod tests;

pub use parse::{DurationError, parse, parse_non_negative};
pub use print::format;
pub use strfmt::parse_format;
