//! Validation of a ResourceClaim's status, which the scheduler and drivers write.
//!
//! Follows `ValidateResourceClaimStatusUpdate`.

use super::{at_most, binding_conditions, claim, configuration, pool_name};
use crate::check::{IMMUTABLE, each, grammar, one_of, required};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::limits::{CLAIM_CONSUMERS_MAX, DEVICE_CONFIGS_MAX, DEVICE_REQUESTS_MAX};
use crate::object::{list, semantically_equal, text};
use crate::validate::groups::reference::{conditions, driver};
use crate::{meta, name};
use serde_json::Value;
use std::collections::BTreeSet;

const STATUS: Path<'static> = Path::new("status");

/// Checks a claim's status as an update of the stored one.
pub(crate) fn status(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (status, stored) = (&object["status"], &old["status"]);
    let consumers = list(&status["reservedFor"]);
    let at = STATUS.child("reservedFor");
    if at_most(errors, &at, consumers.len(), CLAIM_CONSUMERS_MAX) {
        each(&STATUS, status, "reservedFor", |path, consumer| {
            for member in ["resource", "name", "uid"] {
                required(errors, &path.child(member), &consumer[member]);
            }
        });
        super::unique_names(errors, &at, consumers, "uid");
    }
    let results = list(&status["allocation"]["devices"]["results"]);
    let (allocated_devices, mut seen): (BTreeSet<_>, _) =
        (results.iter().map(identity).collect(), BTreeSet::new());
    for (i, device) in list(&status["devices"]).iter().enumerate() {
        let (path, own) = (STATUS.child("devices"), identity(device));
        reported(errors, &path.index(i), device, (allocated_devices.contains(&own), seen.insert(own)));
    }
    let known = Distinct::of(list(&stored["reservedFor"]));
    if !consumers.is_empty() && status["allocation"].is_null() {
        errors.forbidden(&at, "may not be specified when `allocated` is not set");
    } else if meta::is_being_deleted(object) && consumers.iter().any(|consumer| !known.contains(consumer)) {
        let detail =
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(&at, detail);
    }
    let (path, allocation) = (STATUS.child("allocation"), &status["allocation"]);
    if allocation.is_null() {
    } else if stored["allocation"].is_null() {
        allocated(errors, &path, allocation, list(&object["spec"]["devices"]["requests"]));
    } else if !semantically_equal(allocation, &stored["allocation"]) {
        errors.invalid(&path, allocation, IMMUTABLE);
    }
}

/// Identity of a device: driver, pool, device and share.
fn identity(device: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|member| text(&device[member]))
}

fn device(errors: &mut ErrorList, path: &Path<'_>, device: &Value) {
    driver(errors, &path.child("driver"), &device["driver"]);
    pool_name(errors, &path.child("pool"), &device["pool"]);
    let own = text(&device["device"]);
    grammar(errors, &path.child("device"), own, name::dns1123_label(own));
}

fn reported(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reported: &Value,
    (is_allocated, is_first): (bool, bool),
) {
    device(errors, path, reported);
    if !is_allocated {
        let own = identity(reported);
        let own = own.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        errors.invalid(path, &own, "must be an allocated device in the claim");
    }
    if !is_first {
        errors.duplicate(path, &identity(reported).join("/"));
    }
    conditions(errors, path, reported);
}

fn allocated(errors: &mut ErrorList, path: &Path<'_>, allocation: &Value, requests: &[Value]) {
    let (path, devices) = (path.child("devices"), &allocation["devices"]);
    if at_most(errors, &path.child("results"), list(&devices["results"]).len(), DEVICE_REQUESTS_MAX) {
        each(&path, devices, "results", |path, result| {
            claim::reference(errors, &path.child("request"), text(&result["request"]), requests);
            device(errors, path, result);
            binding_conditions(errors, path, result);
        });
    }
    // Configuration comes from the class and from the claim, so the limit is twice that of one source.
    if at_most(errors, &path.child("config"), list(&devices["config"]).len(), 2 * DEVICE_CONFIGS_MAX) {
        each(&path, devices, "config", |path, config| {
            let sources = ["FromClaim", "FromClass"];
            one_of(errors, &path.child("source"), &config["source"], &sources);
            claim::references(errors, path, config, requests);
            configuration(errors, path, config);
        });
    }
}
