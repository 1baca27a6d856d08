//! [`Event`]: something that happened to an object, as it is written; and the words in which a component tells it. Plain data.

use jiff::Timestamp;

use crate::Causes;

/// The object that an event is about, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// Empty for objects without one.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
    /// Which part of it: `spec.containers{web}`. Empty for all of it.
    pub field_path: String,
}

impl Reference {
    /// The same object, without a part.
    pub(super) fn whole(&self) -> Self {
        Self { field_path: String::new(), ..self.clone() }
    }
}

/// Whether someone should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

impl EventType {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened, as a component tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// What it happened to.
    pub about: Reference,
    /// A second object that has to do with it: the node that a pod was bound to.
    pub related: Option<Reference>,
    /// How bad it is.
    pub event_type: EventType,
    /// Why, as one word in `CamelCase` that machines may match.
    pub reason: String,
    /// What was done, in the same form; empty if that is not said.
    pub action: String,
    /// What happened, for people.
    pub message: String,
}

impl Occurrence {
    /// Without a second object or an action.
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

/// One event to write: a new one, or a newer state of the one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's own name; unique in the namespace that it is written to.
    pub name: String,
    /// Whether a state of it has been written before, so that there is something to bring up to date.
    pub known: bool,
    /// Who tells it.
    pub component: String,
    /// On which machine; empty if that is not said.
    pub host: String,
    /// What it is about.
    pub about: Reference,
    /// A second object that has to do with it.
    pub related: Option<Reference>,
    /// How bad it is.
    pub event_type: EventType,
    /// Why, as one word in `CamelCase` that machines may match.
    pub reason: String,
    /// What was done, in the same form; empty if that is not said.
    pub action: String,
    /// What happened, for people.
    pub message: String,
    /// How often it happened, including what was not written.
    pub count: u32,
    /// When it happened first.
    pub first: Timestamp,
    /// When it happened last.
    pub last: Timestamp,
    /// What led to it.
    pub causes: Causes,
}
