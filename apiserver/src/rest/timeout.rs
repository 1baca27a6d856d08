//! Parsing of `?timeout=`: the longest duration of a request, as Go writes durations. Pure.

use kstore_api::status::Status;
use std::time::Duration;

/// Parses the timeout of a request; `None` if it has none, or zero.
///
/// # Errors
/// 400 if the text is not a duration.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let duration = duration(text).map_err(|why| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: {why} {text:?}"))
    })?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
}

/// Parses a sum of decimal numbers with units: `1m30s`, `1.5h`, `300ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_go_durations() {
        let table = [
            ("", Some(None)),
            ("0", Some(None)),
            ("0s", Some(None)),
            ("32s", Some(Some(32_000))),
            ("1m30s", Some(Some(90_000))),
            ("1.5h", Some(Some(5_400_000))),
            ("250ms", Some(Some(250))),
            ("5", None),
            ("soon", None),
            ("-1s", None),
            ("5 s", None),
            ("1..2s", None),
            ("999999999999999999999999h", None),
        ];
        for (text, want) in table {
            let got = parse(text).ok();
            assert_eq!(got, want.map(|ms| ms.map(Duration::from_millis)), "{text}");
        }
        let refused = parse("5").unwrap_err();
        let said = "invalid timeout specified in the request URL - time: missing unit in duration \"5\"";
        assert_eq!((refused.code, refused.message.as_str()), (400, said));
    }
}
