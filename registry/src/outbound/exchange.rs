//! Reading the answer to one request: the whole body, within bounds of time and size. Failures are worded as
//! in Go.

use super::call_runtime::in_real_time;
use super::connect::ConnectFailure;
use super::{Answer, NoAnswer};
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};
use kstore_storage::limits;
use std::error::Error;
use std::time::Duration;

/// Waits up to `timeout` for the answer to a request that was sent: in real time, or for a server `in_cluster` in that of the caller,
/// which is also the server's.
pub(super) async fn answer(
    sent: impl Future<Output = Result<Response<Incoming>, hyper_util::client::legacy::Error>> + Send + 'static,
    timeout: Duration,
    in_cluster: bool,
) -> Result<Answer, NoAnswer> {
    let answer = async {
        let (parts, body) = sent.await.map_err(|error| cause(&error))?.into_parts();
        let too_large = || format!("the answer is larger than {} bytes", limits::OUTBOUND_ANSWER_BYTES);
        if body.size_hint().lower() > limits::OUTBOUND_ANSWER_BYTES as u64 {
            return Err(too_large());
        }
        let body = Limited::new(body, limits::OUTBOUND_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
            true => too_large(),
            false => error.to_string(),
        })?;
        let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        Ok(Answer { status: parts.status.as_u16(), content_type, body: body.to_bytes() })
    };
    let in_time = Box::pin(async move {
        // Made where it is awaited, so that its deadline is one of that runtime's clock.
        let in_time = tokio::time::timeout(timeout, answer).await;
        in_time.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    });
    let answered = if in_cluster { in_time.await } else { in_real_time(in_time).await };
    answered.map_err(NoAnswer)
}

/// The innermost cause of a failed request: the outer texts, hyper's own, name the layer and not the reason.
pub(super) fn cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut last: &dyn Error = error;
    while let Some(source) = last.source() {
        last = source;
        if last.is::<ConnectFailure>() {
            break;
        }
    }
    match last.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_incomplete_message() => "EOF".to_owned(),
        _ => last.to_string(),
    }
}
