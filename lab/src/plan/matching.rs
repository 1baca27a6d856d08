//! Whether an observation matches a trigger, and how often it has. Conditions in CEL are compiled once; one that fails does not match.
//! Pure.

use super::trigger::{EventTrigger, RequestTrigger, StepPhase, Trigger, WriteTrigger};
use crate::client::identity::glob;
use crate::limits;
use crate::request::{EventPhase, EventType, Phase, Verb};
use jiff::Timestamp;
use kstore_cel::{Env, Library, Program, Shape, Type, Val};
use serde_json::Value;

/// Reads the objects of an observation, when a condition needs them; null if there is none.
pub type ReadObject<'a> = &'a dyn Fn() -> Value;

/// What plans observe.
#[derive(Clone, Copy)]
pub enum Observation<'a> {
    /// A request, at a phase.
    Request(&'a ObservedRequest<'a>),
    /// A watch event, at a phase.
    Event(&'a ObservedEvent<'a>),
    /// A change of an object at a revision.
    Write(&'a ObservedWrite<'a>),
    /// A client, or with an empty name all counted clients, became quiet.
    Quiet(&'a str),
    /// A step of the scenario.
    Step(&'a str, StepPhase),
    /// The cluster's time.
    Time(Timestamp),
}

/// A request as plans see it.
#[derive(Clone, Copy)]
pub struct ObservedRequest<'a> {
    /// Position in the request log, which identifies it.
    pub number: u64,
    /// Phase.
    pub phase: Phase,
    /// Name of the client.
    pub client: &'a str,
    /// Verb.
    pub verb: Verb,
    /// Resource, as `plural.group`.
    pub resource: &'a str,
    /// Subresource.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name of the object; that of the body for a create.
    pub name: &'a str,
    /// The stored object.
    pub old: ReadObject<'a>,
    /// The result, or the body of a create or update that is not performed.
    pub new: ReadObject<'a>,
    /// The body.
    pub request: ReadObject<'a>,
}

/// A watch event as plans see it.
#[derive(Clone, Copy)]
pub struct ObservedEvent<'a> {
    /// Position of the watch in the request log.
    pub watch: u64,
    /// Phase.
    pub phase: EventPhase,
    /// Name of the client.
    pub client: &'a str,
    /// Resource, as `plural.group`.
    pub resource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Type.
    pub kind: EventType,
    /// Revision of the change.
    pub revision: i64,
    /// The object before.
    pub old: ReadObject<'a>,
    /// The object after.
    pub new: ReadObject<'a>,
}

/// A change of an object as plans see it.
#[derive(Clone, Copy)]
pub struct ObservedWrite<'a> {
    /// Name of the writing client, or the agent of a component.
    pub by: &'a str,
    /// Resource, as `plural.group`.
    pub resource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Revision.
    pub revision: i64,
    /// The object before.
    pub old: ReadObject<'a>,
    /// The object after.
    pub new: ReadObject<'a>,
}

/// A trigger with its compiled conditions, and how far it has come since it was armed.
#[derive(Debug)]
pub struct ArmedTrigger {
    trigger: Trigger,
    progress: Progress,
}

/// How far a trigger has come.
#[derive(Debug)]
enum Progress {
    /// A trigger without others.
    Single {
        /// Matching observations so far.
        count: u64,
        /// The compiled condition.
        condition: Option<Box<Program>>,
        /// The time at which it fires.
        due: Option<Timestamp>,
        has_fired: bool,
    },
    /// `any` or `all`.
    Several(Vec<Progress>),
}

/// A trigger cannot be used: the member, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerProblem {
    /// JSON pointer within the trigger.
    pub pointer: String,
    /// What is wrong there.
    pub problem: String,
}

impl ArmedTrigger {
    /// Prepares a trigger.
    ///
    /// # Errors
    /// It is too large, or a condition does not compile.
    pub fn new(trigger: &Trigger) -> Result<Self, TriggerProblem> {
        let mut count = 0;
        let progress = prepare(trigger, "", limits::TRIGGER_DEPTH, &mut count)?;
        Ok(Self { trigger: trigger.clone(), progress })
    }

    /// Arms the trigger: times count from now on.
    pub fn arm(&mut self, now: Timestamp) {
        arm(&self.trigger, &mut self.progress, now, limits::TRIGGER_DEPTH);
    }

    /// Observes; returns whether the trigger fires.
    pub fn observe(&mut self, observation: &Observation<'_>) -> bool {
        observe(&self.trigger, &mut self.progress, observation, limits::TRIGGER_DEPTH)
    }

    /// The earliest time at which the trigger may fire because of the clock.
    pub fn next_time(&self) -> Option<Timestamp> {
        next_time(&self.progress, limits::TRIGGER_DEPTH)
    }

