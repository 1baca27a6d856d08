//! [`Plans`]: the plans of a cluster. They observe requests, events, writes, quiet clients and time, and hold what their machines say.
//! Operations go to an executor, which reports when they are done.

use super::matching::Observation;
use super::step::{Cause, Order, PlanMachine};
use super::{Operation, Plan, PlanEvent, PlanReport, PlanState, PlannedAction};
use crate::client::quiet::Busy;
use crate::error::{bad_request, conflict, not_found, too_many};
use crate::fault::Fault;
use crate::limits;
use crate::settle::PlannedWork;
use jiff::Timestamp;
use kstore_api::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc};

/// An operation for the executor.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Identifier of the plan.
    pub plan: String,
    /// Place of the action.
    pub action: usize,
    /// What is to be done.
    pub operation: Operation,
    /// What fired it.
    pub cause: Cause,
    /// Whether the operation ends what it began.
    pub is_undo: bool,
}

/// What plans want of an observed request or event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Faults, in the order of the plans' actions.
    pub faults: Vec<Fault>,
    /// Identifier of the hold; `None`: it goes on.
    pub hold: Option<u64>,
    /// Identifier of the plan that said so.
    pub plan: String,
}

/// The plans of a cluster.
#[derive(Debug)]
pub struct Plans {
    state: Mutex<PlansState>,
    /// Plans that have not ended.
    running: AtomicUsize,
    next_hold: AtomicU64,
    /// Revision up to which writes were observed.
    observed: AtomicI64,
    /// Has room for every operation of the plans in `state`: [`Plans::start`] sees to that.
    jobs: mpsc::Sender<Job>,
    /// Notified, for all waiting, when a hold ends or a plan begins, moves or ends.
    pub changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct PlansState {
    plans: BTreeMap<String, PlanEntry>,
    next: u64,
    /// Held requests and events by identifier, which ascends, with their plan and action.
    holds: BTreeMap<u64, (String, usize)>,
    /// Operations that the executor has not completed, in order.
    under_way: Vec<UnfinishedJob>,
}

/// An operation that was sent to the executor.
#[derive(Debug, PartialEq)]
struct UnfinishedJob {
    plan: String,
    action: usize,
    is_undo: bool,
    name: &'static str,
    waits_for_programs: bool,
}

impl UnfinishedJob {
    fn of(job: &Job) -> Self {
        let (name, waits_for_programs) = (job.operation.name(), job.operation.waits_for_programs());
        Self { plan: job.plan.clone(), action: job.action, is_undo: job.is_undo, name, waits_for_programs }
    }
}

#[derive(Debug)]
struct PlanEntry {
    machine: PlanMachine,
    plan: Plan,
}

impl Plans {
    /// No plans. Operations are sent to the receiver's executor.
    pub fn new(changed: Arc<Notify>) -> (Self, mpsc::Receiver<Job>) {
        let (jobs, executor) = mpsc::channel(limits::PLAN_JOBS);
        let plans = Self {
            state: Mutex::default(),
            running: AtomicUsize::new(0),
            next_hold: AtomicU64::new(1),
            observed: AtomicI64::new(0),
            jobs,
            changed,
        };
        (plans, executor)
    }

    /// Whether a plan runs.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Starts a plan. `revision` is the newest one. A plan with a name that an equal one has is that one.
    ///
    /// # Errors
    /// 400: the plan cannot be used. 403: it has an illegal fault. 409: the name is taken. 429: there are too many.
    pub fn start(&self, plan: Plan, now: Timestamp, revision: i64) -> Result<String, Status> {
        check(&plan)?;
        let mut state = self.state.lock();
        if let Some(known) = state.plans.get(&plan.name) {
            return match known.plan == plan {
                true => Ok(plan.name),
                false => Err(conflict(format!("plan {:?} exists and is another one", plan.name))),
            };
        }
        if state.plans.len() >= limits::PLANS {
            return Err(too_many("plans", limits::PLANS, "too many plans"));
        }
        let known = state.plans.values().map(|entry| entry.plan.actions.len()).sum::<usize>();
        if self.jobs.capacity() < limits::OPERATIONS * (known + plan.actions.len()) {
            return Err(too_many(
                "operations of plans",
                limits::PLAN_JOBS,
                "operations of earlier plans wait",
            ));
        }
        let mut id = plan.name.clone();
        while id.is_empty() || state.plans.contains_key(&id) {
            state.next += 1;
            id = format!("p{}", state.next);
        }
        let (machine, orders) = PlanMachine::new(id.clone(), &plan, (now, revision))
            .map_err(|problem| bad_request(&problem.pointer, problem.problem))?;
        state.plans.insert(id.clone(), PlanEntry { machine, plan });
        if !self.is_running() {
            self.observed.store(revision, Ordering::Release);
        }
        self.carry_out(&mut state, &id, orders);
        self.count(&state);
        drop(state);
        self.changed.notify_waiters();
        Ok(id)
    }

