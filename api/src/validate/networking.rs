//! What must hold of ingresses, network policies, endpoints and their slices.

use serde_json::Value;

use super::check::{each, grammar, one_of, optional_one_of, port, port_number, required};
use super::selector::label_selector;
use crate::field::{ErrorList, Path};
use crate::limits::{ENDPOINT_ADDRESSES_MAX, SLICE_ENDPOINTS_MAX, SLICE_PORTS_MAX};
use crate::name;
use crate::object::{int, list, text};

const SPEC: Path<'static> = Path::new("spec");
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn ingress(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if list(&spec["rules"]).is_empty() && spec["defaultBackend"].is_null() {
        errors.invalid(&SPEC, list(&spec["rules"]), "either `defaultBackend` or `rules` must be specified");
    }
    if !spec["defaultBackend"].is_null() {
        backend(errors, &SPEC.child("defaultBackend"), &spec["defaultBackend"]);
    }
    each(&SPEC, spec, "rules", |path, rule| {
        let rule_host = text(&rule["host"]);
        if !rule_host.is_empty() {
            host(errors, &path.child("host"), rule_host);
        }
        if !rule["http"].is_null() {
            let path = path.child("http");
            if list(&rule["http"]["paths"]).is_empty() {
                errors.required(&path.child("paths"), "");
            }
            each(&path, &rule["http"], "paths", |path, value| ingress_path(errors, path, value));
        }
    });
    each(&SPEC, spec, "tls", |path, tls| {
        each(path, tls, "hosts", |path, value| host(errors, path, text(value)));
    });
    let class = text(&spec["ingressClassName"]);
    if !class.is_empty() {
        grammar(errors, &SPEC.child("ingressClassName"), class, name::dns1123_subdomain(class));
    }
}

fn host(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    if name::ip(host).is_empty() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    } else if host.contains('*') {
        grammar(errors, path, host, name::wildcard_dns1123_subdomain(host));
    } else {
        grammar(errors, path, host, name::dns1123_subdomain(host));
    }
}

fn ingress_path(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let (kind, own) = (text(&value["pathType"]), text(&value["path"]));
    match kind {
        "" => errors.required(&path.child("pathType"), "pathType must be specified"),
        "Exact" | "Prefix" => {
            if !own.starts_with('/') {
                errors.invalid(&path.child("path"), own, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| own.contains(part)) {
                errors.invalid(&path.child("path"), own, format!("must not contain '{part}'"));
            }
        }
        "ImplementationSpecific" => {
            if !own.is_empty() && !own.starts_with('/') {
                errors.invalid(&path.child("path"), own, "must be an absolute path");
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(&path.child("pathType"), other, &supported);
        }
    }
    backend(errors, &path.child("backend"), &value["backend"]);
}

fn backend(errors: &mut ErrorList, path: &Path<'_>, backend: &Value) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_null(), resource.is_null()) {
        (true, true) => errors.required(path, "resource or service backend is required"),
        (false, false) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => {
            required(errors, &path.child("resource.kind"), &resource["kind"]);
            required(errors, &path.child("resource.name"), &resource["name"]);
        }
        (false, true) => {
            let path = path.child("service");
            required(errors, &path.child("name"), &service["name"]);
            let (path, own, number) =
                (path.child("port"), text(&service["port"]["name"]), int(&service["port"]["number"]));
            match (own.is_empty(), number) {
                (true, 0) => errors.required(&path, "port name or number is required"),
                (true, _) => port_number(errors, &path.child("number"), &service["port"]["number"]),
                (false, 0) => grammar(errors, &path.child("name"), own, name::port_name(own)),
                (false, _) => errors.invalid(&path, "", "cannot set both port name & port number"),
            }
        }
    }
}

pub(super) fn ingress_class(object: &Value, errors: &mut ErrorList) {
    let controller = &object["spec"]["controller"];
    required(errors, &SPEC.child("controller"), controller);
    if !text(controller).is_empty() && !text(controller).contains('/') {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid(&SPEC.child("controller"), controller, detail);
    }
    let parameters = &object["spec"]["parameters"];
    if !parameters.is_null() {
        let path = SPEC.child("parameters");
        required(errors, &path.child("kind"), &parameters["kind"]);
        required(errors, &path.child("name"), &parameters["name"]);
        one_of(errors, &path.child("scope"), &parameters["scope"], &["Cluster", "Namespace"]);
        if parameters["scope"] == "Namespace" {
            required(errors, &path.child("namespace"), &parameters["namespace"]);
        }
    }
}

pub(super) fn network_policy(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    label_selector(errors, &SPEC.child("podSelector"), &spec["podSelector"]);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        each(&SPEC, spec, rules, |path, rule| {
            each(path, rule, "ports", |path, value| {
                optional_one_of(errors, &path.child("protocol"), &value["protocol"], &PROTOCOLS);
                if !value["port"].is_null() {
                    port(errors, &path.child("port"), &value["port"]);
                }
            });
            each(path, rule, peers, |path, value| peer(errors, path, value));
        });
    }
    each(&SPEC, spec, "policyTypes", |path, kind| one_of(errors, path, kind, &["Egress", "Ingress"]));
}

