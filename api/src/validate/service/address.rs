//! Validation of a service's addresses and IP families. The apiserver knows the families of the cluster.
//!
//! Follows `ValidateServiceClusterIPsRelatedFields`.

use super::{SPEC, is_headless};
use crate::check::grammar;
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;
use std::net::IpAddr;

/// Checks cluster IPs: one, or one of each family.
pub(super) fn addresses(errors: &mut ErrorList, spec: &Value, before: &Value) {
    if spec["type"] == "ExternalName" {
        return;
    }
    let (path, all) = (SPEC.child("clusterIPs"), list(&spec["clusterIPs"]));
    match (text(&spec["clusterIP"]), all.first().map(text)) {
        ("", Some(_)) => errors.invalid(&path, all, "must be empty when `clusterIP` is not specified"),
        (first, None) if !first.is_empty() => errors.required(&path, ""),
        (first, Some(other)) if first != other => {
            errors.invalid(&path, all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    families(errors, spec);
    if well_formed(errors, &path, all, list(&before["clusterIPs"])) {
        fitting(errors, &path, all, list(&spec["ipFamilies"]), is_headless(spec));
    }
}

fn families(errors: &mut ErrorList, spec: &Value) {
    let (path, families) = (SPEC.child("ipFamilies"), list(&spec["ipFamilies"]));
    let mut seen = Distinct::default();
    for (i, family) in families.iter().enumerate() {
        if !["IPv4", "IPv6"].contains(&text(family)) {
            errors.not_supported(&path.index(i), text(family), &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            errors.duplicate(&path.index(i), family);
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        if !known.contains(&policy) {
            errors.not_supported(&SPEC.child("ipFamilyPolicy"), policy, &known);
        }
    }
}

fn well_formed(errors: &mut ErrorList, path: &Path<'_>, all: &[Value], before: &[Value]) -> bool {
    let mut good = true;
    let before = Distinct::of(before);
    for (i, ip) in all.iter().enumerate() {
        if i == 0 && ip == "None" {
            if all.len() > 1 {
                good = false;
                errors.invalid(path, all, "'None' must be the first and only value");
            }
            continue;
        }
        let faults = if before.contains(ip) { Vec::new() } else { name::ip(text(ip)) };
        good &= faults.is_empty();
        grammar(errors, &path.index(i), text(ip), faults);
    }
    if all.len() > 2 {
        errors.invalid(path, all, "may only hold up to 2 values");
    }
    good
}

fn is_six(ip: &Value) -> bool {
    text(ip).contains(':')
}

fn fitting(errors: &mut ErrorList, path: &Path<'_>, all: &[Value], families: &[Value], headless: bool) {
    if all.len() > 1 && all.iter().all(is_six) == all.iter().any(is_six) {
        errors.invalid(path, all, "may specify no more than one IP for each IP family");
    }
    if headless {
        return;
    }
    for (i, (ip, family)) in all.iter().zip(families).enumerate() {
        if is_six(ip) != (*family == "IPv6") && ["IPv4", "IPv6"].contains(&text(family)) {
            let family = text(family);
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&path.index(i), ip, detail);
        }
    }
}

/// Checks external IPs.
pub(super) fn external(errors: &mut ErrorList, spec: &Value, before: &Value) {
    let path = SPEC.child("externalIPs");
    let before = Distinct::of(list(&before["externalIPs"]));
    for (i, ip) in list(&spec["externalIPs"]).iter().enumerate() {
        let path = path.index(i);
        let faults = if before.contains(ip) { Vec::new() } else { name::ip(text(ip)) };
        if faults.is_empty() {
            grammar(errors, &path, text(ip), special(text(ip)));
        } else {
            grammar(errors, &path, text(ip), faults);
        }
    }
}

/// Faults of an address in a special range, which cannot be an endpoint.
pub(in crate::validate) fn special(ip: &str) -> name::Faults {
    let Ok(ip) = ip.parse::<IpAddr>() else { return name::Faults::new() };
    let local = match ip {
        IpAddr::V4(four) => (four.is_link_local(), four.is_multicast() && four.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(six) => (six.is_unicast_link_local(), six.segments()[0] == 0xff02),
    };
    let mut faults = name::Faults::new();
    if ip.is_unspecified() {
        faults.push("may not be unspecified (0.0.0.0 or ::)".to_owned());
    }
    if ip.is_loopback() {
        faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if local.0 {
        faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if local.1 {
        faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
}
