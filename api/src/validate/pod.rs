//! What must hold of pods and of the templates that become pods.

mod change;
mod container;
mod probe;
mod resources;
mod scheduling;
mod volume;

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{each, grammar, none_negative, one_of, optional_grammar, optional_one_of};
use super::metadata;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};

pub(super) use change::{change, ephemeral_containers};
pub(super) use scheduling::{node_selector, toleration};
pub(super) use volume::one_source;

const SPEC: Path<'static> = Path::new("spec");

/// A Pod at any time.
pub(super) fn content(object: &Value, errors: &mut ErrorList) {
    pod_spec(errors, &SPEC, &object["spec"]);
}

/// What only a new Pod must not have.
pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if !list(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden(&SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !list(&spec["schedulingGates"]).is_empty() && !text(&spec["nodeName"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&SPEC.child("nodeName"), detail);
    }
}

/// A `PodTemplate`.
pub(super) fn template_object(object: &Value, errors: &mut ErrorList) {
    template(errors, &Path::new("template"), &object["template"]);
}

/// A `PodTemplateSpec`.
pub(super) fn template(errors: &mut ErrorList, path: &Path<'_>, template: &Value) {
    let (metadata, at) = (&template["metadata"], path.child("metadata"));
    metadata::labels(errors, &at.child("labels"), &metadata["labels"]);
    metadata::annotations(errors, &at.child("annotations"), &metadata["annotations"]);
    pod_spec(errors, &path.child("spec"), &template["spec"]);
    if !list(&template["spec"]["ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.child("spec.ephemeralContainers"), detail);
    }
}

fn pod_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let volumes = volume::volumes(errors, path, spec);
    containers(errors, path, spec, &volumes);
    let policies = ["Always", "OnFailure", "Never"];
    one_of(errors, &path.child("restartPolicy"), &spec["restartPolicy"], &policies);
    dns(errors, path, spec);
    none_negative(errors, path, spec, &["terminationGracePeriodSeconds"]);
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let fault = name::in_range(1, i64::from(i32::MAX));
        errors.invalid(&path.child("activeDeadlineSeconds"), &seconds, fault);
    }
    security(errors, &path.child("securityContext"), &spec["securityContext"]);
    for (member, rule) in [
        ("serviceAccountName", name::dns1123_subdomain as fn(&str) -> name::Faults),
        ("nodeName", name::dns1123_subdomain),
        ("hostname", name::dns1123_label),
        ("subdomain", name::dns1123_label),
        ("priorityClassName", name::dns1123_subdomain),
        ("runtimeClassName", name::dns1123_subdomain),
    ] {
        optional_grammar(errors, &path.child(member), &spec[member], rule);
    }
    let preemption = ["PreemptLowerPriority", "Never"];
    optional_one_of(errors, &path.child("preemptionPolicy"), &spec["preemptionPolicy"], &preemption);
    scheduling::scheduling(errors, path, spec);
    each(path, spec, "readinessGates", |path, gate| {
        let kind = text(&gate["conditionType"]);
        grammar(errors, &path.child("conditionType"), kind, name::qualified_name(kind));
    });
    each(path, spec, "hostAliases", |path, alias| {
        let ip = text(&alias["ip"]);
        grammar(errors, &path.child("ip"), ip, name::ip(ip));
    });
    host_ports(errors, path, spec);
}

fn containers(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, volumes: &BTreeSet<String>) {
    let at = path.child("containers");
    if list(&spec["containers"]).is_empty() {
        errors.required(&at, "");
    }
    let mut names = BTreeSet::new();
    for (member, role) in [
        ("initContainers", container::Role::Init),
        ("containers", container::Role::Main),
        ("ephemeralContainers", container::Role::Ephemeral),
    ] {
        each(path, spec, member, |path, value| {
            container::container(errors, path, value, role, volumes);
            let own = text(&value["name"]);
            if !own.is_empty() && !names.insert(own.to_owned()) {
                errors.duplicate(&path.child("name"), own);
            }
        });
    }
}

fn dns(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(errors, &path.child("dnsPolicy"), &spec["dnsPolicy"], &policies);
    let (path, config) = (path.child("dnsConfig"), &spec["dnsConfig"]);
    if spec["dnsPolicy"] == "None" && list(&config["nameservers"]).is_empty() {
        let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(&path.child("nameservers"), detail);
    }
    each(&path, config, "nameservers", |path, server| {
        grammar(errors, path, text(server), name::ip(text(server)));
    });
    each(&path, config, "searches", |path, search| {
        let domain = text(search).strip_suffix('.').unwrap_or(text(search));
        grammar(errors, path, domain, name::dns1123_subdomain(domain));
    });
}

/// Ids in either security context must not be below zero.
fn security(errors: &mut ErrorList, path: &Path<'_>, context: &Value) {
    none_negative(errors, path, context, &["runAsUser", "runAsGroup", "fsGroup"]);
    let policies = ["OnRootMismatch", "Always"];
    let policy = &context["fsGroupChangePolicy"];
    optional_one_of(errors, &path.child("fsGroupChangePolicy"), policy, &policies);
}

/// A host has each port once; and on the host's network, a container's port is the host's.
fn host_ports(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let mut taken = BTreeSet::new();
    for member in ["initContainers", "containers"] {
        each(path, spec, member, |path, container| {
            each(path, container, "ports", |path, port| {
                let (host, own) = (&port["hostPort"], &port["containerPort"]);
                if host.is_null() || *host == 0 {
                    return;
                }
                if spec["hostNetwork"] == true && host != own {
                    let detail = "must match `hostPort` when `hostNetwork` is true";
                    errors.invalid(&path.child("containerPort"), own, detail);
                }
                let id = format!("{}/{}/{host}", text(&port["protocol"]), text(&port["hostIP"]));
                if member == "containers" && !taken.insert(id.clone()) {
                    errors.duplicate(&path.child("hostPort"), &id);
                }
            });
        });
    }
}
