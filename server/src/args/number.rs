//! Parsers of numbers on the command line, with error texts that say which number is expected.

use super::MAX_NODES;
use std::str::FromStr;

/// Units of sizes.
const UNITS: [(&str, u32); 4] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];

/// Parses a number of bytes, which may be negative: 2147483648, 2Gi or 2GiB.
pub(super) fn bytes(text: &str) -> Result<i64, String> {
    let short = text.strip_suffix('B').unwrap_or(text);
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((short.strip_suffix(unit)?, 1_i64 << shift)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let number: Option<i64> = number.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a number of bytes, for example 2147483648 or 2GiB".to_owned())
}

/// Parses an amount of memory.
pub(super) fn memory(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).ok().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected an amount of memory, for example 64MiB".to_owned())
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