    /// Ends a plan and forgets it. What its operations began ends, and what it held goes on.
    pub fn end(&self, id: &str, now: Timestamp) {
        let mut state = self.state.lock();
        let Some(mut entry) = state.plans.remove(id) else { return };
        let orders = entry.machine.end(now);
        self.carry_out(&mut state, id, orders);
        state.holds.retain(|_, (plan, _)| plan != id);
        self.count(&state);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Lets everything go on that a plan holds.
    ///
    /// # Errors
    /// 404: there is no such plan.
    pub fn resume(&self, id: &str) -> Result<(), Status> {
        let mut state = self.state.lock();
        if !state.plans.contains_key(id) {
            return Err(not_found("plan", id));
        }
        state.holds.retain(|_, (plan, _)| plan != id);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// A plan in answers of the lab.
    ///
    /// # Errors
    /// 404: there is none.
    pub fn report(&self, id: &str) -> Result<PlanReport, Status> {
        let state = self.state.lock();
        state.plans.get(id).map(|entry| entry.machine.report()).ok_or_else(|| not_found("plan", id))
    }

    /// Identifiers of the plans.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().plans.keys().cloned().collect()
    }

    /// Events of a plan after a position, and whether the plan goes on.
    ///
    /// # Errors
    /// 404: there is no such plan.
    pub fn events(&self, id: &str, after: u64) -> Result<(Vec<PlanEvent>, bool), Status> {
        let state = self.state.lock();
        let entry = state.plans.get(id).ok_or_else(|| not_found("plan", id))?;
        let is_running = entry.machine.state() == PlanState::Running;
        Ok((entry.machine.events_after(after).to_vec(), is_running))
    }

    /// The actions of all plans that happened: the revision up to which writes were observed then, the name, and what fired it.
    pub fn fired(&self) -> Vec<(i64, String)> {
        self.state.lock().plans.values().flat_map(|entry| entry.machine.fired()).collect()
    }

    /// Whether a running plan needs the bodies of requests.
    pub fn reads_bodies(&self) -> bool {
        self.is_running() && self.state.lock().plans.values().any(|entry| entry.machine.reads_bodies())
    }

    /// Number of operations that are being carried out. Those that wait for programs do not count.
    pub fn operations_underway(&self) -> usize {
        let state = self.state.lock();
        state.under_way.iter().filter(|unfinished| !unfinished.waits_for_programs).count()
    }

    /// Adds an event to those of a plan's action.
    pub fn note(&self, id: &str, place: usize, what: String, now: Timestamp) {
        if let Some(entry) = self.state.lock().plans.get_mut(id) {
            entry.machine.note(place, what, now);
        }
    }

    /// The earliest time at which a plan wants to observe the time.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.state.lock().plans.values().filter_map(|entry| entry.machine.next_time()).min()
    }

    /// Observes for all plans. An observed request or event waits while [`Plans::is_held`] says so.
    pub fn observe(&self, observation: &Observation<'_>, now: Timestamp) -> Verdicts {
        let mut verdicts = Verdicts::default();
        if !self.is_running() {
            return verdicts;
        }
        let mut state = self.state.lock();
        let ids: Vec<String> = state.plans.keys().cloned().collect();
        let mut has_changed = false;
        for id in ids {
            let Some(entry) = state.plans.get_mut(&id) else { continue };
            entry.machine.has_observed(self.observed());
            let orders = entry.machine.step(observation, now);
            has_changed |= !orders.is_empty();
            for order in &orders {
                match order {
                    Order::Hold(place) => {
                        let hold = self.hold(&mut state, &id, *place);
                        verdicts.hold = Some(hold);
                        verdicts.plan.clone_from(&id);
                    }
                    Order::Inject(_, fault) => {
                        verdicts.faults.push(fault.clone());
                        verdicts.plan.clone_from(&id);
                    }
                    Order::Begin(..) | Order::Undo(..) | Order::Release => {}
                }
            }
            self.carry_out(&mut state, &id, orders);
        }
        self.count(&state);
        drop(state);
        if has_changed {
            self.changed.notify_waiters();
        }
        verdicts
    }

