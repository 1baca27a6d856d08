//! Validation of nodes.
//!
//! Follows `ValidateNode` and `ValidateNodeUpdate`.

use super::{pod, resource};
use crate::check::grammar;
use crate::distinct::Distinct;
use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
/// Path of taints in messages.
const TAINTS: Path<'static> = Path::new("metadata.taints");

/// Checks a node on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    taints(object, errors);
    amounts(object, errors);
    features(object, errors);
    let (path, blocks) = (SPEC.child("podCIDRs"), list(&object["spec"]["podCIDRs"]));
    for (i, block) in blocks.iter().map(text).enumerate() {
        grammar(errors, &path.index(i), block, name::cidr(block));
    }
    let six = blocks.iter().filter(|block| text(block).contains(':')).count();
    if blocks.len() > 1 && (blocks.len() != 2 || six != 1) {
        errors.invalid(&path, blocks, "may specify no more than one CIDR for each IP family");
    }
}

fn taints(object: &Value, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    for (i, taint) in list(&object["spec"]["taints"]).iter().enumerate() {
        let (path, effect) = (TAINTS.index(i), text(&taint["effect"]));
        let (key, value) = (text(&taint["key"]), text(&taint["value"]));
        grammar(errors, &path.child("key"), key, name::qualified_name(key));
        let faults = name::label_value(value);
        if !faults.is_empty() {
            errors.invalid(&path.child("value"), value, faults.join(";"));
        }
        if effect.is_empty() {
            errors.required(&path.child("effect"), "");
        } else if !pod::EFFECTS.contains(&effect) {
            errors.not_supported_as_listed(&path.child("effect"), effect, &pod::EFFECTS);
        }
        if !seen.insert((effect, key)) {
            let since = &taint["timeAdded"];
            errors.push(FieldError {
                kind: FieldErrorKind::Duplicate,
                field: path.to_string(),
                value: Some(format!(
                    r#"{{"Key":{key:?},"Value":{value:?},"Effect":{effect:?},"TimeAdded":{since}}}"#
                )),
                detail: "taints must be unique by key and effect pair".to_owned(),
            });
        }
    }
}

fn amounts(object: &Value, errors: &mut ErrorList) {
    for member in ["capacity", "allocatable"] {
        let path = STATUS.child(member);
        for (own, amount) in object["status"][member].as_object().into_iter().flatten() {
            resource::amount(errors, &path.child(own), own, amount);
        }
    }
}

/// Checks declared features: sorted, without duplicates.
fn features(object: &Value, errors: &mut ErrorList) {
    let (path, features) = (STATUS.child("declaredFeatures"), list(&object["status"]["declaredFeatures"]));
    for (i, pair) in features.windows(2).enumerate() {
        let (this, next) = (text(&pair[0]), text(&pair[1]));
        if this == next {
            errors.duplicate(&path.index(i + 1), next);
        } else if this > next {
            let detail = format!("list must be sorted: {this:?} should come after {next:?}");
            errors.invalid(&path.index(i + 1), next, detail);
        }
    }
}

/// Checks immutable fields of a node, for its own path and for `/status`.
pub(crate) fn change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let addresses = list(&new["status"]["addresses"]);
    let path = STATUS.child("addresses");
    let mut seen = Distinct::default();
    for (i, address) in addresses.iter().enumerate().filter(|(_, address)| !seen.insert(address)) {
        let value = format!(r#"{{"Type":{},"Address":{}}}"#, address["type"], address["address"]);
        errors.duplicate_raw(&path.index(i), value);
    }
    let (spec, stored) = (&new["spec"], &old["spec"]);
    let before = list(&stored["podCIDRs"]);
    if !before.is_empty() && list(&spec["podCIDRs"]) != before {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(&SPEC.child("podCIDRs"), detail);
    }
    if !text(&stored["providerID"]).is_empty() && spec["providerID"] != stored["providerID"] {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&SPEC.child("providerID"), detail);
    }
    if text(&spec["externalID"]) != text(&stored["externalID"]) {
        errors.forbidden(&SPEC.child("externalID"), "may not be updated");
    }
}

/// Checks `/status` of a node.
pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    amounts(new, errors);
    features(new, errors);
    change(new, old, errors);
}
