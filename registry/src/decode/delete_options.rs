//! `metav1.DeleteOptions` in the body of a deletion or an eviction. Pure. Options in a query are `rest::query`'s.

use crate::error;
use crate::request::{DeleteOptions, Propagation, UnsafeDeletion};
use kstore_api::status::Status;
use serde_json::Value;

/// Checks that a body is DeleteOptions: another object must not delete, since its author meant another
/// request.
pub fn check(tree: &Value) -> Result<(), Status> {
    let text_or_none = |member: &str| tree[member].is_null() || tree[member].is_string();
    let kind = tree["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or("DeleteOptions");
    if !tree.is_object() || kind != "DeleteOptions" {
        return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
    }
    let grace = &tree["gracePeriodSeconds"];
    if !(grace.is_null() || grace.is_i64()) || !text_or_none("propagationPolicy") {
        return Err(Status::bad_request("DeleteOptions: a member is not of its type"));
    }
    Ok(())
}

/// Whether `metav1.DeleteOptions` request a dry run.
pub fn is_dry_run(tree: &Value) -> Result<bool, Status> {
    let stages = tree["dryRun"].as_array().map_or(&[][..], Vec::as_slice);
    if stages.iter().all(|stage| stage == "All") {
        return Ok(!stages.is_empty());
    }
    let problem = format!("Unsupported value: {}: supported values: \"All\"", tree["dryRun"]);
    Err(error::invalid_option_of("DeleteOptions", "dryRun", &problem))
}

/// Decodes `metav1.DeleteOptions`.
pub fn parse(tree: &Value) -> Result<DeleteOptions, Status> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let propagation = match (text(&tree["propagationPolicy"]), tree["orphanDependents"].as_bool()) {
        (Some(policy), Some(_)) => return Err(both_policies(&policy)),
        (Some(policy), None) => Some(propagation(&policy)?),
        (None, Some(true)) => Some(Propagation::Orphan),
        (None, Some(false)) => Some(Propagation::Background),
        (None, None) => None,
    };
    let version = text(&tree["preconditions"]["resourceVersion"]);
    let version = version
        .map(|v| v.parse().map_err(|_| Status::bad_request("invalid resourceVersion in preconditions")));
    Ok(DeleteOptions {
        // An empty uid is one that no object has.
        uid: tree["preconditions"]["uid"].as_str().map(str::to_owned),
        resource_version: version.transpose()?,
        grace_period_seconds: tree["gracePeriodSeconds"].as_i64(),
        propagation,
        unsafe_deletion: (tree[UNSAFE] == true).then(|| contradicting(|option| !tree[option].is_null())),
        accepts: tree["orphanDependents"] == false,
    })
}

/// The option to remove an object that cannot be read.
pub const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The deletion of an object that cannot be read, with those of its options that contradict it.
pub fn contradicting(is_set: impl Fn(&str) -> bool) -> UnsafeDeletion {
    let all = ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
    UnsafeDeletion { contradictions: all.into_iter().filter(|option| is_set(option)).collect() }
}

/// 422: the option to remove an object that cannot be read has no effect here.
pub fn unsafe_refused(problem: &str) -> Status {
    error::invalid_option_of("DeleteOptions", UNSAFE, &format!("Invalid value: true: {problem}"))
}

/// Parses the name of a propagation policy.
pub fn propagation(policy: &str) -> Result<Propagation, Status> {
    match policy {
        "Orphan" => Ok(Propagation::Orphan),
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        other => {
            let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            let problem = format!("Unsupported value: {other:?}: {supported}");
            Err(error::invalid_option_of("DeleteOptions", "propagationPolicy", &problem))
        }
    }
}

/// 422: the request states the treatment of dependents twice.
pub fn both_policies(policy: &str) -> Status {
    let problem =
        format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
    error::invalid_option_of("DeleteOptions", "propagationPolicy", &problem)
}
