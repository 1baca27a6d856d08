//! Defaults of services. Addresses and node ports are allocated by the apiserver; families default to IPv4, the family of
//! its service network, unless an address given says otherwise.

use serde_json::{Value, json};

use super::{default, default_nonzero, items, make};

/// Three hours, the default stickiness of ClientIP affinity.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if spec["sessionAffinity"] == "ClientIP" {
        let client = make(make(spec, "sessionAffinityConfig"), "clientIP");
        default_nonzero(client, "timeoutSeconds", AFFINITY_SECONDS);
    } else if let Some(members) = spec.as_object_mut() {
        members.remove("sessionAffinityConfig");
    }
    for port in items(spec, "ports") {
        default(port, "protocol", "TCP");
        if port["targetPort"] == 0 || port["targetPort"] == "" || port["targetPort"].is_null() {
            port["targetPort"] = port["port"].clone();
        }
    }
    if spec["type"] == "ExternalName" {
        return;
    }
    default(spec, "internalTrafficPolicy", "Cluster");
    let from_outside = match spec["type"].as_str() {
        Some("NodePort" | "LoadBalancer") => true,
        _ => spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()),
    };
    if from_outside {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    families(spec);
}

fn families(spec: &mut Value) {
    let given: Vec<&str> = match spec["clusterIPs"].as_array() {
        Some(ips) if !ips.is_empty() => ips.iter().filter_map(Value::as_str).collect(),
        _ => spec["clusterIP"].as_str().into_iter().filter(|ip| !ip.is_empty()).collect(),
    };
    let family = |ip: &&str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    let families: Vec<_> = given.iter().map(family).collect();
    let two = families.len() > 1 || spec["ipFamilies"].as_array().is_some_and(|list| list.len() > 1);
    let families = if families.is_empty() { json!(["IPv4"]) } else { json!(families) };
    default(spec, "ipFamilyPolicy", if two { "RequireDualStack" } else { "SingleStack" });
    if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
        spec["ipFamilies"] = families;
    }
}
