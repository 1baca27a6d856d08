//! Ratcheting of validation rules that are newer than stored objects. An object that broke such a rule before
//! may still break it; otherwise no field of it could be changed. The path and detail of an error identify
//! its rule. Rules that are ratcheted for single items (a CIDR block, a usage) are handled where they are
//! checked.
//!
//! Follows `GetValidationOptionsFromPodSpecAndMeta`.

use crate::field::{ErrorList, FieldError};
use crate::kind::Resource;
use crate::object::text;
use serde_json::Value;

/// Validation rule that objects may break if their stored version breaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Values in label selectors must be label values.
    SelectorValue,
    /// Values in required node selectors must be label values.
    NodeValue,
    /// Label selectors of topology spread constraints must be valid.
    SpreadSelector,
    /// Amounts of huge pages must be multiples of the page size.
    HugePages,
    /// The pod deletion cost must be a number.
    DeletionCost,
    /// Pods must not set sysctls of the host's namespaces.
    HostSysctl,
    /// Token paths must stay inside the volume.
    TokenPath,
    /// TLS entries of an ingress must name a valid secret.
    IngressSecret,
    /// Data sources must have a valid API group.
    SourceGroup,
    /// Rules with a wildcard host are validated like others.
    WildcardHost,
    /// Pods with `hostUsers: false` must not use the host network.
    OwnUsersNetwork,
    /// Pods with `hostUsers: false` must not use volume devices.
    OwnUsersDevices,
}

/// The ratcheted rule of an ingress that an error reports.
pub(crate) fn of_ingress(object: &Value, error: &FieldError) -> Option<Rule> {
    let field = error.field.as_str();
    if field.starts_with("spec.tls[") && field.ends_with("].secretName") {
        Some(Rule::IngressSecret)
    } else if is_of_wildcard(object, field) {
        Some(Rule::WildcardHost)
    } else {
        of_pods(object, error)
    }
}

/// The ratcheted rule of a volume claim that an error reports.
pub(crate) fn of_claim(object: &Value, error: &FieldError) -> Option<Rule> {
    match error.field.as_str() {
        "spec.dataSource.apiGroup" | "spec.dataSourceRef.apiGroup" => Some(Rule::SourceGroup),
        _ => of_pods(object, error),
    }
}

/// Whether a path is below an ingress rule (`spec.rules[2].http…`) with a wildcard host.
fn is_of_wildcard(ingress: &Value, field: &str) -> bool {
    let rest = field.strip_prefix("spec.rules[").and_then(|rest| rest.split_once("].http"));
    let at = rest.and_then(|(at, _)| at.parse::<usize>().ok());
    at.is_some_and(|at| text(&ingress["spec"]["rules"][at]["host"]).contains('*'))
}

/// The ratcheted rule of pods, pod templates and selectors that an error reports.
pub(crate) fn of_pods(_: &Value, error: &FieldError) -> Option<Rule> {
    let (field, detail) = (error.field.as_str(), error.detail.as_str());
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

/// Removes errors of ratcheted rules that the stored object also breaks.
pub(super) fn drop_tolerated(
    resource: &Resource,
    (object, errors): (&Value, &mut ErrorList),
    (stored, before): (&Value, &ErrorList),
) {
    let rule = resource.rules.ratcheted;
    let broken: Vec<Rule> = before.iter().filter_map(|error| rule(stored, error)).collect();
    errors.retain(|error| rule(object, error).is_none_or(|rule| !broken.contains(&rule)));
}
