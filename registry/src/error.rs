//! Conversion of internal errors to a Kubernetes Status, and of a Status to a gRPC status, all in one place.
//! There are no wildcard arms: each new error needs a decision on what its caller should do.

use crate::request::Target;
use kstore_api::patch::PatchError;
use kstore_api::resource::Resource;
use kstore_api::status::{Cause, Details, MODIFIED, Reason, Status};
use kstore_storage::storage::{CommitError, ReadError};
use prost::Message as _;
use tonic::Code;

/// The reason of the cause that names the refused operation of a transaction.
const OPERATION_REFUSED: &str = "OperationRefused";

/// The status of a failed read.
pub fn of_read(error: ReadError) -> Status {
    match error {
        ReadError::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        ReadError::Future { current } => revision_too_large(i64::MAX, current),
        ReadError::Unavailable(_) => unavailable(&error),
        ReadError::Failed(message) => Status::internal(message),
    }
}

/// The status of a failed commit.
pub fn of_commit(error: CommitError) -> Status {
    match error {
        CommitError::Overloaded => {
            Status::too_many_requests("the storage is overloaded, please try again later", 1)
        }
        CommitError::TooLarge(message) => Status::too_large(&message),
        CommitError::Unavailable(_) => unavailable(&error),
        CommitError::NoSpace(message) => Status::insufficient_storage(&message),
        CommitError::Failed(message) => Status::internal(message),
        // As a real cluster answers when etcd's reply is lost: the client must read before it retries.
        CommitError::Unknown(_) => Status::timeout(&error.to_string(), 0),
    }
}

/// 503: the operation was not carried out.
fn unavailable(error: &impl std::fmt::Display) -> Status {
    Status::service_unavailable(error.to_string()).retry_after(1)
}

/// 504: the request names a revision that this server does not have yet.
pub fn revision_too_large(wanted: i64, current: i64) -> Status {
    Status::too_large_resource_version(wanted.unsigned_abs(), current.unsigned_abs())
}

/// 409: another writer changed the object first.
pub fn modified(target: &Target) -> Status {
    Status::conflict(target.resource, &target.name, MODIFIED)
}

/// 409: the uid in the delete options differs from the object's.
pub fn uid_precondition(target: &Target, wanted: &str, uid: &str) -> Status {
    let message = format!(
        "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    conflict_on_kind(target, &message)
}

/// 409: the resourceVersion in the delete options differs from the object's.
pub fn version_precondition(target: &Target, wanted: i64, version: &str) -> Status {
    let message = format!(
        "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
    );
    conflict_on_kind(target, &message)
}

/// 409 that names the kind instead of the resource, as upstream's `BeforeDelete` does.
fn conflict_on_kind(target: &Target, message: &str) -> Status {
    Status::conflict((target.resource.group, target.resource.kind), &target.name, message)
}

/// 413: the object is larger than the store's limit.
pub fn object_too_large(target: &Target, bytes: usize) -> Status {
    let what = format!("{} {:?}", target.resource.qualified(), target.name);
    Status::too_large(&format!(
        "{what} is too large: {bytes} bytes, limit is {}",
        kstore_storage::limits::OBJECT_BYTES
    ))
}

/// Adds to the refusal of an operation in a transaction a last cause, whose field is the operation's index.
pub fn of_operation(index: usize, mut status: Status) -> Status {
    status.details.get_or_insert_default().causes.push(Cause {
        reason: OPERATION_REFUSED.to_owned(),
        message: "nothing of the transaction was written".to_owned(),
        field: format!("operations[{index}]"),
    });
    status
}

/// 405: the path exists, but does not support the method.
pub fn no_such_method() -> Status {
    let mut status = Status::bad_request("the server does not allow this method on the requested resource");
    (status.code, status.reason) = (405, Reason::MethodNotAllowed);
    status.details = Some(Box::default());
    status
}

/// 504: the timeout has passed. Whether a write happened is not known.
pub fn timed_out() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

/// 500: a panic in this program; the log describes it.
pub fn panicked() -> Status {
    let text = "This request caused apiserver to panic. Look in the logs for details.";
    Status::internal(text).with_message(text)
}

/// 409: the uid in the body differs from the object's.
pub fn foreign_uid(target: &Target, wanted: &str, uid: &str) -> Status {
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}",
        target.key()
    );
    Status::conflict(target.resource, &target.name, &message)
}

