//! Parsing of `grpc-timeout`: the time that a caller waits for its answer, as the gRPC protocol writes it.
//! Pure.

use kstore_api::status::Status;
use std::time::Duration;

/// The name of the header.
pub(super) const HEADER: &str = "grpc-timeout";

/// The number of digits that a timeout may have.
const DIGITS: usize = 8;

/// Parses the timeout of a call; `None` if it has none. A timeout may be zero.
///
/// # Errors
/// 400 if the text is not a timeout.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    duration(text).map(Some).ok_or_else(|| {
        Status::bad_request(format!(
            "grpc-timeout {text:?} is invalid: it must have 1 to 8 digits and a unit of HMSmun"
        ))
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len() - 1)?;
    if digits.len() > DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(value * 3600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_digits_and_a_unit() {
        let table = [
            ("", Ok(None)),
            ("1H", Ok(Some(Duration::from_secs(3600)))),
            ("2M", Ok(Some(Duration::from_secs(120)))),
            ("3S", Ok(Some(Duration::from_secs(3)))),
            ("250m", Ok(Some(Duration::from_millis(250)))),
            ("7u", Ok(Some(Duration::from_micros(7)))),
            ("99999999n", Ok(Some(Duration::from_nanos(99_999_999)))),
            ("0S", Ok(Some(Duration::ZERO))),
            ("123456789S", Err(())),
            ("S", Err(())),
            ("5", Err(())),
            ("-5S", Err(())),
            ("5s", Err(())),
            ("5µ", Err(())),
        ];
        for (text, want) in table {
            assert_eq!(parse(text).map_err(drop), want, "{text:?}");
        }
        assert_eq!(parse("soon").unwrap_err().code, 400);
    }
}
