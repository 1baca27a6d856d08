//! Mapping of unsuccessful responses to [`SourceError`], from HTTP codes and `metav1.Status`. Pure.

use crate::SourceError;
use serde::Deserialize;
use std::time::Duration;

/// The fields of a `metav1.Status` that the mapping reads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    pub message: String,
    pub reason: String,
    pub code: u16,
    pub details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Details {
    retry_after_seconds: u64,
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

/// Message of servers before 1.18.5 for a resource version that they have not reached; they set no cause for
/// it.
const TOO_LARGE: &str = "Too large resource version";

impl Status {
    /// The status in the body of a failed response. Proxies and overloaded servers send other bodies; then
    /// `code` decides.
    pub(super) fn of_body(code: u16, body: &[u8]) -> Self {
        let mut status: Self = serde_json::from_slice(body).unwrap_or_default();
        if status.message.is_empty() && status.reason.is_empty() {
            status.message = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
        }
        if status.code == 0 {
            status.code = code;
        }
        status
    }

    /// The error for the informer. `retry_after` is the value of the header.
    pub(super) fn meaning(&self, retry_after: Option<Duration>) -> SourceError {
        let retry_after = self.retry_after().or(retry_after);
        let text = || match self.message.as_str() {
            "" => format!("{} ({})", self.reason, self.code),
            message => message.to_owned(),
        };
        // The reason, where present, is more specific than the code.
        match self.reason.as_str() {
            "Expired" | "Gone" => return SourceError::Expired,
            "Timeout" | "" if self.is_too_large() => return SourceError::Ahead { retry_after },
            "TooManyRequests" => return SourceError::Throttled { retry_after },
            _ => {}
        }
        match self.code {
            410 => SourceError::Expired,
            429 | 503 => SourceError::Throttled { retry_after },
            502 => SourceError::Unreachable(text()),
            408 | 500.. => SourceError::Internal(text()),
            _ => SourceError::Fatal(text()),
        }
    }

    /// Whether the server refused a streaming list because it does not support it: an old server, or one with
    /// the feature disabled, rejects its parameters.
    pub(super) fn refuses_streaming(&self) -> bool {
        let parameters = ["sendInitialEvents", "resourceVersionMatch"];
        let names_a_parameter = parameters.iter().any(|parameter| self.message.contains(parameter));
        match self.code {
            422 => true,
            400 | 403 | 405 => names_a_parameter,
            _ => false,
        }
    }

    fn is_too_large(&self) -> bool {
        let causes = self.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
        let named = |cause: &Cause| cause.reason == "ResourceVersionTooLarge" || cause.message == TOO_LARGE;
        causes.iter().any(named) || self.message.contains(TOO_LARGE)
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

/// The header `Retry-After` in seconds. The date form is ignored, because it needs a clock in sync with the
/// server; the caller's back-off applies then.
pub(super) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(code: u16, body: &str) -> String {
        format!("{:?}", Status::of_body(code, body.as_bytes()).meaning(Some(Duration::from_secs(9))))
    }

    #[test]
    fn every_error_response_maps_to_one_source_error() {
        for (code, body, meant) in [
            (410, r#"{"reason":"Expired","code":410}"#, "Expired"),
            (410, r#"{"reason":"Gone","code":410}"#, "Expired"),
            (200, r#"{"reason":"Expired","message":"too old resource version: 1 (5)"}"#, "Expired"),
            (410, "gone", "Expired"),
            (
                504,
                r#"{"reason":"Timeout","code":504,"details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]}}"#,
                "Ahead { retry_after: Some(1s) }",
            ),
            (
                504,
                r#"{"reason":"Timeout","code":504,"details":{"causes":[{"message":"Too large resource version"}]}}"#,
                "Ahead { retry_after: Some(9s) }",
            ),
            (
                504,
                r#"{"reason":"Timeout","code":504,"message":"Timeout: Too large resource version: 9, current: 5"}"#,
                "Ahead { retry_after: Some(9s) }",
            ),
            (504, r#"{"reason":"Timeout","code":504,"message":"slow"}"#, r#"Internal("slow")"#),
            (429, r#"{"reason":"TooManyRequests","code":429}"#, "Throttled { retry_after: Some(9s) }"),
            (429, "", "Throttled { retry_after: Some(9s) }"),
            (
                429,
                r#"{"reason":"TooManyRequests","details":{"retryAfterSeconds":3}}"#,
                "Throttled { retry_after: Some(3s) }",
            ),
            (503, "starting", "Throttled { retry_after: Some(9s) }"),
            (502, "bad gateway", r#"Unreachable("bad gateway")"#),
            (500, r#"{"reason":"InternalError","code":500,"message":"etcd"}"#, r#"Internal("etcd")"#),
            (401, r#"{"reason":"Unauthorized","code":401}"#, r#"Fatal("Unauthorized (401)")"#),
            (403, r#"{"reason":"Forbidden","code":403,"message":"no"}"#, r#"Fatal("no")"#),
            (404, "404 page not found", r#"Fatal("404 page not found")"#),
        ] {
            let body_meant = meaning(code, body);
            assert_eq!(body_meant.trim_start_matches("SourceError::"), meant, "{code} {body}");
        }
    }

    #[test]
    fn unsupported_streaming_lists_are_distinguished_from_forbidden() {
        let refuses = |code, body: &str| Status::of_body(code, body.as_bytes()).refuses_streaming();
        assert!(refuses(
            422,
            r#"{"reason":"Invalid","message":"sendInitialEvents: Forbidden: unless the WatchList feature gate is enabled"}"#
        ));
        assert!(refuses(400, r#"{"message":"resourceVersionMatch is forbidden for watch"}"#));
        assert!(!refuses(403, r#"{"message":"user cannot watch pods"}"#));
        assert!(!refuses(429, ""));
    }
}
