//! Expiry of CertificateSigningRequests. Pure.

use crate::action::{Action, Plan, Propagation, Target};
use crate::limits::{ANSWERED_REQUEST, PENDING_REQUEST};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

/// When the request expires, if its state has an expiry. With a certificate: an hour after its approval.
/// Denied or failed: an hour after that. Without conditions: a day after its creation. An approved request
/// waits for its signer without limit, as in Kubernetes.
fn expiry(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    if conditions.is_empty() {
        let created = request.metadata.creation_timestamp.as_ref()?.0;
        return created.checked_add(PENDING_REQUEST).ok();
    }
    let is_issued =
        status.and_then(|status| status.certificate.as_ref()).is_some_and(|pem| !pem.0.is_empty());
    let ends = |type_: &str| match type_ {
        "Denied" | "Failed" => true,
        "Approved" => is_issued,
        _ => false,
    };
    let answered = conditions.iter().filter(|condition| ends(&condition.type_));
    let times = answered.filter_map(|condition| condition.last_update_time.as_ref()).map(|time| time.0);
    times.min()?.checked_add(ANSWERED_REQUEST).ok()
}

/// Deletes an expired request, or runs again at its expiry.
pub(crate) fn plan(request: &CertificateSigningRequest, now: Timestamp) -> Plan {
    if request.metadata.deletion_timestamp.is_some() {
        return Plan::nothing();
    }
    match expiry(request) {
        None => Plan::nothing(),
        Some(end) if end > now => {
            let mut plan = Plan::nothing();
            plan.wake_in(end.duration_since(now).unsigned_abs());
            plan
        }
        Some(_) => {
            let target = Target { resource_version: None, ..Target::of(request) };
            Plan::of(vec![Action::Delete { target, propagation: Propagation::Default, force: false }])
        }
    }
}
