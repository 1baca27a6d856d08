//! Warnings for pods and pod templates.
//!
//! Follows `GetWarningsForPod` and `GetWarningsForPodTemplate`.

use super::{address, fraction, node_terms, old_label, port, volume};
use crate::field::Path;
use crate::object::{int, list, text};
use crate::resource::Warnings;
use serde_json::Value;
use std::collections::BTreeSet;

/// Warns about a pod or a pod template: a value with metadata and spec.
pub(super) fn template(path: &Path<'_>, template: &Value, warnings: &mut Warnings) {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    let at = path.child("spec");
    nodes(&at, spec, warnings);
    annotations(&path.child("metadata.annotations"), &metadata["annotations"], warnings);
    volume::of_pod(&at, spec, warnings);
    warn_duplicates(&at, spec, ("hostAliases", "ip", "duplicate ip"), warnings);
    warn_duplicates(&at, spec, ("imagePullSecrets", "name", "duplicate name"), warnings);
    let secrets = at.child("imagePullSecrets");
    for (i, _) in
        list(&spec["imagePullSecrets"]).iter().enumerate().filter(|(_, s)| text(&s["name"]).is_empty())
    {
        let path = secrets.index(i);
        warnings.push(format!("{}: invalid empty name \"\"", path.child("name")));
    }
    for own in ["memory", "ephemeral-storage"] {
        fraction(&at.child("overhead"), &spec["overhead"], own, warnings);
    }
    for member in ["initContainers", "containers", "ephemeralContainers"] {
        let path = at.child(member);
        for (i, container) in list(&spec[member]).iter().enumerate() {
            self::container(&path.index(i), container, warnings);
        }
    }
    port::across(&at, spec, warnings);
    if int(&spec["terminationGracePeriodSeconds"]) < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            at.child("terminationGracePeriodSeconds")
        ));
    }
    neighbours(&at.child("affinity"), &spec["affinity"], warnings);
    let servers = at.child("dnsConfig.nameservers");
    for (i, server) in list(&spec["dnsConfig"]["nameservers"]).iter().enumerate() {
        address(&servers.index(i), text(server), warnings);
    }
}

fn nodes(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let at = path.child("nodeSelector");
    for key in spec["nodeSelector"].as_object().into_iter().flat_map(|selector| selector.keys()) {
        warnings.extend(old_label(key).map(|said| format!("{}: {said}", at.key(key))));
    }
    let (at, affinity) = (path.child("affinity.nodeAffinity"), &spec["affinity"]["nodeAffinity"]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = at.child(required);
    let terms = terms.child("nodeSelectorTerms");
    for (i, term) in list(&affinity[required]["nodeSelectorTerms"]).iter().enumerate() {
        node_terms(&terms.index(i), term, false, warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let terms = at.child(preferred);
    for (i, term) in list(&affinity[preferred]).iter().enumerate() {
        let path = terms.index(i);
        node_terms(&path.child("preference"), &term["preference"], true, warnings);
    }
    let at = path.child("topologySpreadConstraints");
    for (i, constraint) in list(&spec["topologySpreadConstraints"]).iter().enumerate() {
        let (path, key) = (at.index(i), text(&constraint["topologyKey"]));
        if let Some(said) = old_label(key) {
            warnings.push(format!("{}: {key} is {said}", path.child("topologyKey")));
        }
        no_selector(&path, constraint, warnings);
    }
}

fn no_selector(path: &Path<'_>, term: &Value, warnings: &mut Warnings) {
    if term["labelSelector"].is_null() {
        let path = path.child("labelSelector");
        warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
    }
}

fn neighbours(path: &Path<'_>, affinity: &Value, warnings: &mut Warnings) {
    for side in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(side);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let at = path.child(required);
        for (i, term) in list(&affinity[side][required]).iter().enumerate() {
            no_selector(&at.index(i), term, warnings);
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let at = path.child(preferred);
        for (i, term) in list(&affinity[side][preferred]).iter().enumerate() {
            let path = at.index(i);
            no_selector(&path.child("podAffinityTerm"), &term["podAffinityTerm"], warnings);
        }
    }
}

const OLD_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

fn annotations(path: &Path<'_>, annotations: &Value, warnings: &mut Warnings) {
    for (old, said) in OLD_ANNOTATIONS {
        if !annotations[old].is_null() {
            warnings.push(format!("{}: {said}", path.key(old)));
        }
    }
}

/// Warns of list items that repeat an earlier one.
fn warn_duplicates(
    path: &Path<'_>,
    spec: &Value,
    (list_name, member, said): (&str, &str, &str),
    warnings: &mut Warnings,
) {
    let (path, mut seen) = (path.child(list_name), BTreeSet::new());
    for (i, item) in list(&spec[list_name]).iter().enumerate() {
        let own = text(&item[member]);
        if !seen.insert(own) {
            let path = path.index(i);
            warnings.push(format!("{}: {said} {own:?}", path.child(member)));
        }
    }
}

fn container(path: &Path<'_>, container: &Value, warnings: &mut Warnings) {
    for own in ["memory", "ephemeral-storage"] {
        for side in ["limits", "requests"] {
            let at = path.child("resources");
            fraction(&at.child(side), &container["resources"][side], own, warnings);
        }
    }
    let (env, mut seen) = (path.child("env"), BTreeSet::new());
    for (i, variable) in list(&container["env"]).iter().enumerate() {
        let (own, value) = (text(&variable["name"]), text(&variable["value"]));
        // A variable that references its earlier value redefines it on purpose.
        let reference = format!("$({own})");
        let extends = variable["valueFrom"].is_null() && value != reference && value.contains(&reference);
        if !seen.insert(own) && !extends {
            warnings.push(format!(
                "{}: hides previous definition of {own:?}, which may be dropped when using apply",
                env.index(i)
            ));
        }
    }
}
