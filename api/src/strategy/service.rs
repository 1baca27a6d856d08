//! Preparation of services: allocated addresses and ports stay if a writer omits them, and are removed if the
//! new type does not use them.

use crate::distinct::Distinct;
use crate::object::list;
use serde_json::Value;
use std::collections::BTreeMap;

/// Copies addresses, node ports and the health check port that the update omits and its type still uses.
pub(crate) fn keep_allocated(new: &mut Value, old: &Value) {
    let (new, old) = (&mut new["spec"], &old["spec"]);
    if !new.is_object() {
        return;
    }
    let (needed, had) = (kind(new), kind(old));
    drop_unneeded(new, old, &needed, &had);
    if needed != "ExternalName" && had != "ExternalName" {
        keep(new, old, "clusterIP");
        if new["clusterIP"] == old["clusterIP"] {
            keep(new, old, "clusterIPs");
        } else if new["clusterIPs"] == old["clusterIPs"] {
            new["clusterIPs"] = Value::Null;
        }
        fill_cluster_ips(new);
    }
    if has_node_ports(&needed) && has_node_ports(&had) {
        keep_node_ports(new, old);
    }
    let checked = |spec: &Value| spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if checked(new) && checked(old) {
        keep(new, old, "healthCheckNodePort");
    }
}

/// Removes members that only the old type uses, unless the writer changed them too.
fn drop_unneeded(new: &mut Value, old: &Value, needed: &str, had: &str) {
    let lost = |has: fn(&str) -> bool| has(had) && !has(needed);
    let mut gone: Vec<&str> = Vec::new();
    if lost(|kind| kind != "ExternalName") {
        gone.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if lost(|kind| kind == "LoadBalancer") {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]);
    }
    if lost(has_node_ports) {
        if new["externalIPs"].as_array().is_none_or(Vec::is_empty) {
            gone.push("externalTrafficPolicy");
        }
        drop_node_ports(new, old);
    }
    for member in gone {
        if new[member] == old[member]
            && let Some(members) = new.as_object_mut()
        {
            members.remove(member);
        }
    }
}

fn drop_node_ports(new: &mut Value, old: &Value) {
    let before = Distinct::of(list(&old["ports"]).iter().map(|port| &port["nodePort"]));
    for port in new.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if before.contains(&port["nodePort"])
            && let Some(members) = port.as_object_mut()
        {
            members.remove("nodePort");
        }
    }
}

fn has_node_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

fn kind(spec: &Value) -> String {
    spec["type"].as_str().unwrap_or("ClusterIP").to_owned()
}

/// Sets `clusterIPs` from `clusterIP` if only that is set.
pub(crate) fn fill_cluster_ips(spec: &mut Value) {
    if is_empty(&spec["clusterIPs"]) && !is_empty(&spec["clusterIP"]) {
        spec["clusterIPs"] = Value::Array(vec![spec["clusterIP"].clone()]);
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == "" || value == 0 || value.as_array().is_some_and(Vec::is_empty)
}

fn keep(new: &mut Value, old: &Value, member: &str) {
    if is_empty(&new[member]) && !is_empty(&old[member]) {
        new[member] = old[member].clone();
    }
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    // Of ports with the same number and protocol, the first counts.
    let key = |port: &Value| [port["port"].to_string(), port["protocol"].to_string()];
    let before: BTreeMap<_, &Value> =
        list(&old["ports"]).iter().rev().map(|port| (key(port), port)).collect();
    let mut ports = new["ports"].take();
    for port in ports.as_array_mut().into_iter().flatten() {
        if let Some(other) = before.get(&key(port)) {
            keep(port, other, "nodePort");
        }
    }
    new["ports"] = ports;
}
