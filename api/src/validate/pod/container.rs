//! What must hold of one container.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{probe, resources, security};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::check::{each, grammar, one_of, port_number, required, required_grammar, unique};

/// What a container is in its pod.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs before the others; with `restartPolicy: Always` beside them.
    Init,
    /// One of the pod's own.
    Main,
    /// Put into a running pod to look around.
    Ephemeral,
}

pub(super) fn container(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    role: Role,
    volumes: &BTreeSet<String>,
) {
    required_grammar(errors, &path.child("name"), &container["name"], name::dns1123_label);
    image(errors, &path.child("image"), text(&container["image"]));
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(errors, &path.child("imagePullPolicy"), &container["imagePullPolicy"], &policies);
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = &container["terminationMessagePolicy"];
    one_of(errors, &path.child("terminationMessagePolicy"), policy, &policies);
    ports(errors, path, container);
    environment(errors, path, container);
    mounts(errors, path, container, volumes);
    handlers(errors, path, container, role);
    resources::requirements(errors, &path.child("resources"), &container["resources"]);
    let (path, context) = (path.child("securityContext"), &container["securityContext"]);
    security(errors, &path, context);
    if context["privileged"] == true && context["allowPrivilegeEscalation"] == false {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.invalid(&path, context, detail);
    }
}

fn image(errors: &mut ErrorList, path: &Path<'_>, image: &str) {
    if image.is_empty() {
        errors.required(path, "");
    } else if image.trim() != image {
        errors.invalid(path, image, "must not have leading or trailing whitespace");
    }
}

fn ports(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    each(path, container, "ports", |path, port| {
        let own = text(&port["name"]);
        if !own.is_empty() {
            grammar(errors, &path.child("name"), own, name::port_name(own));
        }
        match int(&port["containerPort"]) {
            0 => errors.required(&path.child("containerPort"), ""),
            _ => port_number(errors, &path.child("containerPort"), &port["containerPort"]),
        }
        if int(&port["hostPort"]) != 0 {
            port_number(errors, &path.child("hostPort"), &port["hostPort"]);
        }
        one_of(errors, &path.child("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    });
    unique(errors, &path.child("ports"), list(&container["ports"]), "name");
}

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

fn environment(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    each(path, container, "env", |path, variable| {
        match text(&variable["name"]) {
            "" => errors.required(&path.child("name"), ""),
            own => grammar(errors, &path.child("name"), own, name::env_name(own)),
        }
        let (path, source) = (path.child("valueFrom"), &variable["valueFrom"]);
        if source.is_null() {
            return;
        }
        let given = SOURCES.iter().filter(|member| !source[**member].is_null()).count();
        if given == 0 {
            let detail =
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            errors.invalid(&path, "", detail);
        } else if !text(&variable["value"]).is_empty() {
            errors.invalid(&path, "", "may not be specified when `value` is not empty");
        } else if given > 1 {
            errors.invalid(&path, "", "may not have more than one field specified at a time");
        }
        source_of(errors, &path, source);
    });
    each(path, container, "envFrom", |path, from| {
        let sources = ["configMapRef", "secretRef"].into_iter().filter(|member| !from[*member].is_null());
        let sources: Vec<&str> = sources.collect();
        match sources.as_slice() {
            [] => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            [one] => required(errors, &path.child(one).child("name"), &from[*one]["name"]),
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    });
}

const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn source_of(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if !source["fieldRef"].is_null() {
        let (path, field) = (path.child("fieldRef"), text(&source["fieldRef"]["fieldPath"]));
        let subscript = |map: &str| {
            field.strip_prefix(map).is_some_and(|rest| rest.starts_with("['") && rest.ends_with("']"))
        };
        if field.is_empty() {
            errors.required(&path.child("fieldPath"), "");
        } else if !FIELDS.contains(&field)
            && !subscript("metadata.labels")
            && !subscript("metadata.annotations")
        {
            errors.not_supported(&path.child("fieldPath"), field, &FIELDS);
        }
    }
    if !source["resourceFieldRef"].is_null() {
        let (path, field) = (path.child("resourceFieldRef"), &source["resourceFieldRef"]);
        required(errors, &path.child("resource"), &field["resource"]);
    }
    for member in ["configMapKeyRef", "secretKeyRef"] {
        if !source[member].is_null() {
            let path = path.child(member);
            required(errors, &path.child("name"), &source[member]["name"]);
            required_grammar(errors, &path.child("key"), &source[member]["key"], name::config_key);
        }
    }
}

fn mounts(errors: &mut ErrorList, path: &Path<'_>, container: &Value, volumes: &BTreeSet<String>) {
    let mut places = BTreeSet::new();
    each(path, container, "volumeMounts", |path, mount| {
        let volume = text(&mount["name"]);
        if volume.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !volumes.contains(volume) {
            errors.not_found(&path.child("name"), volume);
        }
        let place = text(&mount["mountPath"]);
        if place.is_empty() {
            errors.required(&path.child("mountPath"), "");
        } else if !places.insert(place.to_owned()) {
            errors.invalid(&path.child("mountPath"), place, "must be unique");
        }
        for member in ["subPath", "subPathExpr"] {
            relative(errors, &path.child(member), text(&mount[member]));
        }
    });
    each(path, container, "volumeDevices", |path, device| {
        let volume = text(&device["name"]);
        if volume.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !volumes.contains(volume) {
            errors.not_found(&path.child("name"), volume);
        }
        required(errors, &path.child("devicePath"), &device["devicePath"]);
    });
}

/// A path that stays below where it starts.
pub(super) fn relative(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    } else if value.split('/').any(|part| part == "..") {
        errors.invalid(path, value, "must not contain '..'");
    }
}

fn handlers(errors: &mut ErrorList, path: &Path<'_>, container: &Value, role: Role) {
    let sidecar = role == Role::Init && container["restartPolicy"] == "Always";
    if role == Role::Init && !sidecar {
        let members = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
        for member in members.into_iter().filter(|member| !container[*member].is_null()) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.forbidden(&path.child(member), detail);
        }
        return;
    }
    if role == Role::Ephemeral {
        return;
    }
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if !handler.is_null() {
            probe::handler(errors, &path.child("lifecycle").child(hook), handler, &["sleep"]);
        }
    }
    for member in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if !container[member].is_null() {
            probe::probe(errors, &path.child(member), &container[member], member != "readinessProbe");
        }
    }
}
