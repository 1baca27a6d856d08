//! Plans (§5.4): ordered lists of actions, each with a trigger. Forms and reports of the calls are here, triggers in `trigger`, the pure
//! machine in `matching` and `step`, its use in `run`, and operations in `execute`.

pub mod execute;
pub mod matching;
pub mod observe;
pub mod run;
pub mod step;
pub mod trigger;

use crate::cache::Route;
use crate::fault::Fault;
use crate::form;
use crate::limits;
use crate::webhooks::WebhookFailure;
use jiff::{SignedDuration, Timestamp};
use kstore_kubelet_sim::NodeFault;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::time::Duration;
pub use trigger::{
    EventTrigger, QuietTrigger, RequestTrigger, StepPhase, StepTrigger, TimeTrigger, Trigger, WriteTrigger,
};

/// Body of `POST /plans`: an ordered list of actions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Name, which is its identifier; without it the lab chooses one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The actions. Each is armed when the one before has fired, or together with it.
    pub actions: Vec<PlannedAction>,
}

/// An action of a plan and its trigger.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedAction {
    /// What happens.
    pub action: Action,
    /// When; `None`: at once when the action is armed.
    pub trigger: Option<Trigger>,
    /// Whether the action is armed together with the one before (`"with": "previous"`), and not after it has fired.
    pub with_previous: bool,
    /// Of a fault: how many matching requests or watches in a row get it, the one of the trigger included.
    pub times: u64,
    /// Whether a fault is allowed that no real server shows.
    pub illegal: bool,
}

impl PlannedAction {
    /// An action at a trigger, armed after the one before.
    pub fn at(trigger: Trigger, action: Action) -> Self {
        Self { action, trigger: Some(trigger), with_previous: false, times: 1, illegal: false }
    }
}

/// What an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A fault of the request or watch of the trigger.
    Inject(Fault),
    /// Anything else.
    Perform(Operation),
}

