//! Expiry of finished Jobs. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use crate::job::status::finished;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;

/// Whether the Job has an expiry.
pub(crate) fn expires(job: &Job) -> bool {
    expiry(job).is_some()
}

/// When the Job expires.
fn expiry(job: &Job) -> Option<Timestamp> {
    if job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let seconds = job.spec.as_ref()?.ttl_seconds_after_finished?;
    let end = finished(job)?.last_transition_time.as_ref()?;
    // A time beyond the calendar never comes.
    end.0.checked_add(SignedDuration::from_secs(seconds.into())).ok()
}

/// Deletes an expired Job with its pods, or runs again at its expiry. The resourceVersion is a precondition,
/// because a longer TTL may not be visible in the cache yet.
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
