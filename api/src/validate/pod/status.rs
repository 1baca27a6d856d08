//! Validation of a pod's `/status`: it must be consistent, and terminated containers stay terminated.
//!
//! Follows `ValidatePodStatusUpdate`.

use super::{ANNOTATIONS, annotation};
use crate::check::{IMMUTABLE, each, grammar};
use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, semantically_equal, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const STATUS: Path<'static> = Path::new("status");

pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    let annotations = |object: &'_ Value| object["metadata"]["annotations"].clone();
    if new["metadata"]["annotations"] != old["metadata"]["annotations"] {
        annotation::change(errors, &ANNOTATIONS, &annotations(new), &annotations(old));
        annotation::content(errors, &ANNOTATIONS, &annotations(new), &new["spec"]);
    }
    let (status, stored) = (&new["status"], &old["status"]);
    conditions(errors, status);
    nominated(errors, new, old);
    generation(errors, &STATUS, status);
    if !semantically_equal(&status["qosClass"], &stored["qosClass"]) {
        errors.invalid(&STATUS.child("qosClass"), &status["qosClass"], IMMUTABLE);
    }
    transitions(errors, status, stored, &old["spec"]);
    claims(errors, status, &new["spec"]);
    extended_claim(errors, &status["extendedResourceClaimStatus"], &new["spec"]);
    addresses(errors, "podIPs", status, stored);
    host_addresses(errors, status, stored);
    users(errors, status, &new["spec"]);
    ephemeral_amounts(errors, status);
}

fn generation(errors: &mut ErrorList, path: &Path<'_>, object: &Value) {
    if int(&object["observedGeneration"]) < 0 {
        let path = path.child("observedGeneration");
        errors.invalid(&path, &object["observedGeneration"], "must be a non-negative integer");
    }
}