fn peer(errors: &mut ErrorList, path: &Path<'_>, peer: &Value) {
    let selectors = ["podSelector", "namespaceSelector"];
    let chosen = selectors.iter().any(|member| !peer[*member].is_null());
    for member in selectors {
        label_selector(errors, &path.child(member), &peer[member]);
    }
    let block = &peer["ipBlock"];
    match (chosen, block.is_null()) {
        (false, true) => errors.required(path, "must specify a peer"),
        (true, false) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (false, false) => {
            let path = path.child("ipBlock");
            let own = text(&block["cidr"]);
            if own.is_empty() {
                errors.required(&path.child("cidr"), "");
            } else {
                grammar(errors, &path.child("cidr"), own, name::cidr(own));
            }
            each(&path, block, "except", |path, value| {
                grammar(errors, path, text(value), name::cidr(text(value)));
            });
        }
        (true, true) => {}
    }
}

pub(super) fn endpoint_slice(object: &Value, errors: &mut ErrorList) {
    one_of(errors, &Path::new("addressType"), &object["addressType"], &["FQDN", "IPv4", "IPv6"]);
    let (endpoints, ports) = (list(&object["endpoints"]), list(&object["ports"]));
    if endpoints.len() > SLICE_ENDPOINTS_MAX {
        errors.too_many(&Path::new("endpoints"), endpoints.len(), SLICE_ENDPOINTS_MAX);
        return;
    }
    each(&Path::ROOT, object, "endpoints", |path, endpoint| {
        let path = path.child("addresses");
        let addresses = list(&endpoint["addresses"]);
        if addresses.is_empty() {
            errors.required(&path, "must contain at least 1 address");
        } else if addresses.len() > ENDPOINT_ADDRESSES_MAX {
            errors.too_many(&path, addresses.len(), ENDPOINT_ADDRESSES_MAX);
        }
        for (i, value) in addresses.iter().map(text).enumerate() {
            address(errors, &path.index(i), value, text(&object["addressType"]));
        }
    });
    if ports.len() > SLICE_PORTS_MAX {
        errors.too_many(&Path::new("ports"), ports.len(), SLICE_PORTS_MAX);
        return;
    }
    each(&Path::ROOT, object, "ports", |path, value| {
        let own = text(&value["name"]);
        if !own.is_empty() {
            grammar(errors, &path.child("name"), own, name::dns1123_label(own));
        }
        one_of(errors, &path.child("protocol"), &value["protocol"], &PROTOCOLS);
    });
    for (i, value) in ports.iter().enumerate() {
        if ports[..i].iter().any(|earlier| text(&earlier["name"]) == text(&value["name"])) {
            errors.duplicate(&Path::new("ports").index(i).child("name"), text(&value["name"]));
        }
    }
}

fn address(errors: &mut ErrorList, path: &Path<'_>, value: &str, kind: &str) {
    match kind {
        "FQDN" => grammar(errors, path, value, name::dns1123_subdomain(value)),
        "IPv4" if value.parse::<std::net::Ipv4Addr>().is_err() => {
            errors.invalid(path, value, "must be a valid IPv4 address");
        }
        "IPv6" if value.parse::<std::net::Ipv6Addr>().is_err() => {
            errors.invalid(path, value, "must be a valid IPv6 address");
        }
        _ => {}
    }
}
