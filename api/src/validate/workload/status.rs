//! Validation of the `/status` of workloads: consistent counts.
//!
//! Follows `ValidateDeploymentStatus` and `ValidateReplicaSetStatus`.

use crate::check::none_negative;
use crate::field::{ErrorList, Path};
use crate::object::int;
use serde_json::Value;

const STATUS: Path<'static> = Path::new("status");

/// Status counts of a kind: those that must not be negative, those bounded by `replicas`, and the message for
/// too many available replicas.
struct Counts {
    all: &'static [&'static str],
    parts: &'static [&'static str],
    ready: &'static str,
}

const REPLICAS: Counts = Counts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "cannot be greater than readyReplicas",
};

const DEPLOYMENT: Counts = Counts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: "cannot be greater than readyReplicas",
};

const STATEFUL_SET: Counts = Counts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "cannot be greater than status.readyReplicas",
};

const DAEMON_SET: Counts = Counts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    ready: "",
};

/// Checks the status of a replica set or replication controller.
pub(crate) fn replicas(new: &Value, old: &Value, errors: &mut ErrorList) {
    status(&REPLICAS, new, old, errors);
}

/// Checks the status of a deployment.
pub(crate) fn deployment(new: &Value, old: &Value, errors: &mut ErrorList) {
    status(&DEPLOYMENT, new, old, errors);
}

/// Checks the status of a stateful set.
pub(crate) fn stateful_set(new: &Value, old: &Value, errors: &mut ErrorList) {
    status(&STATEFUL_SET, new, old, errors);
}

/// Checks the status of a daemon set.
pub(crate) fn daemon_set(new: &Value, old: &Value, errors: &mut ErrorList) {
    status(&DAEMON_SET, new, old, errors);
}

fn status(counts: &Counts, new: &Value, old: &Value, errors: &mut ErrorList) {
    let status = &new["status"];
    none_negative(errors, &STATUS, status, counts.all);
    for part in counts.parts.iter().filter(|part| int(&status[**part]) > int(&status["replicas"])) {
        errors.invalid(&STATUS.child(part), &status[*part], "cannot be greater than status.replicas");
    }
    let available = &status["availableReplicas"];
    if !counts.parts.is_empty() && int(available) > int(&status["readyReplicas"]) {
        errors.invalid(&STATUS.child("availableReplicas"), available, counts.ready);
    }
    let (collisions, before) = (&status["collisionCount"], &old["status"]["collisionCount"]);
    if counts.all.contains(&"collisionCount") && int(collisions) < int(before) {
        errors.invalid(&STATUS.child("collisionCount"), &int(collisions), "cannot be decremented");
    }
}
