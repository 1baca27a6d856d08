//! Compiles the JSON of a definition into a [`Definition`]. Values of the wrong type count as absent, since
//! stored definitions were validated.

use super::definition::{CompileError, Conversion, Definition, Names, Version};
use super::scale::ScalePaths;
use super::selectable::SelectableField;
use super::{columns, condition};
use crate::object::{list, text};
use crate::structural::Tree;
use crate::{group_version, meta};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Definition {
    /// Compiles a stored definition.
    ///
    /// # Errors
    /// The first field without which the definition cannot be served.
    pub fn compile(crd: &Value) -> Result<Definition, CompileError> {
        Self::compile_after(crd, None)
    }

    /// Compiles a stored definition like [`Definition::compile`], and shares compiled schemas with `previous`
    /// where they are equal.
    ///
    /// # Errors
    /// The first field without which the definition cannot be served.
    pub fn compile_after(crd: &Value, previous: Option<&Definition>) -> Result<Definition, CompileError> {
        let spec = &crd["spec"];
        for (field, value) in [
            ("metadata.name", meta::name(crd)),
            ("spec.group", text(&spec["group"])),
            ("spec.names.plural", text(&spec["names"]["plural"])),
            ("spec.names.kind", text(&spec["names"]["kind"])),
        ] {
            if value.is_empty() {
                return Err(missing(field));
            }
        }
        let versions = versions(spec, previous)?;
        let storage = versions.iter().position(|version| version.storage);
        let storage = storage.ok_or_else(|| missing("spec.versions[*].storage"))?;
        Ok(Definition {
            name: meta::name(crd).into(),
            uid: meta::uid(crd).into(),
            group: text(&spec["group"]).into(),
            names: Names::of(&spec["names"]),
            accepted: Names::of(&crd["status"]["acceptedNames"]),
            namespaced: spec["scope"] == "Namespaced",
            spec_hash: spec_hash(spec, &versions, storage),
            versions,
            storage,
            conversion: conversion(&spec["conversion"]),
            names_accepted: condition::is_true(crd, condition::NAMES_ACCEPTED),
            established: condition::is_true(crd, condition::ESTABLISHED),
            terminating: meta::is_being_deleted(crd) || condition::is_true(crd, condition::TERMINATING),
            stored_versions: texts(&crd["status"]["storedVersions"]),
        })
    }
}

impl Names {
    /// Parses `spec.names` or `status.acceptedNames`.
    #[must_use]
    pub fn of(names: &Value) -> Names {
        Names {
            plural: text(&names["plural"]).into(),
            singular: text(&names["singular"]).into(),
            kind: text(&names["kind"]).into(),
            list_kind: text(&names["listKind"]).into(),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
        }
    }

    /// JSON of the names for `status.acceptedNames`; plural and kind are present even if empty.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = json!({"plural": &*self.plural, "kind": &*self.kind});
        for (member, name) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !name.is_empty() {
                out[member] = json!(&**name);
            }
        }
        for (member, names) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !names.is_empty() {
                out[member] = names.iter().map(|name| Value::from(&**name)).collect();
            }
        }
        out
    }
}

fn missing(field: &str) -> CompileError {
    CompileError { field: field.to_owned(), problem: "is missing".to_owned() }
}

fn texts(value: &Value) -> Vec<Arc<str>> {
    list(value).iter().filter_map(Value::as_str).map(Arc::from).collect()
}

/// Compiled schemas by the hash of their JSON.
type Trees = BTreeMap<[u8; 32], Arc<Tree>>;

