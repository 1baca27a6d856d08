//! Plan of a ServiceCIDR: finalizer, Ready condition, and deletion. Pure.

use crate::action::{Action, PatchKind, Plan, Target};
use crate::limits::NETWORK_GRACE;
use crate::resource::SERVICECIDRS;
use crate::view::{elapsed, seconds};
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kstore_api::cidr::Cidr;
use serde_json::{Value, json};
use std::net::IpAddr;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const IN_USE: &str =
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The ServiceCIDR.
    pub cidr: &'a ServiceCIDR,
    /// All ServiceCIDRs, including this one.
    pub all: &'a [&'a ServiceCIDR],
    /// Allocated addresses; needed only if the ServiceCIDR is being deleted.
    pub taken: &'a [IpAddr],
}

/// The next write, if any, and the delay until the next run.
///
/// A ServiceCIDR gets the finalizer, then the condition Ready. A deleted one is finalized when ten seconds
/// have passed and another ServiceCIDR contains each allocated address of it; before, its condition gives the
/// reason. Another deleted ServiceCIDR counts only if its name sorts later, so that of two mutually covering
/// ones exactly one stays.
pub(crate) fn plan(seen: Observed<'_>, now: Timestamp) -> Plan {
    let Some(deleted) = &seen.cidr.metadata.deletion_timestamp else {
        return Plan::of(keep(seen.cidr, now).into_iter().collect());
    };
    if !finalizers(seen.cidr).any(|name| name == FINALIZER) {
        return Plan::nothing();
    }
    if is_needed(seen) {
        return Plan::of(
            set_ready_condition(seen.cidr, ("False", "Terminating", IN_USE), now).into_iter().collect(),
        );
    }
    let left = NETWORK_GRACE.saturating_sub(elapsed(deleted.0, now));
    if !left.is_zero() {
        return Plan { wake: Some(left), ..Plan::nothing() };
    }
    let others: Vec<&str> = finalizers(seen.cidr).filter(|name| *name != FINALIZER).collect();
    Plan::of(vec![finalize(seen.cidr, &others)])
}

/// Whether the ServiceCIDR is being deleted.
pub(crate) fn is_deleting(cidr: &ServiceCIDR) -> bool {
    cidr.metadata.deletion_timestamp.is_some()
}

/// The address blocks of a ServiceCIDR.
pub(crate) fn blocks(cidr: &ServiceCIDR) -> impl Iterator<Item = Cidr> {
    let cidrs = cidr.spec.iter().flat_map(|spec| spec.cidrs.iter().flatten());
    cidrs.filter_map(|cidr| cidr.parse().ok())
}

fn keep(cidr: &ServiceCIDR, now: Timestamp) -> Option<Action> {
    if finalizers(cidr).any(|name| name == FINALIZER) {
        return set_ready_condition(cidr, ("True", "", "Kubernetes Service CIDR is ready"), now);
    }
    let all: Vec<&str> = finalizers(cidr).chain([FINALIZER]).collect();
    Some(finalize(cidr, &all))
}

/// Whether an allocated address would be in no other ServiceCIDR.
fn is_needed(seen: Observed<'_>) -> bool {
    let name = seen.cidr.metadata.name.as_ref();
    let stays = |other: &&&ServiceCIDR| {
        let later = other.metadata.name.as_ref() > name;
        other.metadata.name.as_ref() != name && (!is_deleting(other) || later)
    };
    let staying: Vec<Cidr> = seen.all.iter().filter(stays).flat_map(|other| blocks(other)).collect();
    let only_here = |address: &&IpAddr| !staying.iter().any(|block| block.gives(**address));
    blocks(seen.cidr).any(|block| seen.taken.iter().filter(only_here).any(|address| block.gives(*address)))
}

fn finalizers(cidr: &ServiceCIDR) -> impl Iterator<Item = &str> {
    cidr.metadata.finalizers.iter().flatten().map(String::as_str)
}

fn finalize(cidr: &ServiceCIDR, finalizers: &[&str]) -> Action {
    // The patch replaces the list as a whole, so it needs the resourceVersion as precondition.
    let version = &cidr.metadata.resource_version;
    patch(cidr, false, json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } }))
}

/// Updates the condition Ready, if it differs.
fn set_ready_condition(
    cidr: &ServiceCIDR,
    (status, reason, message): (&str, &str, &str),
    now: Timestamp,
) -> Option<Action> {
    let all: &[Condition] = cidr.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let old = all.iter().find(|condition| condition.type_ == "Ready");
    if old.is_some_and(|old| (&*old.status, &*old.reason, &*old.message) == (status, reason, message)) {
        return None;
    }
    let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let ready = json!({ "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| seconds(now)) });
    let others = all.iter().filter(|condition| condition.type_ != "Ready").map(|condition| json!(condition));
    let conditions: Vec<Value> = others.chain([ready]).collect();
    let version = &cidr.metadata.resource_version;
    let change =
        json!({ "metadata": { "resourceVersion": version }, "status": { "conditions": conditions } });
    Some(patch(cidr, true, change))
}

fn patch(cidr: &ServiceCIDR, status: bool, patch: Value) -> Action {
    let target = Target {
        resource: SERVICECIDRS,
        namespace: String::new(),
        name: cidr.metadata.name.clone().unwrap_or_default(),
        uid: cidr.metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    };
    Action::Patch { target, status, kind: PatchKind::Merge, patch }
}
