//! The machine of a plan: from its state and an observation to its next state and orders. It arms actions in order, counts what their
//! triggers match, and says what is held, injected, carried out and undone. Pure.

use super::matching::{ArmedTrigger, Observation, TriggerProblem};
use super::{
    Action, ActionReport, ActionState, Operation, Plan, PlanEvent, PlanReport, PlanState, PlannedAction,
    Start, Trigger,
};
use crate::fault::Fault;
use crate::limits;
use crate::request::{EventPhase, Phase};
use jiff::Timestamp;

/// An order of a plan, carried out by `run`.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// The observed request or event waits until the action is done: see [`PlanMachine::completed`].
    Hold(usize),
    /// The observed request, or watch, gets a fault.
    Inject(usize, Fault),
    /// An operation begins.
    Begin(usize, Operation, Cause),
    /// What an operation began ends, such as the pause of a program.
    Undo(usize, Operation),
    /// All held requests and events go on.
    Release,
}

/// The revision of what fired an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Revision that a freeze stands at: that of a write, or the one before an event that is due; 0: the newest.
    pub revision: i64,
    /// Position in the request log of the watch whose event is due; 0: none.
    pub watch: u64,
}

/// An action with its state.
#[derive(Debug)]
struct ActionRun {
    planned: PlannedAction,
    trigger: Option<ArmedTrigger>,
    /// The trigger that ends the action, once it has begun.
    until: Option<ArmedTrigger>,
    state: ActionState,
    /// How many further requests get the fault.
    left: u64,
    /// Whether the operation has been carried out, so that only `until` is missing.
    has_begun: bool,
    /// Whether `until` fired before the operation had been carried out.
    ends_at_once: bool,
    fired_by: String,
    why: String,
}

/// A running plan.
#[derive(Debug)]
pub struct PlanMachine {
    id: String,
    runs: Vec<ActionRun>,
    has_ended: bool,
    has_failed: bool,
    events: Vec<PlanEvent>,
    /// Revision up to which writes were observed.
    revision: i64,
}

/// The trigger that ends what an operation began; `None`: it ends by itself, or with the plan.
fn until(operation: &Operation) -> Option<&Trigger> {
    match operation {
        Operation::Skip { until } | Operation::Pause { until, .. } => Some(until),
        Operation::Second { until, .. }
        | Operation::TakeLease { until, .. }
        | Operation::NodeStop { until, .. }
        | Operation::NodeFault { until, .. }
        | Operation::WebhookDown { until, .. }
        | Operation::Recreate { until, .. }
        | Operation::Flip { until, .. } => until.as_deref(),
        Operation::Kill { start: Start::When(when), .. }
        | Operation::Term { start: Start::When(when), .. } => Some(when),
        _ => None,
    }
}

/// Whether an operation has an end that is carried out.
fn is_undone(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Skip { .. }
            | Operation::Pause { .. }
            | Operation::Second { .. }
            | Operation::TakeLease { .. }
            | Operation::NodeStop { .. }
            | Operation::NodeFault { .. }
            | Operation::WebhookDown { .. }
            | Operation::Kill { start: Start::When(_), .. }
            | Operation::Term { start: Start::When(_), .. }
            | Operation::Recreate { until: Some(_), .. }
            | Operation::Flip { until: Some(_), .. }
    )
}

/// Whether an operation is done at once and has an effect until the end of its plan, where it is undone.
fn lasts(operation: &Operation) -> bool {
    matches!(operation, Operation::Order { .. })
}

