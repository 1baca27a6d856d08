//! Validation of a pod's DNS configuration, host names and host network.
//!
//! Follows `validatePodDNSConfig` and `ValidateHostAliases`.

use crate::check::{each, grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use serde_json::Value;

/// Limits of resolvers: name servers, search domains, and bytes of all search domains.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;
/// Bytes of a host name in the Linux kernel.
const HOSTNAME_MAX: usize = 64;

pub(super) fn dns_config(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (path, config) = (path.child("dnsConfig"), &spec["dnsConfig"]);
    let servers = list(&config["nameservers"]);
    if spec["dnsPolicy"] == "None" && config.is_null() {
        errors.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        return;
    }
    let at = path.child("nameservers");
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        errors.required(&at, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        return;
    }
    if servers.len() > NAMESERVERS_MAX {
        errors.invalid(&at, servers, format!("must not have more than {NAMESERVERS_MAX} nameservers"));
    }
    for (i, server) in servers.iter().map(text).enumerate() {
        grammar(errors, &at.index(i), server, name::ip(server));
    }
    searches(errors, &path.child("searches"), list(&config["searches"]));
    each(&path, config, "options", |path, option| {
        if text(&option["name"]).is_empty() {
            errors.required(path, "must not be empty");
        }
    });
}

fn searches(errors: &mut ErrorList, path: &Path<'_>, searches: &[Value]) {
    if searches.len() > SEARCHES_MAX {
        errors.invalid(path, searches, format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    let bytes: usize = searches.iter().map(|search| text(search).len() + 1).sum();
    if bytes > SEARCH_BYTES_MAX + 1 {
        let detail = format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list"
        );
        errors.invalid(path, searches, detail);
    }
    for (i, search) in searches.iter().map(text).enumerate().filter(|(_, search)| *search != ".") {
        let domain = search.strip_suffix('.').unwrap_or(search);
        grammar(errors, &path.index(i), domain, name::search_domain(domain));
    }
}

pub(super) fn host_aliases(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    each(path, spec, "hostAliases", |path, alias| {
        let ip = text(&alias["ip"]);
        grammar(errors, &path.child("ip"), ip, name::ip(ip));
        each(path, alias, "hostnames", |path, host| {
            grammar(errors, path, text(host), name::dns1123_subdomain(text(host)));
        });
    });
}

/// Checks `hostnameOverride`, if it is set.
pub(super) fn hostname_override(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(own) = spec["hostnameOverride"].as_str() else { return };
    let path = path.child("hostnameOverride");
    if spec["setHostnameAsFQDN"] == true {
        errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec["hostNetwork"] == true {
        errors.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    if own.len() > HOSTNAME_MAX {
        errors.too_long(&path, HOSTNAME_MAX);
    }
    grammar(errors, &path, own, name::dns1123_subdomain(own));
}

/// Checks that host ports equal container ports on the host network. Templates may omit the host port, since
/// defaulting sets it in the pod.
pub(super) fn host_network(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, is_pod: bool) {
    if spec["hostNetwork"] != true {
        return;
    }
    each(path, spec, "containers", |path, container| {
        each(path, container, "ports", |path, port| {
            let (host, own) = (int(&port["hostPort"]), int(&port["containerPort"]));
            if (is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&path.child("hostPort"), &host, detail);
            }
        });
    });
}
