//! Defaults of services. The apiserver sets addresses, families and node ports, since it knows the service
//! networks.
//!
//! Follows `SetDefaults_Service`.

use super::{default, items, make, member};
use serde_json::Value;

/// Default timeout of ClientIP session affinity in seconds: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

pub(crate) fn service(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    if spec["sessionAffinity"] == "ClientIP" {
        let client = make(make(spec, "sessionAffinityConfig"), "clientIP");
        default(client, "timeoutSeconds", AFFINITY_SECONDS);
    } else if spec["sessionAffinity"] == "None"
        && let Some(members) = spec.as_object_mut()
    {
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
    if object["spec"]["type"] == "LoadBalancer" {
        modes(object);
    }
}

/// Sets the mode of load balancer addresses, by default `VIP`.
fn modes(object: &mut Value) {
    let balancer = member(object, "status").and_then(|status| member(status, "loadBalancer"));
    let Some(balancer) = balancer else { return };
    for entry in
        items(balancer, "ingress").filter(|entry| entry["ip"].as_str().is_some_and(|ip| !ip.is_empty()))
    {
        default(entry, "ipMode", "VIP");
    }
}
