//! What plans observe beside requests and deliveries: writes, quiet clients, and time. Each observer works while a plan runs.

use super::execute::Executor;
use super::matching::{Observation, ObservedWrite};
use crate::client::Clients;
use crate::client::identity::short_agent;
use crate::host::Running;
use crate::limits;
use crate::log::{RequestLog, WrittenBy};
use crate::settle::{self, Settling};
use kstore_registry::provenance::Note;
use kstore_storage::storage_key::KeyPlace;
use kstore_store::{Event, EventKind, KeyRange, Revision, WatchRequest};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Prefix of the keys of all objects.
const ROOT: &str = "/registry/";

/// Observes for the plans of a cluster until it ends. Runs in real time.
pub async fn run(executor: Executor, clients: Arc<Clients>, log: Arc<RequestLog>) {
    let plans = &executor.perturbations.plans;
    loop {
        let mut changed = std::pin::pin!(plans.changed.notified());
        changed.as_mut().enable();
        if !plans.is_running() {
            changed.await;
            continue;
        }
        let (writing, timing) = (executor.clone(), executor.clone());
        let log = log.clone();
        let _writes = executor.running.spawn(async move { writes(&writing, &log).await });
        let _time = executor.running.spawn(async move { time(&timing).await });
        tokio::select! {
            biased;
            () = ended(&executor) => {}
            () = quiet(&executor, &clients) => return,
        }
    }
}

/// Waits until no plan runs.
async fn ended(executor: &Executor) {
    let plans = &executor.perturbations.plans;
    loop {
        let mut changed = std::pin::pin!(plans.changed.notified());
        changed.as_mut().enable();
        if !plans.is_running() {
            return;
        }
        changed.await;
    }
}

/// Observes the clock: a deadline of a plan is a timer of the cluster, at which an advance stops.
async fn time(executor: &Executor) {
    let plans = &executor.perturbations.plans;
    let clock = &executor.running.plane.nondet().clock;
    loop {
        let mut changed = std::pin::pin!(plans.changed.notified());
        changed.as_mut().enable();
        let now = clock.now();
        // A plan that failed observes no longer, and its deadlines must not keep this loop busy.
        match plans.next_time().filter(|_| plans.is_running()) {
            Some(next) if next <= now => {
                plans.observe(&Observation::Time(now), now);
            }
            Some(next) => {
                let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                tokio::select! {
                    biased;
                    () = changed => {}
                    () = tokio::time::sleep(left) => {}
                }
            }
            None => changed.await,
        }
    }
}

/// Observes writes, in order and without a gap since the plan began.
async fn writes(executor: &Executor, log: &RequestLog) {
    let plans = &executor.perturbations.plans;
    let store = executor.running.store();
    let from = Revision(plans.observed() + 1);
    let Ok(mut watcher) = store.watch(WatchRequest::new(KeyRange::prefix(ROOT)).from(from).with_prev_kv())
    else {
        return plans.observed_writes(i64::MAX);
    };
    while let Some(Ok(batch)) = watcher.next().await {
        for event in batch.events.iter() {
            observe(&executor.running, plans, log, event);
        }
        plans.observed_writes(batch.revision.0);
    }
    // Without the history, events no longer wait for the observation of their writes.
    plans.observed_writes(i64::MAX);
}

fn observe(running: &Running, plans: &super::run::Plans, log: &RequestLog, event: &Event) {
    let Some(place) = std::str::from_utf8(event.key()).ok().and_then(KeyPlace::of) else { return };
    let resource = match place.group {
        "" => place.plural.to_owned(),
        group => format!("{}.{group}", place.plural),
    };
    let revision = event.revision().0;
    let by = event.note.as_deref().and_then(Note::decode).map(|Note { user, agent, verb, .. }| {
        let (namespace, name, agent) = (place.namespace, place.name, short_agent(&agent));
        let (resource, verb, user) = (&resource, &verb, &user);
        let written = WrittenBy { revision, resource, namespace, name, verb, user, agent };
        log.writer_of(&written).unwrap_or_else(|| agent.to_owned())
    });
    let by = by.unwrap_or_default();
    let parsed = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or(Value::Null);
    let old = || event.prev_kv.as_ref().map_or(Value::Null, |before| parsed(before.value()));
    let new = || match event.kind {
        EventKind::Put => parsed(event.kv.value()),
        EventKind::Delete => Value::Null,
    };
    let write = ObservedWrite {
        by: &by,
        resource: &resource,
        namespace: place.namespace,
        name: place.name,
        revision,
        old: &old,
        new: &new,
    };
    plans.observe(&Observation::Write(&write), running.plane.nondet().clock.now());
}

/// Observes quiet clients. Ends when the cluster does.
async fn quiet(executor: &Executor, clients: &Arc<Clients>) {
    let hub = &executor.perturbations;
    let plans = &hub.plans;
    // The plans' own actions do not count: what is quiet are clients.
    let settling = Settling { running: &executor.running, clients, plans: None };
    loop {
        let mut traffic = std::pin::pin!(hub.traffic.notified());
        traffic.as_mut().enable();
        let Ok(quiet) = settle::quiet(settling, limits::PATIENCE).await else { return };
        if !quiet.settled {
            continue;
        }
        if hub.order.is_on() {
            // Then quiet moments are those after the last turn, in a fixed place among the turns.
            traffic.await;
            continue;
        }
        let now = executor.running.time();
        for client in clients.counted() {
            plans.observe(&Observation::Quiet(&client), now);
        }
        plans.observe(&Observation::Quiet(""), now);
        // They become quiet again only after something has happened.
        traffic.await;
    }
}
