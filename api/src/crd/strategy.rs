//! Preparation of definitions for create and update: defaults, status, generation and stored versions.

use super::schema;
use crate::format::Format;
use crate::limits::WARNINGS_MAX;
use crate::meta;
use crate::object::{list, semantically_equal, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Port of a conversion webhook's service.
const WEBHOOK_PORT: u16 = 443;

/// Sets the defaults of a definition. Idempotent.
pub fn set_defaults(crd: &mut Value) {
    let Some(members) = crd.as_object_mut() else { return };
    // An absent spec decodes to an empty one, which has defaults.
    let spec = members.entry("spec").or_insert_with(|| json!({}));
    if spec.is_null() {
        *spec = json!({});
    }
    let Some(spec) = spec.as_object_mut() else { return };
    if let Some(names) = spec.entry("names").or_insert_with(|| json!({})).as_object_mut() {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (member, value) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            let is_unset = names.get(member).is_none_or(|own| own.is_null() || own == "");
            if !kind.is_empty() && is_unset {
                names.insert(member.to_owned(), value.into());
            }
        }
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
    let service = conversion.pointer_mut("/webhook/clientConfig/service").and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), WEBHOOK_PORT.into());
    }
    if list(&crd["status"]["storedVersions"]).is_empty() {
        store_version(crd);
    }
}

/// Prepares a definition for create: no conditions, empty accepted names, generation 1, and the storage
/// version among the stored ones.
pub fn prepare_create(crd: &mut Value) {
    if !crd.is_object() {
        return;
    }
    crd["status"] =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
    store_version(crd);
    meta::set_generation(crd, 1);
}

/// Prepares an update of the definition itself: the status stays, the generation follows the spec, and the
/// storage version is added to the stored ones.
pub fn prepare_update(new: &mut Value, old: &Value) {
    if !new.is_object() {
        return;
    }
    new["status"] = old["status"].clone();
    store_version(new);
    let moved = !semantically_equal(&new["spec"], &old["spec"]);
    meta::set_generation(new, meta::generation(old).saturating_add(i64::from(moved)));
}

/// Prepares an update through `/status`: spec and generation stay.
pub fn prepare_status_update(new: &mut Value, old: &Value) {
    if new.is_object() {
        new["spec"] = old["spec"].clone();
        meta::set_generation(new, meta::generation(old));
    }
}

/// Adds the storage version to `status.storedVersions` if it is missing.
fn store_version(crd: &mut Value) {
    let versions = list(&crd["spec"]["versions"]);
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else { return };
    let name = storage["name"].clone();
    if list(&crd["status"]["storedVersions"]).contains(&name) {
        return;
    }
    let mut stored = list(&crd["status"]["storedVersions"]).to_vec();
    stored.push(name);
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
    crd["status"]["storedVersions"] = stored.into();
}

/// Warnings about unknown formats in schemas; on update only about those that `old` does not have.
#[must_use]
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<String> = old.map(unknown_formats).unwrap_or_default().into_iter().collect();
    let fresh = unknown_formats(new).into_iter().filter(|format| !known.contains(format));
    fresh.map(|format| format!("unrecognized format {}", json!(format))).take(WARNINGS_MAX).collect()
}

/// Unknown formats in all schemas, in order. A schema that all versions share is visited once.
fn unknown_formats(crd: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let mut seen: Vec<&Value> = Vec::new();
    let versions = list(&crd["spec"]["versions"]);
    let is_shared = versions.iter().all(|version| version["schema"] == versions[0]["schema"]);
    for version in versions {
        let root = &version["schema"]["openAPIV3Schema"];
        if is_shared && !seen.is_empty() {
            break;
        }
        seen.push(root);
        schema::visit(root, &mut |node| {
            let format = text(&node["format"]);
            // Formats of numbers are none of texts.
            let is_text = node["type"] == "string";
            let is_known = |format: Format| !is_text || format.is_of_text();
            if !format.is_empty() && !Format::parse(format).is_some_and(is_known) {
                out.push(format.to_owned());
            }
            true
        });
    }
    out
}
