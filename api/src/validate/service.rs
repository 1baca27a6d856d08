//! What must hold of services. Whether an address or node port is free is the allocator's question.

use serde_json::Value;

use super::check::{each, grammar, one_of, optional_one_of, port, port_number};
use super::metadata;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};

const SPEC: Path<'static> = Path::new("spec");
const HEADLESS: &str = "None";
/// One day: how long a client may stick to an endpoint.
const AFFINITY_MAX: i64 = 86_400;

pub(super) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(errors, &SPEC.child("type"), &spec["type"], &kinds);
    let (kind, headless) = (text(&spec["type"]), spec["clusterIP"] == HEADLESS);
    if list(&spec["ports"]).is_empty() && !headless && kind != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    addresses(errors, spec, kind);
    ports(errors, spec, kind);
    metadata::labels(errors, &SPEC.child("selector"), &spec["selector"]);
    affinity(errors, spec);
    traffic(errors, spec, kind);
    each(&SPEC, spec, "externalIPs", |path, ip| grammar(errors, path, text(ip), name::ip(text(ip))));
    each(&SPEC, spec, "loadBalancerSourceRanges", |path, range| {
        grammar(errors, path, text(range), name::cidr(text(range).trim()));
    });
}

fn addresses(errors: &mut ErrorList, spec: &Value, kind: &str) {
    let (first, all) = (text(&spec["clusterIP"]), list(&spec["clusterIPs"]));
    let path = SPEC.child("clusterIPs");
    if kind == "ExternalName" {
        if !first.is_empty() || !all.is_empty() {
            errors.forbidden(&path, "may not be set for ExternalName services");
        }
        match text(&spec["externalName"]).trim_end_matches('.') {
            "" => errors.required(&SPEC.child("externalName"), ""),
            host => grammar(errors, &SPEC.child("externalName"), host, name::dns1123_subdomain(host)),
        }
        return;
    }
    if first == HEADLESS && matches!(kind, "NodePort" | "LoadBalancer") {
        let detail = format!("may not be set to 'None' for {kind} services");
        errors.invalid(&path.index(0), HEADLESS, detail);
    }
    match (first, all.first().map(text)) {
        ("", Some(_)) => errors.invalid(&path, all, "must be empty when `clusterIP` is not specified"),
        (first, Some(other)) if first != other => {
            errors.invalid(&path, all, "first value must match `clusterIP`");
        }
        _ => {}
    }
    let none = [];
    let given =
        if all.is_empty() && !first.is_empty() { std::slice::from_ref(&spec["clusterIP"]) } else { all };
    let given = if first.is_empty() { &none } else { given };
    for (i, ip) in given.iter().map(text).enumerate().filter(|(_, ip)| *ip != HEADLESS) {
        grammar(errors, &path.index(i), ip, name::ip(ip));
    }
    if given.len() > 2 {
        errors.invalid(&path, all, "may only hold up to 2 values");
    }
}

fn ports(errors: &mut ErrorList, spec: &Value, kind: &str) {
    let ports = list(&spec["ports"]);
    for (i, value) in ports.iter().enumerate() {
        let list_path = SPEC.child("ports");
        let path = list_path.index(i);
        let own = text(&value["name"]);
        if own.is_empty() {
            if ports.len() > 1 {
                errors.required(&path.child("name"), "");
            }
        } else {
            grammar(errors, &path.child("name"), own, name::dns1123_label(own));
            if ports[..i].iter().any(|earlier| earlier["name"] == value["name"]) {
                errors.duplicate(&path.child("name"), own);
            }
        }
        port_number(errors, &path.child("port"), &value["port"]);
        one_of(errors, &path.child("protocol"), &value["protocol"], &["SCTP", "TCP", "UDP"]);
        port(errors, &path.child("targetPort"), &value["targetPort"]);
        node_port(errors, &path, value, kind, &ports[..i]);
        let same =
            |earlier: &&Value| earlier["port"] == value["port"] && earlier["protocol"] == value["protocol"];
        if ports[..i].iter().any(|earlier| same(&earlier)) {
            let pair = serde_json::json!({"port": value["port"], "protocol": value["protocol"]});
            errors.duplicate(&path, &pair);
        }
    }
}

fn node_port(errors: &mut ErrorList, path: &Path<'_>, value: &Value, kind: &str, earlier: &[Value]) {
    let (path, number) = (path.child("nodePort"), int(&value["nodePort"]));
    if number == 0 {
        return;
    }
    if matches!(kind, "ClusterIP" | "ExternalName") {
        let detail = format!("may not be used when `type` is '{kind}'");
        errors.forbidden(&path, detail);
        return;
    }
    port_number(errors, &path, &value["nodePort"]);
    let same =
        |other: &Value| other["nodePort"] == value["nodePort"] && other["protocol"] == value["protocol"];
    if earlier.iter().any(same) {
        errors.duplicate(&path, &number);
    }
}

fn affinity(errors: &mut ErrorList, spec: &Value) {
    let path = SPEC.child("sessionAffinity");
    one_of(errors, &path, &spec["sessionAffinity"], &["ClientIP", "None"]);
    if spec["sessionAffinity"] == "ClientIP" {
        let seconds = int(&spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]);
        if !(1..=AFFINITY_MAX).contains(&seconds) {
            let path = SPEC.child("sessionAffinityConfig.clientIP.timeoutSeconds");
            let detail = format!("must be greater than 0 and less than {AFFINITY_MAX}");
            errors.invalid(&path, &seconds, detail);
        }
    }
}

fn traffic(errors: &mut ErrorList, spec: &Value, kind: &str) {
    let policies = ["Cluster", "Local"];
    let internal = SPEC.child("internalTrafficPolicy");
    optional_one_of(errors, &internal, &spec["internalTrafficPolicy"], &policies);
    let (path, external) = (SPEC.child("externalTrafficPolicy"), &spec["externalTrafficPolicy"]);
    optional_one_of(errors, &path, external, &policies);
    let from_outside = matches!(kind, "NodePort" | "LoadBalancer") || !list(&spec["externalIPs"]).is_empty();
    if !text(external).is_empty() && !from_outside {
        errors.invalid(&path, external, "may only be set for externally-accessible services");
    }
    let check = int(&spec["healthCheckNodePort"]);
    if check != 0 && !(kind == "LoadBalancer" && *external == "Local") {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&SPEC.child("healthCheckNodePort"), &check, detail);
    }
}

/// The first address of a service stays while it has one.
pub(super) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, stored) = (&new["spec"], &old["spec"]);
    if spec["type"] == "ExternalName" || stored["type"] == "ExternalName" {
        return;
    }
    let before = text(&stored["clusterIP"]);
    if !before.is_empty() && text(&spec["clusterIP"]) != before {
        let path = SPEC.child("clusterIPs");
        let now = if list(&spec["clusterIPs"]).is_empty() {
            serde_json::json!([spec["clusterIP"]])
        } else {
            spec["clusterIPs"].clone()
        };
        errors.invalid(&path.index(0), &now, "may not change once set");
    }
}