/// An action that is no fault of one request. In JSON an object whose member `action` has the name, beside the parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Operation {
    /// A cache stands still.
    Freeze {
        /// Name of the cache.
        cache: String,
        /// Kinds, as `plural.group`; empty: every kind.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resources: Vec<String>,
        /// Revision; `None`: that of the write of the trigger, the one before its event, else the newest one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<i64>,
    },
    /// A cache delivers what it held.
    Thaw {
        /// Name of the cache.
        cache: String,
        /// Kinds, as `plural.group`; empty: every kind.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        resources: Vec<String>,
        /// Changes by which it moves; `None`: it follows the newest state again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
    },
    /// Routes are put before those in force.
    Route {
        /// The routes.
        routes: Vec<Route>,
    },
    /// The client never sees what lies between two events: its watch is cut before the event of the trigger, its next list or watch of the
    /// kind is held until `until`, and the watch is then expired.
    Skip {
        /// When the client may read again.
        until: Box<Trigger>,
    },
    /// SIGKILL to the program's process group, and a new start.
    Kill {
        /// Name of the program.
        program: String,
        /// When it is started again.
        #[serde(default)]
        start: Start,
        /// Cache to which the new instance's reads are routed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
    /// SIGTERM to the program, and a new start after its end.
    Term {
        /// Name of the program.
        program: String,
        /// When it is started again.
        #[serde(default)]
        start: Start,
        /// Cache to which the new instance's reads are routed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
    /// SIGSTOP to the program's process group, and SIGCONT.
    Pause {
        /// Name of the program.
        program: String,
        /// When it goes on.
        until: Box<Trigger>,
    },
    /// A second instance of the program runs beside the first.
    Second {
        /// Name of the program.
        program: String,
        /// When the second instance is killed; `None`: at the end of the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// A Lease gets another holder and one more transition.
    TakeLease {
        /// `namespace/name`.
        lease: String,
        /// When it is given back; `None`: at the end of the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// The clock jumps.
    Leap {
        /// By how much; negative: backward.
        #[serde(with = "form::signed_duration")]
        by: SignedDuration,
    },
    /// The user deletes an object and creates it again, once it is gone.
    Recreate {
        /// `plural.group/namespace/name`.
        object: String,
        /// When it is created again; `None`: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// The user changes an object, and changes it back.
    Flip {
        /// `plural.group/namespace/name`.
        object: String,
        /// JSON merge patch of the object.
        merge: Value,
        /// When it is changed back; `None`: at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// Power off and on of a simulated node.
    NodeStop {
        /// Name of the node.
        node: String,
        /// When it is on again; `None`: at the end of the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// A simulated node has a fault, beside those that it has.
    NodeFault {
        /// Name of the node.
        node: String,
        /// Name of the fault, as in the annotation of Nodes.
        fault: String,
        /// Value of the fault.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// From the trigger until the fault begins.
        #[serde(default, with = "form::optional_duration", skip_serializing_if = "Option::is_none")]
        after: Option<Duration>,
        /// How long it holds; `None`: until the action ends.
        #[serde(default, with = "form::optional_duration", skip_serializing_if = "Option::is_none")]
        duration: Option<Duration>,
        /// From one beginning to the next.
        #[serde(default, with = "form::optional_duration", skip_serializing_if = "Option::is_none")]
        every: Option<Duration>,
        /// When it is withdrawn; `None`: at the end of the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// Calls of the API server to a webhook fail.
    WebhookDown {
        /// Name of the webhook, as in its configuration.
        webhook: String,
        /// How they fail.
        #[serde(default)]
        how: WebhookFailure,
        /// When it can be reached again; `None`: at the end of the plan.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Box<Trigger>>,
    },
    /// Requests of counted clients and watch events to them happen one at a time, each when all clients are quiet, until the plan ends. It
    /// is the first action of a plan and has no trigger.
    Order {
        /// Priorities of kinds of requests and events; `None`: events come first, then requests, both by client, kind and object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
        /// Positions, from 1, at which another one has its turn.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        swaps: BTreeSet<u64>,
        /// Real time for which one waits for a client that does not become quiet.
        #[serde(
            default = "order_patience",
            with = "form::duration",
            skip_serializing_if = "is_order_patience"
        )]
        patience: Duration,
    },
    /// Held requests go on.
    Resume {},
}

fn order_patience() -> Duration {
    limits::PATIENCE
}

fn is_order_patience(patience: &Duration) -> bool {
    *patience == limits::PATIENCE
}

/// When a killed program is started again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At once.
    #[default]
    Now,
    /// Never.
    Never,
    /// At a trigger.
    When(Box<Trigger>),
}

impl Operation {
    /// Every operation's name, with the names of its parameters.
    pub const FORMS: [(&'static str, &'static [&'static str]); 16] = [
        ("freeze", &["cache", "resources", "at"]),
        ("thaw", &["cache", "resources", "step"]),
        ("route", &["routes"]),
        ("skip", &["until"]),
        ("kill", &["program", "start", "cache"]),
        ("term", &["program", "start", "cache"]),
        ("pause", &["program", "until"]),
        ("second", &["program", "until"]),
        ("take-lease", &["lease", "until"]),
        ("leap", &["by"]),
        ("recreate", &["object", "until"]),
        ("flip", &["object", "merge", "until"]),
        ("node-stop", &["node", "until"]),
        ("node-fault", &["node", "fault", "value", "after", "duration", "every", "until"]),
        ("webhook-down", &["webhook", "how", "until"]),
        ("order", &["seed", "swaps", "patience"]),
    ];

    /// Whether it goes on while programs do what it waits for, such as the removal of a finalizer or an orderly end.
    pub fn waits_for_programs(&self) -> bool {
        matches!(self, Self::Recreate { .. } | Self::Term { .. })
    }

    /// The node and the fault of [`Self::NodeFault`].
    pub fn node_fault(&self) -> Option<(&str, NodeFault)> {
        let Self::NodeFault { node, fault, value, after, duration, every, .. } = self else { return None };
        let (fault, value) = (fault.clone(), value.clone());
        Some((node, NodeFault { fault, value, after: *after, duration: *duration, every: *every }))
    }

    /// Name in JSON and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Freeze { .. } => "freeze",
            Self::Thaw { .. } => "thaw",
            Self::Route { .. } => "route",
            Self::Skip { .. } => "skip",
            Self::Kill { .. } => "kill",
            Self::Term { .. } => "term",
            Self::Pause { .. } => "pause",
            Self::Second { .. } => "second",
            Self::TakeLease { .. } => "take-lease",
            Self::Leap { .. } => "leap",
            Self::Recreate { .. } => "recreate",
            Self::Flip { .. } => "flip",
            Self::NodeStop { .. } => "node-stop",
            Self::NodeFault { .. } => "node-fault",
            Self::WebhookDown { .. } => "webhook-down",
            Self::Order { .. } => "order",
            Self::Resume {} => "resume",
        }
    }
}

impl Action {
    /// Name in JSON and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Inject(fault) => fault.name(),
            Self::Perform(operation) => operation.name(),
        }
    }

    fn members(name: &str) -> Result<&'static [&'static str], Vec<&'static str>> {
        if name == "resume" {
            return Ok(&[]);
        }
        let known = Operation::FORMS.iter().find(|(known, _)| *known == name);
        known.map(|(_, members)| *members).map_or_else(
            || {
                Fault::members(name).map_err(|faults| {
                    Operation::FORMS.iter().map(|(known, _)| *known).chain(["resume"]).chain(faults).collect()
                })
            },
            Ok,
        )
    }

    /// Reads an action from its members.
    fn read<E: serde::de::Error>(mut members: Map<String, Value>) -> Result<Self, E> {
        let is_fault =
            members.get("action").and_then(Value::as_str).is_some_and(|name| Fault::members(name).is_ok());
        match is_fault {
            false => form::read(members).map(Self::Perform),
            true => {
                let name = members.remove("action").unwrap_or_default();
                members.insert("fault".to_owned(), name);
                form::read(members).map(Self::Inject)
            }
        }
    }

    /// Members in JSON.
    fn to_members<E: serde::ser::Error>(&self) -> Result<Map<String, Value>, E> {
        let value = match self {
            Self::Inject(fault) => serde_json::to_value(fault),
            Self::Perform(operation) => serde_json::to_value(operation),
        };
        let Ok(Value::Object(mut members)) = value else { return Err(E::custom("an action is an object")) };
        // The name of a fault of a request is that of its action; a fault of a node is a parameter.
        if let Self::Inject(_) = self
            && let Some(name) = members.remove("fault")
        {
            members.insert("action".to_owned(), name);
        }
        Ok(members)
    }
}

