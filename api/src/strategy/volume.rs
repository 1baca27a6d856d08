//! Preparation of persistent volumes: the time of their last phase.

use serde_json::Value;

/// Sets the time of a phase that changed, unless the client set another one, and keeps the time of a phase that did not. As
/// `PrepareForUpdate` of the status strategy in Kubernetes.
pub(crate) fn date_phase(new: &mut Value, old: &Value, now: &str) {
    const TIME: &str = "lastPhaseTransitionTime";
    let (stored, own) = (&old["status"][TIME], &new["status"][TIME]);
    let is_moved = old["status"]["phase"] != new["status"]["phase"];
    let time = match (is_moved, own.is_null()) {
        (false, true) if !stored.is_null() => stored.clone(),
        (true, _) if own.is_null() || own == stored => now.into(),
        _ => return,
    };
    new["status"][TIME] = time;
}
