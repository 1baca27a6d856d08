//! [`Occurrence`]: an event as a component records it, and [`Event`]: an event as it is written, both plain data.
//! [`EventSink`] stores events.

use crate::Causes;
use jiff::Timestamp;
use std::future::Future;

/// Reference to an object or a field of it, as in an event's `regarding`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// API version: `v1`, `apps/v1`.
    pub api_version: String,
    /// Kind: `Pod`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Uid of the object.
    pub uid: String,
    /// Path of a part of the object: `spec.containers{web}`. Empty for the whole object.
    pub field_path: String,
}

impl Reference {
    /// A reference to the whole object.
    pub(super) fn whole(&self) -> Self {
        Self { field_path: String::new(), ..self.clone() }
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// A normal operation.
    Normal,
    /// A problem.
    Warning,
}

impl EventType {
    /// The value in the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// An event as a component records it, before merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The object that the event is about.
    pub about: Reference,
    /// A second object of the event, for example the node that a pod was bound to.
    pub related: Option<Reference>,
    /// The severity.
    pub event_type: EventType,
    /// Reason of the event, one `CamelCase` word for machines.
    pub reason: String,
    /// Action of the component, one `CamelCase` word; may be empty.
    pub action: String,
    /// Message for people.
    pub message: String,
}

impl Occurrence {
    /// An event without a related object and an action.
    pub fn new(about: &Reference, event_type: EventType, reason: &str, message: impl Into<String>) -> Self {
        Self {
            about: about.clone(),
            related: None,
            event_type,
            reason: reason.to_owned(),
            action: String::new(),
            message: message.into(),
        }
    }
}

/// An event to write: a new one, or a newer state of a written one with the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Name of the event object, unique in its namespace.
    pub name: String,
    /// Whether an earlier state was written, so that the event object must be updated.
    pub known: bool,
    /// Component that reports the event.
    pub component: String,
    /// Host of the component; may be empty.
    pub host: String,
    /// The object that the event is about.
    pub about: Reference,
    /// A second object of the event.
    pub related: Option<Reference>,
    /// The severity.
    pub event_type: EventType,
    /// Reason of the event, one `CamelCase` word for machines.
    pub reason: String,
    /// Action of the component, one `CamelCase` word; may be empty.
    pub action: String,
    /// Message for people.
    pub message: String,
    /// Number of occurrences, including unwritten ones.
    pub count: u32,
    /// Time of the first occurrence.
    pub first: Timestamp,
    /// Time of the last occurrence.
    pub last: Timestamp,
    /// Causes of the event.
    pub causes: Causes,
}

/// Why an event was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// A temporary failure, worth a retry.
    #[error("temporary failure: {0}")]
    Retry(String),
    /// The event will never be accepted.
    #[error("refused: {0}")]
    Refused(String),
}

/// Storage for events.
pub trait EventSink: Send + Sync + 'static {
    /// Writes one event: creates it, or updates count, message and last time if an event of its name exists.
    /// `Event::known` tells which to try first. A failed write may be repeated, even if it was stored.
    ///
    /// Several writes may be active at a time, but never two of one name.
    fn write(&self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;
}