/// 409: the revision in the body differs from the object's.
pub fn foreign_version(target: &Target, wanted: &str, version: &str) -> Status {
    let message = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}",
        target.key()
    );
    Status::conflict(target.resource, &target.name, &message)
}

/// 422: an update of this kind must state a resourceVersion.
pub fn version_required(target: &Target) -> Status {
    let (resource, problem) = (target.resource, "Invalid value: 0: must be specified for an update");
    let (plural, qualified) = (resource.plural, resource.qualified());
    one_field(resource.group, plural, &qualified, &target.name, "metadata.resourceVersion", problem.into())
}

/// 422 about one field. `problem` is the body of a field error: its class, and for most classes a value and a
/// detail.
pub fn invalid_field(target: &Target, field: &str, problem: impl Into<String>) -> Status {
    one_field(
        target.resource.group,
        target.resource.kind,
        &target.resource.qualified_kind(),
        &target.name,
        field,
        problem.into(),
    )
}

/// 422 about one request option of a list or a watch.
pub fn invalid_option(field: &str, problem: &str) -> Status {
    invalid_option_of("ListOptions", field, problem)
}

/// 422 about one request option; `kind` names the options: `CreateOptions`, `DeleteOptions`, ….
pub fn invalid_option_of(kind: &str, field: &str, problem: &str) -> Status {
    one_field("meta.k8s.io", kind, &format!("{kind}.meta.k8s.io"), "", field, problem.to_owned())
}

fn one_field(group: &str, kind: &str, qualified: &str, name: &str, field: &str, problem: String) -> Status {
    let reason = match problem.split(':').next() {
        Some("Forbidden") => "FieldValueForbidden",
        Some("Unsupported value") => "FieldValueNotSupported",
        Some("Too long") => "FieldValueTooLong",
        Some("Required value") => "FieldValueRequired",
        _ => "FieldValueInvalid",
    };
    let mut status = Status::bad_request(format!("{qualified} \"{name}\" is invalid: {field}: {problem}"));
    status.code = 422;
    status.reason = Reason::Invalid;
    status.details = Some(Box::new(Details {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        causes: vec![Cause { reason: reason.to_owned(), message: problem, field: field.to_owned() }],
        ..Details::default()
    }));
    status
}

/// 410: this version of a custom kind is no longer served.
pub fn not_served_any_more(resource: &Resource) -> Status {
    let text = format!("{} is not served any more", resource.api_version());
    Status::expired(&text)
}

/// 409: the definition of a custom kind changed while a write was checked against it. The server retries the
/// request. A client sees this error only if the definition changes faster than a request is served, or if
/// the kind is deleted.
pub fn definition_changed(target: &Target) -> Status {
    Status::conflict(target.resource, &target.name, DEFINITION_CHANGED)
}

/// Whether a request failed for [`definition_changed`].
pub fn is_definition_changed(status: &Status) -> bool {
    status.code == 409 && status.message.ends_with(DEFINITION_CHANGED)
}

const DEFINITION_CHANGED: &str = "the definition of this kind has been modified; please try again";

/// 501: the API has the subresource, but this server does not serve it.
pub fn not_served(target: &Target, subresource: &str) -> Status {
    let what = format!("{}/{subresource}", target.resource.qualified());
    let mut status = Status::bad_request(format!("{what} is not served by kstore yet"));
    status.code = 501;
    status.reason = Reason::Unknown;
    status
}

/// 422: a binding lacks its target.
pub fn invalid_binding(pod: &str, field: &str, problem: &str) -> Status {
    one_field("", "Binding", "Binding", pod, field, problem.to_owned())
}

/// 500: a pod with several disruption budgets cannot be evicted.
pub fn several_budgets() -> Status {
    let text =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let mut status = Status::bad_request(text);
    (status.code, status.reason) = (500, Reason::Unknown);
    status
}