fn conditions(errors: &mut ErrorList, status: &Value) {
    each(&STATUS, status, "conditions", |path, condition| {
        generation(errors, path, condition);
        let kind = text(&condition["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            grammar(errors, &path.child("Type"), kind, name::qualified_name(kind));
        }
    });
}

fn nominated(errors: &mut ErrorList, new: &Value, old: &Value) {
    let path = STATUS.child("nominatedNodeName");
    let now = text(&new["status"]["nominatedNodeName"]);
    if now.is_empty() || now == text(&old["status"]["nominatedNodeName"]) {
        return;
    }
    grammar(errors, &path, now, name::dns1123_subdomain(now));
    if !text(&old["spec"]["nodeName"]).is_empty() {
        errors.forbidden(&path, "may not be set on pods that are already bound to a node");
    }
}

/// Checks that terminated containers do not run again, unless a restart policy allows it.
fn transitions(errors: &mut ErrorList, status: &Value, stored: &Value, spec: &Value) {
    let lists = [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")];
    if !restarts_all(spec) {
        for (statuses, containers) in lists {
            let by_name = first_by_name(&spec[containers]);
            ended(errors, &STATUS.child(statuses), (&status[statuses], &stored[statuses]), |own, code| {
                by_name.get(own).is_some_and(|container| starts_again(container, spec, code))
            });
        }
    }
    let ephemeral = "ephemeralContainerStatuses";
    let both = (&status[ephemeral], &stored[ephemeral]);
    ended(errors, &STATUS.child(ephemeral), both, |_, _| false);
}

fn ended(
    errors: &mut ErrorList,
    path: &Path<'_>,
    (now, before): (&Value, &Value),
    may_start: impl Fn(&str, i64) -> bool,
) {
    let by_name = first_by_name(now);
    for (i, old) in list(before).iter().enumerate() {
        let ended = &old["state"]["terminated"];
        let Some(new) = by_name.get(text(&old["name"])) else { continue };
        let lives = !ended.is_null() && new["state"]["terminated"].is_null();
        if lives && !may_start(text(&old["name"]), int(&ended["exitCode"])) {
            let path = path.index(i);
            errors.forbidden(&path.child("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// The first item of each name.
fn first_by_name(items: &Value) -> BTreeMap<&str, &Value> {
    // Reversed, so that the first item of a name overwrites later ones.
    list(items).iter().rev().map(|item| (text(&item["name"]), item)).collect()
}

/// Whether a restart rule restarts all containers of the pod.
fn restarts_all(spec: &Value) -> bool {
    let all = list(&spec["containers"]).iter().chain(list(&spec["initContainers"]));
    let mut rules = all.flat_map(|container| list(&container["restartPolicyRules"]));
    rules.any(|rule| rule["action"] == "RestartAllContainers")
}

fn starts_again(container: &Value, spec: &Value, code: i64) -> bool {
    let own = &container["restartPolicy"];
    if !own.is_null() && list(&container["restartPolicyRules"]).iter().any(|rule| is_met(rule, code)) {
        return true;
    }
    match text(if own.is_null() { &spec["restartPolicy"] } else { own }) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

fn is_met(rule: &Value, code: i64) -> bool {
    let codes = &rule["exitCodes"];
    let named = list(&codes["values"]).iter().any(|value| *value == code);
    match text(&codes["operator"]) {
        "In" => named,
        "NotIn" => !named,
        _ => false,
    }
}

/// Checks that claim statuses name entries of the spec.
fn claims(errors: &mut ErrorList, status: &Value, spec: &Value) {
    let path = STATUS.child("resourceClaimStatuses");
    let statuses = list(&status["resourceClaimStatuses"]);
    let entries = Distinct::of(list(&spec["resourceClaims"]).iter().map(|entry| &entry["name"]));
    let mut seen = Distinct::default();
    for (i, claim) in statuses.iter().enumerate() {
        let (path, own) = (path.index(i), text(&claim["name"]));
        if !entries.contains(&claim["name"]) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.child("name"), own, detail);
        }
        if !seen.insert(&claim["name"]) {
            errors.duplicate(&path.child("name"), own);
        }
        if let Some(made) = claim["resourceClaimName"].as_str() {
            grammar(errors, &path.child("resourceClaimName"), made, name::dns1123_subdomain(made));
        }
    }
}

/// Checks the claim for extended resources: its mappings name containers and resources that these request.
///
/// Follows `validatePodExtendedResourceClaimStatus`.
fn extended_claim(errors: &mut ErrorList, claim: &Value, spec: &Value) {
    if claim.is_null() {
        return;
    }
    let path = STATUS.child("extendedResourceClaimStatus");
    let all = list(&spec["initContainers"]).iter().chain(list(&spec["containers"]));
    let containers: BTreeMap<&str, &Value> =
        all.map(|container| (text(&container["name"]), container)).collect();
    let (mappings, at) = (list(&claim["requestMappings"]), path.child("requestMappings"));
    if mappings.is_empty() {
        errors.required(&at, "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for (i, mapping) in mappings.iter().enumerate() {
        let at = at.index(i);
        let names = ["containerName", "resourceName", "requestName"];
        let [container, resource, request] = names.map(|member| text(&mapping[member]));
        match containers.get(container).map(|found| &found["resources"]["requests"][resource]) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&at.child("containerName"), container, why);
            }
            Some(Value::Null) => {
                let why = "must match the extended resource name of an entry in \
                    spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&at.child("resourceName"), resource, why);
            }
            Some(_) => {}
        }
        // Kubernetes names the member of the claim's status here, not of the mapping.
        grammar(errors, &path.child("requestName"), request, name::dns1123_label(request));
        if !seen.insert((container, resource, request)) {
            names.into_iter().for_each(|member| errors.duplicate(&at.child(member), text(&mapping[member])));
        }
    }
    let (at, own) = (path.child("resourceClaimName"), text(&claim["resourceClaimName"]));
    match own {
        "" => errors.required(&at, ""),
        own => grammar(errors, &at, own, name::dns1123_subdomain(own)),
    }
}

/// Checks addresses: new ones are well-formed, and there is at most one of each family.
fn addresses(errors: &mut ErrorList, member: &str, status: &Value, stored: &Value) {
    let (path, all) = (STATUS.child(member), list(&status[member]));
    let before = Distinct::of(list(&stored[member]).iter().map(|address| &address["ip"]));
    for (i, address) in all.iter().enumerate() {
        let ip = text(&address["ip"]);
        if !before.contains(&address["ip"]) {
            grammar(errors, &path.index(i), ip, name::ip(ip));
        }
    }
    let six = all.iter().filter(|address| text(&address["ip"]).contains(':')).count();
    if all.len() > 1 && (all.len() != 2 || six != 1) {
        errors.invalid(&path, all, "may specify no more than one IP for each IP family");
    }
}

fn host_addresses(errors: &mut ErrorList, status: &Value, stored: &Value) {
    let Some(first) = list(&status["hostIPs"]).first() else { return };
    if text(&first["ip"]) != text(&status["hostIP"]) {
        let path = STATUS.child("hostIPs").index(0).child("ip").to_string();
        errors.invalid(&Path::new(&path), &first["ip"], "must be equal to `hostIP`");
    }
    addresses(errors, "hostIPs", status, stored);
}

const LISTS: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// Checks numeric users, which only Linux pods have.
fn users(errors: &mut ErrorList, status: &Value, spec: &Value) {
    for member in LISTS {
        each(&STATUS, status, member, |path, container| {
            let (path, linux) = (path.child("linux"), &container["user"]["linux"]);
            if linux.is_null() {
                return;
            }
            if spec["os"]["name"] == "windows" {
                errors.forbidden(&path, "cannot be set for a windows pod");
                return;
            }
            for member in ["uid", "gid"] {
                for fault in name::numeric_id(int(&linux[member])) {
                    errors.invalid(&path.child(member), &linux[member], fault);
                }
            }
            each(&path, linux, "supplementalGroups", |path, group| {
                for fault in name::numeric_id(int(group)) {
                    errors.invalid(path, group, fault);
                }
            });
        });
    }
}

fn ephemeral_amounts(errors: &mut ErrorList, status: &Value) {
    each(&STATUS, status, "ephemeralContainerStatuses", |path, container| {
        if !container["allocatedResourcesStatus"].is_null() {
            let detail = "must not be specified in container status";
            errors.forbidden(&path.child("allocatedResourcesStatus"), detail);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_claim_for_extended_resources_names_containers_and_what_they_request() {
        let requests = json!({"example.com/gpu": "1"});
        let container = |name: &str| json!({"name": name, "resources": {"requests": requests}});
        let spec = json!({"initContainers": [container("i")], "containers": [container("c"), {"name": "d"}]});
        let mapping = |container: &str, resource: &str, request: &str| json!({"containerName": container, "resourceName": resource, "requestName": request});
        let good = mapping("c", "example.com/gpu", "container-1-request-0");
        let cases = [
            (
                json!({"resourceClaimName": "x", "requestMappings": [good, mapping("i", "example.com/gpu", "r")]}),
                vec![],
            ),
            (Value::Null, vec![]),
            (
                json!({"resourceClaimName": "X_", "requestMappings": []}),
                vec![
                    "requestMappings: Required value: at least one request mapping is required",
                    "resourceClaimName: Invalid value: \"X_\": a lowercase RFC 1123 subdomain",
                ],
            ),
            (
                json!({"resourceClaimName": "", "requestMappings": [
                    good, good, mapping("e", "example.com/gpu", "r"), mapping("d", "example.com/gpu", "r"), mapping("c", "example.com/gpu", "R"),
                ]}),
                vec![
                    "requestMappings[1].containerName: Duplicate value: \"c\"",
                    "requestMappings[1].resourceName: Duplicate value: \"example.com/gpu\"",
                    "requestMappings[1].requestName: Duplicate value: \"container-1-request-0\"",
                    "requestMappings[2].containerName: Invalid value: \"e\": must match the name of an entry in \
                     spec.initContainers.name or spec.containers.name",
                    "requestMappings[3].resourceName: Invalid value: \"example.com/gpu\": must match the extended resource name of an \
                     entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
                    "requestName: Invalid value: \"R\": a lowercase RFC 1123 label",
                    "resourceClaimName: Required value",
                ],
            ),
        ];
        for (claim, expected) in cases {
            let mut errors = ErrorList::new();
            extended_claim(&mut errors, &claim, &spec);
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                let expected = format!("status.extendedResourceClaimStatus.{expected}");
                assert!(found.starts_with(&expected), "{found} {expected}");
            }
        }
    }
}
