//! Approval annotation of definitions in Kubernetes' protected groups (`k8s.io`, `kubernetes.io` and their
//! subdomains).

use crate::meta;
use serde_json::Value;

/// Annotation with the URL of the approval, or a text that starts with `unapproved`.
pub(super) const ANNOTATION: &str = "api-approved.kubernetes.io";

/// State of the approval annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Approved,
}

/// Whether definitions of the group need the annotation.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The approval state of a definition, with an explanation.
pub(super) fn of(crd: &Value) -> (Approval, String) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let own = meta::annotation(crd, ANNOTATION).unwrap_or_default();
    let demand = format!("protected groups must have approval annotation {ANNOTATION:?}");
    match own {
        "" => (Approval::Missing, format!("{demand}, {SEE}")),
        own if own.starts_with("unapproved") => (Approval::Bypassed, format!("not approved: {own:?}")),
        own if is_url(own) => (Approval::Approved, format!("approved in {own}")),
        _ => (
            Approval::Invalid,
            format!("{demand} with either a URL or a reason starting with \"unapproved\", {SEE}"),
        ),
    }
}

/// Whether a text is a URL with scheme and host.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(word)
        && !host.is_empty()
        && !text.chars().any(|c| c.is_ascii_control() || c == ' ')
}
