//! Rules that are younger than objects: who broke one before it was a rule may go on breaking it, since otherwise nothing of the
//! object could be changed any more. Each is known by where and how it is broken. Rules that are lifted for a single item (a block of
//! addresses, a usage) are lifted where they are judged.

use crate::field::{ErrorList, FieldError};
use crate::kind::Resource;
use crate::object::text;
use serde_json::Value;

/// A rule that is lifted as a whole for objects that broke it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Values of selectors of labels are label values.
    SelectorValue,
    /// So are those by which nodes must be selected.
    NodeValue,
    /// Selectors of spread pods are selectors.
    SpreadSelector,
    /// Huge pages come as whole pages.
    HugePages,
    /// What it costs to delete a pod is a number.
    DeletionCost,
    /// Parameters of the host's kernel are not a pod's.
    HostSysctl,
    /// A token's file is below its volume.
    TokenPath,
    /// A certificate of an ingress has the name of a secret.
    IngressSecret,
    /// The kind of a source of data is in a group.
    SourceGroup,
    /// What an ingress does for a host with a wildcard is judged as for any other.
    WildcardHost,
    /// Who has users of its own is not on the host's network.
    OwnUsersNetwork,
    /// Nor has it devices.
    OwnUsersDevices,
}

/// The rule that an error about an object is about, if it can be lifted.
pub(super) fn rule(resource: &Resource, object: &Value, error: &FieldError) -> Option<Rule> {
    let (field, detail) = (error.field.as_str(), error.detail.as_str());
    match resource.kind {
        "Ingress" if field.starts_with("spec.tls[") && field.ends_with("].secretName") => {
            Some(Rule::IngressSecret)
        }
        "Ingress" if is_of_wildcard(object, field) => Some(Rule::WildcardHost),
        "PersistentVolumeClaim"
            if field == "spec.dataSource.apiGroup" || field == "spec.dataSourceRef.apiGroup" =>
        {
            Some(Rule::SourceGroup)
        }
        _ => of_pods(field, detail),
    }
}

/// `spec.rules[2].http…`, where that rule is about many hosts.
fn is_of_wildcard(ingress: &Value, field: &str) -> bool {
    let rest = field.strip_prefix("spec.rules[").and_then(|rest| rest.split_once("].http"));
    let at = rest.and_then(|(at, _)| at.parse::<usize>().ok());
    at.is_some_and(|at| text(&ingress["spec"]["rules"][at]["host"]).contains('*'))
}

/// Rules of pods and their templates, and of selectors everywhere.
fn of_pods(field: &str, detail: &str) -> Option<Rule> {
    let is_value = field.contains(".matchExpressions[") && field.contains("].values[");
    if field.contains("topologySpreadConstraints[") && field.contains("].labelSelector") {
        Some(Rule::SpreadSelector)
    } else if is_value && field.contains(".nodeSelectorTerms[") {
        Some(Rule::NodeValue)
    } else if is_value {
        Some(Rule::SelectorValue)
    } else if detail.contains(" is not positive integer multiple of ") {
        Some(Rule::HugePages)
    } else if field.ends_with("annotations[controller.kubernetes.io/pod-deletion-cost]") {
        Some(Rule::DeletionCost)
    } else if field.contains(".sysctls[") && detail.starts_with("may not be specified when 'host") {
        Some(Rule::HostSysctl)
    } else if field.ends_with(".projected.path") && !detail.is_empty() {
        Some(Rule::TokenPath)
    } else if detail == "when `hostUsers` is false" {
        match field.rsplit_once('.').map_or(field, |(_, member)| member) {
            "hostNetwork" => Some(Rule::OwnUsersNetwork),
            "volumeDevices" => Some(Rule::OwnUsersDevices),
            _ => None,
        }
    } else {
        None
    }
}

/// Drops what is said of an object about rules that the stored one broke as well.
pub(super) fn forgive(
    resource: &Resource,
    (object, errors): (&Value, &mut ErrorList),
    (stored, before): (&Value, &ErrorList),
) {
    let broken: Vec<Rule> = before.iter().filter_map(|error| rule(resource, stored, error)).collect();
    errors.retain(|error| rule(resource, object, error).is_none_or(|rule| !broken.contains(&rule)));
}
