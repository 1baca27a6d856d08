//! Validation of resource slices: devices that a driver publishes for a pool.
//!
//! Follows `ValidateResourceSlice`.

use super::{EFFECTS, at_most, binding_conditions, capacity, pool_name, qualified, unique_names};
use crate::check::{each, grammar, immutable, one_of, required_grammar};
use crate::field::{ErrorList, Path};
use crate::limits::{
    COUNTER_SETS_MAX, COUNTERS_MAX, DEVICE_ATTRIBUTE_MAX, DEVICE_ATTRIBUTES_MAX, DEVICE_CONSUMPTIONS_MAX,
    DEVICE_TAINTS_MAX, DEVICE_VALUES_MAX, SLICE_DEVICES_ADVANCED_MAX, SLICE_DEVICES_MAX,
};
use crate::name;
use crate::object::{int, list, semantically_equal, text};
use crate::validate::groups::reference::{driver, label_key};
use crate::validate::pod::node_selector;
use serde_json::Value;
use std::collections::BTreeMap;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn spec(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    driver(errors, &SPEC.child("driver"), &spec["driver"]);
    pool(errors, &SPEC.child("pool"), &spec["pool"]);
    if let Some(old) = old {
        let (new, stored) = (serde_json::json!({ "spec": spec }), old);
        for member in ["spec.pool.name", "spec.driver", "spec.nodeName"] {
            immutable(errors, member, &new, stored);
        }
    }
    nodes(errors, spec);
    let (devices, counters) = (list(&spec["devices"]), list(&spec["sharedCounters"]));
    if !spec["sharedCounters"].is_null() && !spec["devices"].is_null() {
        errors.invalid(&SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let most = if devices.iter().any(is_advanced) { SLICE_DEVICES_ADVANCED_MAX } else { SLICE_DEVICES_MAX };
    if at_most(errors, &SPEC.child("devices"), devices.len(), most) {
        let each_has_nodes = spec["perDeviceNodeSelection"] == true;
        let stored = old.map_or(&[][..], |old| list(&old["spec"]["devices"]));
        // Stored slices may have duplicate names; the first device of a name counts.
        let stored: BTreeMap<&str, &Value> =
            stored.iter().rev().map(|device| (text(&device["name"]), device)).collect();
        each(&SPEC, spec, "devices", |path, value| {
            let before = stored.get(text(&value["name"])).copied();
            device(errors, path, value, before, each_has_nodes);
        });
        unique_names(errors, &SPEC.child("devices"), devices, "name");
    }
    if at_most(errors, &SPEC.child("sharedCounters"), counters.len(), COUNTER_SETS_MAX) {
        each(&SPEC, spec, "sharedCounters", |path, set| {
            required_grammar(errors, &path.child("name"), &set["name"], name::dns1123_label);
            counter_map(errors, &path.child("counters"), &set["counters"]);
        });
        unique_names(errors, &SPEC.child("sharedCounters"), counters, "name");
    }
}

/// Whether a device uses features with a lower limit of devices per slice.
fn is_advanced(device: &Value) -> bool {
    let lists = |attribute: &Value| VALUES[4..].iter().any(|member| !attribute[*member].is_null());
    !list(&device["taints"]).is_empty()
        || !list(&device["consumesCounters"]).is_empty()
        || device["attributes"].as_object().is_some_and(|all| all.values().any(lists))
}

fn pool(errors: &mut ErrorList, path: &Path<'_>, pool: &Value) {
    pool_name(errors, &path.child("name"), &pool["name"]);
    let (count, generation) = (int(&pool["resourceSliceCount"]), int(&pool["generation"]));
    if count <= 0 {
        errors.invalid(&path.child("resourceSliceCount"), &count, "must be greater than zero");
    }
    if generation < 0 {
        errors.invalid(&path.child("generation"), &generation, "must be greater than or equal to zero");
    }
}

/// Checks that exactly one field says which nodes can access the devices.
fn nodes(errors: &mut ErrorList, spec: &Value) {
    let mut said = where_used(errors, &SPEC, spec, "must be either unset or set to a non-empty string");
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if spec["nodeSelector"].is_object() && list(terms).len() != 1 {
        let path = SPEC.child("nodeSelector.nodeSelectorTerms");
        errors.invalid(&path, terms, "must have exactly one node selector term");
    }
    match spec["perDeviceNodeSelection"].as_bool() {
        Some(true) => said.push("`perDeviceNodeSelection`"),
        Some(false) => {
            let path = SPEC.child("perDeviceNodeSelection");
            errors.invalid(&path, &false, "must be either unset or set to true");
        }
        None => {}
    }
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match said.len() {
        0 => errors.required(&SPEC, detail),
        1 => {}
        _ => {
            let detail = format!("{detail}, but multiple fields are set");
            errors.invalid(&SPEC, &format!("{{{}}}", said.join(", ")), detail);
        }
    }
}

/// Checks the three fields of a slice or device that say which nodes can access it. Returns those that are
/// set.
fn where_used(errors: &mut ErrorList, path: &Path<'_>, owner: &Value, empty: &str) -> Vec<&'static str> {
    let mut said = Vec::new();
    match owner["nodeName"].as_str() {
        Some("") => errors.invalid(&path.child("nodeName"), "", empty),
        Some(node) => {
            said.push("`nodeName`");
            grammar(errors, &path.child("nodeName"), node, name::dns1123_subdomain(node));
        }
        None => {}
    }
    if !owner["nodeSelector"].is_null() {
        said.push("`nodeSelector`");
        node_selector(errors, &path.child("nodeSelector"), &owner["nodeSelector"]);
    }
    match owner["allNodes"].as_bool() {
        Some(true) => said.push("`allNodes`"),
        Some(false) => {
            errors.invalid(&path.child("allNodes"), &false, "must be either unset or set to true");
        }
        None => {}
    }
    said
}

fn device(
    errors: &mut ErrorList,
    path: &Path<'_>,
    device: &Value,
    before: Option<&Value>,
    each_has_nodes: bool,
) {
    let own = text(&device["name"]);
    grammar(errors, &path.child("name"), own, name::dns1123_label(own));
    attributes(errors, path, device);
    if before.is_none_or(|before| !semantically_equal(&before["taints"], &device["taints"])) {
        taints(errors, path, device);
    }
    let consumed = list(&device["consumesCounters"]);
    if at_most(errors, &path.child("consumesCounters"), consumed.len(), DEVICE_CONSUMPTIONS_MAX) {
        each(path, device, "consumesCounters", |path, value| {
            required_grammar(errors, &path.child("counterSet"), &value["counterSet"], name::dns1123_label);
            counter_map(errors, &path.child("counters"), &value["counters"]);
        });
        unique_names(errors, &path.child("consumesCounters"), consumed, "counterSet");
    }
    device_nodes(errors, path, device, each_has_nodes);
    binding_conditions(errors, path, device);
}

fn device_nodes(errors: &mut ErrorList, path: &Path<'_>, device: &Value, each_has_nodes: bool) {
    let says = ["nodeName", "nodeSelector", "allNodes"].iter().any(|member| !device[*member].is_null());
    if !each_has_nodes {
        if says {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(path, &Value::Null, detail);
        }
        return;
    }
    let said = where_used(errors, path, device, "must not be empty");
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match said.len() {
        0 => errors.required(path, detail),
        1 => {}
        _ => errors.invalid(path, &format!("{{{}}}", said.join(", ")), detail),
    }
}

/// Members of an attribute; exactly one is set. List types come last.
const VALUES: [&str; 8] = ["bool", "int", "string", "version", "bools", "ints", "strings", "versions"];

fn attributes(errors: &mut ErrorList, path: &Path<'_>, device: &Value) {
    let [attributes, capacities] = ["attributes", "capacity"].map(|member| device[member].as_object());
    let entries = [attributes, capacities].iter().flatten().map(|map| map.len()).sum::<usize>();
    if entries > DEVICE_ATTRIBUTES_MAX {
        let detail =
            format!("the total number of attributes and capacities must not exceed {DEVICE_ATTRIBUTES_MAX}");
        errors.invalid(path, &entries, detail);
    }
    let size =
        |attribute: &Value| VALUES[4..].iter().map(|m| list(&attribute[*m]).len()).sum::<usize>().max(1);
    let values = attributes.into_iter().flatten().map(|(_, attribute)| size(attribute)).sum::<usize>();
    if values > DEVICE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {DEVICE_VALUES_MAX}");
        errors.invalid(path, &values, detail);
    }
    let at = path.child("attributes");
    for (key, value) in attributes.into_iter().flatten() {
        qualified(errors, &at, key);
        attribute(errors, &at.key(key), value);
    }
    let at = path.child("capacity");
    for (key, value) in capacities.into_iter().flatten() {
        qualified(errors, &at, key);
        let at = at.key(key);
        let policy = at.child("requestPolicy");
        if device["allowMultipleAllocations"] == true {
            capacity::request_policy(errors, &policy, value);
        } else if !value["requestPolicy"].is_null() {
            errors.forbidden(&policy, "allowMultipleAllocations must be true");
        }
    }
}

fn attribute(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let set = VALUES.iter().filter(|member| !value[**member].is_null()).count();
    for member in ["string", "version"] {
        if let Some(own) = value[member].as_str() {
            attribute_text(errors, &path.child(member), own, member == "version");
        }
    }
    for member in &VALUES[4..] {
        if value[*member].as_array().is_some_and(Vec::is_empty) {
            errors.invalid(&path.child(member), &value[*member], "must not be empty if specified");
        }
    }
    for member in ["strings", "versions"] {
        each(path, value, member, |path, own| {
            attribute_text(errors, path, text(own), member == "versions");
        });
    }
    match set {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(path, value, "exactly one value must be specified"),
    }
}

fn attribute_text(errors: &mut ErrorList, path: &Path<'_>, own: &str, version: bool) {
    if version && !is_semantic_version(own) {
        errors.invalid(path, own, "must be a string compatible with semver.org spec 2.0.0");
    }
    if own.len() > DEVICE_ATTRIBUTE_MAX {
        errors.too_long(path, DEVICE_ATTRIBUTE_MAX);
    }
}

fn is_semantic_version(own: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let (rest, build) = own.split_once('+').map_or((own, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let pre_word = |part: &str| word(part) && (number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(pre_word))
        && build.is_none_or(|build| build.split('.').all(word))
}

fn taints(errors: &mut ErrorList, path: &Path<'_>, device: &Value) {
    if !at_most(errors, &path.child("taints"), list(&device["taints"]).len(), DEVICE_TAINTS_MAX) {
        return;
    }
    each(path, device, "taints", |path, taint| {
        taint_key_and_value(errors, path, taint);
        one_of(errors, &path.child("effect"), &taint["effect"], &EFFECTS);
    });
}

/// Checks key and value of a taint.
pub(super) fn taint_key_and_value(errors: &mut ErrorList, path: &Path<'_>, taint: &Value) {
    label_key(errors, &path.child("key"), &taint["key"]);
    let value = text(&taint["value"]);
    grammar(errors, &path.child("value"), value, name::label_value(value));
}

fn counter_map(errors: &mut ErrorList, path: &Path<'_>, counters: &Value) {
    let counters = counters.as_object();
    let count = counters.map_or(0, serde_json::Map::len);
    if count == 0 {
        errors.required(path, "");
    } else if at_most(errors, path, count, COUNTERS_MAX) {
        for key in counters.into_iter().flat_map(|counters| counters.keys()) {
            grammar(errors, path, key, name::dns1123_label(key));
        }
    }
}
