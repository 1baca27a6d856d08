//! `metav1.Status`: responses without an object. Each kind of response has a constructor with the message,
//! reason, details and code that clients match. Callers decide which response applies.

use crate::field::ErrorList;
use crate::resource::Resource;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Machine-readable reason of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reason {
    /// No reason, or one that this program does not know.
    #[default]
    Unknown,
    /// 401: the request is not authenticated.
    Unauthorized,
    /// 403: the request is not allowed.
    Forbidden,
    /// 404: the object or path does not exist.
    NotFound,
    /// 409 on create: the name exists.
    AlreadyExists,
    /// 409 on write: the client should read again and retry.
    Conflict,
    /// 410: the resource no longer exists.
    Gone,
    /// 422: the object is invalid.
    Invalid,
    /// 500: the client should try again later.
    ServerTimeout,
    /// 504: the request timed out, and its effect is unknown.
    Timeout,
    /// 429: the client sends too many requests.
    TooManyRequests,
    /// 400: the request is malformed.
    BadRequest,
    /// 405: the resource does not support the method.
    MethodNotAllowed,
    /// 406: no accepted media type is supported.
    NotAcceptable,
    /// 413: the request is too large.
    RequestEntityTooLarge,
    /// 415: the media type of the body is not supported.
    UnsupportedMediaType,
    /// 500: internal error.
    InternalError,
    /// 500: stored objects cannot be read.
    StorageReadError,
    /// 410: the client should list again.
    Expired,
    /// 503: the server is not available.
    ServiceUnavailable,
    /// 507: storage is full; reads and deletions still work. Kubernetes has no such reason and answers 500.
    InsufficientStorage,
    /// A command in a container ended with a nonzero exit code.
    NonZeroExitCode,
}

const REASONS: &[(Reason, &str)] = &[
    (Reason::Unknown, ""),
    (Reason::Unauthorized, "Unauthorized"),
    (Reason::Forbidden, "Forbidden"),
    (Reason::NotFound, "NotFound"),
    (Reason::AlreadyExists, "AlreadyExists"),
    (Reason::Conflict, "Conflict"),
    (Reason::Gone, "Gone"),
    (Reason::Invalid, "Invalid"),
    (Reason::ServerTimeout, "ServerTimeout"),
    (Reason::Timeout, "Timeout"),
    (Reason::TooManyRequests, "TooManyRequests"),
    (Reason::BadRequest, "BadRequest"),
    (Reason::MethodNotAllowed, "MethodNotAllowed"),
    (Reason::NotAcceptable, "NotAcceptable"),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge"),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType"),
    (Reason::InternalError, "InternalError"),
    (Reason::StorageReadError, "StorageReadError"),
    (Reason::Expired, "Expired"),
    (Reason::ServiceUnavailable, "ServiceUnavailable"),
    (Reason::InsufficientStorage, "InsufficientStorage"),
    (Reason::NonZeroExitCode, "NonZeroExitCode"),
];

impl Reason {
    /// The text of the reason; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        REASONS.iter().find(|(reason, _)| *reason == self).map_or("", |(_, text)| text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        REASONS.iter().find(|(_, known)| *known == text).map_or(Reason::Unknown, |(reason, _)| *reason)
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.as_str().to_owned()
    }
}

/// Whether a request succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The request succeeded.
    Success,
    /// The request failed.
    Failure,
}

/// One cause of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Type of the cause, such as `FieldValueInvalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message of the cause.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Field of the cause; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// Object and causes of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// **Resource** (plural) in most responses, the Kind in Invalid ones.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object, in responses to DELETE.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Causes of the failure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which the client should try again.
    #[serde(default, rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Status response. It serializes as `{"kind":"Status","apiVersion":"v1","metadata":{},…}`, and is also the
/// error type of API calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub struct Status {
    #[serde(rename = "apiVersion", default = "v1")]
    api_version: String,
    #[serde(default)]
    metadata: ListMeta,
    /// Success or failure.
    #[serde(default = "failure")]
    pub status: Outcome,
    /// Message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub reason: Reason,
    /// A reason that is not in [`Reason`], serialized in its place: webhooks may refuse with their own
    /// reasons.
    #[serde(rename = "reason", skip_deserializing, skip_serializing_if = "Option::is_none")]
    foreign_reason: Option<Box<str>>,
    /// Object and causes, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// HTTP status code; 0 if unset.
    #[serde(default, skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ListMeta {
    #[serde(rename = "resourceVersion", default, skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(rename = "continue", default, skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

fn v1() -> String {
    "v1".to_owned()
}
fn failure() -> Outcome {
    Outcome::Failure
}
fn is_unknown(reason: &Reason) -> bool {
    *reason == Reason::Unknown
}
fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

/// Group and plural of the resource in a status.
#[derive(Clone, Copy, Debug)]
pub struct ResourceRef<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural of the resource.
    pub resource: &'a str,
}

