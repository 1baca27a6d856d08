//! Defaults of small kinds of the core group.
//!
//! Follows `SetDefaults_Secret`, `SetDefaults_Namespace` and `SetDefaults_LimitRangeItem`.

use super::{default, items, make, member};
use crate::meta;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Label with the namespace's name, for selectors; clients cannot remove it.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(crate) fn namespace(object: &mut Value) {
    let name = meta::name(object).to_owned();
    if !name.is_empty() {
        meta::set_label(object, NAMESPACE_NAME_LABEL, &name);
    }
    // As `SetDefaults_NamespaceStatus` of Kubernetes, at every decoding: a status that is written without its phase keeps it.
    default(make(object, "status"), "phase", "Active");
}

/// Merges `stringData` into `data`. It is a convenience for writers and never stored.
pub(crate) fn secret(object: &mut Value) {
    default(object, "type", "Opaque");
    let Some(Value::Object(plain)) = object.as_object_mut().and_then(|members| members.remove("stringData"))
    else {
        return;
    };
    for (key, text) in plain {
        let bytes = text.as_str().unwrap_or_default();
        make(object, "data")[key] = STANDARD.encode(bytes).into();
    }
}

/// Defaults of a node: `allocatable` gets the entries of `capacity` if it is missing.
pub(crate) fn node(object: &mut Value) {
    blocks(object);
    let Some(status) = member(object, "status") else { return };
    if status["allocatable"].is_null() && status["capacity"].is_object() {
        status["allocatable"] = status["capacity"].clone();
    }
}

/// Makes the first of a node's blocks of pod addresses its block, as the conversions of `NodeSpec` in Kubernetes do.
fn blocks(object: &mut Value) {
    let Some(spec) = member(object, "spec") else { return };
    let own = spec["podCIDR"].as_str().unwrap_or_default().to_owned();
    let first = spec["podCIDRs"][0].as_str().unwrap_or_default().to_owned();
    if !own.is_empty() && own != first {
        spec["podCIDRs"] = json!([own]);
    } else if own.is_empty() && !first.is_empty() {
        spec["podCIDR"] = first.into();
    }
}

pub(crate) fn limit_range(object: &mut Value) {
    let Some(spec) = member(object, "spec") else { return };
    for limit in items(spec, "limits").filter(|limit| limit["type"] == "Container") {
        let (max, min) = (limit["max"].clone(), limit["min"].clone());
        fill(make(limit, "default"), &max);
        let limits = limit["default"].clone();
        fill(make(limit, "defaultRequest"), &limits);
        fill(make(limit, "defaultRequest"), &min);
        // Go prints no empty map here.
        if let Some(members) = limit.as_object_mut() {
            let is_default = |name: &str| matches!(name, "default" | "defaultRequest");
            members.retain(|name, value| {
                !is_default(name) || value.as_object().is_none_or(|map| !map.is_empty())
            });
        }
    }
}

/// Adds the entries of `from` that `into` lacks.
fn fill(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        default(into, key, value.clone());
    }
}
