//! IP families of a service: the author's choice, completed by the families that the cluster has networks
//! for. Pure. Runs before validation, with Kubernetes' error texts. Addresses are allocated in `address`.

use crate::service_ranges::{ServiceRanges, family};
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::{list, text};
use serde_json::{Value, json};
use std::net::IpAddr;

const SPEC: Path<'static> = Path::new("spec");
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Fills in `ipFamilyPolicy` and `ipFamilies`, and drops the secondary family of a service that changes to
/// SingleStack. `stored` is the spec that this one replaces. Malformed members are left for validation to
/// report.
///
/// An unchanged PreferDualStack service keeps its families, even if the cluster's networks have changed. The policy
/// defaults to the stored one, then to RequireDualStack for headless services without selector, then to
/// SingleStack. Families follow from explicit addresses, then from the cluster's first network. A second
/// family is added if the policy wants one and a network has it.
pub(super) fn fill_families(ranges: &ServiceRanges, spec: &mut Value, stored: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    if !spec.is_object() || spec["type"] == "ExternalName" || !is_well_formed(spec) {
        return errors;
    }
    if stored.is_some_and(|stored| prefers_as_before(spec, stored)) {
        return errors;
    }
    let headless = spec["clusterIP"] == "None";
    let headless_without_selector =
        headless && spec["selector"].as_object().is_none_or(|selector| selector.is_empty());
    if spec["ipFamilyPolicy"].is_null() {
        let before = stored.map(|stored| &stored["ipFamilyPolicy"]).filter(|policy| policy.is_string());
        let usual = || json!(if headless_without_selector { REQUIRE } else { SINGLE });
        spec["ipFamilyPolicy"] = before.cloned().unwrap_or_else(usual);
    }
    if let Some(stored) = stored {
        release_secondary(&mut errors, spec, stored);
    }
    check_counts(&mut errors, spec);
    let known = ranges.families();
    if !headless {
        infer_from_addresses(&mut errors, spec, &known);
    }
    if !errors.is_empty() {
        return errors;
    }
    if headless_without_selector {
        add_default_families(spec, known[0], true);
        return errors;
    }
    check_configured(&mut errors, spec, &known);
    if errors.is_empty() {
        add_default_families(spec, known[0], known.len() == 2);
    }
    errors
}

/// Whether the members have the form that the rest of this file relies on.
fn is_well_formed(spec: &Value) -> bool {
    let (ips, families) = (list(&spec["clusterIPs"]), list(&spec["ipFamilies"]));
    let policy = &spec["ipFamilyPolicy"];
    let headless = spec["clusterIP"] == "None";
    let parsed: Vec<Option<IpAddr>> = ips.iter().map(|ip| text(ip).parse().ok()).collect();
    let fits = |(ip, wanted): (&Option<IpAddr>, &Value)| {
        ip.is_some_and(|ip: IpAddr| *wanted == family(ip.is_ipv4()))
    };
    let ips_fit = match headless {
        true => ips.len() <= 1,
        false => parsed.iter().all(Option::is_some) && parsed.iter().zip(families).all(fits),
    };
    let distinct = |values: &[Value]| values.len() < 2 || values[0] != values[1];
    text(&spec["clusterIP"]) == ips.first().map_or("", text)
        && (policy.is_null() || [SINGLE, PREFER, REQUIRE].contains(&text(policy)))
        && families.iter().all(|family| *family == "IPv4" || *family == "IPv6")
        && distinct(families)
        && ips_fit
        && ips.len() <= 2
}

/// Whether a PreferDualStack service is updated without a change to its type, policy, addresses or families.
fn prefers_as_before(spec: &Value, stored: &Value) -> bool {
    let same = |member: &str| list(&spec[member]) == list(&stored[member]);
    let stored_policy = &stored["ipFamilyPolicy"];
    spec["type"] == stored["type"]
        && spec["ipFamilyPolicy"] == PREFER
        && (stored_policy.is_null() || *stored_policy == PREFER)
        && same("clusterIPs")
        && same("ipFamilies")
}

/// Drops the secondary address and family if the policy becomes SingleStack; otherwise reports missing ones.
fn release_secondary(errors: &mut ErrorList, spec: &mut Value, stored: &Value) {
    let single = spec["ipFamilyPolicy"] == SINGLE;
    for (member, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (now, before) = (list(&spec[member]), list(&stored[member]));
        if single && now == before && now.len() > 1 {
            spec[member] = json!([now[0]]);
        } else if !single && !now.is_empty() && now.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.invalid(&SPEC.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], detail);
        }
    }
}

fn check_counts(errors: &mut ErrorList, spec: &Value) {
    if spec["ipFamilyPolicy"] != SINGLE {
        return;
    }
    for (member, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if list(&spec[member]).len() == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            errors.invalid(&SPEC.child("ipFamilyPolicy"), &spec["ipFamilyPolicy"], detail);
        }
    }
}

/// Adds the families of explicit addresses.
fn infer_from_addresses(errors: &mut ErrorList, spec: &mut Value, known: &[&str]) {
    let ips = list(&spec["clusterIPs"]).to_vec();
    let mut families = list(&spec["ipFamilies"]).to_vec();
    for (i, ip) in ips.iter().enumerate().skip(families.len()) {
        let of_ip = family(!text(ip).contains(':'));
        if known.contains(&of_ip) {
            families.push(json!(of_ip));
        } else {
            let detail = format!("{of_ip} is not configured on this cluster");
            errors.invalid(&SPEC.child("clusterIPs").index(i), &ips, detail);
        }
    }
    if !families.is_empty() {
        spec["ipFamilies"] = Value::Array(families);
    }
}

fn check_configured(errors: &mut ErrorList, spec: &Value, known: &[&str]) {
    let (policy, families) = (SPEC.child("ipFamilyPolicy"), SPEC.child("ipFamilies"));
    if spec["ipFamilyPolicy"] == REQUIRE && known.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&policy, &spec["ipFamilyPolicy"], detail);
    }
    for (i, family) in list(&spec["ipFamilies"]).iter().enumerate() {
        if !known.contains(&text(family)) {
            errors.invalid(&families.index(i), family, "not configured on this cluster");
        }
    }
}

/// Adds the default family if there is none, and the other family if the policy wants two and `both` are
/// available.
fn add_default_families(spec: &mut Value, usual: &str, both: bool) {
    let mut families = list(&spec["ipFamilies"]).to_vec();
    if families.is_empty() {
        families.push(json!(usual));
    }
    if spec["ipFamilyPolicy"] != SINGLE && families.len() == 1 && both {
        families.push(json!(family(families[0] != "IPv4")));
    }
    spec["ipFamilies"] = Value::Array(families);
}

#[cfg(test)]
mod tests;
