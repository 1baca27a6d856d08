//! Rules that are younger than objects: who broke one before it was a rule may go on breaking it, since otherwise nothing of the
//! object could be changed any more. Each is known by where and how it is broken. Rules that are lifted for a single item (a block of
//! addresses, a usage) are lifted where they are judged.

use crate::field::{ErrorList, FieldError};
use crate::kind::Resource;

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
}

/// The rule that an error is about, if it can be lifted.
pub(super) fn rule(resource: &Resource, error: &FieldError) -> Option<Rule> {
    let (field, detail) = (error.field.as_str(), error.detail.as_str());
    match resource.kind {
        "Ingress" if field.starts_with("spec.tls[") && field.ends_with("].secretName") => {
            Some(Rule::IngressSecret)
        }
        "PersistentVolumeClaim"
            if field == "spec.dataSource.apiGroup" || field == "spec.dataSourceRef.apiGroup" =>
        {
            Some(Rule::SourceGroup)
        }
        _ => of_pods(field, detail),
    }
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
    } else {
        None
    }
}

/// Drops what is said about rules that the stored object broke as well.
pub(super) fn forgive(resource: &Resource, errors: &mut ErrorList, before: &ErrorList) {
    let broken: Vec<Rule> = before.iter().filter_map(|error| rule(resource, error)).collect();
    errors.retain(|error| rule(resource, error).is_none_or(|rule| !broken.contains(&rule)));
}
