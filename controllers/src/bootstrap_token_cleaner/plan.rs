//! Expiry of bootstrap tokens. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

/// Expiry of the token from its Secret. An unparsable time counts as expired, as in Kubernetes: such a token
/// is not accepted.
pub(crate) fn expiry(secret: &Secret) -> Option<Timestamp> {
    let text = secret.data.as_ref()?.get("expiration")?;
    let text = std::str::from_utf8(&text.0).unwrap_or_default();
    (!text.is_empty()).then(|| text.parse().unwrap_or(Timestamp::MIN))
}

/// Deletes an expired token, or runs again at its expiry.
pub(crate) fn plan(secret: &Secret, now: Timestamp) -> Plan {
    match expiry(secret).filter(|_| secret.metadata.deletion_timestamp.is_none()) {
        None => Plan::nothing(),
        Some(end) if end > now => {
            let mut plan = Plan::nothing();
            plan.wake_in(end.duration_since(now).unsigned_abs());
            plan
        }
        // Precondition on the observed state: a token that was extended meanwhile stays.
        Some(_) => {
            let (target, propagation) = (Target::of(secret), Propagation::Default);
            Plan::of(vec![Action::Delete { target, propagation, force: false }])
        }
    }
}
