//! Validation of a service's `/status`: the load balancer's addresses.
//!
//! Follows `ValidateServiceStatusUpdate` and `ValidateLoadBalancerStatus`.

use crate::check::grammar;
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;

pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.loadBalancer.ingress");
    let ingress = list(&new["status"]["loadBalancer"]["ingress"]);
    if new["spec"]["type"] != "LoadBalancer" && !ingress.is_empty() {
        errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        return;
    }
    let before = list(&old["status"]["loadBalancer"]["ingress"]);
    let before = Distinct::of(before.iter().map(|entry| &entry["ip"]));
    for (i, entry) in ingress.iter().enumerate() {
        let path = path.index(i);
        let (ip, host) = (text(&entry["ip"]), text(&entry["hostname"]));
        if !ip.is_empty() && !before.contains(&entry["ip"]) {
            grammar(errors, &path.child("ip"), ip, name::ip(ip));
        }
        mode(errors, &path.child("ipMode"), &entry["ipMode"], ip);
        if !host.is_empty() {
            grammar(errors, &path.child("hostname"), host, name::dns1123_subdomain(host));
            if host.parse::<std::net::IpAddr>().is_ok() {
                errors.invalid(&path.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn mode(errors: &mut ErrorList, path: &Path<'_>, mode: &Value, ip: &str) {
    match (mode.as_str(), ip.is_empty()) {
        (None, false) => errors.required(path, "must be specified when `ip` is set"),
        (Some(_), true) => errors.forbidden(path, "may not be specified when `ip` is not set"),
        (Some(mode), false) if !["Proxy", "VIP"].contains(&mode) => {
            errors.not_supported(path, mode, &["Proxy", "VIP"]);
        }
        _ => {}
    }
}
