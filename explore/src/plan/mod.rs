//! Plans: ordered lists of actions, each with a trigger that is a request, an event, a write or a quiet moment, and never a wall time.
//! Their JSON is that of the lab's call `/plans`; `words` has them in reports. Pure.

mod words;

use crate::pattern_id::PatternId;
use crate::record::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// A plan of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Pattern that made it.
    pub pattern: PatternId,
    /// Kind of perturbed thing, by which plans take turns: the resource and the verb.
    pub subject: Subject,
    /// The actions.
    pub actions: Vec<PlannedAction>,
}

/// What a plan perturbs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// `plural.group`.
    pub resource: String,
    /// Verb of the request, or `event`.
    pub verb: String,
}

/// An action with its trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedAction {
    /// What happens.
    #[serde(flatten)]
    pub operation: Operation,
    /// When; `None`: at once when the action is armed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// How many matching requests in a row get the fault.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u64,
}

fn one() -> u64 {
    1
}

fn is_one(times: &u64) -> bool {
    *times == 1
}

/// What an action does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Operation {
    /// SIGKILL to the program's process group; it is started again.
    Kill {
        /// Name of the program.
        program: String,
        /// When it is started again.
        #[serde(default, skip_serializing_if = "Restart::is_now")]
        start: Restart,
        /// Cache from which the new instance reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache: Option<String>,
    },
    /// SIGTERM to the program; it is started again after its end. The control of a kill.
    Term {
        /// Name of the program.
        program: String,
    },
    /// A cache stands still.
    Freeze {
        /// Name of the cache.
        cache: String,
        /// Kinds, as `plural.group`.
        resources: Vec<String>,
    },
    /// A cache delivers the changes that it delayed.
    Thaw {
        /// Name of the cache.
        cache: String,
        /// Changes by which it moves; `None`: it follows the newest state again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
    },
    /// Nothing but that its trigger came: the next action is armed then.
    Resume {},
    /// The program reads from a cache.
    Route {
        /// The routes.
        routes: Vec<Route>,
    },
    /// The program never sees what lies between the event of the trigger and another.
    Skip {
        /// When it may read again.
        until: Box<Trigger>,
    },
    /// Another writer is faster: the server's own 409 follows.
    Touch {},
    /// 500, as during an election of etcd's leader; nothing is performed.
    Error {},
    /// 429; nothing is performed.
    TooMany {},
    /// The connection is reset; nothing is performed.
    Unavailable {
        /// `reset` or `503`.
        how: String,
    },
    /// 504; nothing is performed.
    Timeout {},
    /// The request is performed; the answer is lost.
    LostAnswer {
        /// `reset` or `504`.
        how: String,
    },
    /// A watch ends.
    Cut {
        /// `end`, `reset` or `frame`.
        how: String,
    },
    /// A watch gets 410.
    Expire {},
    /// A watch of Events answers 200 and ends without an event.
    SilentEnd {},
    /// The user deletes an object and creates it again.
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
        /// JSON merge patch.
        merge: Value,
    },
    /// The program's Lease gets another holder.
    TakeLease {
        /// `namespace/name`.
        lease: String,
        /// When it is given back.
        until: Box<Trigger>,
    },
    /// The program stands still (SIGSTOP).
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
        /// When the second instance is killed.
        until: Box<Trigger>,
    },
    /// The cluster's clock jumps.
    Leap {
        /// A Go duration.
        by: String,
    },
    /// A simulated node loses its power.
    NodeStop {
        /// Name of the node.
        node: String,
        /// When it has power again.
        until: Box<Trigger>,
    },
    /// Calls of the API server to a webhook fail.
    WebhookDown {
        /// Name of the webhook, as in its configuration.
        webhook: String,
        /// `refused` or `timeout`.
        how: String,
        /// When it can be reached again.
        until: Box<Trigger>,
    },
    /// Another serial order of requests and events, from the begin of the run.
    Order {
        /// Priorities of kinds of requests and events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
        /// Turns that another one gets, from 1.
        #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
        swaps: BTreeSet<u64>,
    },
}

/// When a killed program is started again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// At once.
    #[default]
    Now,
    /// At a trigger.
    When(Box<Trigger>),
}

impl Restart {
    fn is_now(&self) -> bool {
        *self == Self::Now
    }
}

/// Requests that a cache answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The client.
    pub client: RoutedClient,
    /// Name of the cache.
    pub cache: String,
}

