//! Validation of probes and lifecycle hooks.
//!
//! Follows `validateProbe` and `validateLifecycle`.

use super::containers::PodContext;
use crate::check::{grammar, none_negative, port, port_number, required};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use serde_json::Value;

/// Checks the hooks and probes of a main container or sidecar.
pub(super) fn handlers(errors: &mut ErrorList, path: &Path<'_>, container: &Value, pod: &PodContext<'_>) {
    lifecycle(errors, &path.child("lifecycle"), &container["lifecycle"], pod);
    for member in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container[member].is_null() {
            probe(errors, &path.child(member), &container[member], member == "readinessProbe");
        }
    }
}

fn lifecycle(errors: &mut ErrorList, path: &Path<'_>, lifecycle: &Value, pod: &PodContext<'_>) {
    for hook in ["postStart", "preStop"] {
        if !lifecycle[hook].is_null() {
            handler(errors, &path.child(hook), &lifecycle[hook], &HOOKS, pod.grace);
        }
    }
}

fn probe(errors: &mut ErrorList, path: &Path<'_>, probe: &Value, readiness: bool) {
    handler(errors, path, probe, &PROBES, None);
    let counts =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    none_negative(errors, path, probe, &counts);
    let (grace_path, grace) =
        (path.child("terminationGracePeriodSeconds"), &probe["terminationGracePeriodSeconds"]);
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&grace_path, grace, "must be greater than 0");
    }
    if readiness && !grace.is_null() {
        errors.invalid(&grace_path, grace, "must not be set for readinessProbes");
    }
    if !readiness && int(&probe["successThreshold"]) != 1 {
        errors.invalid(&path.child("successThreshold"), &int(&probe["successThreshold"]), "must be 1");
    }
}

/// Handler types of a probe.
const PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Handler types of a hook.
const HOOKS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks that exactly one handler is set. Further handlers are refused without checking their contents.
fn handler(errors: &mut ErrorList, path: &Path<'_>, handler: &Value, ways: &[&str], grace: Option<i64>) {
    let mut found = false;
    for way in ways.iter().filter(|way| !handler[**way].is_null()) {
        let (path, action) = (path.child(way), &handler[*way]);
        if std::mem::replace(&mut found, true) {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        match *way {
            "exec" if list(&action["command"]).is_empty() => errors.required(&path.child("command"), ""),
            "httpGet" => http(errors, &path, action),
            "tcpSocket" => port(errors, &path.child("port"), &action["port"]),
            "grpc" => port_number(errors, &path.child("port"), &action["port"]),
            "sleep" => sleep(errors, &path, int(&action["seconds"]), grace),
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn http(errors: &mut ErrorList, path: &Path<'_>, get: &Value) {
    required(errors, &path.child("path"), &get["path"]);
    port(errors, &path.child("port"), &get["port"]);
    let scheme = text(&get["scheme"]);
    if !["HTTP", "HTTPS"].contains(&scheme) {
        errors.not_supported(&path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    }
    for header in list(&get["httpHeaders"]) {
        let own = text(&header["name"]);
        grammar(errors, &path.child("httpHeaders"), own, name::header_name(own));
    }
}

fn sleep(errors: &mut ErrorList, path: &Path<'_>, seconds: i64, grace: Option<i64>) {
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, &seconds, detail);
    }
}
