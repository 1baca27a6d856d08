//! Parsing of `?timeout=`: the longest duration of a request, as Go writes durations. Pure.

use kstore_api::status::Status;
use std::time::Duration;

/// Parses the timeout of a request; `None` if it has none, or one that is not above zero, which Kubernetes' `WithRequestDeadline`
/// ignores.
///
/// # Errors
/// 400 if the text is not a duration.
pub(super) fn parse(text: &str) -> Result<Option<Duration>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let nanos = kstore_go_duration::parse(text).map_err(|error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    Ok(u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos))
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
            ("-1s", Some(None)),
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
        let refused = parse("5x").unwrap_err();
        let said =
            "invalid timeout specified in the request URL - time: unknown unit \"x\" in duration \"5x\"";
        assert_eq!(refused.message, said);
    }
}