/// The client of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutedClient {
    /// Name of the program.
    pub program: String,
}

/// When an action happens. Members that are `None` match everything; texts are globs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// At a request.
    Request(RequestTrigger),
    /// At a watch event.
    Event(EventTrigger),
    /// At a revision, by any writer or one.
    Write(WriteTrigger),
    /// When a client, or all, became quiet.
    Quiet(QuietTrigger),
    /// At a time of the cluster's clock.
    Time(TimeTrigger),
    /// At the first of these.
    Any(Vec<Self>),
}

/// A request. It waits while the action happens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTrigger {
    /// Client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Verb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// `plural.group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Subresource; an empty text is the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which matching request; 1 is the first.
    pub nth: u64,
    /// Before the request is performed, or when it was performed and not answered.
    #[serde(default)]
    pub phase: RequestPhase,
}

/// The moment of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestPhase {
    /// Not performed.
    #[default]
    Arrived,
    /// Performed, not answered.
    Done,
}

/// A watch event that the server has for a client and has not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTrigger {
    /// Client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `plural.group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which matching event; 1 is the first.
    pub nth: u64,
}

/// A change of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteTrigger {
    /// Writing client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// `plural.group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Which matching change; 1 is the first.
    pub nth: u64,
}

/// A client became quiet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuietTrigger {
    /// Client; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Which time since the action was armed; 1 is the first.
    pub nth: u64,
}

/// A time of the cluster's clock after the action was armed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeTrigger {
    /// A Go duration.
    pub after: String,
}

impl Operation {
    /// Whether it is a fault of a request or a watch, which may hit several in a row.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Touch {}
                | Self::Error {}
                | Self::TooMany {}
                | Self::Unavailable { .. }
                | Self::Timeout {}
                | Self::LostAnswer { .. }
                | Self::Cut { .. }
                | Self::Expire {}
                | Self::SilentEnd {}
        )
    }

    /// When what it holds ends, if a trigger says that.
    pub fn until_mut(&mut self) -> Option<&mut Trigger> {
        match self {
            Self::Skip { until }
            | Self::TakeLease { until, .. }
            | Self::Pause { until, .. }
            | Self::Second { until, .. }
            | Self::NodeStop { until, .. }
            | Self::WebhookDown { until, .. }
            | Self::Recreate { until: Some(until), .. }
            | Self::Kill { start: Restart::When(until), .. } => Some(until),
            _ => None,
        }
    }
}

impl PlannedAction {
    /// An action at a trigger.
    pub fn at(trigger: Trigger, operation: Operation) -> Self {
        Self { operation, trigger: Some(trigger), times: 1 }
    }

    /// An action at once when it is armed.
    pub fn at_once(operation: Operation) -> Self {
        Self { operation, trigger: None, times: 1 }
    }

    /// The action in a line of a report: what it does, and when.
    pub fn line(&self) -> String {
        let when =
            self.trigger.as_ref().map_or_else(|| "at once".to_owned(), |trigger| format!("when {trigger}"));
        format!("{}{}  {when}", self.operation, self.repetitions())
    }

    /// How often it is done, for a line of a report: once goes without saying.
    fn repetitions(&self) -> String {
        if self.times > 1 { format!(", {} times", self.times) } else { String::new() }
    }
}

impl Trigger {
    /// A quiet moment of all clients.
    pub fn quiet() -> Self {
        Self::Quiet(QuietTrigger { client: None, nth: 1 })
    }

    /// A time of the cluster after the action was armed.
    pub fn after(duration: &str) -> Self {
        Self::Time(TimeTrigger { after: duration.to_owned() })
    }

    /// The number of the match, if the trigger counts.
    pub fn nth(&self) -> Option<u64> {
        match self {
            Self::Request(RequestTrigger { nth, .. })
            | Self::Event(EventTrigger { nth, .. })
            | Self::Write(WriteTrigger { nth, .. })
            | Self::Quiet(QuietTrigger { nth, .. }) => Some(*nth),
            Self::Time(_) | Self::Any(_) => None,
        }
    }

    /// The trigger with another number of the match.
    #[must_use]
    pub fn with_nth(mut self, to: u64) -> Self {
        match &mut self {
            Self::Request(RequestTrigger { nth, .. })
            | Self::Event(EventTrigger { nth, .. })
            | Self::Write(WriteTrigger { nth, .. })
            | Self::Quiet(QuietTrigger { nth, .. }) => *nth = to,
            Self::Time(_) | Self::Any(_) => {}
        }
        self
    }
}

