//! Validation of a service's ports.
//!
//! Follows `validateServicePort`.

use super::SPEC;
use crate::check::{grammar, one_of, port};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn ports(errors: &mut ErrorList, spec: &Value) {
    let (path, ports) = (SPEC.child("ports"), list(&spec["ports"]));
    let mut names = BTreeSet::new();
    for (i, value) in ports.iter().enumerate() {
        let (path, own) = (path.index(i), text(&value["name"]));
        if !own.is_empty() {
            grammar(errors, &path.child("name"), own, name::dns1123_label(own));
            if !names.insert(own) {
                errors.duplicate(&path.child("name"), own);
            }
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        one(errors, &path, value);
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let number = int(&value["port"]);
    for fault in name::port_number(number) {
        errors.invalid(&path.child("port"), &number, fault);
    }
    one_of(errors, &path.child("protocol"), &value["protocol"], &["SCTP", "TCP", "UDP"]);
    port(errors, &path.child("targetPort"), &value["targetPort"]);
    if let Some(spoken) = value["appProtocol"].as_str() {
        grammar(errors, &path.child("appProtocol"), spoken, name::qualified_name(spoken));
    }
}

/// Checks ports together: node ports only where the type allows them, and each pair of protocol and port
/// once.
pub(super) fn across_ports(errors: &mut ErrorList, spec: &Value) {
    let (path, ports) = (SPEC.child("ports"), list(&spec["ports"]));
    let given = |port: &&Value| int(&port["nodePort"]) != 0;
    if spec["type"] == "ClusterIP" {
        for (i, _) in ports.iter().enumerate().filter(|(_, port)| given(port)) {
            let path = path.index(i);
            errors.forbidden(&path.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut taken = BTreeSet::new();
    for (i, port) in ports.iter().enumerate().filter(|(_, port)| given(port)) {
        if !taken.insert((text(&port["protocol"]), int(&port["nodePort"]))) {
            let path = path.index(i);
            errors.duplicate(&path.child("nodePort"), &port["nodePort"]);
        }
    }
    let mut taken = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(&port["protocol"]), int(&port["port"]));
        if !taken.insert((protocol, number)) {
            // The value that Kubernetes prints for a duplicate port.
            let pair = format!(
                r#"{{"Name":"","Protocol":{protocol:?},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#
            );
            errors.duplicate_raw(&path.index(i), pair);
        }
    }
}
