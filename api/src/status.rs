//! `metav1.Status`: what the API answers when it does not answer with an object. One constructor per kind of answer, with the
//! message, reason, details and code that clients match. It does not decide which answer is right.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::ErrorList;
use crate::kind::Resource;

/// Why a request failed, in one word that clients switch on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reason {
    /// None given, or one this program does not know.
    #[default]
    Unknown,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 409 on create.
    AlreadyExists,
    /// 409 on write: read again and retry.
    Conflict,
    /// 410: gone for good.
    Gone,
    /// 422.
    Invalid,
    /// 500: try again later.
    ServerTimeout,
    /// 504: whether it happened is unknown.
    Timeout,
    /// 429.
    TooManyRequests,
    /// 400.
    BadRequest,
    /// 405.
    MethodNotAllowed,
    /// 406.
    NotAcceptable,
    /// 413.
    RequestEntityTooLarge,
    /// 415.
    UnsupportedMediaType,
    /// 500.
    InternalError,
    /// 410: list again.
    Expired,
    /// 503.
    ServiceUnavailable,
    /// 507: there is no space to store anything; reads and deletions go on. Not a reason of Kubernetes, whose answer is a 500.
    InsufficientStorage,
    /// At the end of a command in a container: it ran, and ended with another code than zero.
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
    (Reason::Expired, "Expired"),
    (Reason::ServiceUnavailable, "ServiceUnavailable"),
    (Reason::InsufficientStorage, "InsufficientStorage"),
    (Reason::NonZeroExitCode, "NonZeroExitCode"),
];

impl Reason {
    /// The word itself; empty for [`Reason::Unknown`].
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

/// Whether the request did what it asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did.
    Success,
    /// It did not.
    Failure,
}

/// One detail of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Class of the cause, such as `FieldValueInvalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The cause in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field, for causes that have one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What the failure is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The **resource** (plural) in most answers, the Kind in Invalid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object, in answers to DELETE.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single causes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(default, rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The answer. Serializes as `{"kind":"Status","apiVersion":"v1","metadata":{},…}`; also the error type of API calls.
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
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub reason: Reason,
    /// A reason that is none of [`Reason`], printed in its place: webhooks refuse with words of their own.
    #[serde(rename = "reason", skip_deserializing, skip_serializing_if = "Option::is_none")]
    foreign_reason: Option<Box<str>>,
    /// About what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code; 0 where unset.
    #[serde(default, skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ListMeta {
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

/// The group and plural an answer speaks of.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
}

impl<'a> From<&'a Resource> for About<'a> {
    fn from(row: &'a Resource) -> Self {
        About { group: row.group, resource: row.plural }
    }
}

impl<'a> From<(&'a str, &'a str)> for About<'a> {
    fn from((group, resource): (&'a str, &'a str)) -> Self {
        About { group, resource }
    }
}

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl About<'_> {
    fn details(&self, name: &str) -> Details {
        Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Details::default()
        }
    }
}

/// The request that authorization refused.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    /// Who asked.
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

