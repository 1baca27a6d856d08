//! What must hold of probes and lifecycle handlers.

use serde_json::Value;

use crate::field::{ErrorList, Path};
use crate::object::{list, text};
use crate::validate::check::{none_negative, one_of, port, port_number};

/// A probe. Where success may count only once (`once`), the threshold says so.
pub(super) fn probe(errors: &mut ErrorList, path: &Path<'_>, probe: &Value, once: bool) {
    handler(errors, path, probe, &["grpc"]);
    let counts =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    none_negative(errors, path, probe, &counts);
    if let Some(seconds) = probe["terminationGracePeriodSeconds"].as_i64()
        && seconds <= 0
    {
        let path = path.child("terminationGracePeriodSeconds");
        errors.invalid(&path, &seconds, "must be greater than 0");
    }
    if once && probe["successThreshold"].as_i64().is_some_and(|n| n != 1) {
        errors.invalid(&path.child("successThreshold"), &probe["successThreshold"], "must be 1");
    }
}

/// Exactly one way to act: exec, httpGet, tcpSocket, or one of `more`.
pub(super) fn handler(errors: &mut ErrorList, path: &Path<'_>, handler: &Value, more: &[&str]) {
    let members = ["exec", "httpGet", "tcpSocket"].iter().chain(more);
    let given: Vec<&str> = members.copied().filter(|member| !handler[*member].is_null()).collect();
    if given.is_empty() {
        errors.required(path, "must specify a handler type");
    }
    for member in given.iter().skip(1) {
        errors.forbidden(&path.child(member), "may not specify more than 1 handler type");
    }
    for member in given {
        let (path, action) = (path.child(member), &handler[member]);
        match member {
            "exec" if list(&action["command"]).is_empty() => errors.required(&path.child("command"), ""),
            "httpGet" => {
                if text(&action["path"]).is_empty() {
                    errors.required(&path.child("path"), "");
                }
                port(errors, &path.child("port"), &action["port"]);
                one_of(errors, &path.child("scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
            }
            "tcpSocket" => port(errors, &path.child("port"), &action["port"]),
            "grpc" => port_number(errors, &path.child("port"), &action["port"]),
            _ => {}
        }
    }
}
