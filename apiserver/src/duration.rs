//! Durations as Go writes them. Pure.

use std::time::Duration;

/// Parses a sum of decimal numbers with units: `1m30s`, `1.5h`, `300ms`.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    const INVALID: &str = "invalid duration";
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(INVALID);
    }
    let mut sum = 0f64;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(number);
        let value: f64 = digits.parse().map_err(|_| INVALID)?;
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        sum += value * seconds(unit)?;
        rest = tail;
    }
    Duration::try_from_secs_f64(sum).map_err(|_| INVALID)
}

fn seconds(unit: &str) -> Result<f64, &'static str> {
    Ok(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "ns" => 1e-9,
        "" => return Err("missing unit in duration"),
        _ => return Err("unknown unit in duration"),
    })
}
