//! Services: what was allocated stays when a writer leaves it out.

use serde_json::Value;

/// Addresses, node ports and the health-check port that the successor does not name and still needs.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    let (new, old) = (&mut new["spec"], &old["spec"]);
    if !new.is_object() {
        return;
    }
    let (needed, had) = (kind(new), kind(old));
    if needed != "ExternalName" && had != "ExternalName" {
        keep(new, old, "clusterIP");
        if new["clusterIP"] == old["clusterIP"] {
            keep(new, old, "clusterIPs");
        }
    }
    let with_ports = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    if with_ports(&needed) && with_ports(&had) {
        keep_node_ports(new, old);
    }
    let checked = |spec: &Value| spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if checked(new) && checked(old) {
        keep(new, old, "healthCheckNodePort");
    }
}

fn kind(spec: &Value) -> String {
    spec["type"].as_str().unwrap_or("ClusterIP").to_owned()
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
    let none = Vec::new();
    let before = old["ports"].as_array().unwrap_or(&none);
    let mut ports = new["ports"].take();
    for port in ports.as_array_mut().into_iter().flatten() {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if let Some(other) = before.iter().find(same) {
            keep(port, other, "nodePort");
        }
    }
    new["ports"] = ports;
}
