//! The client that compacts, at readable, compacted and future revisions.

use super::client;
use super::link::Link;
use super::workload::Shared;
use crate::history::{Call, Operation, Outcome};
use kstore_nondet::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Shortest and longest pause between compactions in milliseconds.
const EVERY: std::ops::Range<u64> = 100..200;

/// Largest distance of a chosen revision from the current one.
const AROUND: u64 = 200;

/// Runs the compactor until the workload stops. Returns its calls.
pub(super) async fn run(shared: Arc<Shared>, id: u32, mut link: Link, rng: Rng) -> Vec<Call> {
    let (mut calls, mut compacted) = (Vec::new(), 0);
    while !shared.stop.is_cancelled() {
        let wait = Duration::from_millis(EVERY.start + rng.below(EVERY.end - EVERY.start));
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break,
            () = tokio::time::sleep(wait) => {}
        }
        let current = shared.revision.load(Ordering::Relaxed);
        let revision = match rng.below(10) {
            0 => compacted - rng.below(3) as i64,
            1 => current + 1 + rng.below(AROUND) as i64,
            _ => (current - rng.below(AROUND) as i64).max(compacted + 1),
        };
        let operation = Operation::Compact { revision: revision.max(0) };
        let Some(call) = client::call(&shared, id, &mut link, &shared.stop, operation).await else { break };
        if matches!(call.outcome, Outcome::Ok(_)) {
            compacted = revision;
        }
        calls.push(call);
    }
    calls
}
