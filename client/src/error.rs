//! [`ApiError`]: why a call failed, in the words that the REST door would use. The single place that reads gRPC statuses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use kstore_informer::SourceError;
use prost::Message;
use std::time::Duration;
use tonic::Code;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The server answered with a Status: nothing was written.
    #[error("{}", describe(.0))]
    Status(Box<Status>),
    /// No answer came. A write may have happened, or not.
    #[error("no answer: {0}")]
    Transport(String),
    /// The answer, or what was to be sent, is not the JSON that its type wants.
    #[error("unexpected JSON: {0}")]
    Json(String),
}

fn describe(status: &Status) -> String {
    match &status.message {
        Some(message) => message.clone(),
        None => format!("{} ({})", status.reason.as_deref().unwrap_or("Unknown"), status.code.unwrap_or(0)),
    }
}

impl ApiError {
    /// The HTTP code of the answer, or none if there was no answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => status.code.and_then(|code| code.try_into().ok()),
            Self::Transport(_) | Self::Json(_) => None,
        }
    }

    /// The reason of the answer, as `NotFound`; empty if there was none.
    pub fn reason(&self) -> &str {
        match self {
            Self::Status(status) => status.reason.as_deref().unwrap_or_default(),
            Self::Transport(_) | Self::Json(_) => "",
        }
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        self.reason() == "NotFound"
    }

    /// Someone else changed the object, or a precondition does not hold: read it again, decide again.
    pub fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    /// The object is there already.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    /// The revision asked for is no longer kept.
    pub fn is_gone(&self) -> bool {
        matches!(self.reason(), "Expired" | "Gone")
    }

    /// The object breaks a rule: the same request will never succeed.
    pub fn is_invalid(&self) -> bool {
        self.reason() == "Invalid"
    }

    /// The caller may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.reason() == "Forbidden"
    }

    /// The namespace is being deleted and takes nothing new.
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes().iter().any(|cause| cause.reason.as_deref() == Some("NamespaceTerminating"))
    }

    /// The fields or rules that the answer names.
    pub fn causes(&self) -> &[StatusCause] {
        match self {
            Self::Status(status) => {
                status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default()
            }
            Self::Transport(_) | Self::Json(_) => &[],
        }
    }

    /// How long the server asks to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Status(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds?;
        Some(Duration::from_secs(seconds.try_into().ok()?))
    }

    pub(crate) fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }

    pub(crate) fn timeout() -> Self {
        Self::Transport("the call took too long".into())
    }
}

/// `google.rpc.Status`, of which we read the details.
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
        let Some((code, reason)) = http_class(status.code()) else {
            return Self::Transport(format!("{:?}: {}", status.code(), status.message()));
        };
        Self::Status(Box::new(Status {
            code: Some(code),
            reason: Some(reason.to_owned()),
            message: Some(status.message().to_owned()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }))
    }
}

/// What a bare code of a server means, if a server must have said it.
fn http_class(code: Code) -> Option<(i32, &'static str)> {
    match code {
        Code::NotFound => Some((404, "NotFound")),
        Code::AlreadyExists => Some((409, "AlreadyExists")),
        Code::Aborted => Some((409, "Conflict")),
        Code::InvalidArgument => Some((400, "BadRequest")),
        Code::FailedPrecondition => Some((422, "Invalid")),
        Code::OutOfRange => Some((410, "Expired")),
        Code::PermissionDenied => Some((403, "Forbidden")),
        Code::Unauthenticated => Some((401, "Unauthorized")),
        Code::ResourceExhausted => Some((429, "TooManyRequests")),
        Code::Unimplemented => Some((405, "MethodNotAllowed")),
        Code::Internal | Code::DataLoss => Some((500, "InternalError")),
        Code::Ok | Code::Cancelled | Code::Unknown | Code::DeadlineExceeded | Code::Unavailable => None,
    }
}

/// How the informer should react.
impl From<ApiError> for SourceError {
    fn from(error: ApiError) -> Self {
        let retry_after = error.retry_after();
        match (error.code(), error.reason()) {
            (Some(410), _) => Self::Expired,
            (Some(429), _) => Self::Throttled { retry_after },
            (Some(504), _) => Self::Ahead { retry_after },
            (Some(503), _) => Self::Throttled { retry_after },
            (Some(500..), _) => Self::Internal(error.to_string()),
            (Some(_), _) => Self::Fatal(error.to_string()),
            (None, _) => Self::Unreachable(error.to_string()),
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
    fn the_kubernetes_status_in_the_details_is_what_the_caller_sees() {
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
    fn a_bare_code_is_enough_and_a_broken_connection_is_no_answer() {
        let error = ApiError::from(tonic::Status::aborted("changed"));
        assert!(error.is_conflict());
        let error = ApiError::from(tonic::Status::out_of_range("compacted"));
        assert!(error.is_gone() && matches!(error.into(), SourceError::Expired));
        let error = ApiError::from(tonic::Status::unavailable("refused"));
        assert!(matches!((&error, error.code()), (ApiError::Transport(_), None)));
        assert!(matches!(error.into(), SourceError::Unreachable(_)));
        let error = rpc(Code::NotFound, "not json");
        assert!(error.is_not_found());
    }
}