/// 429: the disruption controller has not yet processed the latest change of the budget.
pub fn budget_not_observed(name: &str) -> Status {
    let detail = format!("The disruption budget {name} is still being processed by the server.");
    Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
        .cause("DisruptionBudget", detail)
}

/// 429: the pod's disruption budget is used up.
pub fn budget_exhausted(budget: &serde_json::Value) -> Status {
    let status = &budget["status"];
    let (needed, healthy) =
        (status["desiredHealthy"].as_i64().unwrap_or(0), status["currentHealthy"].as_i64().unwrap_or(0));
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let detail =
        format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
    Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
        .cause("DisruptionBudget", detail)
}

/// The status of a patch that cannot be applied.
pub fn of_patch(refused: &PatchError) -> Status {
    match refused {
        PatchError::BadRequest(message) => Status::bad_request(message.as_str()),
        PatchError::TooLarge(message) => Status::too_large(message),
        PatchError::Unprocessable(_) => unprocessable(),
        PatchError::Unclassified(message) => Status::unclassified(message),
    }
}

/// 422 without a field and without a reason. Kubernetes does not disclose the reason here; callers add it as
/// a warning.
fn unprocessable() -> Status {
    let mut status = Status::bad_request("the server rejected our request due to an error in our request");
    (status.code, status.reason) = (422, Reason::Invalid);
    status.details = Some(Box::default());
    status
}

/// Converts a Status to gRPC: its class becomes the code, and the details contain the Status as JSON.
pub fn to_grpc(status: &Status) -> tonic::Status {
    let json = serde_json::to_vec(status).expect("a status is plain data");
    let details = RpcStatus {
        code: grpc_code(status) as i32,
        message: status.message.clone(),
        details: vec![Any {
            type_url: "type.googleapis.com/k8s.io.apimachinery.pkg.apis.meta.v1.Status".into(),
            value: json,
        }],
    };
    tonic::Status::with_details(grpc_code(status), status.message.clone(), details.encode_to_vec().into())
}

/// Extracts the Status from a gRPC status. A status that [`to_grpc`] did not make becomes a Status with its
/// text, by default of an internal error.
pub fn of_grpc(status: &tonic::Status) -> Status {
    let details = RpcStatus::decode(status.details()).ok();
    let detail = details.as_ref().and_then(|details| details.details.first());
    let refusal = detail.and_then(|detail| serde_json::from_slice(&detail.value).ok());
    refusal.unwrap_or_else(|| match status.code() {
        Code::InvalidArgument => Status::bad_request(status.message()),
        _ => Status::internal(status.message()),
    })
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
        413 | 429 | 507 => Code::ResourceExhausted,
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

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_storage::storage::{Commit, Storage as _, Write};
    use kstore_store::{Alarm, Config, Store};

    #[tokio::test(start_paused = true)]
    async fn a_write_without_space_is_507_and_names_the_remedy() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let storage = Embedded::explaining(store.clone(), |reason| format!("{reason} with a command"));
        let commit = |ttl_seconds| {
            let writes = vec![Write::Put { key: "/registry/a".into(), value: "{}".into(), ttl_seconds }];
            storage.commit(Commit { guards: Vec::new(), writes, note: Vec::new().into() })
        };
        assert!(commit(0).await.is_ok());
        store.alarm_raise(Alarm::NoSpace).await.unwrap();
        for ttl_seconds in [0, 60] {
            let status = of_commit(commit(ttl_seconds).await.unwrap_err());
            assert_eq!((status.code, status.reason), (507, Reason::InsufficientStorage));
            assert!(
                status.message.starts_with("Insufficient storage: the space alarm is raised"),
                "{status:?}"
            );
            assert!(status.message.ends_with("then disarm it with a command"), "{status:?}");
            assert_eq!(status.retry_after_seconds(), None);
        }
        let delete = vec![Write::Delete { key: "/registry/a".into() }];
        let delete = Commit { guards: Vec::new(), writes: delete, note: Vec::new().into() };
        assert!(storage.commit(delete).await.is_ok(), "deletions still work");
    }
}
