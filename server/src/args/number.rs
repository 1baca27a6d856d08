//! Parsers of numbers on the command line, with error texts that say which number is expected.

use super::MAX_NODES;
use std::str::FromStr;

/// Parses a number of bytes, which may be negative.
pub(super) fn bytes(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "expected a whole number of bytes, for example 2147483648".to_owned())
}

/// Parses a number of simulated nodes.
pub(super) fn nodes(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number <= MAX_NODES);
    number.ok_or_else(|| format!("expected a whole number from 0 to {MAX_NODES}"))
}

/// Parses a whole number, zero or more.
pub(super) fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number, zero or more".to_owned())
}
