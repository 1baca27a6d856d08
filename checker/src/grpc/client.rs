//! One client: makes one call after the other and records each.

use super::link::Link;
use super::traffic::Traffic;
use super::wire;
use super::workload::Shared;
use crate::history::{Call, Operation, Outcome};
use kstore_nondet::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;

/// Runs a client until the workload stops. Returns its calls.
pub(super) async fn run(shared: Arc<Shared>, client: u32, mut link: Link, rng: Rng) -> Vec<Call> {
    let mut traffic = Traffic::new(&shared.plan, client, rng);
    let mut pace = pace(&shared);
    let mut calls = Vec::new();
    while !shared.stop.is_cancelled() {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let operation = traffic.next();
        let Some(call) = call(&shared, client, &mut link, &shared.stop, operation).await else { break };
        traffic.learn(&call.operation, &call.outcome);
        calls.push(call);
    }
    calls
}

/// The timer that limits a client's rate.
fn pace(shared: &Shared) -> Option<tokio::time::Interval> {
    let each = shared.plan.rate / shared.plan.clients.max(1);
    let period = Duration::from_secs(1).checked_div(each)?;
    let mut pace = interval_at(Instant::now(), period);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    Some(pace)
}

/// Makes and records one call; none if the workload stops before there is a connection.
pub(super) async fn call(
    shared: &Shared,
    client: u32,
    link: &mut Link,
    stop: &CancellationToken,
    operation: Operation,
) -> Option<Call> {
    let channel = link.channel(stop).await?;
    let call = shared.clock.now();
    let answer = timeout(shared.plan.timeout, wire::call(channel, &operation)).await;
    let ret = shared.clock.now();
    let outcome = match answer {
        Ok(Ok(reply)) => Outcome::Ok(reply),
        Ok(Err(status)) => wire::failure(&status),
        Err(_) => Outcome::Unknown,
    };
    if outcome == Outcome::Unknown {
        link.lost();
    }
    if let Outcome::Ok(reply) = &outcome {
        shared.saw(reply.revision().unwrap_or(0));
    }
    shared.count_call();
    Some(Call { client, call, ret, operation, outcome })
}