impl<'a> From<&'a Resource> for ResourceRef<'a> {
    fn from(row: &'a Resource) -> Self {
        ResourceRef { group: row.group, resource: row.plural }
    }
}

impl<'a> From<(&'a str, &'a str)> for ResourceRef<'a> {
    fn from((group, resource): (&'a str, &'a str)) -> Self {
        ResourceRef { group, resource }
    }
}

impl fmt::Display for ResourceRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl ResourceRef<'_> {
    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

/// Request that authorization refused.
#[derive(Clone, Copy, Debug)]
pub struct DeniedRequest<'a> {
    /// User of the request.
    pub user: &'a str,
    /// Verb.
    pub verb: &'a str,
    /// Subresource; may be empty.
    pub subresource: &'a str,
    /// Namespace; empty at cluster scope.
    pub namespace: &'a str,
    /// Name; may be empty.
    pub name: &'a str,
    /// The authorizer's reason; may be empty.
    pub why: &'a str,
}

/// Message of a write that lost to a concurrent one.
pub const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Status {
    fn failure(code: u16, reason: Reason, message: impl Into<String>) -> Self {
        Status {
            api_version: v1(),
            metadata: ListMeta::default(),
            status: Outcome::Failure,
            message: message.into(),
            reason,
            foreign_reason: None,
            details: None,
            code,
        }
    }

    /// A failure with the code, reason and message of another program. The reason need not be in [`Reason`].
    pub fn foreign(code: u16, reason: String, message: impl Into<String>) -> Self {
        let known = Reason::from(reason.clone());
        let foreign = (known == Reason::Unknown && !reason.is_empty()).then(|| reason.into());
        Status { foreign_reason: foreign, ..Self::failure(code, known, message) }
    }

    fn about(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds the seconds after which the client should try again.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// Adds a cause.
    pub fn cause(mut self, reason: &str, message: impl Into<String>) -> Self {
        let cause = Cause { reason: reason.to_owned(), message: message.into(), field: String::new() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Adds a continue token, with which the client can continue the failed list.
    pub fn continued_by(mut self, token: String) -> Self {
        self.metadata.continue_token = token;
        self
    }

    /// Adds the revision of the write that succeeded, from which a client can tell when its cache shows it; a revision of 0 is unknown.
    pub fn at_revision(mut self, revision: i64) -> Self {
        self.metadata.resource_version = if revision > 0 { revision.to_string() } else { String::new() };
        self
    }

    /// Replaces the message.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The status as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a Status has string keys only")
    }

    /// Seconds after which the client should try again, if set.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|d| d.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// 200: the object was deleted. Clients use the uid to wait for its removal.
    pub fn deleted<'a>(about: impl Into<ResourceRef<'a>>, name: &str, uid: &str) -> Self {
        let mut details = about.into().details(name);
        uid.clone_into(&mut details.uid);
        Status { status: Outcome::Success, code: 0, ..Self::failure(0, Reason::Unknown, "") }.about(details)
    }

    /// Success without an object, for example 201 after a binding or an eviction.
    pub fn success(code: u16) -> Self {
        Status { status: Outcome::Success, ..Self::failure(code, Reason::Unknown, "") }
    }

    /// 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// 401 Unauthorized: the request has no valid credentials.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403 from admission or the registry: `pods "x" is forbidden: text`.
    pub fn forbidden<'a>(about: impl Into<ResourceRef<'a>>, name: &str, text: &str) -> Self {
        let about = about.into();
        let subject = match (about.resource, name) {
            ("", _) => String::new(),
            (_, "") => format!("{about} is "),
            _ => format!("{about} \"{name}\" is "),
        };
        Self::failure(403, Reason::Forbidden, format!("{subject}forbidden: {text}"))
            .about(about.details(name))
    }

    /// 403 from authorization of a resource request.
    pub fn forbidden_access<'a>(about: impl Into<ResourceRef<'a>>, denied: &DeniedRequest<'_>) -> Self {
        let about = about.into();
        let slash = if denied.subresource.is_empty() { "" } else { "/" };
        let scope = if denied.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", sanitize(denied.namespace))
        };
        let text = format!(
            "User \"{}\" cannot {} resource \"{}{slash}{}\" in API group \"{}\" {scope}{}",
            sanitize(denied.user),
            sanitize(denied.verb),
            about.resource,
            sanitize(denied.subresource),
            about.group,
            because(denied.why),
        );
        Self::forbidden(about, denied.name, &text)
    }

    /// 403 from authorization of a path.
    pub fn forbidden_path(user: &str, verb: &str, path: &str, why: &str) -> Self {
        let text =
            format!("User \"{}\" cannot {verb} path \"{}\"{}", sanitize(user), sanitize(path), because(why));
        Self::forbidden(("", ""), "", &text)
    }

    /// 500: objects of a resource, whose storage keys begin with `prefix`, cannot be read.
    pub fn storage_read_error<'a>(
        about: impl Into<ResourceRef<'a>>,
        prefix: &str,
        message: impl Into<String>,
    ) -> Self {
        Self::failure(500, Reason::StorageReadError, message).about(about.into().details(prefix))
    }

    /// 404 for an object.
    pub fn not_found<'a>(about: impl Into<ResourceRef<'a>>, name: &str) -> Self {
        let about = about.into();
        Self::failure(404, Reason::NotFound, format!("{about} \"{name}\" not found"))
            .about(about.details(name))
    }

    /// 404 for an unknown path.
    pub fn no_such_route() -> Self {
        Self::failure(404, Reason::NotFound, "the server could not find the requested resource")
            .about(Details::default())
    }

    /// 405 Method Not Allowed: the resource has no such verb.
    pub fn method_not_allowed<'a>(about: impl Into<ResourceRef<'a>>, verb: &str) -> Self {
        let about = about.into();
        let message = format!("{verb} is not supported on resources of kind \"{about}\"");
        Self::failure(405, Reason::MethodNotAllowed, message).about(about.details(""))
    }

    /// 406 Not Acceptable: the client accepts no form of the answer.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!("only the following media types are accepted: {list}");
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// 409: an object has this name.
    pub fn already_exists<'a>(about: impl Into<ResourceRef<'a>>, name: &str) -> Self {
        let about = about.into();
        Self::failure(409, Reason::AlreadyExists, format!("{about} \"{name}\" already exists"))
            .about(about.details(name))
    }

    /// 409: an object that is being deleted has this name.
    pub fn being_deleted<'a>(about: impl Into<ResourceRef<'a>>, name: &str) -> Self {
        let mut status = Self::already_exists(about, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// 409: no unused name was found for `generateName`.
    pub fn generated_name_taken<'a>(about: impl Into<ResourceRef<'a>>, name: &str) -> Self {
        let mut status = Self::already_exists(about, name).retry_after(1);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status
    }

    /// 409: the write was not applied; the client should read again and retry. [`MODIFIED`] is the usual
    /// text.
    pub fn conflict<'a>(about: impl Into<ResourceRef<'a>>, name: &str, text: &str) -> Self {
        let about = about.into();
        let message = format!("Operation cannot be fulfilled on {about} \"{name}\": {text}");
        Self::failure(409, Reason::Conflict, message).about(about.details(name))
    }

    /// 410 on list or watch: the client must list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    /// 410: the resource no longer exists.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Gone, message)
    }

    /// 413 Content Too Large: the body or a part of it exceeds a limit.
    pub fn too_large(text: &str) -> Self {
        let message = format!("Request entity too large: {text}");
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// 415 Unsupported Media Type: the body is in a format that the server does not read.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// 500 without a reason: Kubernetes' response to errors without a class.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::failure(500, Reason::Unknown, message)
    }

    /// 422 for an object: details have the Kind and one cause per error.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &ErrorList) -> Self {
        let qualified = ResourceRef { group, resource: kind };
        let mut message = format!("{qualified} \"{name}\" is invalid");
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&errors.aggregate());
        }
        let causes = errors.iter().map(|error| Cause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.field.clone(),
        });
        let details = Details { causes: causes.collect(), ..qualified.details(name) };
        Self::failure(422, Reason::Invalid, message).about(details)
    }

    /// 429 Too Many Requests: the client may try again later.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::failure(429, Reason::TooManyRequests, message).retry_after(retry_after)
    }

    /// 500 Internal Server Error: the server failed.
    pub fn internal(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self::failure(500, Reason::InternalError, format!("Internal error occurred: {text}")).cause("", text)
    }

    /// 500 that asks the client to try again.
    pub fn server_timeout<'a>(about: impl Into<ResourceRef<'a>>, verb: &str, retry_after: u32) -> Self {
        let about = about.into();
        let message = format!(
            "The {verb} operation against {about} could not be completed at this time, please try again."
        );
        Self::failure(500, Reason::ServerTimeout, message).about(about.details("")).retry_after(retry_after)
    }

    /// 503 Service Unavailable: the client may try again later.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 507: storage is full until an operator frees space. It has no retry time: client-go would retry ten
    /// times before it shows the message, which says what to do.
    pub fn insufficient_storage(text: &str) -> Self {
        Self::failure(507, Reason::InsufficientStorage, format!("Insufficient storage: {text}"))
    }

    /// 504 Gateway Timeout: the server or a server behind it did not answer in time.
    pub fn timeout(text: &str, retry_after: u32) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {text}")).retry_after(retry_after)
    }

    /// 504: the requested revision does not exist yet.
    pub fn too_large_resource_version(requested: u64, current: u64) -> Self {
        Self::timeout(&format!("Too large resource version: {requested}, current: {current}"), 1)
            .cause("ResourceVersionTooLarge", "Too large resource version")
    }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {}", sanitize(why)) }
}

/// Escapes user names and paths, which are untrusted and can reach browsers.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
