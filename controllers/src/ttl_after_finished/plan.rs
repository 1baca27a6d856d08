//! When a finished Job is to go. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use crate::job::status::finished;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

/// Whether the Job is to go some time.
pub(crate) fn expires(job: &Job) -> bool {
    expiry(job).is_some()
}

/// When the Job is to go.
fn expiry(job: &Job) -> Option<Timestamp> {
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let end = finished(job)?.last_transition_time.as_ref()?;
    // A time beyond the calendar never comes.
    end.0.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

/// Deletes a Job whose time is over, with its pods; else looks again when it is. Its resourceVersion guards against a longer time that
/// the cache does not show yet.
pub(crate) fn plan(job: &Job, now: Timestamp) -> Plan {
    let Some(expiry) = expiry(job) else { return Plan::nothing() };
    if expiry > now {
        let mut plan = Plan::nothing();
        plan.wake_in(expiry.duration_since(now).unsigned_abs());
        return plan;
    }
    let target = Target::of(job);
    Plan::of(vec![Action::Delete { target, propagation: Propagation::Foreground, force: false }])
}
