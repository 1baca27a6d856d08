//! Warnings for valid objects that are probably mistakes, sent as `Warning` headers.

mod other;
mod pod;
mod port;
mod service;
#[cfg(test)]
mod tests;
mod volume;

use std::net::IpAddr;

use serde_json::Value;

use crate::field::Path;
use crate::kind::Resource;
use crate::limits::WARNINGS_MAX;
use crate::meta;
use crate::name;
use crate::object::{int, list, text};
use crate::validate::check::quantity;
use crate::validate::metadata;
use crate::validate::resource::is_whole;

/// Warnings collected so far; those beyond [`WARNINGS_MAX`] are dropped.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    /// Whether further warnings are dropped.
    fn is_full(&self) -> bool {
        self.0.len() >= WARNINGS_MAX
    }

    fn push(&mut self, warning: String) {
        if !self.is_full() {
            self.0.push(warning);
        }
    }

    fn extend(&mut self, warnings: impl IntoIterator<Item = String>) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }
}

/// Warnings for the client that wrote a valid object; `old` is the object it replaces. Pods cause warnings
/// only on create, and templates only when the specification changes.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Warnings::default();
    if old.is_none() {
        host_name(resource, meta::name(object), &mut warnings);
    }
    let (spec, changed) = (&object["spec"], is_changed(resource, object, old));
    match (resource.group, resource.kind) {
        ("", "Pod") if old.is_none() => pod::template(&Path::ROOT, object, &mut warnings),
        ("", "PodTemplate") if changed => {
            pod::template(&Path::new("template"), &object["template"], &mut warnings);
        }
        ("", "ReplicationController") if changed => {
            // For an update Kubernetes checks the old template.
            let template = &old.unwrap_or(object)["spec"]["template"];
            pod::template(&Path::new("spec.template"), template, &mut warnings);
        }
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") if changed => {
            pod::template(&Path::new("spec.template"), &spec["template"], &mut warnings);
        }
        ("apps", "StatefulSet") => stateful_set(spec, old.is_none(), changed, &mut warnings),
        ("batch", "Job") if changed => job(&Path::new("spec"), spec, &mut warnings),
        ("batch", "CronJob") => cron_job(spec, old.is_none(), changed, &mut warnings),
        ("", "Endpoints") => warnings
            .push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()),
        ("", "Service") => service::service(object, &mut warnings),
        ("", "PersistentVolume") => volume::volume(object, &mut warnings),
        ("", "PersistentVolumeClaim") => volume::claim(object, &mut warnings),
        _ if resource.is_custom() => warnings.extend(metadata::finalizer_warnings(object, old)),
        _ => other::of(resource, object, old, &mut warnings),
    }
    warnings.0
}

/// Whether the object is new or its specification changed.
fn is_changed(resource: &Resource, object: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return true };
    match resource.kind {
        "DaemonSet" => {
            meta::annotation(object, TEMPLATE_GENERATION) != meta::annotation(old, TEMPLATE_GENERATION)
        }
        _ => object["metadata"]["generation"] != old["metadata"]["generation"],
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Warns of names that pods cannot use as host names, which are DNS labels.
fn host_name(resource: &Resource, own: &str, warnings: &mut Warnings) {
    let used = match (resource.group, resource.kind) {
        ("", "Pod") => "the Pod's hostname",
        ("apps", "Deployment" | "ReplicaSet")
        | ("", "ReplicationController")
        | ("batch", "Job" | "CronJob") => "Pod names and hostnames",
        _ => return,
    };
    let faults = name::dns1123_label(own);
    if !own.is_empty() && !faults.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}

fn stateful_set(spec: &Value, is_new: bool, changed: bool, warnings: &mut Warnings) {
    if changed {
        pod::template(&Path::new("spec.template"), &spec["template"], warnings);
    }
    let claims = Path::new("spec.volumeClaimTemplates");
    for (i, claim) in list(&spec["volumeClaimTemplates"]).iter().enumerate() {
        let path = claims.index(i);
        // Kubernetes reports another path on update.
        let path = if is_new { path } else { path.child("Spec") };
        volume::claim_spec(&path, &claim["spec"], warnings);
    }
    if int(&spec["revisionHistoryLimit"]) < 0 {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
}

fn cron_job(spec: &Value, is_new: bool, changed: bool, warnings: &mut Warnings) {
    if changed {
        job(&Path::new("spec.jobTemplate.spec"), &spec["jobTemplate"]["spec"], warnings);
    }
    if !is_new && text(&spec["schedule"]).contains("TZ") {
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
}

/// Number of indexes and parallelism above which a job can lose track of failed indexes.
const MANY_INDEXES: i64 = 100_000;
const MANY_PODS: i64 = 10_000;

fn job(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let many = int(&spec["completions"]) > MANY_INDEXES && int(&spec["parallelism"]) > MANY_PODS;
    if many && spec["completionMode"] == "Indexed" {
        warnings.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    pod::template(&path.child("template"), &spec["template"], warnings);
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
