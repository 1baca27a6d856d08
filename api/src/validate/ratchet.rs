//! Ratcheting of validation rules that are newer than stored objects. An object that broke such a rule before
//! may still break it; otherwise no field of it could be changed. The path and detail of an error identify
//! its rule. Rules that are ratcheted for single items (a CIDR block, a usage) are handled where they are
//! checked.
//!
//! Follows `GetValidationOptionsFromPodSpecAndMeta`.

use crate::field::{ErrorList, FieldError};
use crate::object::text;
use crate::resource::{RatchetedRule, Resource};
use serde_json::Value;

/// The ratcheted rule of an ingress that an error reports.
pub(crate) fn of_ingress(object: &Value, error: &FieldError) -> Option<RatchetedRule> {
    let field = error.field.as_str();
    if field.starts_with("spec.tls[") && field.ends_with("].secretName") {
        Some(RatchetedRule::IngressSecret)
    } else if is_of_wildcard(object, field) {
        Some(RatchetedRule::WildcardHost)
    } else {
        of_pods(object, error)
    }
}

/// The ratcheted rule of a volume claim that an error reports.
pub(crate) fn of_claim(object: &Value, error: &FieldError) -> Option<RatchetedRule> {
    match error.field.as_str() {
        "spec.dataSource.apiGroup" | "spec.dataSourceRef.apiGroup" => Some(RatchetedRule::SourceGroup),
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
pub(crate) fn of_pods(_: &Value, error: &FieldError) -> Option<RatchetedRule> {
    let (field, detail) = (error.field.as_str(), error.detail.as_str());
    let is_value = field.contains(".matchExpressions[") && field.contains("].values[");
    if field.contains("topologySpreadConstraints[") && field.contains("].labelSelector") {
        Some(RatchetedRule::SpreadSelector)
    } else if is_value && field.contains(".nodeSelectorTerms[") {
        Some(RatchetedRule::NodeValue)
    } else if is_value {
        Some(RatchetedRule::SelectorValue)
    } else if detail.contains(" is not positive integer multiple of ") {
        Some(RatchetedRule::HugePages)
    } else if field.ends_with("annotations[controller.kubernetes.io/pod-deletion-cost]") {
        Some(RatchetedRule::DeletionCost)
    } else if field.contains(".sysctls[") && detail.starts_with("may not be specified when 'host") {
        Some(RatchetedRule::HostSysctl)
    } else if field.ends_with(".projected.path") && !detail.is_empty() {
        Some(RatchetedRule::TokenPath)
    } else if detail == "when `hostUsers` is false" {
        match field.rsplit_once('.').map_or(field, |(_, member)| member) {
            "hostNetwork" => Some(RatchetedRule::OwnUsersNetwork),
            "volumeDevices" => Some(RatchetedRule::OwnUsersDevices),
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
    let broken: Vec<RatchetedRule> = before.iter().filter_map(|error| rule(stored, error)).collect();
    errors.retain(|error| rule(object, error).is_none_or(|rule| !broken.contains(&rule)));
}
