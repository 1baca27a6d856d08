//! Validation of services. The allocator checks whether addresses and node ports are free.
//!
//! Follows `ValidateService`.

mod address;
mod change;
mod port;
mod status;

use crate::check::{IMMUTABLE, grammar, metadata, one_of};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::object::{int, list, text};
use crate::{meta, name};
pub(super) use address::special;
pub(crate) use change::change;
use serde_json::Value;
pub(crate) use status::status;

const SPEC: Path<'static> = Path::new("spec");
/// Longest session affinity timeout: one day in seconds.
const AFFINITY_MAX: i64 = 86_400;
const RANGES_ANNOTATION: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const HINTS_ANNOTATION: &str = "service.kubernetes.io/topology-aware-hints";
const MODE_ANNOTATION: &str = "service.kubernetes.io/topology-mode";

/// Checks a Service on create and update; `stored` is the object that it replaces.
pub(crate) fn content(object: &Value, stored: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    topology(errors, object);
    if list(&spec["ports"]).is_empty() && !is_headless(spec) && spec["type"] != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    by_type(errors, spec);
    port::ports(errors, spec);
    metadata::labels(errors, &SPEC.child("selector"), &spec["selector"]);
    affinity(errors, spec);
    let before = stored.map_or(&Value::Null, |stored| &stored["spec"]);
    address::addresses(errors, spec, before);
    address::external(errors, spec, before);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(errors, &SPEC.child("type"), &spec["type"], &kinds);
    port::across_ports(errors, spec);
    source_ranges(errors, object, stored);
    load_balancer(errors, spec);
    traffic(errors, spec);
}

fn topology(errors: &mut ErrorList, object: &Value) {
    let said = |key| meta::annotation(object, key);
    if let (Some(hints), Some(mode)) = (said(HINTS_ANNOTATION), said(MODE_ANNOTATION))
        && hints != mode
    {
        let path = Path::new("metadata.annotations");
        let detail = format!("must match annotations[{HINTS_ANNOTATION}] when both are specified");
        errors.invalid(&path.key(MODE_ANNOTATION), mode, detail);
    }
}

/// Whether the service is headless, without a cluster IP.
fn is_headless(spec: &Value) -> bool {
    matches!(list(&spec["clusterIPs"]), [only] if only == "None")
}

fn by_type(errors: &mut ErrorList, spec: &Value) {
    let kind = text(&spec["type"]);
    let addresses = SPEC.child("clusterIPs");
    if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(spec) {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid(&addresses.index(0), "None", detail);
    }
    if kind != "ExternalName" {
        return;
    }
    for member in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let value = &spec[member];
        if !value.is_null() && !value.as_array().is_some_and(Vec::is_empty) {
            errors.forbidden(&SPEC.child(member), "may not be set for ExternalName services");
        }
    }
    let host = text(&spec["externalName"]);
    match host.strip_suffix('.').unwrap_or(host) {
        "" => errors.required(&SPEC.child("externalName"), ""),
        host => grammar(errors, &SPEC.child("externalName"), host, name::dns1123_subdomain(host)),
    }
}

fn affinity(errors: &mut ErrorList, spec: &Value) {
    let config = &spec["sessionAffinityConfig"];
    one_of(errors, &SPEC.child("sessionAffinity"), &spec["sessionAffinity"], &["ClientIP", "None"]);
    let path = SPEC.child("sessionAffinityConfig");
    match text(&spec["sessionAffinity"]) {
        "ClientIP" => {
            let path = path.child("clientIP.timeoutSeconds");
            let seconds = int(&config["clientIP"]["timeoutSeconds"]);
            if !(1..=AFFINITY_MAX).contains(&seconds) {
                let detail = format!("must be greater than 0 and less than {AFFINITY_MAX}");
                errors.invalid(&path, &seconds, detail);
            }
        }
        "None" if !config.is_null() => {
            errors.forbidden(&path, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

fn source_ranges(errors: &mut ErrorList, object: &Value, stored: Option<&Value>) {
    let spec = &object["spec"];
    let ranges = list(&spec["loadBalancerSourceRanges"]);
    let path = SPEC.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() {
        if spec["type"] != "LoadBalancer" {
            errors.forbidden(&path, BALANCED);
        }
        let before = stored.map_or(&[][..], |stored| list(&stored["spec"]["loadBalancerSourceRanges"]));
        let before = Distinct::of(before);
        for (i, range) in ranges.iter().enumerate().filter(|(_, range)| !before.contains(range)) {
            let range = text(range).trim();
            grammar(errors, &path.index(i), range, name::cidr(range));
        }
    } else if let Some(said) = meta::annotation(object, RANGES_ANNOTATION) {
        let path = Path::new("metadata.annotations");
        let path = path.key(RANGES_ANNOTATION);
        if spec["type"] != "LoadBalancer" {
            errors.forbidden(&path, BALANCED);
        }
        let before = stored.and_then(|stored| meta::annotation(stored, RANGES_ANNOTATION));
        for range in
            said.split(',').map(str::trim).filter(|_| !said.trim().is_empty() && before != Some(said))
        {
            grammar(errors, &path, range, name::cidr(range));
        }
    }
}

fn load_balancer(errors: &mut ErrorList, spec: &Value) {
    let (balanced, allocate) = (spec["type"] == "LoadBalancer", &spec["allocateLoadBalancerNodePorts"]);
    if !allocate.is_null() && !balanced {
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), BALANCED);
    }
    if balanced && allocate.is_null() {
        errors.required(&Path::new("allocateLoadBalancerNodePorts"), "");
    }
    let path = SPEC.child("loadBalancerClass");
    if let Some(class) = spec["loadBalancerClass"].as_str() {
        if balanced {
            grammar(errors, &path, class, name::qualified_name(class));
        } else {
            errors.forbidden(&path, BALANCED);
        }
    }
}

/// Whether the service accepts traffic from outside the cluster.
fn is_external(spec: &Value) -> bool {
    match text(&spec["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(&spec["externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Whether the service needs a health check node port.
fn needs_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

fn traffic(errors: &mut ErrorList, spec: &Value) {
    let (path, external) = (SPEC.child("externalTrafficPolicy"), &spec["externalTrafficPolicy"]);
    if is_external(spec) {
        one_of(errors, &path, external, &["Cluster", "Local"]);
    } else if !text(external).is_empty() {
        errors.invalid(&path, external, "may only be set for externally-accessible services");
    }
    let (path, check) = (SPEC.child("healthCheckNodePort"), int(&spec["healthCheckNodePort"]));
    if check != 0 && !needs_check(spec) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&path, &check, detail);
    } else if check != 0 {
        for fault in name::port_number(check) {
            errors.invalid(&path, &check, fault);
        }
    }
    let (path, internal) = (SPEC.child("internalTrafficPolicy"), &spec["internalTrafficPolicy"]);
    if internal.is_null() {
        if matches!(text(&spec["type"]), "NodePort" | "LoadBalancer" | "ClusterIP") {
            errors.required(&path, "");
        }
    } else if !["Cluster", "Local"].contains(&text(internal)) {
        errors.not_supported(&path, text(internal), &["Cluster", "Local"]);
    }
    if let Some(near) = spec["trafficDistribution"].as_str() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !known.contains(&near) {
            errors.not_supported_as_listed(&SPEC.child("trafficDistribution"), near, &known);
        }
    }
}