    /// The revision up to which writes were observed.
    pub fn observed(&self) -> i64 {
        self.observed.load(Ordering::Acquire)
    }

    /// Writes up to this revision were observed.
    pub fn observed_writes(&self, revision: i64) {
        self.observed.fetch_max(revision, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Whether the writes up to a revision were observed, so that their events may be delivered. True while no plan runs.
    pub fn has_observed(&self, revision: i64) -> bool {
        !self.is_running() || self.observed.load(Ordering::Acquire) >= revision
    }

    /// The executor has carried out an operation, or could not: the reason.
    pub fn completed(&self, job: &Job, result: Result<(), String>, now: Timestamp) {
        let mut state = self.state.lock();
        let done = UnfinishedJob::of(job);
        if let Some(place) = state.under_way.iter().position(|unfinished| *unfinished == done) {
            state.under_way.remove(place);
        }
        if !job.is_undo {
            state.holds.retain(|_, (plan, place)| (&**plan, *place) != (&*job.plan, job.action));
            if let Some(entry) = state.plans.get_mut(&job.plan) {
                entry.machine.has_observed(self.observed());
                let orders = entry.machine.completed(job.action, result, now);
                self.carry_out(&mut state, &job.plan, orders);
            }
        }
        self.count(&state);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether a request or event is still held.
    pub fn is_held(&self, hold: u64) -> bool {
        self.state.lock().holds.contains_key(&hold)
    }

    /// Waits until a held request goes on.
    pub async fn released(&self, hold: u64) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if !self.is_held(hold) {
                return;
            }
            changed.await;
        }
    }

    /// A held request or event goes on before its time: its plan fails.
    pub fn give_up(&self, hold: u64) {
        give_up(&mut self.state.lock(), hold);
        self.changed.notify_waiters();
    }

    fn hold(&self, state: &mut PlansState, plan: &str, place: usize) -> u64 {
        if state.holds.len() >= limits::HELD
            && let Some(oldest) = state.holds.keys().next().copied()
        {
            give_up(state, oldest);
        }
        let hold = self.next_hold.fetch_add(1, Ordering::Relaxed);
        state.holds.insert(hold, (plan.to_owned(), place));
        hold
    }

    /// Sends operations to the executor, and releases what is to go on.
    fn carry_out(&self, state: &mut PlansState, id: &str, orders: Vec<Order>) {
        for order in orders {
            let job = match order {
                Order::Begin(action, operation, cause) => {
                    Job { plan: id.to_owned(), action, operation, cause, is_undo: false }
                }
                Order::Undo(action, operation) => {
                    let cause = Cause::default();
                    Job { plan: id.to_owned(), action, operation, cause, is_undo: true }
                }
                Order::Release => {
                    state.holds.retain(|_, (plan, _)| plan != id);
                    continue;
                }
                Order::Hold(_) | Order::Inject(..) => continue,
            };
            let unfinished = UnfinishedJob::of(&job);
            // Without an executor the cluster has ended.
            if self.jobs.try_send(job).is_ok() {
                state.under_way.push(unfinished);
            }
        }
    }

    fn count(&self, state: &PlansState) {
        let running = state.plans.values().filter(|entry| entry.machine.state() == PlanState::Running);
        self.running.store(running.count(), Ordering::Release);
    }
}

impl PlannedWork for Plans {
    fn under_way(&self) -> Vec<Busy> {
        let state = self.state.lock();
        let line = |unfinished: &UnfinishedJob| {
            let UnfinishedJob { plan, action, name, is_undo, .. } = unfinished;
            let what = if *is_undo { "is being undone" } else { "is under way" };
            Busy::of_cluster(&format!("plan {plan}: action {action} ({name}) {what}"))
        };
        state.under_way.iter().take(limits::REASONS).map(line).collect()
    }

