//! Validation of v1 Endpoints.
//!
//! Follows `ValidateEndpointsCreate` and `ValidateEndpointsUpdate`.

use super::service;
use crate::check::{grammar, one_of, optional_grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, semantically_equal, text};
use serde_json::Value;

/// Checks Endpoints on create and update; unchanged subsets stay acceptable.
pub(crate) fn content(object: &Value, stored: Option<&Value>, errors: &mut ErrorList) {
    if stored.is_some_and(|stored| semantically_equal(&stored["subsets"], &object["subsets"])) {
        return;
    }
    let path = Path::new("subsets");
    for (i, subset) in list(&object["subsets"]).iter().enumerate() {
        let path = path.index(i);
        if list(&subset["addresses"]).is_empty() && list(&subset["notReadyAddresses"]).is_empty() {
            errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for member in ["addresses", "notReadyAddresses"] {
            let path = path.child(member);
            for (i, address) in list(&subset[member]).iter().enumerate() {
                self::address(errors, &path.index(i), address);
            }
        }
        let (path, ports) = (path.child("ports"), list(&subset["ports"]));
        for (i, port) in ports.iter().enumerate() {
            self::port(errors, &path.index(i), port, ports.len() > 1);
        }
    }
}

fn address(errors: &mut ErrorList, path: &Path<'_>, address: &Value) {
    let (at, ip) = (path.child("ip"), text(&address["ip"]));
    let faults = name::ip(ip);
    let unreadable = ip.parse::<std::net::IpAddr>().is_err() && !faults.is_empty();
    grammar(errors, &at, ip, faults);
    optional_grammar(errors, &path.child("hostname"), &address["hostname"], name::dns1123_label);
    if let Some(node) = address["nodeName"].as_str() {
        grammar(errors, &path.child("nodeName"), node, name::dns1123_subdomain(node));
    }
    if unreadable {
        errors.invalid(&at, ip, "must be a valid IP address");
    } else {
        grammar(errors, &at, ip, service::special(ip));
    }
}

fn port(errors: &mut ErrorList, path: &Path<'_>, port: &Value, named: bool) {
    if named && text(&port["name"]).is_empty() {
        errors.required(&path.child("name"), "");
    }
    optional_grammar(errors, &path.child("name"), &port["name"], name::dns1123_label);
    let number = int(&port["port"]);
    for fault in name::port_number(number) {
        errors.invalid(&path.child("port"), &number, fault);
    }
    one_of(errors, &path.child("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    if let Some(spoken) = port["appProtocol"].as_str() {
        grammar(errors, &path.child("appProtocol"), spoken, name::qualified_name(spoken));
    }
}
