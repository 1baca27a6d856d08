//! Triggers and operations in the words of reports. Pure.

use super::{
    EventTrigger, Operation, QuietTrigger, RequestPhase, RequestTrigger, Restart, TimeTrigger, Trigger,
    WriteTrigger,
};
use std::fmt;

/// The nth of something in words: the first goes without saying.
fn ordinal(nth: u64) -> String {
    match nth {
        0 | 1 => String::new(),
        2 => ", second time".to_owned(),
        3 => ", third time".to_owned(),
        nth => format!(", {nth}th time"),
    }
}

/// The objects that a trigger matches.
fn objects(resource: Option<&String>, namespace: Option<&String>, name: Option<&String>) -> String {
    let parts = [resource, namespace, name];
    let parts: Vec<&str> =
        parts.into_iter().flatten().map(String::as_str).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "anything".to_owned() } else { parts.join("/") }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(RequestTrigger {
                client,
                verb,
                resource,
                subresource,
                namespace,
                name,
                nth,
                phase,
            }) => {
                let client = client.as_deref().unwrap_or("a client");
                let verb = verb.as_deref().unwrap_or("request");
                let sub = subresource.as_deref().filter(|sub| !sub.is_empty());
                let sub = sub.map(|sub| format!("/{sub}")).unwrap_or_default();
                let objects = objects(resource.as_ref(), namespace.as_ref(), name.as_ref());
                let moment = match phase {
                    RequestPhase::Arrived => "before",
                    RequestPhase::Done => "after",
                };
                write!(f, "{client} does {verb} {objects}{sub}{}, {moment} it is done", ordinal(*nth))
            }
            Self::Event(EventTrigger { client, resource, namespace, name, nth }) => {
                let objects = objects(resource.as_ref(), namespace.as_ref(), name.as_ref());
                let client = client.as_deref().unwrap_or("a client");
                write!(f, "an event of {objects} is due to {client}{}", ordinal(*nth))
            }
            Self::Write(WriteTrigger { by, resource, namespace, name, nth }) => {
                let objects = objects(resource.as_ref(), namespace.as_ref(), name.as_ref());
                let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
                write!(f, "{objects} is written{by}{}", ordinal(*nth))
            }
            Self::Quiet(QuietTrigger { client, nth }) => match client {
                Some(client) => write!(f, "{client} is quiet{}", ordinal(*nth)),
                None => write!(f, "all clients are quiet{}", ordinal(*nth)),
            },
            Self::Time(TimeTrigger { after }) => write!(f, "{after} of the cluster's time have passed"),
            Self::Any(any) => {
                let any: Vec<String> = any.iter().map(Self::to_string).collect();
                f.write_str(&any.join(", or "))
            }
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { program, start, cache } => {
                write!(f, "kill {program}")?;
                match cache {
                    Some(cache) => write!(f, ", start it on cache {cache:?}")?,
                    None => f.write_str(", start it")?,
                }
                match start {
                    Restart::Now => Ok(()),
                    Restart::When(trigger) => write!(f, " when {trigger}"),
                }
            }
            Self::Term { program } => write!(f, "restart {program} in order"),
            Self::Freeze { cache, resources } => {
                write!(f, "freeze cache {cache:?} for {}", resources.join(", "))
            }
            Self::Thaw { cache, step: None } => write!(f, "thaw cache {cache:?}"),
            Self::Thaw { cache, step: Some(step) } => write!(f, "thaw {step} changes of cache {cache:?}"),
            Self::Route { routes } => {
                let routes: Vec<String> = routes
                    .iter()
                    .map(|route| format!("{} on cache {:?}", route.client.program, route.cache))
                    .collect();
                write!(f, "route {}", routes.join(", "))
            }
            Self::Resume {} => f.write_str("wait"),
            Self::Skip { until } => write!(f, "show no event from here until {until}"),
            Self::Touch {} => f.write_str("another writer is faster"),
            Self::Error {} => f.write_str("answer 500, nothing is done"),
            Self::TooMany {} => f.write_str("answer 429, nothing is done"),
            Self::Unavailable { how } => write!(f, "server unavailable ({how}), nothing is done"),
            Self::Timeout {} => f.write_str("answer 504, nothing is done"),
            Self::LostAnswer { how } => write!(f, "lose the answer ({how})"),
            Self::Cut { how } => write!(f, "end the watch ({how})"),
            Self::Expire {} => f.write_str("expire the watch (410)"),
            Self::SilentEnd {} => f.write_str("end the watch without an event"),
            Self::Recreate { object, until: None } => write!(f, "the user deletes and creates {object}"),
            Self::Recreate { object, until: Some(until) } => {
                write!(f, "the user deletes {object} and creates it when {until}")
            }
            Self::Flip { object, merge } => write!(f, "the user changes {object} to {merge} and back"),
            Self::TakeLease { lease, until } => write!(f, "give the Lease {lease} away until {until}"),
            Self::Pause { program, until } => write!(f, "stop {program} until {until}"),
            Self::Second { program, until } => write!(f, "run {program} twice until {until}"),
            Self::Leap { by } => write!(f, "move the clock by {by}"),
            Self::NodeStop { node, until } => write!(f, "power {node} off until {until}"),
            Self::WebhookDown { webhook, how, until } => {
                write!(f, "webhook {webhook} fails ({how}) until {until}")
            }
            Self::Order { seed, swaps } => {
                let turns: Vec<String> = swaps.iter().map(u64::to_string).collect();
                let turns = turns.join(", ");
                match (seed, turns.is_empty()) {
                    (None, _) => write!(f, "let another request or event have turn {turns}"),
                    (Some(seed), true) => write!(f, "order requests and events by seed {seed}"),
                    (Some(seed), false) => {
                        write!(f, "order requests and events by seed {seed}, otherwise from turn {turns}")
                    }
                }
            }
        }
    }
}
