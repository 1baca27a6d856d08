//! [`ApiError`]: the reason why a call failed, in the words of the REST API. Only this file reads gRPC
//! statuses.

use kstore_api::status::{Cause, Outcome, Reason, Status};
use kstore_informer::SourceError;
use prost::Message;
use std::time::Duration;
use tonic::Code;

/// The reason why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The server returned a Status: it wrote nothing.
    #[error("{}", describe(.0))]
    Status(Box<Status>),
    /// No response arrived. A write may or may not have happened.
    #[error("no response from the server: {0}")]
    Transport(String),
    /// The response or the request is not valid JSON of its type.
    #[error("unexpected JSON: {0}")]
    Json(String),
}

fn describe(status: &Status) -> String {
    match status.message.as_str() {
        "" => format!("{} ({})", status.reason.as_str(), status.code),
        message => message.to_owned(),
    }
}

impl ApiError {
    /// The server's Status, if it returned one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            Self::Transport(_) | Self::Json(_) => None,
        }
    }

    /// The HTTP status code; `None` without a response.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// The reason of the Status, such as `NotFound`; empty without a response.
    pub fn reason(&self) -> &'static str {
        self.status().map_or("", |status| status.reason.as_str())
    }

    fn is(&self, reason: Reason) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.is(Reason::NotFound)
    }

    /// Whether another writer changed the object or a precondition failed. The caller must read the object
    /// again.
    pub fn is_conflict(&self) -> bool {
        self.is(Reason::Conflict)
    }

    /// Whether the object already exists.
    pub fn is_already_exists(&self) -> bool {
        self.is(Reason::AlreadyExists)
    }

    /// Whether the requested revision is compacted.
    pub fn is_gone(&self) -> bool {
        self.is(Reason::Expired) || self.is(Reason::Gone)
    }

    /// Whether the object is invalid: the same request never succeeds.
    pub fn is_invalid(&self) -> bool {
        self.is(Reason::Invalid)
    }

    /// Whether the caller lacks permission.
    pub fn is_forbidden(&self) -> bool {
        self.is(Reason::Forbidden)
    }

    /// Whether the namespace is being deleted and accepts no new objects.
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes().iter().any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Whether the client's term of leadership has ended ([`crate::Client::fence`]). This is a conflict that
    /// a new read does not resolve.
    pub fn is_fenced(&self) -> bool {
        self.causes().iter().any(|cause| cause.reason == "LeaseNotHeld")
    }

    /// The causes of the Status: fields or rules.
    pub fn causes(&self) -> &[Cause] {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.map_or(&[], |details| &details.causes)
    }

    /// The delay that the server asks for before a retry.
    pub fn retry_after(&self) -> Option<Duration> {
        let details = self.status()?.details.as_ref()?;
        (details.retry_after_seconds > 0).then(|| Duration::from_secs(details.retry_after_seconds.into()))
    }

    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }

    pub(crate) fn timeout() -> Self {
        Self::Transport("the call took too long".into())
    }
}

/// `google.rpc.Status`; only its details are read.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<RpcDetail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct RpcDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<tonic::Status> for ApiError {
    fn from(status: tonic::Status) -> Self {
        if let Ok(rpc) = RpcStatus::decode(status.details())
            && let Some(detail) = rpc.details.first()
            && let Ok(status) = serde_json::from_slice::<Status>(&detail.value)
        {
            return Self::Status(Box::new(status));
        }
        let Some((code, reason)) = bare(status.code()) else {
            return Self::Transport(format!("{:?}: {}", status.code(), status.message()));
        };
        let mut answer = Status::success(code).with_message(status.message());
        (answer.status, answer.reason) = (Outcome::Failure, reason);
        Self::Status(Box::new(answer))
    }
}

/// The Status that a gRPC error carries; an internal error with its text if it carries none.
pub(crate) fn status_of(error: &tonic::Status) -> Status {
    match ApiError::from(error.clone()) {
        ApiError::Status(status) => *status,
        other => Status::internal(other),
    }
}

/// The gRPC error that carries a Status, as a server of kstore sends it.
pub(crate) fn to_grpc(status: &Status) -> tonic::Status {
    let code = match status.code {
        400 | 406 | 415 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        405 | 501 => Code::Unimplemented,
        409 if status.reason == Reason::AlreadyExists => Code::AlreadyExists,
        409 => Code::Aborted,
        410 => Code::OutOfRange,
        413 | 429 | 507 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    let detail = RpcDetail { type_url: String::new(), value: status.to_json() };
    let rpc = RpcStatus { code: code as i32, message: status.message.clone(), details: vec![detail] };
    tonic::Status::with_details(code, status.message.clone(), rpc.encode_to_vec().into())
}

/// The code and reason of a gRPC code without details, if only a server can have sent it. Libraries use the
/// other codes too, when the state of the server is unknown.
fn bare(code: Code) -> Option<(u16, Reason)> {
    match code {
        Code::NotFound => Some((404, Reason::NotFound)),
        Code::AlreadyExists => Some((409, Reason::AlreadyExists)),
        Code::Aborted => Some((409, Reason::Conflict)),
        Code::InvalidArgument => Some((400, Reason::BadRequest)),
        Code::FailedPrecondition => Some((422, Reason::Invalid)),
        Code::PermissionDenied => Some((403, Reason::Forbidden)),
        Code::Unauthenticated => Some((401, Reason::Unauthorized)),
        Code::Unimplemented => Some((405, Reason::MethodNotAllowed)),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => None,
    }
}

/// The reaction of the informer.
impl From<ApiError> for SourceError {
    fn from(error: ApiError) -> Self {
        let retry_after = error.retry_after();
        match error.code() {
            Some(410) => Self::Expired,
            Some(504) => Self::Ahead { retry_after },
            Some(429 | 503) => Self::Throttled { retry_after },
            Some(500..) => Self::Internal(error.to_string()),
            Some(_) => Self::Fatal(error.to_string()),
            None => Self::Unreachable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rpc(code: Code, details: &str) -> ApiError {
        let detail = RpcDetail { type_url: String::new(), value: details.as_bytes().to_vec() };
        let rpc = RpcStatus { code: code as i32, message: String::new(), details: vec![detail] };
        tonic::Status::with_details(code, "text", rpc.encode_to_vec().into()).into()
    }

    #[test]
    fn the_kubernetes_status_is_read_from_the_details() {
        let error = rpc(
            Code::PermissionDenied,
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden",
                "message":"namespace is going","details":{"retryAfterSeconds":3,"causes":[{"reason":"NamespaceTerminating"}]}}"#,
        );
        assert!(error.is_forbidden() && error.is_namespace_terminating() && !error.is_conflict());
        assert_eq!((error.code(), error.retry_after()), (Some(403), Some(Duration::from_secs(3))));
        assert_eq!(error.to_string(), "namespace is going");
    }

    #[test]
    fn grpc_codes_without_details_and_transport_errors_are_mapped() {
        let error = ApiError::from(tonic::Status::aborted("changed"));
        assert!(error.is_conflict());
        let error = rpc(Code::OutOfRange, r#"{"kind":"Status","code":410,"reason":"Expired"}"#);
        assert!(error.is_gone() && matches!(error.into(), SourceError::Expired));
        let error = ApiError::from(tonic::Status::unavailable("refused"));
        assert!(matches!((&error, error.code()), (ApiError::Transport(_), None)));
        assert!(matches!(error.into(), SourceError::Unreachable(_)));
        let error = rpc(Code::NotFound, "not json");
        assert!(error.is_not_found());
    }
}