/// The members of a planned action that do not depend on what it does.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlannedBase {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trigger: Option<Trigger>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with: Option<With>,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    times: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    illegal: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum With {
    Previous,
}

fn one() -> u64 {
    1
}

fn is_one(times: &u64) -> bool {
    *times == 1
}

/// Names of the members of [`PlannedBase`].
const PLANNED: [&str; 4] = ["trigger", "with", "times", "illegal"];

impl<'de> Deserialize<'de> for PlannedAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = form::split(deserializer, "action", &PLANNED, Action::members)?;
        let base = form::read::<PlannedBase, D::Error>(members.common)?;
        let PlannedBase { trigger, with, times, illegal } = base;
        let action = Action::read::<D::Error>(members.special)?;
        Ok(Self { action, trigger, with_previous: with.is_some(), times, illegal })
    }
}

impl Serialize for PlannedAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            action: Map<String, Value>,
            #[serde(flatten)]
            base: &'a PlannedBase,
        }
        let base = PlannedBase {
            trigger: self.trigger.clone(),
            with: self.with_previous.then_some(With::Previous),
            times: self.times,
            illegal: self.illegal,
        };
        Flat { action: self.action.to_members()?, base: &base }.serialize(serializer)
    }
}

/// State of an action of a running plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// Not armed: the action before it has not fired.
    #[default]
    Waiting,
    /// Its trigger is looked for.
    Armed,
    /// It fired and is under way: a request is held, or `until` has not fired.
    Held,
    /// It happened.
    Done,
    /// It could not happen in a legal way; the plan's events say why.
    Skipped,
}

/// State of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// An action is not done.
    #[default]
    Running,
    /// Every action is done or skipped.
    Done,
    /// A held request had to go on before its time.
    Failed,
    /// The plan ended, and an action never fired: it gives no verdict.
    NotReached,
}

/// A plan in answers of the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// Identifier in paths.
    pub id: String,
    /// State.
    pub state: PlanState,
    /// The actions.
    pub actions: Vec<ActionReport>,
}

/// An action in answers of the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionReport {
    /// The action with its trigger.
    pub action: PlannedAction,
    /// State.
    pub state: ActionState,
    /// The request, event or write that fired it, as in the request log; empty if none did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fired_by: String,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// An event of a plan, as `GET /plans/{id}/events` lists it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanEvent {
    /// Position, from 1.
    pub n: u64,
    /// Revision up to which writes were observed: for report files, and in no answer of the lab.
    #[serde(skip)]
    pub revision: i64,
    /// Time of the cluster.
    pub time: Timestamp,
    /// Place of the action in the plan, from 0.
    pub action: usize,
    /// State that the action entered.
    pub state: ActionState,
    /// The request, event or write that fired it, or why it was skipped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
}