impl Plan {
    /// The plan with each action replaced by one that is harmless: at the first quiet moment after its trigger a program is restarted in
    /// order, and the user does what was done in haste. What fails with it fails without a fault. `None`: nothing is left, so that the
    /// references are the control.
    pub fn control(&self) -> Option<Self> {
        let mut actions = Vec::new();
        for action in &self.actions {
            let neutral = match &action.operation {
                Operation::Kill { program, .. } | Operation::Term { program } => {
                    Operation::Term { program: program.clone() }
                }
                Operation::Recreate { object, .. } => {
                    let until = Some(Box::new(Trigger::quiet()));
                    Operation::Recreate { object: object.clone(), until }
                }
                Operation::Flip { .. } => action.operation.clone(),
                _ => continue,
            };
            let at = action.trigger.clone().filter(|trigger| *trigger != Trigger::quiet());
            actions.extend(at.map(|trigger| PlannedAction::at(trigger, Operation::Resume {})));
            actions.push(PlannedAction::at(Trigger::quiet(), neutral));
        }
        (!actions.is_empty()).then(|| Self { actions, ..self.clone() })
    }

    /// Whether the user does more in it than the steps of the scenario: then what comes of it need not be what comes of the references.
    pub fn changes_input(&self) -> bool {
        let is_users = |action: &PlannedAction| {
            matches!(action.operation, Operation::Recreate { .. } | Operation::Flip { .. })
        };
        self.actions.iter().any(is_users)
    }

    /// The seed and the swaps of the run's serial order: those of all its actions.
    pub fn order(&self) -> (Option<u64>, BTreeSet<u64>) {
        let mut order = (None, BTreeSet::new());
        for action in &self.actions {
            if let Operation::Order { seed, swaps } = &action.operation {
                order.0 = order.0.or(*seed);
                order.1.extend(swaps);
            }
        }
        order
    }

    /// The actions but for those that set the order, which is in force before the plan begins.
    pub fn actions_in_order(&self) -> Vec<&PlannedAction> {
        let sets_order = |action: &&PlannedAction| matches!(action.operation, Operation::Order { .. });
        self.actions.iter().filter(|action| !sets_order(action)).collect()
    }

    /// A key by which equal plans are found.
    pub fn key(&self) -> String {
        serde_json::to_string(&self.actions).unwrap_or_default()
    }

    /// Names of the caches that the plan uses.
    pub fn caches(&self) -> BTreeSet<&str> {
        let names = self.actions.iter().flat_map(|action| match &action.operation {
            Operation::Freeze { cache, .. }
            | Operation::Thaw { cache, .. }
            | Operation::Kill { cache: Some(cache), .. } => vec![cache.as_str()],
            Operation::Route { routes } => routes.iter().map(|route| route.cache.as_str()).collect(),
            _ => Vec::new(),
        });
        names.collect()
    }

    /// Programs that the plan ends.
    pub fn ends_programs(&self) -> bool {
        let ends = |action: &PlannedAction| {
            matches!(action.operation, Operation::Kill { .. } | Operation::Term { .. })
        };
        self.actions.iter().any(ends)
    }

    /// The plan in a line: its pattern, its first trigger, and how often that action is done.
    pub fn title(&self) -> String {
        let triggered = |action: &PlannedAction| Some((action.repetitions(), action.trigger.clone()?));
        match self.actions.iter().find_map(triggered) {
            Some((times, trigger)) => format!("{}{times} when {trigger}", self.pattern),
            None => self.pattern.to_string(),
        }
    }
}

/// A trigger at the nth request for an object.
pub fn at_request(
    (client, verb, subresource): (&str, &str, &str),
    key: &ObjectKey,
    nth: u64,
    phase: RequestPhase,
) -> Trigger {
    let some = |text: &str| Some(text.to_owned());
    Trigger::Request(RequestTrigger {
        client: some(client),
        verb: some(verb),
        resource: some(&key.resource),
        subresource: some(subresource),
        namespace: (!key.namespace.is_empty()).then(|| key.namespace.clone()),
        // The name of what is created is in the body.
        name: (verb != "create" && !key.name.is_empty()).then(|| key.name.clone()),
        nth,
        phase,
    })
}

#[cfg(test)]
mod tests;
