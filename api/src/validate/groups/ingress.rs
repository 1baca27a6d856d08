//! Validation of ingresses and ingress classes.
//!
//! Follows `ValidateIngressCreate` and `ValidateIngressClass`.

use super::address::parse_ip;
use super::reference::{api_group, segment};
use crate::check::{each, grammar, immutable, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::INGRESS_CONTROLLER_MAX;
use crate::object::{int, list, text};
use crate::{meta, name};
use serde_json::Value;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn ingress(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if list(&spec["rules"]).is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(&SPEC, &spec["rules"], detail);
    }
    if !spec["defaultBackend"].is_null() {
        backend(errors, &SPEC.child("defaultBackend"), &spec["defaultBackend"]);
    }
    each(&SPEC, spec, "rules", |path, rule| {
        rule_host(errors, &path.child("host"), text(&rule["host"]));
        if !rule["http"].is_null() {
            let path = path.child("http");
            if list(&rule["http"]["paths"]).is_empty() {
                errors.required(&path.child("paths"), "");
            }
            each(&path, &rule["http"], "paths", |path, value| http_path(errors, path, value));
        }
    });
    each(&SPEC, spec, "tls", |path, tls| {
        each(path, tls, "hosts", |path, host| domain(errors, path, text(host)));
        let secret = text(&tls["secretName"]);
        if !secret.is_empty() {
            grammar(errors, &path.child("secretName"), secret, name::dns1123_subdomain(secret));
        }
    });
    if let Some(class) = spec["ingressClassName"].as_str() {
        grammar(errors, &SPEC.child("ingressClassName"), class, name::dns1123_subdomain(class));
    }
}

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Checks that the class annotation and the class field are equal if both are set.
pub(crate) fn ingress_create(object: &Value, errors: &mut ErrorList) {
    let (old, new) =
        (meta::annotation(object, CLASS_ANNOTATION), object["spec"]["ingressClassName"].as_str());
    if let (Some(old), Some(new)) = (old, new)
        && old != new
    {
        let path = Path::new("annotations");
        errors.invalid(
            &path.child(CLASS_ANNOTATION),
            old,
            "must match `ingressClassName` when both are specified",
        );
    }
}

/// Checks the load balancer status of an ingress.
pub(crate) fn ingress_status(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.loadBalancer");
    each(&path, &object["status"]["loadBalancer"], "ingress", |path, point| {
        let (ip, host) = (text(&point["ip"]), text(&point["hostname"]));
        if !ip.is_empty()
            && let Err(fault) = parse_ip(ip)
        {
            errors.invalid(&path.child("ip"), ip, fault);
        }
        if !host.is_empty() {
            let path = path.child("hostname");
            grammar(errors, &path, host, name::dns1123_subdomain(host));
            no_address(errors, &path, host);
        }
    });
}

fn no_address(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    if name::ip(host).is_empty() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
}

fn rule_host(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    if !host.is_empty() {
        no_address(errors, path, host);
        domain(errors, path, host);
    }
}

fn domain(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    let faults = match host.contains('*') {
        true => name::wildcard_dns1123_subdomain(host),
        false => name::dns1123_subdomain(host),
    };
    grammar(errors, path, host, faults);
}

fn http_path(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let own = text(&value["path"]);
    let Some(kind) = value["pathType"].as_str() else {
        errors.required(&path.child("pathType"), "pathType must be specified");
        return;
    };
    let at = path.child("path");
    let relative = !own.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if relative {
                errors.invalid(&at, own, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| own.contains(part)) {
                errors.invalid(&at, own, format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| own.ends_with(end)) {
                errors.invalid(&at, own, format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" if relative && !own.is_empty() => {
            errors.invalid(&at, own, "must be an absolute path");
        }
        "ImplementationSpecific" => {}
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
        (true, true) => errors.invalid(path, "", "resource or service backend is required"),
        (false, false) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => {
            let path = path.child("resource");
            api_group(errors, &path.child("apiGroup"), &resource["apiGroup"]);
            segment(errors, &path.child("kind"), &resource["kind"]);
            segment(errors, &path.child("name"), &resource["name"]);
        }
        (false, true) => service_backend(errors, path, service),
    }
}

fn service_backend(errors: &mut ErrorList, path: &Path<'_>, service: &Value) {
    let at = path.child("service");
    required_grammar(errors, &at.child("name"), &service["name"], name::dns1123_label);
    let port = at.child("port");
    let (own, number) = (text(&service["port"]["name"]), int(&service["port"]["number"]));
    match (own.is_empty(), number) {
        (true, 0) => errors.required(path, "port name or number is required"),
        (true, number) => {
            for fault in name::port_number(number) {
                errors.invalid(&port.child("number"), &number, fault);
            }
        }
        (false, 0) => grammar(errors, &port.child("name"), own, name::port_name(own)),
        (false, _) => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

pub(crate) fn class(object: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("controller");
    let controller = text(&object["spec"]["controller"]);
    if controller.len() > INGRESS_CONTROLLER_MAX {
        errors.too_long(&path, INGRESS_CONTROLLER_MAX);
    }
    domain_path(errors, &path, controller);
    if !object["spec"]["parameters"].is_null() {
        parameters(errors, &SPEC.child("parameters"), &object["spec"]["parameters"]);
    }
}

const PATH_TEXT: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";

/// Checks a domain-prefixed path such as `example.com/some-path`.
fn domain_path(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.is_empty() {
        errors.required(path, "");
        return;
    }
    let Some((host, rest)) = own.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        errors.invalid(path, own, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    grammar(errors, path, host, name::dns1123_subdomain(host));
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.invalid(path, rest, PATH_TEXT);
    }
}

fn parameters(errors: &mut ErrorList, path: &Path<'_>, parameters: &Value) {
    api_group(errors, &path.child("apiGroup"), &parameters["apiGroup"]);
    segment(errors, &path.child("kind"), &parameters["kind"]);
    segment(errors, &path.child("name"), &parameters["name"]);
    let at = path.child("namespace");
    match (text(&parameters["scope"]), parameters["namespace"].as_str()) {
        ("", _) if parameters["scope"].is_null() => errors.required(&path.child("scope"), ""),
        ("Namespace", None) => errors.required(&at, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(own)) => grammar(errors, &at, own, name::dns1123_label(own)),
        ("Cluster", Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        ("Cluster", None) => {}
        (other, _) => errors.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

pub(crate) fn class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "spec.controller", new, old);
}