/// The text of a lost optimistic write.
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

    /// A failure whose code, reason and message another program chose. The reason may be none of [`Reason`].
    pub fn foreign(code: u16, reason: String, message: impl Into<String>) -> Self {
        let known = Reason::from(reason.clone());
        let foreign = (known == Reason::Unknown && !reason.is_empty()).then(|| reason.into());
        Status { foreign_reason: foreign, ..Self::failure(code, known, message) }
    }

    fn about(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same answer with a time after which to try again.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// The same answer with one more cause.
    pub fn cause(mut self, reason: &str, message: impl Into<String>) -> Self {
        let cause = Cause { reason: reason.to_owned(), message: message.into(), field: String::new() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// The same answer with a token with which a list can go on although it failed.
    pub fn continued_by(mut self, token: String) -> Self {
        self.metadata.continue_token = token;
        self
    }

    /// The same answer with another message.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// As JSON, ready to send.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a Status has string keys only")
    }

    /// Seconds after which the answer says to try again.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|d| d.retry_after_seconds).filter(|seconds| *seconds > 0)
    }

    /// 200: the object is gone. Clients wait on the uid.
    pub fn deleted<'a>(about: impl Into<About<'a>>, name: &str, uid: &str) -> Self {
        let mut details = about.into().details(name);
        uid.clone_into(&mut details.uid);
        Status { status: Outcome::Success, code: 0, ..Self::failure(0, Reason::Unknown, "") }.about(details)
    }

    /// Success without an object: 201 after a binding or an eviction.
    pub fn success(code: u16) -> Self {
        Status { status: Outcome::Success, ..Self::failure(code, Reason::Unknown, "") }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, Reason::BadRequest, message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::failure(401, Reason::Unauthorized, "Unauthorized")
    }

    /// 403 by admission or the registry: `pods "x" is forbidden: text`.
    pub fn forbidden<'a>(about: impl Into<About<'a>>, name: &str, text: &str) -> Self {
        let about = about.into();
        let subject = match (about.resource, name) {
            ("", _) => String::new(),
            (_, "") => format!("{about} is "),
            _ => format!("{about} \"{name}\" is "),
        };
        Self::failure(403, Reason::Forbidden, format!("{subject}forbidden: {text}"))
            .about(about.details(name))
    }

    /// 403 by authorization of a resource request.
    pub fn forbidden_access<'a>(about: impl Into<About<'a>>, denied: &Denied<'_>) -> Self {
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

    /// 403 by authorization of a path.
    pub fn forbidden_path(user: &str, verb: &str, path: &str, why: &str) -> Self {
        let text =
            format!("User \"{}\" cannot {verb} path \"{}\"{}", sanitize(user), sanitize(path), because(why));
        Self::forbidden(("", ""), "", &text)
    }

    /// 404 for an object.
    pub fn not_found<'a>(about: impl Into<About<'a>>, name: &str) -> Self {
        let about = about.into();
        Self::failure(404, Reason::NotFound, format!("{about} \"{name}\" not found"))
            .about(about.details(name))
    }

    /// 404 for a path that leads nowhere.
    pub fn no_such_route() -> Self {
        Self::failure(404, Reason::NotFound, "the server could not find the requested resource")
            .about(Details::default())
    }

    /// 405.
    pub fn method_not_allowed<'a>(about: impl Into<About<'a>>, verb: &str) -> Self {
        let about = about.into();
        let message = format!("{verb} is not supported on resources of kind \"{about}\"");
        Self::failure(405, Reason::MethodNotAllowed, message).about(about.details(""))
    }

    /// 406.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!("only the following media types are accepted: {list}");
        Self::failure(406, Reason::NotAcceptable, message)
    }

    /// 409: the name is taken.
    pub fn already_exists<'a>(about: impl Into<About<'a>>, name: &str) -> Self {
        let about = about.into();
        Self::failure(409, Reason::AlreadyExists, format!("{about} \"{name}\" already exists"))
            .about(about.details(name))
    }

    /// 409: the name is taken by an object on its way out.
    pub fn being_deleted<'a>(about: impl Into<About<'a>>, name: &str) -> Self {
        let mut status = Self::already_exists(about, name);
        status.message.insert_str(0, "object is being deleted: ");
        status
    }

    /// 409: no free name was found for `generateName`.
    pub fn generated_name_taken<'a>(about: impl Into<About<'a>>, name: &str) -> Self {
        let mut status = Self::already_exists(about, name).retry_after(1);
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status
    }

    /// 409: the write was not done; read again and retry. [`MODIFIED`] is the usual text.
    pub fn conflict<'a>(about: impl Into<About<'a>>, name: &str, text: &str) -> Self {
        let about = about.into();
        let message = format!("Operation cannot be fulfilled on {about} \"{name}\": {text}");
        Self::failure(409, Reason::Conflict, message).about(about.details(name))
    }

    /// 410 on list or watch: list again.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Expired, message)
    }

    /// 410: gone for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, Reason::Gone, message)
    }

    /// 413.
    pub fn too_large(text: &str) -> Self {
        let message = format!("Request entity too large: {text}");
        Self::failure(413, Reason::RequestEntityTooLarge, message)
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::failure(415, Reason::UnsupportedMediaType, message)
    }

    /// 500 without a reason: the form in which Kubernetes answers an error that it has no class for.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::failure(500, Reason::Unknown, message)
    }

    /// 422 for an object: details carry the Kind and one cause per error.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &ErrorList) -> Self {
        let qualified = About { group, resource: kind };
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

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::failure(429, Reason::TooManyRequests, message).retry_after(retry_after)
    }

    /// 500.
    pub fn internal(text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self::failure(500, Reason::InternalError, format!("Internal error occurred: {text}")).cause("", text)
    }

    /// 500 with the request to try again.
    pub fn server_timeout<'a>(about: impl Into<About<'a>>, verb: &str, retry_after: u32) -> Self {
        let about = about.into();
        let message = format!(
            "The {verb} operation against {about} could not be completed at this time, please try again."
        );
        Self::failure(500, Reason::ServerTimeout, message).about(about.details("")).retry_after(retry_after)
    }

    /// 503.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(503, Reason::ServiceUnavailable, message)
    }

    /// 507: nothing can be stored until somebody makes space. Without a time to try again after: client-go would keep its user
    /// waiting through ten attempts before it shows the message, which says what to do.
    pub fn insufficient_storage(text: &str) -> Self {
        Self::failure(507, Reason::InsufficientStorage, format!("Insufficient storage: {text}"))
    }

    /// 504.
    pub fn timeout(text: &str, retry_after: u32) -> Self {
        Self::failure(504, Reason::Timeout, format!("Timeout: {text}")).retry_after(retry_after)
    }

    /// 504: a revision was asked for that does not exist yet.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        Self::timeout(&format!("Too large resource version: {asked}, current: {current}"), 1)
            .cause("ResourceVersionTooLarge", "Too large resource version")
    }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {}", sanitize(why)) }
}

/// Names of users and paths come from strangers and end up in browsers.
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
