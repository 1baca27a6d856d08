//! `ConversionReview`: conversion of custom objects between versions by a webhook. This module chooses the
//! objects to send, encodes the request and decodes the response; the apiserver makes the call. Conversion
//! without a webhook is in `crd::convert`.
//!
//! For one read or write: [`Review::new`], [`Review::needs_call`], [`Review::encode_request`], the call,
//! [`Review::finish`]. The caller prunes results by the schema of their version.

mod answer;
mod restore;

use super::attributes::GroupVersionKind;
use super::client::ClientConfig;
use super::review::ReviewVersion;
use super::review::transport::HttpAnswer;
use crate::group_version::split_api_version;
use crate::object::{api_version, kind};
use crate::status::Status;
use serde::Serialize;
use serde_json::{Map, Value};

/// Timeout of a conversion webhook in seconds.
pub const TIMEOUT_SECONDS: u64 = 30;

/// Error of a conversion. `Display` is the message for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConversionError {
    text: String,
    failure: ConversionFailure,
}

/// Failure type of a conversion in Kubernetes' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionFailure {
    /// The webhook did not respond with success.
    Call,
    /// The response is not a review, or it reports a failure.
    MalformedResponse,
    /// The response has more or fewer objects than the request.
    PartialResponse,
    /// A returned object is not the original in the desired version.
    InvalidObject,
}

impl ConversionFailure {
    /// Value of the label `failure_type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

impl ConversionError {
    /// Status for the client: 500 without a reason.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::unclassified(&self.text)
    }

    /// Failure type for metrics.
    #[must_use]
    pub const fn failure(&self) -> ConversionFailure {
        self.failure
    }

    fn of(self, failure: ConversionFailure) -> Self {
        Self { failure, ..self }
    }
}

/// Source of the converted objects, on which error messages depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch<'a> {
    /// A single object.
    Single,
    /// The items of a list with this `apiVersion` and kind.
    List {
        /// `apiVersion` of the list before conversion.
        api_version: &'a str,
        /// Kind of the list.
        kind: &'a str,
    },
}

/// One conversion of objects of one kind, each in its stored or sent version.
#[derive(Debug)]
pub struct Review<'a> {
    version: ReviewVersion,
    desired: &'a str,
    batch: Batch<'a>,
    objects: Vec<Value>,
    /// Indexes of the objects with content that are not in the desired version.
    sent: Vec<usize>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    kind: &'static str,
    api_version: String,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: &'a str,
    objects: Vec<&'a Value>,
}

impl<'a> Review<'a> {
    /// A conversion of `objects` to the `apiVersion` `desired`.
    #[must_use]
    pub fn new(version: ReviewVersion, desired: &'a str, batch: Batch<'a>, objects: Vec<Value>) -> Self {
        let is_other =
            |object: &Value| api_version(object) != desired && !(batch == Batch::Single && is_bare(object));
        let sent = (0..objects.len()).filter(|index| is_other(&objects[*index])).collect();
        Self { version, desired, batch, objects, sent }
    }

    /// Whether the webhook must be called: some object is not in the desired version.
    #[must_use]
    pub fn needs_call(&self) -> bool {
        !self.sent.is_empty()
    }

    /// The objects in the desired version, if the webhook need not be called.
    #[must_use]
    pub fn into_unconverted(mut self) -> Vec<Value> {
        for object in &mut self.objects {
            object["apiVersion"] = self.desired.into();
        }
        self.objects
    }

    /// Body of the POST. `uid` must be unique to the call; the response must repeat it.
    #[must_use]
    pub fn encode_request(&self, uid: &str) -> Vec<u8> {
        let objects = self.sent.iter().map(|index| &self.objects[*index]).collect();
        let body = Body {
            kind: answer::KIND,
            api_version: format!("{}/{}", answer::GROUP, self.version.as_str()),
            request: Request { uid, desired_api_version: self.desired, objects },
        };
        crate::json::to_vec(&body)
    }

    /// The error of a call without a response.
    #[must_use]
    pub fn no_answer(&self, client: &ClientConfig, cause: impl std::fmt::Display) -> ConversionError {
        self.failed(client.post_error(Some(TIMEOUT_SECONDS), cause)).of(ConversionFailure::Call)
    }

