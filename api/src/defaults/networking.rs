//! Defaults of endpoints, endpoint slices, network policies and ingress classes.
//!
//! Follows `SetDefaults_NetworkPolicy` and `SetDefaults_EndpointSlice`.

use super::{default, items, make, member};
use serde_json::{Value, json};

pub(crate) fn endpoints(object: &mut Value) {
    for subset in items(object, "subsets") {
        for port in items(subset, "ports") {
            default(port, "protocol", "TCP");
        }
    }
}

pub(crate) fn endpoint_slice(object: &mut Value) {
    for port in items(object, "ports") {
        default(port, "name", "");
        default(port, "protocol", "TCP");
    }
}

pub(crate) fn network_policy(object: &mut Value) {
    let spec = make(object, "spec");
    for rules in ["ingress", "egress"] {
        for rule in items(spec, rules) {
            for port in items(rule, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }
    if spec["policyTypes"].as_array().is_none_or(Vec::is_empty) {
        let egress = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
        spec["policyTypes"] = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    }
}

pub(crate) fn ingress_class(object: &mut Value) {
    if let Some(parameters) = member(make(object, "spec"), "parameters") {
        default(parameters, "scope", "Cluster");
    }
}
