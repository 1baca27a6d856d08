//! Numbers on the command line, and what is said of a text that is none. Not what they mean.

use super::MAX_NODES;
use std::str::FromStr;

/// A number of bytes; negative numbers are for the flag to explain.
pub(super) fn bytes(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "expected a whole number of bytes, for example 2147483648".to_owned())
}

/// A number of simulated nodes.
pub(super) fn nodes(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| *number <= MAX_NODES);
    number.ok_or_else(|| format!("expected a whole number from 0 to {MAX_NODES}"))
}

/// A whole number, not negative.
pub(super) fn count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number, zero or more".to_owned())
}
