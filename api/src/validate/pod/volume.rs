//! What must hold of a pod's volumes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::relative;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::text;
use crate::validate::check::{each, quantity_not_negative, required, required_grammar};

/// Checks all volumes and answers with the names that mounts may use.
pub(super) fn volumes(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each(path, spec, "volumes", |path, volume| {
        required_grammar(errors, &path.child("name"), &volume["name"], name::dns1123_label);
        let own = text(&volume["name"]);
        if !own.is_empty() && !names.insert(own.to_owned()) {
            errors.duplicate(&path.child("name"), own);
        }
        one_source(errors, path, volume, &["name"]);
        source(errors, path, volume);
    });
    names
}

/// Exactly one member besides those named says where the volume comes from.
pub(in crate::validate) fn one_source(
    errors: &mut ErrorList,
    path: &Path<'_>,
    volume: &Value,
    others: &[&str],
) {
    let members = volume.as_object().into_iter().flatten();
    let mut given = members.filter(|(k, v)| !v.is_null() && !others.contains(&k.as_str())).map(|(k, _)| k);
    if given.next().is_none() {
        errors.required(path, "must specify a volume type");
    }
    for member in given {
        errors.forbidden(&path.child(member), "may not specify more than 1 volume type");
    }
}

/// Members without which a source says nothing.
const REQUIRED: &[(&str, &str)] = &[
    ("hostPath", "path"),
    ("secret", "secretName"),
    ("configMap", "name"),
    ("persistentVolumeClaim", "claimName"),
    ("nfs", "server"),
    ("nfs", "path"),
    ("csi", "driver"),
    ("gcePersistentDisk", "pdName"),
    ("awsElasticBlockStore", "volumeID"),
    ("cephfs", "monitors"),
];

fn source(errors: &mut ErrorList, path: &Path<'_>, volume: &Value) {
    for (source, member) in REQUIRED.iter().filter(|(source, _)| !volume[*source].is_null()) {
        if !volume[*source][*member].is_array() {
            required(errors, &path.child(source).child(member), &volume[*source][*member]);
        }
    }
    let limit = &volume["emptyDir"]["sizeLimit"];
    quantity_not_negative(errors, &path.child("emptyDir.sizeLimit"), limit);
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        let (path, source) = (path.child(source), &volume[source]);
        mode(errors, &path.child("defaultMode"), &source["defaultMode"]);
        each(&path, source, "items", |path, item| key_to_path(errors, path, item));
        each(&path, source, "sources", |path, projection| {
            for kind in ["secret", "configMap", "downwardAPI"] {
                each(&path.child(kind), &projection[kind], "items", |path, item| {
                    key_to_path(errors, path, item);
                });
            }
            let token = &projection["serviceAccountToken"];
            if !token.is_null() {
                let path = path.child("serviceAccountToken");
                if token["expirationSeconds"].as_i64().is_some_and(|seconds| seconds < 600) {
                    let detail = "may not specify a duration less than 10 minutes";
                    errors.invalid(&path.child("expirationSeconds"), &token["expirationSeconds"], detail);
                }
                required(errors, &path.child("path"), &token["path"]);
            }
        });
    }
}

fn mode(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if let Some(mode) = value.as_i64()
        && !(0..=0o777).contains(&mode)
    {
        errors.invalid(path, &mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

fn key_to_path(errors: &mut ErrorList, path: &Path<'_>, item: &Value) {
    if item["fieldRef"].is_null() && item["resourceFieldRef"].is_null() {
        required(errors, &path.child("key"), &item["key"]);
    }
    match text(&item["path"]) {
        "" => errors.required(&path.child("path"), ""),
        value => relative(errors, &path.child("path"), value),
    }
    mode(errors, &path.child("mode"), &item["mode"]);
}
