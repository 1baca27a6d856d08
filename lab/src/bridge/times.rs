//! The headers of an answer with the time of the cluster.

use axum::body::Body;
use http::Response;
use http::header::{DATE, HeaderName, HeaderValue};
use jiff::Timestamp;
use jiff::tz::Offset;
use kstore_nondet::Clock;
use std::cell::RefCell;

/// The header with the cluster's time, to the millisecond.
const LAB_TIME: HeaderName = HeaderName::from_static("lab-time");

/// Adds the cluster's time to an answer. `Date` has seconds, as HTTP wants it; that of a cluster in real time the listener adds by itself.
pub(super) fn add(response: &mut Response<Body>, clock: &Clock, now: Timestamp) {
    if clock.is_simulated() {
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(value) = HeaderValue::from_str(&date) {
            response.headers_mut().insert(DATE, value);
        }
    }
    if let Some(value) = value(now) {
        response.headers_mut().insert(LAB_TIME, value);
    }
}

thread_local! {
    /// The newest value of the header that a request on this thread had, and its millisecond: a busy server answers many in one.
    static NEWEST: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
}

/// The value of the header with a time.
fn value(now: Timestamp) -> Option<HeaderValue> {
    let millisecond = now.as_millisecond();
    NEWEST.with_borrow_mut(|newest| match newest {
        Some((at, value)) if *at == millisecond => Some(value.clone()),
        _ => {
            let value = HeaderValue::from_bytes(&precise(now)).ok()?;
            *newest = Some((millisecond, value.clone()));
            Some(value)
        }
    })
}

/// The time as `2026-01-02T03:04:05.678Z`. Written here because each answer has it: a general formatter takes ten times as long. Times that
/// this form cannot show, before the year 0 and after 9999, do not occur.
fn precise(now: Timestamp) -> [u8; 24] {
    let time = Offset::UTC.to_datetime(now);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let parts = [
        (0, 4, i32::from(time.year())),
        (5, 2, i32::from(time.month())),
        (8, 2, i32::from(time.day())),
        (11, 2, i32::from(time.hour())),
        (14, 2, i32::from(time.minute())),
        (17, 2, i32::from(time.second())),
        (20, 3, time.subsec_nanosecond() / 1_000_000),
    ];
    for (begin, width, number) in parts {
        let mut rest = number.unsigned_abs();
        for digit in text[begin..begin + width].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_written_as_the_general_formatter_writes_it() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2024-02-29T23:59:59.999999999Z",
            "2026-01-02T03:04:05.678Z",
            "9999-12-30T10:20:30.04Z",
        ] {
            let time: Timestamp = text.parse().unwrap();
            for _ in 0..2 {
                assert_eq!(value(time).unwrap(), format!("{time:.3}"), "{text}");
            }
        }
    }
}