/// Compiles all versions, sorted by priority.
fn versions(spec: &Value, previous: Option<&Definition>) -> Result<Vec<Version>, CompileError> {
    let known = previous.into_iter().flat_map(|previous| &previous.versions);
    let mut trees: Trees = known.map(|version| (version.schema_hash, Arc::clone(&version.tree))).collect();
    let all = list(&spec["versions"]).iter();
    let best = all
        .clone()
        .filter(|version| version["served"] == true && version["deprecated"] != true)
        .map(|version| text(&version["name"]))
        .min_by(|a, b| group_version::by_priority(a, b));
    let mut out = Vec::new();
    for (i, version) in all.enumerate() {
        let version = one_version(spec, version, best, &mut trees)
            .map_err(|problem| CompileError { field: format!("spec.versions[{i}].schema"), problem })?;
        out.push(version);
    }
    out.sort_by(|a, b| group_version::by_priority(&a.name, &b.name));
    Ok(out)
}

/// Compiles one version. `best` is the version that the warning of deprecated ones recommends.
fn one_version(
    spec: &Value,
    version: &Value,
    best: Option<&str>,
    trees: &mut Trees,
) -> Result<Version, String> {
    let schema = schema_of(spec, version);
    let schema_hash = hash(&schema);
    let tree = match trees.get(&schema_hash) {
        Some(known) => Arc::clone(known),
        None => Arc::new(Tree::compile(&schema).map_err(|error| error.to_string())?),
    };
    trees.insert(schema_hash, Arc::clone(&tree));
    let subresources = &version["subresources"];
    Ok(Version {
        name: text(&version["name"]).into(),
        served: version["served"] == true,
        storage: version["storage"] == true,
        deprecated: version["deprecated"] == true,
        warning: (version["deprecated"] == true).then(|| warning(spec, version, best).into()),
        schema_hash,
        tree,
        has_status: subresources["status"].is_object(),
        scale: subresources["scale"].is_object().then(|| Arc::new(ScalePaths::read(&subresources["scale"]))),
        columns: columns::of_version(version),
        selectable: list(&version["selectableFields"]).iter().map(SelectableField::read).collect(),
    })
}

/// Schema of a version. Old definitions may have none: then all fields are pruned, or kept if
/// `preserveUnknownFields` is set.
fn schema_of(spec: &Value, version: &Value) -> Value {
    let keeps = spec["preserveUnknownFields"] == true;
    match &version["schema"]["openAPIV3Schema"] {
        schema if !schema.is_object() && keeps => json!({"type": "object", PRESERVE: true}),
        schema if !schema.is_object() => json!({"type": "object"}),
        schema if keeps => {
            let mut schema = schema.clone();
            schema[PRESERVE] = json!(true);
            schema
        }
        schema => schema.clone(),
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Text of the `Warning` header for requests in a deprecated version.
fn warning(spec: &Value, version: &Value, best: Option<&str>) -> String {
    if let Some(own) = version["deprecationWarning"].as_str() {
        return own.to_owned();
    }
    let (group, kind, name) = (text(&spec["group"]), text(&spec["names"]["kind"]), text(&version["name"]));
    let best = best.filter(|best| group_version::by_priority(best, name).is_lt());
    let use_instead = best.map_or_else(String::new, |best| format!("; use {group}/{best} {kind}"));
    format!("{group}/{name} {kind} is deprecated{use_instead}")
}

fn conversion(conversion: &Value) -> Conversion {
    if conversion["strategy"] != "Webhook" {
        return Conversion::None;
    }
    let webhook = &conversion["webhook"];
    let versions = list(&webhook["conversionReviewVersions"]).iter().filter_map(Value::as_str);
    let known = versions.into_iter().find(|version| matches!(*version, "v1" | "v1beta1"));
    Conversion::Webhook {
        client_config: webhook["clientConfig"].clone(),
        review_version: known.unwrap_or("v1").into(),
    }
}

fn hash(value: &Value) -> [u8; 32] {
    Sha256::digest(value.to_string()).into()
}

fn spec_hash(spec: &Value, versions: &[Version], storage: usize) -> [u8; 32] {
    let of_versions: Vec<Value> =
        versions.iter().map(|version| json!([&*version.name, version.schema_hash])).collect();
    hash(&json!([spec["scope"], versions[storage].name.to_string(), spec["conversion"], of_versions]))
}
