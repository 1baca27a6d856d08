//! The single place where inner errors become a Kubernetes Status, and a Status a gRPC status. No wildcard arms: a new error
//! must say here what the caller should do.

use crate::cache::WatchEnd;
use crate::request::Target;
use crate::storage::{CommitError, ReadError};
use kstore_api::status::{Reason, Status};
use prost::Message as _;
use tonic::Code;

/// A refused read.
pub fn of_read(error: ReadError) -> Status {
    match error {
        ReadError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        ReadError::Future { current } => revision_too_large(i64::MAX, current),
        ReadError::Failed(message) => Status::internal_error(message),
    }
}

/// A refused commit.
pub fn of_commit(error: CommitError) -> Status {
    match error {
        CommitError::Overloaded => Status::too_many_requests("the storage is overloaded, please try again later", 1),
        CommitError::TooLarge(message) => Status::request_too_large(message),
        CommitError::Failed(message) | CommitError::Unknown(message) => Status::internal_error(message),
    }
}

/// A watch that ended, or could not begin.
pub fn of_watch_end(end: &WatchEnd) -> Status {
    match end {
        WatchEnd::Expired { .. } => Status::expired(end.to_string()),
        WatchEnd::Overrun => Status::too_many_requests(end.to_string(), 1),
        WatchEnd::Closed => Status::service_unavailable(end.to_string()),
        WatchEnd::Failed(message) => Status::internal_error(message.clone()),
    }
}

/// 504: the caller knows a revision that this server does not have yet.
pub fn revision_too_large(wanted: i64, current: i64) -> Status {
    Status::revision_too_large(wanted, current)
}

/// 409: somebody else was faster.
pub fn modified(target: &Target) -> Status {
    let message = "the object has been modified; please apply your changes to the latest version and try again";
    Status::conflict(target.resource, &target.name, message)
}

/// 409: the uid in the delete options is another object's.
pub fn uid_precondition(target: &Target, wanted: &str, uid: &str) -> Status {
    let message = format!(
        "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    Status::conflict(target.resource, &target.name, message)
}

/// 409: the resourceVersion in the delete options is an old one.
pub fn version_precondition(target: &Target, wanted: i64, version: &str) -> Status {
    let message = format!(
        "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    Status::conflict(target.resource, &target.name, message)
}

/// 413: the object would not fit into the store.
pub fn object_too_large(target: &Target, bytes: usize) -> Status {
    let what = format!("{} {:?}", target.resource.qualified(), target.name);
    Status::request_too_large(format!("{what} is too large: {bytes} bytes, limit is {}", crate::limits::OBJECT_BYTES))
}

/// The gRPC form of a Status: its class as the code, the Status itself as JSON in the details.
pub fn to_grpc(status: &Status) -> tonic::Status {
    let json = serde_json::to_vec(status).expect("a status is plain data");
    let details = RpcStatus {
        code: grpc_code(status) as i32,
        message: status.message.clone(),
        details: vec![Any { type_url: "type.googleapis.com/k8s.io.apimachinery.pkg.apis.meta.v1.Status".into(), value: json }],
    };
    tonic::Status::with_details(grpc_code(status), status.message.clone(), details.encode_to_vec().into())
}

fn grpc_code(status: &Status) -> Code {
    match status.code {
        400 | 406 | 415 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        405 | 501 => Code::Unimplemented,
        409 if status.reason == Reason::AlreadyExists => Code::AlreadyExists,
        409 => Code::Aborted,
        410 => Code::OutOfRange,
        413 | 429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        504 => Code::DeadlineExceeded,
        _ => Code::Internal,
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}
