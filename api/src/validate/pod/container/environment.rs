//! Validation of a container's environment variables.
//!
//! Follows `ValidateEnv` and `ValidateEnvFrom`.

use crate::check::{each, optional_grammar, required_grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::validate::pod::reference;
use crate::validate::pod::volume::Volumes;
use serde_json::Value;

/// Checks `env` and `envFrom`.
pub(super) fn environment(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    each(path, container, "env", |path, variable| {
        required_grammar(errors, &path.child("name"), &variable["name"], name::env_name);
        if !variable["valueFrom"].is_null() {
            value_from(errors, &path.child("valueFrom"), variable);
        }
    });
    let all = path.child("envFrom");
    for (i, source) in list(&container["envFrom"]).iter().enumerate() {
        env_from(errors, &all, &all.index(i), source);
    }
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

/// Source of a variable's value: its member and its check.
type Source = (&'static str, fn(&mut ErrorList, &Path<'_>, &Value));

const SOURCES: [Source; 5] = [
    ("fieldRef", |errors, path, source| reference::field(errors, path, source, &FIELDS)),
    ("resourceFieldRef", reference::resource),
    ("configMapKeyRef", reference::key),
    ("secretKeyRef", reference::key),
    ("fileKeyRef", reference::file),
];

fn value_from(errors: &mut ErrorList, path: &Path<'_>, variable: &Value) {
    let source = &variable["valueFrom"];
    let mut given = 0;
    for (member, rule) in SOURCES.iter().filter(|(member, _)| !source[*member].is_null()) {
        given += 1;
        rule(errors, &path.child(member), &source[*member]);
    }
    if given == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", detail);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if given > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Checks one `envFrom` source; messages about the number of sources have the path of the list.
fn env_from(errors: &mut ErrorList, all: &Path<'_>, path: &Path<'_>, source: &Value) {
    optional_grammar(errors, &path.child("prefix"), &source["prefix"], name::env_name);
    let mut given = 0;
    for member in ["configMapRef", "secretRef"].into_iter().filter(|member| !source[*member].is_null()) {
        given += 1;
        let path = path.child(member);
        required_grammar(errors, &path.child("name"), &source[member]["name"], |own| {
            name::object_name_prefix(crate::name::NameRule::Subdomain, own)
        });
    }
    match given {
        0 => errors.invalid(all, "", "must specify one of: `configMapRef` or `secretRef`"),
        1 => {}
        _ => errors.invalid(all, "", "may not have more than one field specified at a time"),
    }
}

/// Checks the volumes of variables from files: each must exist and be an `emptyDir`. Runs after all other
/// checks.
pub(in crate::validate::pod) fn file_volumes(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    volumes: &Volumes<'_>,
) {
    each(path, container, "env", |path, variable| {
        let Some(own) = variable["valueFrom"]["fileKeyRef"]["volumeName"].as_str() else { return };
        let path = path.child("valueFrom.fileKeyRef.volumeName");
        match volumes.get(own) {
            None => errors.not_found(&path, own),
            Some(volume) if volume["emptyDir"].is_null() => {
                errors.invalid(&path, own, "referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    });
}
