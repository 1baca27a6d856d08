//! Calls about plans.

use super::{Call, Reply, parse};
use crate::error::{bad_request, not_found};
use crate::limits;
use crate::plan::matching::Observation;
use crate::plan::run::Plans;
use crate::plan::trigger::StepPhase;
use crate::plan::{Plan, PlannedAction};
use jiff::Timestamp;
use kstore_api::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

/// Body of `POST /plans`, whose actions are read one by one, so that a refusal says which.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanBody {
    #[serde(default)]
    name: String,
    actions: Vec<Value>,
}

/// Runs `call` with the plans of a cluster, the time and the newest revision.
fn with<T>(call: &Call, body: impl FnOnce(&Plans, Timestamp, i64) -> T) -> Result<T, Status> {
    let bridge = call.cluster.current()?.bridge;
    let running = &bridge.running;
    Ok(body(&bridge.perturbations.plans, running.time(), running.store().revision().0))
}

/// `GET /plans`.
pub(super) fn list(call: &Call) -> Result<Reply, Status> {
    let reports = with(call, |plans, _, _| {
        plans.names().iter().filter_map(|id| plans.report(id).ok()).collect::<Vec<_>>()
    })?;
    Reply::ok(&json!({"plans": reports}))
}

/// `POST /plans`.
pub(super) fn start(call: &Call) -> Result<Reply, Status> {
    let body: PlanBody = parse::body(&call.body)?;
    if body.actions.len() > limits::PLAN_ACTIONS {
        return Err(bad_request("/actions", format!("a plan has 1 to {} actions", limits::PLAN_ACTIONS)));
    }
    let read =
        |(place, action): (usize, Value)| parse::part::<PlannedAction>(action, &format!("/actions/{place}"));
    let actions = body.actions.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
    let plan = Plan { name: body.name, actions };
    let report = with(call, |plans, now, revision| {
        let id = plans.start(plan, now, revision)?;
        plans.report(&id)
    })??;
    Reply::with(201, &report)
}

/// `GET /plans/{id}`.
pub(super) fn get(call: &Call, id: &str) -> Result<Reply, Status> {
    Reply::ok(&with(call, |plans, _, _| plans.report(id))??)
}

/// `DELETE /plans/{id}`: the plan ends, with all that its actions began, and all caches thaw.
pub(super) fn end(call: &Call, id: &str) -> Result<Reply, Status> {
    let is_there = with(call, |plans, now, _| {
        let is_there = plans.report(id).is_ok();
        plans.end(id, now);
        is_there
    })?;
    if is_there {
        call.cluster.current()?.bridge.perturbations.caches.thaw_all();
    }
    Reply::ok(&json!({"id": id, "deleted": true}))
}

/// `GET /plans/{id}/events`: with `follow=true` waits for an event after `since`, unless the plan is done.
pub(super) async fn events(call: &Call, id: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &["since", "follow"])?;
    let since = parse::parameter::<u64>(&call.query, "since")?.unwrap_or(0);
    let follows = parse::parameter::<bool>(&call.query, "follow")?.unwrap_or(false);
    let bridge = call.cluster.current()?.bridge;
    let plans = &bridge.perturbations.plans;
    let waiting = async {
        loop {
            let mut changed = std::pin::pin!(plans.changed.notified());
            changed.as_mut().enable();
            let (events, is_running) = plans.events(id, since)?;
            if !follows || !events.is_empty() || !is_running {
                return Ok::<_, Status>((events, is_running));
            }
            changed.await;
        }
    };
    let waited = tokio::time::timeout(limits::PATIENCE, waiting).await;
    let (events, is_running) = match waited {
        Ok(found) => found?,
        Err(_) => (Vec::new(), true),
    };
    Reply::ok(&json!({"events": events, "running": is_running}))
}

/// `POST /plans/{id}/resume`: what the plan holds goes on.
pub(super) fn resume(call: &Call, id: &str) -> Result<Reply, Status> {
    with(call, |plans, _, _| plans.resume(id))??;
    get(call, id)
}

/// Body of `POST /plans/{id}/steps`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
    name: String,
    #[serde(default)]
    phase: StepPhase,
}

/// `POST /plans/{id}/steps`: a step of the test's scenario begins or ends.
pub(super) fn step(call: &Call, id: &str) -> Result<Reply, Status> {
    let body: StepBody = parse::body(&call.body)?;
    let is_there = with(call, |plans, now, _| {
        plans.observe(&Observation::Step(&body.name, body.phase), now);
        plans.report(id).is_ok()
    })?;
    match is_there {
        true => get(call, id),
        false => Err(not_found("plan", id)),
    }
}
