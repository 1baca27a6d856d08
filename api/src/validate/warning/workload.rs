//! Warnings of pods and of the kinds that make pods from a template. Pods cause warnings only on create, and
//! templates only when the specification changes.

use super::{pod, volume};
use crate::field::Path;
use crate::object::{int, list, text};
use crate::resource::Warnings;
use crate::{meta, name};
use serde_json::Value;

pub(crate) fn pod(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(object, "the Pod's hostname", warnings);
        pod::template(&Path::ROOT, object, warnings);
    }
}

pub(crate) fn pod_template(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    if is_changed(object, old) {
        pod::template(&Path::new("template"), &object["template"], warnings);
    }
}

pub(crate) fn replication_controller(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    host_name_of_pods(object, old, warnings);
    if is_changed(object, old) {
        // For an update Kubernetes checks the old template.
        let template = &old.unwrap_or(object)["spec"]["template"];
        pod::template(&Path::new("spec.template"), template, warnings);
    }
}

/// Warnings of Deployments and ReplicaSets.
pub(crate) fn template_owner(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    host_name_of_pods(object, old, warnings);
    if is_changed(object, old) {
        pod::template(&Path::new("spec.template"), &object["spec"]["template"], warnings);
    }
}

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) fn daemon_set(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    let generation = |object| meta::annotation(object, TEMPLATE_GENERATION);
    if old.is_none_or(|old| generation(object) != generation(old)) {
        pod::template(&Path::new("spec.template"), &object["spec"]["template"], warnings);
    }
}

pub(crate) fn stateful_set(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    let spec = &object["spec"];
    if is_changed(object, old) {
        pod::template(&Path::new("spec.template"), &spec["template"], warnings);
    }
    let claims = Path::new("spec.volumeClaimTemplates");
    for (i, claim) in list(&spec["volumeClaimTemplates"]).iter().enumerate() {
        let path = claims.index(i);
        // Kubernetes reports another path on update.
        let path = if old.is_none() { path } else { path.child("Spec") };
        volume::claim_spec(&path, &claim["spec"], warnings);
    }
    if int(&spec["revisionHistoryLimit"]) < 0 {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
}

pub(crate) fn job(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    host_name_of_pods(object, old, warnings);
    if is_changed(object, old) {
        job_spec(&Path::new("spec"), &object["spec"], warnings);
    }
}

pub(crate) fn cron_job(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    host_name_of_pods(object, old, warnings);
    let spec = &object["spec"];
    if is_changed(object, old) {
        job_spec(&Path::new("spec.jobTemplate.spec"), &spec["jobTemplate"]["spec"], warnings);
    }
    if old.is_some() && text(&spec["schedule"]).contains("TZ") {
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

fn job_spec(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let many = int(&spec["completions"]) > MANY_INDEXES && int(&spec["parallelism"]) > MANY_PODS;
    if many && spec["completionMode"] == "Indexed" {
        warnings.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    pod::template(&path.child("template"), &spec["template"], warnings);
}

/// Whether the object is new or its specification changed.
fn is_changed(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| object["metadata"]["generation"] != old["metadata"]["generation"])
}

/// Warns of the name of a new object whose pods take their names from it.
fn host_name_of_pods(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    if old.is_none() {
        host_name(object, "Pod names and hostnames", warnings);
    }
}

/// Warns of names that pods cannot use as host names, which are DNS labels. `used` says where the name is used.
fn host_name(object: &Value, used: &str, warnings: &mut Warnings) {
    let own = meta::name(object);
    let faults = name::dns1123_label(own);
    if !own.is_empty() && !faults.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            faults.join(" ")
        ));
    }
}