impl PlanMachine {
    /// Prepares a plan and arms its first actions. `revision` is the newest one.
    ///
    /// # Errors
    /// A trigger cannot be used; the pointer begins at the plan.
    pub fn new(
        id: String,
        plan: &Plan,
        (now, revision): (Timestamp, i64),
    ) -> Result<(Self, Vec<Order>), TriggerProblem> {
        let at = |place: usize, member: &'static str| {
            move |problem: TriggerProblem| TriggerProblem {
                pointer: format!("/actions/{place}/{member}{}", problem.pointer),
                ..problem
            }
        };
        let mut runs = Vec::new();
        for (place, planned) in plan.actions.iter().enumerate() {
            let trigger = planned.trigger.as_ref().map(ArmedTrigger::new).transpose();
            let end = match &planned.action {
                Action::Perform(operation) => until(operation).map(ArmedTrigger::new).transpose(),
                Action::Inject(_) => Ok(None),
            };
            runs.push(ActionRun {
                planned: planned.clone(),
                trigger: trigger.map_err(at(place, "trigger"))?,
                until: end.map_err(at(place, "until"))?,
                state: ActionState::Waiting,
                left: planned.times,
                has_begun: false,
                ends_at_once: false,
                fired_by: String::new(),
                why: String::new(),
            });
        }
        let mut machine =
            Self { id, runs, has_ended: false, has_failed: false, events: Vec::new(), revision };
        let orders = machine.arm_next(now);
        Ok((machine, orders))
    }

    /// Arms all actions whose turn has come: those before their group have fired. Actions without a trigger begin at once.
    fn arm_next(&mut self, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(place) = self.next_to_arm() {
            self.enter(place, ActionState::Armed, String::new(), now);
            match &mut self.runs[place].trigger {
                Some(trigger) => trigger.arm(now),
                None => orders.extend(self.fire(place, "the start of the action", None, now)),
            }
        }
        orders
    }

    /// The first action that waits although all before its group have fired. A group is an action and those that are armed with it.
    fn next_to_arm(&self) -> Option<usize> {
        let has_fired = |run: &ActionRun| !matches!(run.state, ActionState::Waiting | ActionState::Armed);
        let place = self.runs.iter().position(|run| run.state == ActionState::Waiting)?;
        let group = self.runs[..=place].iter().rposition(|run| !run.planned.with_previous).unwrap_or(0);
        self.runs[..group].iter().all(has_fired).then_some(place)
    }

    fn enter(&mut self, place: usize, state: ActionState, what: String, now: Timestamp) {
        let run = &mut self.runs[place];
        run.state = state;
        if self.events.len() < limits::PLAN_EVENTS {
            let n = self.events.len() as u64 + 1;
            let revision = self.revision;
            self.events.push(PlanEvent { n, revision, time: now, action: place, state, what });
        }
    }

    fn fire(
        &mut self,
        place: usize,
        by: &str,
        observed: Option<&Observation<'_>>,
        now: Timestamp,
    ) -> Vec<Order> {
        let mut orders = Vec::new();
        by.clone_into(&mut self.runs[place].fired_by);
        match self.runs[place].planned.action.clone() {
            Action::Inject(fault) => {
                let problem =
                    observed.map_or(Some("needs a request or an event"), |observed| unfit(&fault, observed));
                match problem {
                    Some(problem) => self.skip(place, problem, now),
                    None => {
                        orders.push(Order::Inject(place, fault));
                        let run = &mut self.runs[place];
                        run.left -= 1;
                        let state = if run.left == 0 { ActionState::Done } else { ActionState::Held };
                        self.enter(place, state, by.to_owned(), now);
                    }
                }
            }
            Action::Perform(operation) => {
                let cause = observed.map(cause).unwrap_or_default();
                if matches!(operation, Operation::Skip { .. }) && cause.watch == 0 {
                    self.skip(place, "needs an event that is due as its trigger", now);
                } else {
                    if observed.is_some_and(is_holdable) {
                        orders.push(Order::Hold(place));
                    }
                    if matches!(operation, Operation::Resume {}) {
                        orders.push(Order::Release);
                    }
                    if let Some(until) = &mut self.runs[place].until {
                        until.arm(now);
                    }
                    self.enter(place, ActionState::Held, by.to_owned(), now);
                    orders.push(Order::Begin(place, operation, cause));
                }
            }
        }
        orders
    }

    fn skip(&mut self, place: usize, why: &str, now: Timestamp) {
        why.clone_into(&mut self.runs[place].why);
        self.enter(place, ActionState::Skipped, why.to_owned(), now);
    }

    /// Observes: the next state and the orders. An observed request that gets no order goes on.
    pub fn step(&mut self, observation: &Observation<'_>, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.has_ended {
            return orders;
        }
        let by = described(observation);
        for place in 0..self.runs.len() {
            let run = &mut self.runs[place];
            match run.state {
                ActionState::Armed => {
                    if run.trigger.as_mut().is_some_and(|trigger| trigger.observe(observation)) {
                        orders.extend(self.fire(place, &by, Some(observation), now));
                    }
                }
                ActionState::Held => match run.planned.action.clone() {
                    Action::Inject(fault) => {
                        if run.left > 0 && run.is_again(&fault, observation) {
                            run.left -= 1;
                            orders.push(Order::Inject(place, fault));
                            if run.left == 0 {
                                self.enter(place, ActionState::Done, by.clone(), now);
                            }
                        }
                    }
                    Action::Perform(operation) => {
                        // A quiet moment before the operation has begun is not the one after it.
                        let is_early = !run.has_begun && matches!(observation, Observation::Quiet(_));
                        let ends =
                            !is_early && run.until.as_mut().is_some_and(|until| until.observe(observation));
                        run.ends_at_once |= ends;
                        if ends && run.has_begun {
                            orders.push(Order::Undo(place, operation));
                            self.enter(place, ActionState::Done, by.clone(), now);
                        }
                    }
                },
                ActionState::Waiting | ActionState::Done | ActionState::Skipped => {}
            }
        }
        orders.extend(self.arm_next(now));
        orders
    }

    /// An operation has been carried out, or could not be: the reason. Whatever it held goes on.
    pub fn completed(&mut self, place: usize, result: Result<(), String>, now: Timestamp) -> Vec<Order> {
        let Some(run) = self.runs.get_mut(place).filter(|run| run.state == ActionState::Held) else {
            return Vec::new();
        };
        run.has_begun = true;
        let Action::Perform(operation) = run.planned.action.clone() else { return Vec::new() };
        match result {
            Err(why) => self.skip(place, &why, now),
            Ok(()) if !is_undone(&operation) => {
                let by = run.fired_by.clone();
                self.enter(place, ActionState::Done, by, now);
            }
            Ok(()) if run.ends_at_once => {
                self.enter(place, ActionState::Done, "its end, before it had begun".to_owned(), now);
                return vec![Order::Undo(place, operation)];
            }
            Ok(()) => {}
        }
        Vec::new()
    }

    /// Ends the plan: what operations began ends.
    pub fn end(&mut self, now: Timestamp) -> Vec<Order> {
        let mut orders = vec![Order::Release];
        for place in 0..self.runs.len() {
            let run = &self.runs[place];
            let Action::Perform(operation) = run.planned.action.clone() else { continue };
            if run.state == ActionState::Held && is_undone(&operation) {
                orders.push(Order::Undo(place, operation));
                self.enter(place, ActionState::Done, "the end of the plan".to_owned(), now);
            } else if lasts(&operation) && !matches!(run.state, ActionState::Waiting | ActionState::Armed) {
                orders.push(Order::Undo(place, operation));
            }
        }
        self.has_ended = true;
        orders
    }

    /// Writes up to a revision were observed.
    pub fn has_observed(&mut self, revision: i64) {
        self.revision = revision;
    }

    /// The actions that happened, each with the revision at which it began, its name, and what fired it.
    pub fn fired(&self) -> Vec<(i64, String)> {
        let begun = |place: usize| {
            let own = |event: &&PlanEvent| {
                event.action == place && matches!(event.state, ActionState::Held | ActionState::Done)
            };
            self.events.iter().find(own)
        };
        let runs = self.runs.iter().enumerate();
        let fired = runs.filter_map(|(place, run)| {
            let event = begun(place)?;
            let name = run.planned.action.name();
            let text = match run.fired_by.as_str() {
                "" => name.to_owned(),
                by => format!("{name}, at {by}"),
            };
            Some((event.revision, text))
        });
        fired.collect()
    }

    /// Adds an event of an action, whose state stays.
    pub fn note(&mut self, place: usize, what: String, now: Timestamp) {
        if let Some(state) = self.runs.get(place).map(|run| run.state) {
            self.enter(place, state, what, now);
        }
    }

    /// A held request had to go on before its time.
    pub fn fail(&mut self) {
        self.has_failed = true;
    }

    /// The earliest time at which a trigger may fire because of the clock.
    pub fn next_time(&self) -> Option<Timestamp> {
        let armed = self.runs.iter().filter(|run| run.state == ActionState::Armed);
        let held = self.runs.iter().filter(|run| run.state == ActionState::Held);
        let triggers = armed.filter_map(|run| run.trigger.as_ref());
        triggers.chain(held.filter_map(|run| run.until.as_ref())).filter_map(ArmedTrigger::next_time).min()
    }

    /// Whether a trigger that is not over needs the bodies of requests.
    pub fn reads_bodies(&self) -> bool {
        let open = self
            .runs
            .iter()
            .filter(|run| matches!(run.state, ActionState::Waiting | ActionState::Armed | ActionState::Held));
        open.flat_map(|run| run.trigger.iter().chain(&run.until)).any(ArmedTrigger::reads_bodies)
    }

    /// State of the plan.
    pub fn state(&self) -> PlanState {
        let is_over = |run: &ActionRun| matches!(run.state, ActionState::Done | ActionState::Skipped);
        let is_reached = |run: &ActionRun| !matches!(run.state, ActionState::Waiting | ActionState::Armed);
        if self.has_failed {
            PlanState::Failed
        } else if self.runs.iter().all(is_over) {
            PlanState::Done
        } else if self.has_ended && !self.runs.iter().all(is_reached) {
            PlanState::NotReached
        } else if self.has_ended {
            PlanState::Done
        } else {
            PlanState::Running
        }
    }

    /// The plan in answers of the lab.
    pub fn report(&self) -> PlanReport {
        let action = |run: &ActionRun| ActionReport {
            action: run.planned.clone(),
            state: run.state,
            fired_by: run.fired_by.clone(),
            why: run.why.clone(),
        };
        PlanReport {
            id: self.id.clone(),
            state: self.state(),
            actions: self.runs.iter().map(action).collect(),
        }
    }

    /// Events after a position.
    pub fn events_after(&self, position: u64) -> &[PlanEvent] {
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(self.events.len());
        &self.events[from..]
    }
}