    fn changed(&self) -> &Notify {
        &self.changed
    }
}

fn give_up(state: &mut PlansState, hold: u64) {
    if let Some((plan, _)) = state.holds.remove(&hold)
        && let Some(entry) = state.plans.get_mut(&plan)
    {
        entry.machine.fail();
    }
}

/// Checks a plan's bounds and parameters.
fn check(plan: &Plan) -> Result<(), Status> {
    if !plan.name.is_empty() {
        crate::values::name(&plan.name, "/name")?;
    }
    if plan.actions.is_empty() || plan.actions.len() > limits::PLAN_ACTIONS {
        return Err(bad_request("/actions", format!("a plan has 1 to {} actions", limits::PLAN_ACTIONS)));
    }
    for (place, planned) in plan.actions.iter().enumerate() {
        check_action(planned, &format!("/actions/{place}"))?;
    }
    Ok(())
}

fn check_action(planned: &PlannedAction, pointer: &str) -> Result<(), Status> {
    match &planned.action {
        super::Action::Inject(fault) => {
            if let Some((member, problem)) = fault.problem() {
                return Err(bad_request(&format!("{pointer}/{member}"), problem));
            }
            crate::fault::check_legality(fault, planned.illegal, pointer)?;
            if !(1..=limits::FAULT_TIMES).contains(&planned.times) {
                let most = limits::FAULT_TIMES;
                return Err(bad_request(&format!("{pointer}/times"), format!("must be from 1 to {most}")));
            }
            if planned.trigger.is_none() {
                return Err(bad_request(
                    &format!("{pointer}/trigger"),
                    "a fault needs a request or an event",
                ));
            }
            Ok(())
        }
        super::Action::Perform(Operation::Leap { by })
            if by.unsigned_abs() > if by.is_negative() { limits::LEAP_BACK } else { limits::LEAP } =>
        {
            let text = "must be at most 10 years forward or an hour backward";
            Err(bad_request(&format!("{pointer}/by"), text))
        }
        super::Action::Perform(Operation::Order { swaps, .. })
            if swaps.len() > limits::ORDER_SWAPS || swaps.contains(&0) =>
        {
            let text = format!("must be at most {} positions, from 1", limits::ORDER_SWAPS);
            Err(bad_request(&format!("{pointer}/swaps"), text))
        }
        super::Action::Perform(Operation::Order { patience, .. }) if *patience > limits::PATIENCE_MOST => {
            Err(bad_request(&format!("{pointer}/patience"), "must be at most an hour"))
        }
        super::Action::Perform(Operation::Order { .. }) if planned.trigger.is_some() => {
            let text = "the serial order begins with its plan: it has no trigger";
            Err(bad_request(&format!("{pointer}/trigger"), text))
        }
        super::Action::Perform(_) if planned.times != 1 => {
            Err(bad_request(&format!("{pointer}/times"), "belongs to faults"))
        }
        super::Action::Perform(operation) => match operation.node_fault().map(|(_, fault)| fault.item()) {
            Some(Err(problem)) => Err(bad_request(&format!("{pointer}/fault"), problem)),
            Some(Ok(_)) | None => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Action;
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn operations_that_wait_are_bounded_although_their_plans_are_gone() {
        let (plans, mut jobs) = Plans::new(Arc::default());
        let leap = PlannedAction {
            action: Action::Perform(Operation::Leap { by: SignedDuration::from_secs(1) }),
            trigger: None,
            with_previous: false,
            times: 1,
            illegal: false,
        };
        let plan = Plan { name: "p".to_owned(), actions: vec![leap] };
        let again = || {
            let started = plans.start(plan.clone(), Timestamp::UNIX_EPOCH, 1);
            plans.end("p", Timestamp::UNIX_EPOCH);
            started
        };
        let refused = (0..=limits::PLAN_JOBS).find_map(|_| again().err()).expect("the bound holds");
        assert_eq!(refused.code, 429, "{refused:?}");
        jobs.try_recv().unwrap();
        again().unwrap();
    }
}