    /// Whether an observation of this sort may matter: a condition that needs bodies of requests.
    pub fn reads_bodies(&self) -> bool {
        reads_bodies(&self.trigger, limits::TRIGGER_DEPTH)
    }
}

fn prepare(
    trigger: &Trigger,
    pointer: &str,
    depth: usize,
    count: &mut usize,
) -> Result<Progress, TriggerProblem> {
    *count += 1;
    let refused = |member: &str, problem: &str| TriggerProblem {
        pointer: format!("{pointer}{member}"),
        problem: problem.to_owned(),
    };
    if *count > limits::TRIGGERS {
        return Err(refused("", &format!("an action has at most {} triggers", limits::TRIGGERS)));
    }
    let (name, condition, nth) = match trigger {
        Trigger::Request(request) => ("/request", request.condition.as_deref(), request.nth),
        Trigger::Event(event) => ("/event", event.condition.as_deref(), event.nth),
        Trigger::Write(write) => ("/write", write.condition.as_deref(), write.nth),
        Trigger::Quiet(quiet) => ("/quiet", None, quiet.nth),
        Trigger::After(after) => ("/after", None, *after),
        Trigger::Step(_) => ("/step", None, 1),
        Trigger::Time(_) => ("/time", None, 1),
        Trigger::Any(several) | Trigger::All(several) => {
            let name = if matches!(trigger, Trigger::Any(_)) { "/any" } else { "/all" };
            if depth == 0 {
                let most = limits::TRIGGER_DEPTH;
                return Err(refused(name, &format!("any and all are nested at most {most} times")));
            }
            if several.is_empty() {
                return Err(refused(name, "needs a trigger"));
            }
            let each = several
                .iter()
                .enumerate()
                .map(|(place, one)| prepare(one, &format!("{pointer}{name}/{place}"), depth - 1, count));
            return Ok(Progress::Several(each.collect::<Result<_, _>>()?));
        }
    };
    if nth == 0 {
        let member = if name == "/after" { name.to_owned() } else { format!("{name}/nth") };
        return Err(refused(&member, "counts from 1"));
    }
    let condition = condition.map(|text| compile(text).map(Box::new));
    let condition = condition.transpose().map_err(|problem| refused(&format!("{name}/where"), &problem))?;
    Ok(Progress::Single { count: 0, condition, due: None, has_fired: false })
}

/// Compiles a condition over `old`, `new` and `request`.
fn compile(text: &str) -> Result<Program, String> {
    if text.len() > limits::CONDITION_BYTES {
        return Err(format!("has at most {} bytes", limits::CONDITION_BYTES));
    }
    let env = Env::builder()
        .library(Library::Optional)
        .library(Library::Strings)
        .library(Library::Lists)
        .library(Library::Sets)
        .variable("old", Type::Dyn)
        .variable("new", Type::Dyn)
        .variable("request", Type::Dyn)
        .build();
    let checked = env.compile(text).map_err(|errors| errors.to_string())?;
    if !matches!(checked.result_type(), Type::Bool | Type::Dyn) {
        return Err("must be true or false".to_owned());
    }
    checked.program().map_err(|error| error.to_string())
}

fn arm(trigger: &Trigger, progress: &mut Progress, now: Timestamp, depth: usize) {
    match (trigger, progress) {
        (Trigger::Any(triggers) | Trigger::All(triggers), Progress::Several(several)) if depth > 0 => {
            triggers.iter().zip(several).for_each(|(trigger, one)| arm(trigger, one, now, depth - 1));
        }
        (Trigger::Time(time), Progress::Single { due, .. }) => {
            *due = Some(now.checked_add(time.after).unwrap_or(Timestamp::MAX));
        }
        _ => {}
    }
}

fn next_time(progress: &Progress, depth: usize) -> Option<Timestamp> {
    match progress {
        Progress::Single { due, has_fired: false, .. } => *due,
        Progress::Single { .. } => None,
        Progress::Several(_) if depth == 0 => None,
        Progress::Several(several) => several.iter().filter_map(|one| next_time(one, depth - 1)).min(),
    }
}

fn reads_bodies(trigger: &Trigger, depth: usize) -> bool {
    match trigger {
        Trigger::Request(request) => {
            request.condition.is_some() || request.name.is_some() || request.verb == Some(Verb::Create)
        }
        Trigger::Any(several) | Trigger::All(several) if depth > 0 => {
            several.iter().any(|one| reads_bodies(one, depth - 1))
        }
        _ => false,
    }
}

