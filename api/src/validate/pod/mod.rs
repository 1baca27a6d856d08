//! Validation of pods and pod templates.
//!
//! Follows `ValidatePodCreate`, `ValidatePodSpec` and `ValidatePodTemplateSpec`.

mod affinity;
mod annotation;
mod change;
mod container;
mod containers;
mod network;
mod probe;
mod reference;
mod resize;
mod resources;
mod security;
mod spread;
mod status;
mod toleration;
mod volume;

use crate::check::{each, grammar, metadata, one_of_listed, optional_grammar, unique};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
pub(super) use affinity::node_selector;
pub(crate) use change::{change, ephemeral_containers};
pub(crate) use resize::resize;
pub(super) use resources::container_name as resource_name;
use serde_json::Value;
pub(crate) use status::status;
pub(super) use toleration::{EFFECTS, tolerations};
pub(super) use volume::source;

const SPEC: Path<'static> = Path::new("spec");
const ANNOTATIONS: Path<'static> = Path::new("metadata.annotations");

/// Checks a Pod on create and update.
pub(crate) fn content(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    annotation::content(errors, &ANNOTATIONS, &object["metadata"]["annotations"], spec);
    pod_spec(errors, &SPEC, spec, Owner::Pod(object));
    if text(&spec["serviceAccountName"]).is_empty() {
        token_volumes_without_account(errors, spec);
    }
    for member in ["containers", "initContainers"] {
        each(&SPEC, spec, member, |path, value| container::image(errors, path, value));
    }
}

/// Refuses service account token volumes in a pod without a service account.
fn token_volumes_without_account(errors: &mut ErrorList, spec: &Value) {
    each(&SPEC, spec, "volumes", |path, volume| {
        each(&path.child("projected"), &volume["projected"], "sources", |path, source| {
            if !source["serviceAccountToken"].is_null() {
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&path.child("serviceAccountToken"), detail);
            }
        });
    });
}

/// Checks that apply only to new pods.
pub(crate) fn create(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if !list(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden(&SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !list(&spec["schedulingGates"]).is_empty() && !text(&spec["nodeName"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&SPEC.child("nodeName"), detail);
    }
    security::match_annotations(errors, &SPEC, &object["metadata"]["annotations"], spec);
}

/// Checks a `PodTemplate`.
pub(crate) fn template_object(object: &Value, errors: &mut ErrorList) {
    template(errors, &Path::new("template"), &object["template"]);
}

/// Checks a `PodTemplateSpec`.
pub(super) fn template(errors: &mut ErrorList, path: &Path<'_>, template: &Value) {
    template_of(errors, path, template, Owner::Template { claims: &[] });
}

/// Checks the pod template of a set with claim templates, which become volumes of its pods.
pub(super) fn template_with_claims(
    errors: &mut ErrorList,
    path: &Path<'_>,
    template: &Value,
    claims: &[Value],
) {
    template_of(errors, path, template, Owner::Template { claims });
}

fn template_of(errors: &mut ErrorList, path: &Path<'_>, template: &Value, owner: Owner<'_>) {
    // Error paths of template labels and annotations omit `metadata`.
    let metadata = &template["metadata"];
    metadata::labels(errors, &path.child("labels"), &metadata["labels"]);
    metadata::annotations(errors, &path.child("annotations"), &metadata["annotations"]);
    annotation::content(errors, &path.child("annotations"), &metadata["annotations"], &template["spec"]);
    let (path, spec) = (path.child("spec"), &template["spec"]);
    pod_spec(errors, &path, spec, owner);
    security::match_annotations(errors, &path, &metadata["annotations"], spec);
    if !list(&spec["ephemeralContainers"]).is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&path.child("ephemeralContainers"), detail);
    }
}

/// Owner of a pod spec: a pod or a template.
#[derive(Clone, Copy)]
enum Owner<'o> {
    /// The pod itself.
    Pod(&'o Value),
    /// A pod template; `claims` are claim templates that become volumes before the template's own.
    Template { claims: &'o [Value] },
}

/// Calls `each` with every container of a spec and its path: init, main, then ephemeral containers.
fn each_container(path: &Path<'_>, spec: &Value, mut visit: impl FnMut(&Path<'_>, &Value)) {
    for member in ["initContainers", "containers", "ephemeralContainers"] {
        each(path, spec, member, &mut visit);
    }
}

