//! When a bootstrap token is to go. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

/// When the token ends, as its Secret says. Text that is no time counts as over, as in Kubernetes: such a token is refused.
fn expiry(secret: &Secret) -> Option<Timestamp> {
    let text = secret.data.as_ref()?.get("expiration")?;
    let text = std::str::from_utf8(&text.0).unwrap_or_default();
    (!text.is_empty()).then(|| text.parse().unwrap_or(Timestamp::MIN))
}

/// Deletes a token whose time is over; else looks again when it is.
pub(crate) fn plan(secret: &Secret, now: Timestamp) -> Plan {
    match expiry(secret).filter(|_| secret.metadata.deletion_timestamp.is_none()) {
        None => Plan::nothing(),
        Some(end) if end > now => {
            let mut plan = Plan::nothing();
            plan.wake_in(end.duration_since(now).unsigned_abs());
            plan
        }
        // Of the state that was seen: a token that was prolonged meanwhile stays.
        Some(_) => {
            let (target, propagation) = (Target::of(secret), Propagation::Default);
            Plan::of(vec![Action::Delete { target, propagation, force: false }])
        }
    }
}
