//! Validation of the `/status` of workloads: consistent counts.

use serde_json::Value;

use crate::field::{ErrorList, Path};
use crate::object::int;
use crate::validate::check::none_negative;

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

fn counts(kind: &str) -> Option<Counts> {
    match kind {
        "ReplicaSet" | "ReplicationController" => Some(REPLICAS),
        "Deployment" => Some(Counts {
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
        }),
        "StatefulSet" => Some(Counts {
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
        }),
        "DaemonSet" => Some(Counts {
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
        }),
        _ => None,
    }
}

pub(in crate::validate) fn status(kind: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
    let Some(counts) = counts(kind) else { return };
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