/// Checks a `PodSpec`.
fn pod_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, owner: Owner<'_>) {
    if spec["terminationGracePeriodSeconds"].is_null() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let surroundings = containers::PodContext {
        volumes: volume::volumes(errors, path, spec, owner),
        claims: list(&spec["resourceClaims"]).iter().map(|claim| text(&claim["name"])).collect(),
        restart_policy: text(&spec["restartPolicy"]),
        host_users: spec["hostUsers"] != false,
        grace: spec["terminationGracePeriodSeconds"].as_i64(),
    };
    resource_claims(errors, path, spec);
    containers::containers(errors, path, spec, &surroundings);
    resources::of_pod(errors, path, spec);
    network::host_network(errors, path, spec, matches!(owner, Owner::Pod(_)));
    let policies = ["Always", "OnFailure", "Never"];
    one_of_listed(errors, &path.child("restartPolicy"), &spec["restartPolicy"], &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of_listed(errors, &path.child("dnsPolicy"), &spec["dnsPolicy"], &policies);
    placement(errors, path, spec);
    security::host_process(errors, path, spec);
    security::host_users(errors, path, spec);
    network::hostname_override(errors, path, spec);
    names(errors, path, spec);
    resources::overhead(errors, &path.child("overhead"), &spec["overhead"]);
    security::for_os(errors, path, spec);
    each_container(path, spec, |path, value| {
        container::file_volumes(errors, path, value, &surroundings.volumes);
    });
}

/// Checks node selection, host settings and security of a pod.
fn placement(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    metadata::labels(errors, &path.child("nodeSelector"), &spec["nodeSelector"]);
    security::of_pod(errors, path, spec);
    affinity::affinity(errors, path, spec);
    network::dns_config(errors, path, spec);
    each(path, spec, "readinessGates", |path, gate| {
        let kind = text(&gate["conditionType"]);
        grammar(errors, &path.child("conditionType"), kind, name::qualified_name(kind));
    });
    let gates = list(&spec["schedulingGates"]);
    let at = path.child("schedulingGates");
    let mut seen = Distinct::default();
    for (i, gate) in gates.iter().enumerate() {
        let own = text(&gate["name"]);
        grammar(errors, &at.index(i), own, name::qualified_name(own));
        if !seen.insert(&gate["name"]) {
            errors.duplicate(&at.index(i), own);
        }
    }
    spread::constraints(errors, path, spec);
}

/// Checks names of referenced objects, deadlines, tolerations and host aliases.
fn names(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let name = |errors: &mut ErrorList, member: &str, rule: fn(&str) -> name::Faults| {
        optional_grammar(errors, &path.child(member), &spec[member], rule);
    };
    name(errors, "serviceAccountName", name::dns1123_subdomain);
    name(errors, "nodeName", name::dns1123_subdomain);
    if !spec["activeDeadlineSeconds"].is_null() {
        let (seconds, most) = (int(&spec["activeDeadlineSeconds"]), i64::from(i32::MAX));
        if !(1..=most).contains(&seconds) {
            errors.invalid(&path.child("activeDeadlineSeconds"), &seconds, name::in_range(1, most));
        }
    }
    name(errors, "hostname", name::dns1123_label);
    name(errors, "subdomain", name::dns1123_label);
    toleration::tolerations(errors, &path.child("tolerations"), &spec["tolerations"]);
    network::host_aliases(errors, path, spec);
    name(errors, "priorityClassName", name::dns1123_subdomain);
    name(errors, "runtimeClassName", name::dns1123_subdomain);
    if !spec["preemptionPolicy"].is_null() {
        let policies = ["PreemptLowerPriority", "Never"];
        one_of_listed(errors, &path.child("preemptionPolicy"), &spec["preemptionPolicy"], &policies);
    }
}

/// Checks resource claims of a pod: each names either a claim or a claim template.
fn resource_claims(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    each(path, spec, "resourceClaims", |path, claim| {
        match text(&claim["name"]) {
            "" => errors.required(&path.child("name"), ""),
            own => grammar(errors, &path.child("name"), own, name::dns1123_label(own)),
        }
        let given = ["resourceClaimName", "resourceClaimTemplateName"];
        match given.iter().filter(|member| !claim[**member].is_null()).count() {
            0 => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(path, claim, detail);
            }
            1 => {}
            _ => {
                let detail =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(path, claim, detail);
            }
        }
        for member in given.into_iter().filter(|member| !claim[*member].is_null()) {
            let own = text(&claim[member]);
            grammar(errors, &path.child(member), own, name::dns1123_subdomain(own));
        }
    });
    unique(errors, &path.child("resourceClaims"), list(&spec["resourceClaims"]), "name");
}
