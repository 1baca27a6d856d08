//! Carries out a plan through the lab's plans.

use super::{ActiveRun, RunError};
use crate::plan::Plan;
use kstore_api::status::Status;
use kstore_lab::cache::CacheSpec;
use kstore_lab::client::process::sample;
use kstore_lab::limits as lab_limits;
use kstore_lab::order::SerialOrder;
use kstore_lab::order::choose::OrderRule;
use kstore_lab::plan::ActionState;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Real time for which clients may be busy between two looks at the run's limits.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same while the plan holds a client back.
const HELD: Duration = Duration::from_millis(300);

/// Real time between two looks at the programs that tell whether one of them runs.
const LOOK: Duration = Duration::from_millis(20);

/// A plan of the lab that runs in a fork.
#[derive(Clone, Debug)]
pub(super) struct InjectedPlan {
    /// Its identifier in the lab.
    id: String,
}

/// Who sets the serial order of a run.
const ORDER: (&str, usize) = ("explore", 0);

impl ActiveRun<'_> {
    /// The serial order of the run.
    pub(super) fn order(&self) -> &Arc<SerialOrder> {
        &self.current.bridge.perturbations.order
    }

    /// Puts requests and events in serial order, with the exceptions of the plan: then the run is a function of image, plan and programs.
    pub(super) fn begin_order(&self, plan: Option<&Plan>) -> Result<(), RunError> {
        let (seed, swaps) = plan.map(Plan::order).unwrap_or_default();
        let begun = self.order().begin(ORDER, OrderRule { seed, swaps }, lab_limits::PATIENCE);
        begun.map_err(|problem| RunError::lab("requests cannot be ordered")(Status::internal(problem)))
    }

    /// Starts a plan. Its triggers count from here.
    pub(super) fn inject(&mut self, plan: &Plan) -> Result<(), RunError> {
        let actions = plan.actions_in_order();
        if actions.is_empty() {
            return Ok(());
        }
        let parsed = serde_json::from_value(json!({ "actions": actions }));
        let parsed = parsed.map_err(|error| {
            RunError::lab("the plan cannot be used")(Status::bad_request(error.to_string()))
        })?;
        let (running, perturbations) = (self.current.running(), &self.current.bridge.perturbations);
        for cache in plan.caches() {
            let made = perturbations.caches.put(cache, CacheSpec::default());
            made.map_err(RunError::lab("a cache of the plan cannot be made"))?;
        }
        perturbations.set_programs(self.cluster.programs().clone());
        let started = perturbations.plans.start(parsed, running.time(), running.store().revision().0);
        let id = started.map_err(RunError::lab("the plan cannot be started"))?;
        self.injected = Some(InjectedPlan { id });
        Ok(())
    }

    /// The actions of the plan that happened, each with the revision of that moment.
    pub(super) fn fired(&self) -> Vec<(i64, String)> {
        self.current.bridge.perturbations.plans.fired()
    }

    fn action_states(&self) -> Vec<ActionState> {
        let Some(injected) = &self.injected else { return Vec::new() };
        let report = self.current.bridge.perturbations.plans.report(&injected.id);
        report.map(|report| report.actions.iter().map(|action| action.state).collect()).unwrap_or_default()
    }

    /// The first action of the plan that did not happen, and why.
    pub(super) fn missed(&self) -> Option<String> {
        let injected = self.injected.as_ref()?;
        let report = self.current.bridge.perturbations.plans.report(&injected.id).ok()?;
        let (nth, missed) =
            report.actions.iter().enumerate().find(|(_, action)| action.state != ActionState::Done)?;
        let why = if missed.why.is_empty() { "its trigger never came" } else { &missed.why };
        Some(format!("action {}: {why}", nth + 1))
    }

    /// Whether an action is under way, which may hold a client back until a later step.
    pub(super) fn is_held(&self) -> bool {
        self.action_states().contains(&ActionState::Held)
    }

    /// Whether the clients that are busy since `since` of the run wait for the plan, and not for the processor: then nothing happens before
    /// a later step. On a busy machine a program that the plan does not hold may be busy for longer than [`Self::patience`].
    pub(super) async fn is_held_back(&self, since: Duration) -> bool {
        self.is_held() && (self.elapsed().saturating_sub(since) >= PATIENCE || !self.is_any_running().await)
    }

    /// Whether a thread of a program runs or could run, within [`LOOK`].
    async fn is_any_running(&self) -> bool {
        let processes = self.current.bridge.clients.processes();
        let look = || processes.iter().map(|process| sample(*process)).collect::<Vec<_>>();
        let before = look();
        tokio::time::sleep(LOOK).await;
        let now = look();
        now != before || now.iter().flatten().any(|sample| sample.runnable > 0)
    }

    /// Real time for which clients may be busy: short while the plan holds one back.
    pub(super) fn patience(&self) -> Duration {
        if self.is_held() { HELD } else { PATIENCE }
    }

    /// Whether a part of the plan happened, and another will.
    pub(super) fn is_underway(&self) -> bool {
        let states = self.action_states();
        let has_begun = states.iter().any(|state| matches!(state, ActionState::Done | ActionState::Held));
        let is_due = states
            .iter()
            .any(|state| matches!(state, ActionState::Waiting | ActionState::Armed | ActionState::Held));
        has_begun && is_due
    }

    /// Ends the plan and the order: frozen caches and waiting requests go on.
    pub(super) fn end_plan(&mut self) {
        self.order().end(ORDER);
        self.current.bridge.perturbations.changed.notify_waiters();
        if let Some(injected) = self.injected.take() {
            self.current.bridge.perturbations.plans.end(&injected.id, self.current.running().time());
        }
    }
}
