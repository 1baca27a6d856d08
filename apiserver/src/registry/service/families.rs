//! Which families of addresses a service has: what its author says, completed by what the cluster has networks for. Pure. Runs before
//! validation, as in Kubernetes, whose texts these are; not the addresses themselves.

use crate::service_ranges::{ServiceRanges, family};
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::{list, text};
use serde_json::{Value, json};
use std::net::IpAddr;

const SPEC: Path<'static> = Path::new("spec");
const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// Fills in `ipFamilyPolicy` and `ipFamilies`, and lets go of what a service does that turns to one family. `stored` is the spec that
/// this one succeeds. What is ill-formed stays as it is: validation says so.
///
/// In this order: an unchanged service that only prefers two families keeps what it has, whatever the cluster has by now. The policy is
/// the one before, else two families for names without selector, else one. Families follow from the addresses that are named, then
/// from the cluster's first network; a second one is added where it is wanted and there is a network for it.
pub(super) fn settle(ranges: &ServiceRanges, spec: &mut Value, stored: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    if !spec.is_object() || spec["type"] == "ExternalName" || !is_well_formed(spec) {
        return errors;
    }
    if stored.is_some_and(|stored| prefers_as_before(spec, stored)) {
        return errors;
    }
    let headless = spec["clusterIP"] == "None";
    let only_names = headless && spec["selector"].as_object().is_none_or(|selector| selector.is_empty());
    if spec["ipFamilyPolicy"].is_null() {
        let before = stored.map(|stored| &stored["ipFamilyPolicy"]).filter(|policy| policy.is_string());
        let usual = || json!(if only_names { REQUIRE } else { SINGLE });
        spec["ipFamilyPolicy"] = before.cloned().unwrap_or_else(usual);
    }
    if let Some(stored) = stored {
        let_go(&mut errors, spec, stored);
    }
    check_counts(&mut errors, spec);
    let known = ranges.families();
    if !headless {
        infer(&mut errors, spec, &known);
    }
    if !errors.is_empty() {
        return errors;
    }
    if only_names {
        complete(spec, known[0], true);
        return errors;
    }
    check_known(&mut errors, spec, &known);
    if errors.is_empty() {
        complete(spec, known[0], known.len() == 2);
    }
    errors
}

/// What `validation` takes for granted about these members.
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

/// Nothing that bears on families changes, and two were only preferred.
fn prefers_as_before(spec: &Value, stored: &Value) -> bool {
    let same = |member: &str| list(&spec[member]) == list(&stored[member]);
    let stored_policy = &stored["ipFamilyPolicy"];
    spec["type"] == stored["type"]
        && spec["ipFamilyPolicy"] == PREFER
        && (stored_policy.is_null() || *stored_policy == PREFER)
        && same("clusterIPs")
        && same("ipFamilies")
}

/// One family says that the second is given back; otherwise nothing may be missing.
fn let_go(errors: &mut ErrorList, spec: &mut Value, stored: &Value) {
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

/// Families of addresses that are named without them.
fn infer(errors: &mut ErrorList, spec: &mut Value, known: &[&str]) {
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

fn check_known(errors: &mut ErrorList, spec: &Value, known: &[&str]) {
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

/// The usual family if none is named; the other one too, if two are wanted and `both` can be had.
fn complete(spec: &mut Value, usual: &str, both: bool) {
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
