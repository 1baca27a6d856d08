//! Validation of endpoint slices.
//!
//! Follows `ValidateEndpointSlice`.

use super::address::{canonical_ip, endpoint, parse_ip};
use crate::check::metadata::labels;
use crate::check::{each, given_one_of, grammar, immutable, one_of};
use crate::field::{ErrorList, Path};
use crate::limits::{
    ENDPOINT_ADDRESSES_MAX, ENDPOINT_HINTS_MAX, ENDPOINT_TOPOLOGY_MAX, SLICE_ENDPOINTS_MAX, SLICE_PORTS_MAX,
};
use crate::name;
use crate::object::{list, semantically_equal, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;

pub(crate) fn content(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    one_of(errors, &Path::new("addressType"), &object["addressType"], &["FQDN", "IPv4", "IPv6"]);
    ports(errors, object);
    let mut wrong = ErrorList::new();
    endpoints(&mut wrong, object);
    // Endpoints that were stored before a rule existed stay acceptable while they do not change.
    let kept = |old: &Value| semantically_equal(&old["endpoints"], &object["endpoints"]);
    if !wrong.is_empty() && !old.is_some_and(kept) {
        errors.extend(wrong);
    }
}

pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "addressType", new, old);
}

fn endpoints(errors: &mut ErrorList, object: &Value) {
    let count = list(&object["endpoints"]).len();
    if count > SLICE_ENDPOINTS_MAX {
        errors.too_many(&Path::new("endpoints"), count, SLICE_ENDPOINTS_MAX);
        return;
    }
    let family = text(&object["addressType"]);
    each(&Path::ROOT, object, "endpoints", |path, endpoint| {
        addresses(errors, &path.child("addresses"), list(&endpoint["addresses"]), family);
        if let Some(node) = endpoint["nodeName"].as_str() {
            grammar(errors, &path.child("nodeName"), node, name::dns1123_subdomain(node));
        }
        let (at, topology) = (path.child("deprecatedTopology"), &endpoint["deprecatedTopology"]);
        let entries = topology.as_object().map_or(0, serde_json::Map::len);
        if entries > ENDPOINT_TOPOLOGY_MAX {
            errors.too_many(&at, entries, ENDPOINT_TOPOLOGY_MAX);
        }
        labels(errors, &at, topology);
        if let Some(host) = endpoint["hostname"].as_str() {
            grammar(errors, &path.child("hostname"), host, name::dns1123_label(host));
        }
        let hints = path.child("hints");
        hint(errors, &hints, &endpoint["hints"], "forZones", name::label_value);
        hint(errors, &hints, &endpoint["hints"], "forNodes", name::dns1123_subdomain);
    });
}

fn hint(
    errors: &mut ErrorList,
    path: &Path<'_>,
    hints: &Value,
    member: &str,
    grammar_of: fn(&str) -> name::Faults,
) {
    let items = list(&hints[member]);
    if items.len() > ENDPOINT_HINTS_MAX {
        errors.too_many(&path.child(member), items.len(), ENDPOINT_HINTS_MAX);
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, own) in items.iter().map(|item| text(&item["name"])).enumerate() {
        let path = path.child(member);
        let path = path.index(i);
        if !seen.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
        grammar(errors, &path.child("name"), own, grammar_of(own));
    }
}

fn addresses(errors: &mut ErrorList, path: &Path<'_>, addresses: &[Value], family: &str) {
    if addresses.is_empty() {
        errors.required(path, "must contain at least 1 address");
    } else if addresses.len() > ENDPOINT_ADDRESSES_MAX {
        errors.too_many(path, addresses.len(), ENDPOINT_ADDRESSES_MAX);
    }
    for (i, value) in addresses.iter().map(text).enumerate() {
        match family {
            "IPv4" => ipv4(errors, path, i, value),
            "IPv6" => ipv6(errors, path, i, value),
            "FQDN" => host(errors, &path.index(i), value),
            _ => {}
        }
    }
}

fn ipv4(errors: &mut ErrorList, path: &Path<'_>, i: usize, value: &str) {
    match parse_ip(value) {
        Err(fault) => errors.invalid(&path.index(i), value, fault),
        Ok(ip) => {
            if ip.is_ipv6() {
                errors.invalid(path, value, "must be an IPv4 address");
            }
            endpoint(errors, &path.index(i), value, ip);
        }
    }
}

fn ipv6(errors: &mut ErrorList, path: &Path<'_>, i: usize, value: &str) {
    let before = errors.len();
    canonical_ip(errors, &path.index(i), value);
    let Ok(ip) = value.parse::<IpAddr>() else { return };
    if errors.len() == before {
        if ip.is_ipv4() {
            errors.invalid(path, value, "must be an IPv6 address");
        }
        endpoint(errors, &path.index(i), value, ip);
    }
}

/// Checks a fully qualified domain name of two or more labels.
fn host(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    let own = value.strip_suffix('.').unwrap_or(value);
    let faults = name::dns1123_subdomain(own);
    if value.is_empty() {
        errors.required(path, "");
    } else if !faults.is_empty() {
        errors.invalid(path, own, faults.join(","));
    } else if !own.contains('.') {
        errors.invalid(path, own, "should be a domain with at least two segments separated by dots");
    } else if let Some(label) = own.split('.').find(|label| !name::dns1123_label(label).is_empty()) {
        errors.invalid(path, label, name::dns1123_label(label).join(","));
    }
}

fn ports(errors: &mut ErrorList, object: &Value) {
    let ports = list(&object["ports"]);
    if ports.len() > SLICE_PORTS_MAX {
        errors.too_many(&Path::new("ports"), ports.len(), SLICE_PORTS_MAX);
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let path = Path::new("ports");
        let path = path.index(i);
        let own = text(&port["name"]);
        if !own.is_empty() {
            grammar(errors, &path.child("name"), own, name::dns1123_label(own));
        }
        if !seen.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
        given_one_of(errors, &path.child("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
        if let Some(protocol) = port["appProtocol"].as_str() {
            grammar(errors, &path.child("appProtocol"), protocol, name::qualified_name(protocol));
        }
    }
}
