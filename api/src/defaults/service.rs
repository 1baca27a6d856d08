//! Defaults of services. Addresses and node ports are allocated by the apiserver; families default to IPv4, the family of
//! its service network, unless an address given says otherwise.

use serde_json::{Value, json};

use super::{default, items, make, member};

/// Three hours, the default stickiness of ClientIP affinity.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Value) {
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
    families(spec);
    if object["spec"]["type"] == "LoadBalancer" {
        modes(object);
    }
}

/// Addresses of load balancers are taken by nodes unless somebody says otherwise.
fn modes(object: &mut Value) {
    let balancer = member(object, "status").and_then(|status| member(status, "loadBalancer"));
    let Some(balancer) = balancer else { return };
    for place in
        items(balancer, "ingress").filter(|place| place["ip"].as_str().is_some_and(|ip| !ip.is_empty()))
    {
        default(place, "ipMode", "VIP");
    }
}

fn families(spec: &mut Value) {
    let given: Vec<&str> = match spec["clusterIPs"].as_array() {
        Some(ips) if !ips.is_empty() => ips.iter().filter_map(Value::as_str).collect(),
        _ => spec["clusterIP"].as_str().into_iter().filter(|ip| !ip.is_empty()).collect(),
    };
    let headless = given == ["None"];
    let family = |ip: &&str| if ip.contains(':') { "IPv6" } else { "IPv4" };
    let families: Vec<&str> =
        if given.is_empty() { vec!["IPv4"] } else { given.iter().map(family).collect() };
    let families = json!(families);
    if spec["ipFamilies"].as_array().is_none_or(Vec::is_empty) {
        spec["ipFamilies"] = families;
    }
    // A name without endpoints of its own may stand for addresses of both families.
    let both = headless && spec["selector"].as_object().is_none_or(|selector| selector.is_empty());
    default(spec, "ipFamilyPolicy", if both { "RequireDualStack" } else { "SingleStack" });
    if both
        && spec["ipFamilyPolicy"] != "SingleStack"
        && let Some(families) = spec["ipFamilies"].as_array_mut()
        && families.len() == 1
    {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.into());
    }
}
