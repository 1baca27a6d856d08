//! Warnings for valid objects that are probably mistakes, sent as `Warning` headers.
//!
//! Follows `WarningsOnCreate` and `WarningsOnUpdate`.

pub(crate) mod other;
mod pod;
mod port;
pub(crate) mod service;
#[cfg(test)]
mod tests;
pub(crate) mod volume;
pub(crate) mod workload;

use crate::check::quantity;
use crate::field::Path;
use crate::name;
use crate::object::{list, text};
use crate::resource::{Resource, Warnings};
use crate::validate::resource::is_whole;
use crate::validate::{former, metadata};
use serde_json::Value;
use std::net::IpAddr;

/// Warnings for the client that wrote a valid object; `old` is the object it replaces. Pods cause warnings
/// only on create, and templates only when the specification changes.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    (resource.rules.warnings)(object, old, &mut warnings);
    let mut warnings = warnings.into_vec();
    former::warnings(resource, &mut warnings);
    warnings
}

/// Warns of new finalizers of a custom resource that have no domain.
pub(crate) fn finalizers(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    warnings.extend(metadata::finalizer_warnings(object, old));
}

/// Warns of a fractional number of bytes.
fn fraction(path: &Path<'_>, amounts: &Value, own: &str, warnings: &mut Warnings) {
    if let Some(amount) = quantity(&amounts[own]).filter(|amount| !is_whole(*amount)) {
        let path = path.key(own);
        warnings.push(format!("{path}: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

/// Warns of an IPv6 address in a non-canonical spelling.
fn address(path: &Path<'_>, value: &str, warnings: &mut Warnings) {
    if let Ok(IpAddr::V6(six)) = value.parse()
        && six.to_string() != value
    {
        warnings.push(format!(
            "{path}: IPv6 address {value:?} should be in RFC 5952 canonical format (\"{six}\")"
        ));
    }
}

/// Warns of a CIDR block with a non-canonical IPv6 address.
fn block(path: &Path<'_>, value: &str, warnings: &mut Warnings) {
    let Some((address, bits)) = value.split_once('/') else { return };
    if let Ok(IpAddr::V6(six)) = address.parse()
        && six.to_string() != address
    {
        warnings.push(format!(
            "{path}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format (\"{six}/{bits}\")"
        ));
    }
}

/// Deprecated node labels, and what to use instead.
const OLD_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

fn old_label(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, said)| *said)
}

/// Warns of deprecated labels in a node selector term; for preferred terms also of invalid label values.
fn node_terms(path: &Path<'_>, term: &Value, values: bool, warnings: &mut Warnings) {
    let path = path.child("matchExpressions");
    for (i, expression) in list(&term["matchExpressions"]).iter().enumerate() {
        let (path, key) = (path.index(i), text(&expression["key"]));
        if let Some(said) = old_label(key) {
            warnings.push(format!("{}: {key} is {said}", path.child("key")));
        }
        let at = path.child("values");
        for (n, value) in list(&expression["values"]).iter().map(text).enumerate().filter(|_| values) {
            let faults = name::label_value(value);
            warnings
                .extend(faults.iter().map(|fault| format!("{}: {value} is invalid, {fault}", at.index(n))));
        }
    }
}
