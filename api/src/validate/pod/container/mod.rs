//! Validation of one container in any role; `containers` has the rules of each role.
//!
//! Follows `validateContainerCommon`.

mod environment;
mod mount;
mod restart;

use super::containers::PodContext;
use super::{resources, security};
use crate::check::{grammar, one_of, one_of_listed, port_number, required, required_grammar};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
pub(super) use environment::file_volumes;
pub(super) use restart::restart_policy;
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks the fields of a container that apply in every role.
pub(super) fn container(errors: &mut ErrorList, path: &Path<'_>, container: &Value, pod: &PodContext<'_>) {
    required_grammar(errors, &path.child("name"), &container["name"], name::dns1123_label);
    required(errors, &path.child("image"), &container["image"]);
    let (policy, policies) = (&container["terminationMessagePolicy"], ["File", "FallbackToLogsOnError"]);
    one_of_listed(errors, &path.child("terminationMessagePolicy"), policy, &policies);
    ports(errors, &path.child("ports"), list(&container["ports"]));
    environment::environment(errors, path, container);
    mount::mounts(errors, &path.child("volumeMounts"), container, &pod.volumes);
    mount::devices(errors, &path.child("volumeDevices"), container, &pod.volumes);
    pull_policy(errors, &path.child("imagePullPolicy"), &container["imagePullPolicy"]);
    let amounts = path.child("resources");
    resources::of_container(errors, &amounts, &container["resources"], &pod.claims);
    resize_policy(errors, &path.child("resizePolicy"), container, pod);
    let context = &container["securityContext"];
    security::of_container(errors, &path.child("securityContext"), context, pod.host_users);
}

/// Checks that an image reference has no surrounding white space.
pub(super) fn image(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let image = text(&container["image"]);
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}

/// Checks an image pull policy.
pub(super) fn pull_policy(errors: &mut ErrorList, path: &Path<'_>, policy: &Value) {
    one_of(errors, path, policy, &["Always", "IfNotPresent", "Never"]);
}

fn ports(errors: &mut ErrorList, path: &Path<'_>, ports: &[Value]) {
    let mut names = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (path, own) = (path.index(i), text(&port["name"]));
        let faults = if own.is_empty() { Vec::new() } else { name::port_name(own) };
        if faults.is_empty() && !own.is_empty() && !names.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
        grammar(errors, &path.child("name"), own, faults);
        match int(&port["containerPort"]) {
            0 => errors.required(&path.child("containerPort"), ""),
            _ => port_number(errors, &path.child("containerPort"), &port["containerPort"]),
        }
        if int(&port["hostPort"]) != 0 {
            port_number(errors, &path.child("hostPort"), &port["hostPort"]);
        }
        one_of(errors, &path.child("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

/// Checks resize policies; messages have the path of the list, not of the items.
fn resize_policy(errors: &mut ErrorList, path: &Path<'_>, container: &Value, pod: &PodContext<'_>) {
    let policies = list(&container["resizePolicy"]);
    let mut seen = Distinct::default();
    for (i, policy) in policies.iter().enumerate() {
        let (resource, restart) = (&policy["resourceName"], &policy["restartPolicy"]);
        if !seen.insert(resource) {
            errors.duplicate(&path.index(i), resource);
        }
        one_of(errors, path, resource, &["cpu", "memory"]);
        one_of(errors, path, restart, &["NotRequired", "RestartContainer"]);
        if pod.restart_policy == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}
