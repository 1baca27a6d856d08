//! Texts of calls as values: durations, times, names. Pure.

use crate::error::bad_request;
use crate::limits;
use jiff::Timestamp;
use kstore_api::status::Status;
use std::time::Duration;

/// Nanoseconds of a millisecond, the step of a cluster's clock.
const MILLISECOND: i64 = 1_000_000;

/// A duration as Go writes it (`1h30m`), or days (`3d`). It may be negative.
///
/// # Errors
/// 400: it is none; `pointer` says where it was.
pub(crate) fn signed_duration(text: &str, pointer: &str) -> Result<i64, Status> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<i64>().ok());
    if let Some(nanoseconds) = days.and_then(|days| days.checked_mul(86_400_000 * MILLISECOND)) {
        return Ok(nanoseconds);
    }
    kstore_go_duration::parse(text)
        .map_err(|error| bad_request(pointer, format!("{error}: use a duration such as 1h30m or 3d")))
}

/// A duration that is not negative.
///
/// # Errors
/// 400, as [`signed_duration`].
pub(crate) fn duration(text: &str, pointer: &str) -> Result<Duration, Status> {
    let nanoseconds = signed_duration(text, pointer)?;
    let nanoseconds = u64::try_from(nanoseconds).map_err(|_| bad_request(pointer, "must not be negative"))?;
    Ok(Duration::from_nanos(nanoseconds))
}

/// A duration in steps of the cluster's clock.
///
/// # Errors
/// 400, as [`signed_duration`], and for parts of a millisecond.
pub(crate) fn clock_duration(text: &str, pointer: &str) -> Result<Duration, Status> {
    let parsed = duration(text, pointer)?;
    if parsed.subsec_nanos() % MILLISECOND as u32 != 0 {
        return Err(bad_request(pointer, "the clock of a cluster moves in whole milliseconds"));
    }
    Ok(parsed)
}

/// A duration as the lab writes it.
pub(crate) fn shown(duration: Duration) -> String {
    kstore_go_duration::format(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}

/// A time in RFC 3339, cut to the clock's milliseconds.
///
/// # Errors
/// 400: it is none.
pub(crate) fn time(text: &str, pointer: &str) -> Result<Timestamp, Status> {
    let time = text.parse::<Timestamp>().map_err(|error| bad_request(pointer, error))?;
    Ok(Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time))
}

/// A name of a cluster, an image or a client: a DNS label, as Kubernetes' names; agents of clients may be any text.
///
/// # Errors
/// 400: it is none.
pub(crate) fn name(text: &str, pointer: &str) -> Result<(), Status> {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = text.bytes().all(|byte| is_inner(byte) || byte == b'-')
        && text.as_bytes().first().is_some_and(|byte| is_inner(*byte))
        && text.as_bytes().last().is_some_and(|byte| is_inner(*byte));
    if is_label && text.len() <= limits::NAME_CHARS {
        return Ok(());
    }
    let most = limits::NAME_CHARS;
    Err(bad_request(
        pointer,
        format!("a name has up to {most} lower-case letters, digits and dashes, as in `a-1`"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_go_s_or_days() {
        let parsed = |text: &str| duration(text, "/by").ok().map(shown);
        assert_eq!(parsed("3d").as_deref(), Some("72h0m0s"));
        assert_eq!(parsed("1h30m").as_deref(), Some("1h30m0s"));
        for wrong in ["", "d", "-1h", "1", "99999999999d", "1h30"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
        assert!(clock_duration("1us", "/by").is_err() && clock_duration("1ms", "/by").is_ok());
        assert_eq!(signed_duration("-1m", "/by").ok(), Some(-60_000_000_000));
    }

    #[test]
    fn names_are_labels() {
        assert!(["a", "a-1", "9"].iter().all(|good| name(good, "/name").is_ok()));
        let long = "a".repeat(limits::NAME_CHARS + 1);
        assert!(["", "-a", "a-", "A", "a/b", "a.b", &long].iter().all(|bad| name(bad, "/name").is_err()));
    }
}