fn observe(trigger: &Trigger, progress: &mut Progress, observation: &Observation<'_>, depth: usize) -> bool {
    match progress {
        Progress::Several(several) => {
            let (Trigger::Any(triggers) | Trigger::All(triggers)) = trigger else { return false };
            if depth == 0 {
                return false;
            }
            let each = triggers
                .iter()
                .zip(several)
                .map(|(trigger, one)| observe(trigger, one, observation, depth - 1));
            // All observe, so that none misses what it counts.
            let fired: Vec<bool> = each.collect();
            match trigger {
                Trigger::Any(_) => fired.contains(&true),
                _ => fired.iter().all(|fired| *fired),
            }
        }
        Progress::Single { count, condition, due, has_fired } => {
            if *has_fired {
                return true;
            }
            let Some(nth) = matched(trigger, observation, condition.as_deref(), *due) else { return false };
            *count += 1;
            *has_fired = *count >= nth;
            *has_fired
        }
    }
}

/// Which matching observation fires the trigger, if this one matches.
fn matched(
    trigger: &Trigger,
    observation: &Observation<'_>,
    condition: Option<&Program>,
    due: Option<Timestamp>,
) -> Option<u64> {
    match (trigger, observation) {
        (Trigger::Request(wanted), Observation::Request(request)) => {
            let holds = || holds(condition, request.old, request.new, request.request);
            (is_request(wanted, request) && holds()).then_some(wanted.nth)
        }
        (Trigger::Event(wanted), Observation::Event(event)) => {
            let holds = || holds(condition, event.old, event.new, &|| Value::Null);
            (is_event(wanted, event) && holds()).then_some(wanted.nth)
        }
        (Trigger::Write(wanted), Observation::Write(write)) => {
            let holds = || holds(condition, write.old, write.new, &|| Value::Null);
            (is_write(wanted, write) && holds()).then_some(wanted.nth)
        }
        (Trigger::Quiet(wanted), Observation::Quiet(client)) => {
            (wanted.client.as_deref().unwrap_or_default() == *client).then_some(wanted.nth)
        }
        (Trigger::Step(wanted), Observation::Step(name, phase)) => {
            (wanted.name == *name && wanted.phase == *phase).then_some(1)
        }
        (Trigger::After(count), Observation::Request(request)) => {
            (request.phase == Phase::Arrived).then_some(*count)
        }
        (Trigger::After(count), Observation::Event(event)) => {
            (event.phase == EventPhase::Due).then_some(*count)
        }
        (Trigger::Time(_), Observation::Time(now)) => due.filter(|due| due <= now).map(|_| 1),
        _ => None,
    }
}

fn is(pattern: Option<&String>, text: &str) -> bool {
    pattern.is_none_or(|pattern| glob(pattern, text))
}

fn is_request(wanted: &RequestTrigger, request: &ObservedRequest<'_>) -> bool {
    wanted.phase == request.phase
        && wanted.verb.is_none_or(|verb| verb == request.verb)
        && is(wanted.client.as_ref(), request.client)
        && is(wanted.resource.as_ref(), request.resource)
        && is(wanted.subresource.as_ref(), request.subresource)
        && is(wanted.namespace.as_ref(), request.namespace)
        && is(wanted.name.as_ref(), request.name)
}

fn is_event(wanted: &EventTrigger, event: &ObservedEvent<'_>) -> bool {
    let is_change = !matches!(event.kind, EventType::Bookmark | EventType::Error);
    wanted.phase == event.phase
        && wanted.kind.map_or(is_change, |kind| kind == event.kind)
        && is(wanted.client.as_ref(), event.client)
        && is(wanted.resource.as_ref(), event.resource)
        && is(wanted.namespace.as_ref(), event.namespace)
        && is(wanted.name.as_ref(), event.name)
}

fn is_write(wanted: &WriteTrigger, write: &ObservedWrite<'_>) -> bool {
    is(wanted.by.as_ref(), write.by)
        && is(wanted.resource.as_ref(), write.resource)
        && is(wanted.namespace.as_ref(), write.namespace)
        && is(wanted.name.as_ref(), write.name)
}

/// Whether a condition holds; one that fails or costs too much does not.
fn holds(
    condition: Option<&Program>,
    old: ReadObject<'_>,
    new: ReadObject<'_>,
    request: ReadObject<'_>,
) -> bool {
    let Some(program) = condition else { return true };
    let (old, new, request) = (old(), new(), request());
    let shape = Shape::Dyn;
    let (Ok(old), Ok(new), Ok(request)) = (shape.value(&old), shape.value(&new), shape.value(&request))
    else {
        return false;
    };
    let variables = [("old", old), ("new", new), ("request", request)];
    let (result, _) = program.eval(&variables, limits::CONDITION_COST);
    matches!(result, Ok(Val::Bool(true)))
}
