//! Forms of triggers (§5.4). A trigger is a request, a delivery or a write that was observed, a client that became quiet, a step, or a time
//! of the cluster's clock; never the real time. Pure.

use crate::form::{self, is_default};
use crate::request::{EventPhase, EventType, Phase, Verb};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When an action happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A matching request, which is held while the action happens.
    Request(RequestTrigger),
    /// A matching watch event of a client.
    Event(EventTrigger),
    /// A matching revision.
    Write(WriteTrigger),
    /// A client, or all clients, became quiet.
    Quiet(QuietTrigger),
    /// A step of a scenario begins or ends.
    Step(StepTrigger),
    /// After so many further requests and deliveries.
    After(u64),
    /// A time of the cluster's clock.
    Time(TimeTrigger),
    /// One of these.
    Any(Vec<Self>),
    /// Each of these has fired once, in any order.
    All(Vec<Self>),
}

/// Fires at the nth matching request since the action was armed. Members that are left out match everything; texts are globs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestTrigger {
    /// Name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// Resource, as `plural.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Subresource; an empty text is the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// CEL over `old` (stored object), `new` (result, or body of a create or update), `request` (body). An expression that fails does not
    /// match.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Which matching request; 1 is the first.
    pub nth: u64,
    /// Before it is performed, or when it was performed and not answered.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: Phase,
}

impl Default for RequestTrigger {
    fn default() -> Self {
        Self {
            client: None,
            verb: None,
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            condition: None,
            nth: 1,
            phase: Phase::default(),
        }
    }
}

/// Fires at the nth matching watch event. Members that are left out match everything; texts are globs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EventTrigger {
    /// Name of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Resource, as `plural.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the event; without it bookmarks and errors do not match.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<EventType>,
    /// CEL over `old` and `new`.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Which matching event; 1 is the first.
    pub nth: u64,
    /// Before it is written, or when the connection has taken it.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: EventPhase,
}

impl Default for EventTrigger {
    fn default() -> Self {
        Self {
            client: None,
            resource: None,
            namespace: None,
            name: None,
            kind: None,
            condition: None,
            nth: 1,
            phase: EventPhase::default(),
        }
    }
}

/// Fires at the nth matching change of an object. Members that are left out match everything; texts are globs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WriteTrigger {
    /// Name of the writing client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Resource, as `plural.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// CEL over `old` and `new`; null is no object.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Which matching change; 1 is the first.
    pub nth: u64,
}

impl Default for WriteTrigger {
    fn default() -> Self {
        Self { by: None, resource: None, namespace: None, name: None, condition: None, nth: 1 }
    }
}

/// Fires when clients have become quiet, for the nth time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct QuietTrigger {
    /// Name of the client; `None`: all counted clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Which time; 1 is the first since the action was armed.
    pub nth: u64,
}

impl Default for QuietTrigger {
    fn default() -> Self {
        Self { client: None, nth: 1 }
    }
}

/// Fires at a step of a scenario, as `POST /plans/{id}/steps` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepTrigger {
    /// Name of the step.
    pub name: String,
    /// Its begin or its end.
    #[serde(default)]
    pub phase: StepPhase,
}

/// The begin or the end of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepPhase {
    /// Before the step.
    #[default]
    Begin,
    /// After it.
    End,
}

/// Fires when so much of the cluster's time has passed since the action was armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TimeTrigger {
    /// Time of the cluster's clock.
    #[serde(with = "form::duration")]
    pub after: Duration,
}
