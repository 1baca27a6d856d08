//! Validation of service updates: the first cluster IP and family, the load balancer class and the health
//! check port are immutable.
//!
//! Follows `ValidateServiceUpdate`.

use super::{IMMUTABLE, SPEC, is_headless, needs_check};
use crate::field::ErrorList;
use crate::object::list;
use serde_json::Value;

/// Checks an update of a service. Runs before the content check.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    let named = spec["type"] == "ExternalName" || stored["type"] == "ExternalName";
    let (headless, was) = (is_headless(spec), is_headless(stored));
    let unaddressed = headless && was;
    if !named && !unaddressed {
        addresses(errors, spec, stored);
    }
    if !named && !headless && !was {
        families(errors, spec, stored);
    }
    let class = &spec["loadBalancerClass"];
    let balanced = spec["type"] == "LoadBalancer" && stored["type"] == "LoadBalancer";
    if balanced && *class != stored["loadBalancerClass"] {
        errors.invalid(&SPEC.child("loadBalancerClass"), class, "may not change once set");
    }
    if needs_check(spec)
        && needs_check(stored)
        && spec["healthCheckNodePort"] != stored["healthCheckNodePort"]
    {
        errors.forbidden(&SPEC.child("healthCheckNodePort"), IMMUTABLE);
    }
}

fn addresses(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let (path, now, before) =
        (SPEC.child("clusterIPs"), list(&spec["clusterIPs"]), list(&stored["clusterIPs"]));
    if now.is_empty() && !before.is_empty() {
        errors.invalid(&path.index(0), &spec["clusterIPs"], "primary clusterIP can not be unset");
    }
    let compared = if now.len() == before.len() { before.len() } else { 1 };
    for (i, _) in now.iter().zip(before).take(compared).enumerate().filter(|(_, (now, before))| now != before)
    {
        errors.invalid(&path.index(i), now, "may not change once set");
    }
    if now.len() == 1 && before.len() > 1 {
        released(errors, spec, "clusterIP");
    }
}

fn families(errors: &mut ErrorList, spec: &Value, stored: &Value) {
    let (path, now, before) =
        (SPEC.child("ipFamilies"), list(&spec["ipFamilies"]), list(&stored["ipFamilies"]));
    if now.len() == before.len() {
        for _ in now.iter().zip(before).filter(|(now, before)| now != before) {
            errors.invalid(&path.index(0), now, "may not change once set");
        }
        return;
    }
    if let (Some(first), Some(other)) = (now.first(), before.first())
        && first != other
    {
        errors.invalid(&path.index(0), list(&spec["clusterIPs"]), "may not change once set");
    }
    if now.len() == 1 && before.len() > 1 {
        released(errors, spec, "ipFamily");
    }
}

fn released(errors: &mut ErrorList, spec: &Value, what: &str) {
    let policy = &spec["ipFamilyPolicy"];
    if policy != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, detail);
    }
}
