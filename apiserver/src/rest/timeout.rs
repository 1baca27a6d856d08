//! Parsing of `?timeout=`: the longest duration of a request, as Go writes durations. Pure.

use crate::duration;
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
    let duration = duration::parse(text).map_err(|why| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: {why} {text:?}"))
    })?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
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