    /// The converted objects, in the order of the originals. The webhook determines content, labels and
    /// annotations; other metadata is restored from the originals.
    ///
    /// # Errors
    /// The response is not a success, or its objects are not the same objects in the desired version.
    pub fn finish(mut self, uid: &str, answer: &HttpAnswer<'_>) -> Result<Vec<Value>, ConversionError> {
        let failure = match answer.success() {
            Ok(_) => ConversionFailure::MalformedResponse,
            Err(_) => ConversionFailure::Call,
        };
        let converted =
            answer::read(self.version, uid, answer).map_err(|why| self.failed(why).of(failure))?;
        if converted.len() != self.sent.len() {
            let (found, expected) = (converted.len(), self.sent.len());
            let error = self.error(format_args!("returned {found} objects, expected {expected}"));
            return Err(error.of(ConversionFailure::PartialResponse));
        }
        let sent = std::mem::take(&mut self.sent);
        for (at, (index, new)) in sent.into_iter().zip(converted).enumerate() {
            let new = self.accept(at, &self.objects[index], new)?;
            self.objects[index] = new;
        }
        Ok(self.objects)
    }

    /// Checks one returned object against its original and restores its metadata.
    fn accept(&self, at: usize, original: &Value, new: Value) -> Result<Value, ConversionError> {
        // Kubernetes counts a converted list item before it checks it, so most errors name the next index.
        let (at, next) = (at, at.saturating_add(1));
        let is_list = matches!(self.batch, Batch::List { .. });
        let mut new = match answer::object(new) {
            Ok(object) => object,
            Err(why) if is_list => {
                return Err(
                    self.error(format_args!("returned invalid converted object at index {at}: {why}"))
                );
            }
            Err(text) => return Err(ConversionError { text, failure: ConversionFailure::InvalidObject }),
        };
        let location = if is_list {
            format!("converted object at index {next}")
        } else {
            "object at index 0".to_owned()
        };
        let found = api_version(&new);
        if found != self.desired {
            let (expected, found) = (go_version(self.desired), go_version(found));
            return Err(self.error(format_args!(
                "returned invalid {location}: invalid groupVersion (expected {expected}, received {found})"
            )));
        }
        if kind(&new) != kind(original) {
            let (expected, found) = (kind(original), kind(&new));
            return Err(self.error(format_args!(
                "returned invalid {location}: invalid kind (expected {expected}, received {found})"
            )));
        }
        let location = if is_list { location } else { "object".to_owned() };
        restore::check_identity(original, &new)
            .map_err(|why| self.error(format_args!("returned invalid {location}: {why}")))?;
        let location = if is_list { format!(" in object at index {next}") } else { String::new() };
        restore::restore_metadata(original, &mut new)
            .map_err(|why| self.error(format_args!("returned invalid metadata{location}: {why}")))?;
        Ok(new)
    }

    /// The converted kind as errors name it.
    fn subject(&self) -> String {
        let (stated, kind) = match (self.batch, self.objects.first()) {
            (Batch::List { api_version, kind }, _) => (api_version, kind),
            (Batch::Single, Some(object)) => (api_version(object), kind(object)),
            (Batch::Single, None) => ("", ""),
        };
        let (group, version) = split_api_version(stated);
        GroupVersionKind { group, version, kind }.to_string()
    }

    fn error(&self, what: std::fmt::Arguments<'_>) -> ConversionError {
        let text = format!("conversion webhook for {} {what}", self.subject());
        ConversionError { text, failure: ConversionFailure::InvalidObject }
    }

    fn failed(&self, why: impl std::fmt::Display) -> ConversionError {
        self.error(format_args!("failed: {why}"))
    }
}

/// Whether an object has no members besides its type; Kubernetes converts such objects without a webhook.
fn is_bare(object: &Value) -> bool {
    object.as_object().is_some_and(|members: &Map<String, Value>| {
        members.len() == 2 && members.contains_key("kind") && members.contains_key("apiVersion")
    })
}

/// An `apiVersion` as Go prints a group-version; an empty one is a slash.
fn go_version(api_version: &str) -> &str {
    if api_version.is_empty() { "/" } else { api_version }
}
