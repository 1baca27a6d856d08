//! Validation of leases.
//!
//! Follows `ValidateLease`.

use crate::check::{grammar, none_negative};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::text;
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");
/// The only strategy that Kubernetes itself defines.
const OLDEST: &str = "OldestEmulationVersion";

pub(crate) fn lease(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        let path = SPEC.child("leaseDurationSeconds");
        errors.invalid(&path, &spec["leaseDurationSeconds"], "must be greater than 0");
    }
    none_negative(errors, &SPEC, spec, &["leaseTransitions"]);
    if let Some(own) = spec["strategy"].as_str() {
        let path = SPEC.child("strategy.strategy");
        if own.contains('/') {
            grammar(errors, &path, own, name::qualified_name(own));
        } else if own != OLDEST {
            errors.not_supported(&path, own, &[OLDEST]);
        }
    }
    if !text(&spec["preferredHolder"]).is_empty() && text(&spec["strategy"]).is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(&SPEC.child("preferredHolder"), detail);
    }
}