impl ActionRun {
    /// Whether a further request or watch gets the fault of a trigger that has fired: one that the trigger's members match.
    fn is_again(&mut self, fault: &Fault, observation: &Observation<'_>) -> bool {
        if unfit(fault, observation).is_some() {
            return false;
        }
        let Some(trigger) = &self.planned.trigger else { return false };
        // A trigger that has fired stays so; a fresh one counts only this observation.
        let first = match trigger.clone() {
            Trigger::Request(mut request) => {
                request.nth = 1;
                Trigger::Request(request)
            }
            Trigger::Event(mut event) => {
                event.nth = 1;
                Trigger::Event(event)
            }
            _ => return false,
        };
        ArmedTrigger::new(&first).is_ok_and(|mut trigger| trigger.observe(observation))
    }
}

/// Why a fault cannot happen to what was observed.
fn unfit(fault: &Fault, observation: &Observation<'_>) -> Option<&'static str> {
    match observation {
        Observation::Request(request) if request.phase == Phase::Done => match fault {
            Fault::LostAnswer { .. } => None,
            _ => Some("the request was performed: only its answer can be lost"),
        },
        Observation::Request(_) => None,
        Observation::Event(event) if event.phase == EventPhase::Due && fault.is_of_watch() => None,
        Observation::Event(_) => Some("an event that is due has the faults cut, expire and silent-end"),
        _ => Some("needs a request or an event as its trigger"),
    }
}

fn is_holdable(observation: &Observation<'_>) -> bool {
    match observation {
        Observation::Request(_) => true,
        Observation::Event(event) => event.phase == EventPhase::Due,
        _ => false,
    }
}

fn cause(observation: &Observation<'_>) -> Cause {
    match observation {
        Observation::Write(write) => Cause { revision: write.revision, watch: 0 },
        Observation::Event(event) if event.phase == EventPhase::Due => {
            Cause { revision: event.revision - 1, watch: event.watch }
        }
        Observation::Event(event) => Cause { revision: event.revision, watch: 0 },
        _ => Cause::default(),
    }
}

/// What was observed, for reports.
fn described(observation: &Observation<'_>) -> String {
    let object = |resource: &str, namespace: &str, name: &str| {
        let parts = [resource, namespace, name];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    };
    match observation {
        Observation::Request(request) => {
            let target = object(request.resource, request.namespace, request.name);
            format!("request {}: {} {} {target}", request.number, request.client, request.verb)
        }
        Observation::Event(event) => {
            let target = object(event.resource, event.namespace, event.name);
            format!("event {} of {target} for {}", event.revision, event.client)
        }
        Observation::Write(write) => {
            let target = object(write.resource, write.namespace, write.name);
            format!("revision {}: {target} by {}", write.revision, write.by)
        }
        Observation::Quiet("") => "all clients are quiet".to_owned(),
        Observation::Quiet(client) => format!("{client} is quiet"),
        Observation::Step(name, _) => format!("step {name}"),
        Observation::Time(time) => format!("the time is {time}"),
    }
}

#[cfg(test)]
mod tests;
