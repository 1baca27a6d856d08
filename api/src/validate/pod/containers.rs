//! Validation of all containers of a pod by role: main, init and ephemeral containers.
//!
//! Follows `validateContainers`, `validateInitContainers` and `validateEphemeralContainers`.

use super::container::{container, image, restart_policy};
use super::probe;
use super::volume::Volumes;
use crate::field::{ErrorList, Path};
use crate::object::{is_empty, list, text};
use serde_json::Value;
use std::collections::BTreeSet;

/// Facts about the pod that checks of a container need.
pub(super) struct PodContext<'p> {
    pub(super) volumes: Volumes<'p>,
    /// Names of the pod's resource claims.
    pub(super) claims: BTreeSet<&'p str>,
    pub(super) restart_policy: &'p str,
    /// Whether the pod uses the host's user namespace.
    pub(super) host_users: bool,
    /// Termination grace period in seconds, the upper bound for sleep hooks.
    pub(super) grace: Option<i64>,
}

/// Checks all containers of a spec.
pub(super) fn containers(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, pod: &PodContext<'_>) {
    main(errors, &path.child("containers"), spec, pod);
    init(errors, &path.child("initContainers"), spec, pod);
    ephemeral(errors, &path.child("ephemeralContainers"), spec, pod);
}

fn main(errors: &mut ErrorList, all: &Path<'_>, spec: &Value, pod: &PodContext<'_>) {
    let containers = list(&spec["containers"]);
    if containers.is_empty() {
        errors.required(all, "");
    }
    let mut names = BTreeSet::new();
    for (i, value) in containers.iter().enumerate() {
        let path = all.index(i);
        container(errors, &path, value, pod);
        if !names.insert(text(&value["name"])) {
            errors.duplicate(&path.child("name"), &value["name"]);
        }
        probe::handlers(errors, &path, value, pod);
        restart_policy(errors, &path, value);
    }
    let mut taken = BTreeSet::new();
    for (i, value) in containers.iter().enumerate() {
        host_ports(errors, &all.index(i), value, &mut taken);
    }
}

/// Reports host ports that several containers use.
fn host_ports(errors: &mut ErrorList, path: &Path<'_>, container: &Value, taken: &mut BTreeSet<String>) {
    let path = path.child("ports");
    for (i, port) in list(&container["ports"]).iter().enumerate() {
        let number = port["hostPort"].as_i64().unwrap_or_default();
        if number == 0 {
            continue;
        }
        let id = format!("{}/{}/{number}", text(&port["protocol"]), text(&port["hostIP"]));
        if taken.contains(&id) {
            errors.duplicate(&path.index(i).child("hostPort"), &id);
        } else {
            taken.insert(id);
        }
    }
}

const NEVER_READY: &str = "may not be set for init containers without restartPolicy=Always";

fn init(errors: &mut ErrorList, all: &Path<'_>, spec: &Value, pod: &PodContext<'_>) {
    let mut names: BTreeSet<&str> = names_of(spec, "containers").collect();
    for (i, value) in list(&spec["initContainers"]).iter().enumerate() {
        let (path, own) = (all.index(i), text(&value["name"]));
        container(errors, &path, value, pod);
        restart_policy(errors, &path, value);
        if !own.is_empty() && !names.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
        // Init containers run one after the other, so host ports may repeat between them. Kubernetes reports
        // index 0 for all of them.
        host_ports(errors, &all.index(0), value, &mut BTreeSet::new());
        if value["restartPolicy"] == "Always" {
            probe::handlers(errors, &path, value, pod);
            continue;
        }
        let members = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
        for member in members.into_iter().filter(|member| !value[*member].is_null()) {
            errors.forbidden(&path.child(member), NEVER_READY);
        }
        not_restarted(errors, &path.child("resizePolicy"), value);
    }
}

fn not_restarted(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    for (i, policy) in list(&container["resizePolicy"]).iter().enumerate() {
        if policy["restartPolicy"] == "RestartContainer" {
            let path = path.index(i);
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(&path.child("restartPolicy"), "RestartContainer", detail);
        }
    }
}

fn names_of<'s>(spec: &'s Value, member: &str) -> impl Iterator<Item = &'s str> {
    list(&spec[member]).iter().map(|container| text(&container["name"]))
}

/// Members that ephemeral containers must not have, in the order of the type.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

fn ephemeral(errors: &mut ErrorList, all: &Path<'_>, spec: &Value, pod: &PodContext<'_>) {
    let containers = list(&spec["ephemeralContainers"]);
    if containers.is_empty() {
        return;
    }
    let others: BTreeSet<&str> =
        names_of(spec, "containers").chain(names_of(spec, "initContainers")).collect();
    let mut names = others.clone();
    for (i, value) in containers.iter().enumerate() {
        let (path, own) = (all.index(i), text(&value["name"]));
        container(errors, &path, value, pod);
        image(errors, &path, value);
        if !names.insert(own) {
            errors.duplicate(&path.child("name"), own);
        }
        let target = text(&value["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        for member in NOT_EPHEMERAL.into_iter().filter(|member| !is_empty(&value[*member])) {
            errors.forbidden(&path.child(member), "cannot be set for an Ephemeral Container");
        }
        sub_paths(errors, &path.child("volumeMounts"), value);
    }
}

fn sub_paths(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    for (i, mount) in list(&container["volumeMounts"]).iter().enumerate() {
        let path = path.index(i);
        for member in ["subPath", "subPathExpr"].into_iter().filter(|m| !text(&mount[*m]).is_empty()) {
            errors.forbidden(&path.child(member), "cannot be set for an Ephemeral Container");
        }
    }
}
