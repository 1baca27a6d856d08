//! The claims that a pod needs. Pure.

use crate::action::{Action, PatchKind};
use crate::claim::controller_ref;
use crate::device_claims::{NamedClaim, is_for, named_claims, status};
use crate::object::Object;
use crate::view::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::collections::BTreeMap;

/// Annotation of a generated claim: the entry of the pod's spec that it is for.
const ENTRY: &str = "resource.kubernetes.io/pod-claim-name";
/// Longest base of a generated name, so that a hyphen and five random characters fit into a DNS label.
const BASE_MAX: usize = 57;

/// What the entries of a pod with a template lack.
#[derive(Debug, Default, PartialEq)]
pub(super) struct WantedClaims {
    /// Entries without a claim, with their templates.
    pub missing: Vec<(String, String)>,
    /// Entries whose claim exists, with its name, that the status does not name.
    pub names: BTreeMap<String, String>,
}

/// Whether no container of the pod runs, or ever will.
pub(super) fn is_done(pod: &Pod) -> bool {
    pod.status.phase.is_terminal() || (pod.metadata.is_deleting() && pod.spec.node_name.is_empty())
}

/// Whether the pod has claims, or needs some.
pub(super) fn has_claims(pod: &Pod) -> bool {
    !pod.spec.resource_claims.is_empty() || pod.status.extended_resource_claim_status.is_some()
}

/// Whether the controller has to provide or to reserve claims for the pod.
pub(super) fn wants_claims(pod: &Pod) -> bool {
    has_claims(pod) && !pod.metadata.is_deleting() && !is_done(pod)
}

/// Compares the entries of a pod with the existing claims: `find` finds a claim by name, and `owned` are the
/// claims that were created for the pod. A claim that the status names but that is gone, or belongs to another
/// pod, is missing. A claim whose name was not written into the status yet is found by its annotation.
pub(super) fn wanted(
    pod: &Pod,
    find: impl Fn(&str) -> Option<ResourceClaim>,
    owned: &[&ResourceClaim],
) -> WantedClaims {
    let mut wanted = WantedClaims::default();
    for entry in &pod.spec.resource_claims {
        let Some(template) = &entry.resource_claim_template_name else { continue };
        match status(pod, entry).map(|status| &status.resource_claim_name) {
            // The status says that no claim is needed.
            Some(None) => continue,
            Some(Some(name)) if find(name).is_some_and(|claim| is_for(&claim, pod)) => continue,
            _ => {}
        }
        let is_entry = |claim: &ResourceClaim| {
            claim.metadata.annotations.as_ref().and_then(|all| all.get(ENTRY)) == Some(&entry.name)
        };
        let existing = owned.iter().find(|claim| is_entry(claim));
        match existing.and_then(|claim| claim.metadata.name.clone()) {
            Some(name) => drop(wanted.names.insert(entry.name.clone(), name)),
            None => wanted.missing.push((entry.name.clone(), template.clone())),
        }
    }
    wanted
}

/// Creates the claim of an entry from its template.
pub(super) fn create(pod: &Pod, entry: &str, template: &ResourceClaimTemplate) -> Action {
    let said = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = said.annotations.unwrap_or_default();
    annotations.insert(ENTRY.to_owned(), entry.to_owned());
    let of = &pod.metadata;
    let owner =
        ObjectMeta { name: Some(of.name.clone()), uid: Some(of.uid.clone()), ..ObjectMeta::default() };
    let claim = ResourceClaim {
        metadata: ObjectMeta {
            generate_name: Some(base_name(&of.name, entry)),
            namespace: Some(of.namespace.clone()),
            labels: said.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_ref("v1", "Pod", &owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.spec.clone(),
        ..ResourceClaim::default()
    };
    Action::Create(Object::of(&claim))
}

/// The base of the name of a claim, `POD-ENTRY-`. Both parts are shortened in proportion to their lengths if the
/// base is too long, so that each stays recognizable.
fn base_name(pod: &str, entry: &str) -> String {
    let length = pod.len() + 1 + entry.len();
    if length <= BASE_MAX {
        return format!("{pod}-{entry}-");
    }
    let part = |text: &str| text[..text.len() * BASE_MAX / (length + 1)].to_owned();
    format!("{}-{}-", part(pod), part(entry))
}

/// The event about an entry for which no claim could be created.
pub(super) fn failed(pod: &Pod, entry: &str, why: &str) -> Action {
    let message = format!("PodResourceClaim {entry}: {why}");
    Action::warning(pod.subject(), "FailedResourceClaimCreation", message)
}

/// Writes the names of generated claims into the status of the pod; `None` if there are none.
pub(super) fn names(pod: &Pod, names: &BTreeMap<String, String>) -> Option<Action> {
    let entry = |(name, claim)| json!({ "name": name, "resourceClaimName": claim });
    let entries: Vec<_> = names.iter().map(entry).collect();
    let patch =
        json!({ "metadata": { "uid": pod.metadata.uid }, "status": { "resourceClaimStatuses": entries } });
    let kind = PatchKind::Strategic;
    (!entries.is_empty()).then(|| Action::Patch { target: pod.target(), status: true, kind, patch })
}

/// Reserves the allocated claims of a pod that is bound to a node. The scheduler does this before it binds; a
/// pod that a user bound still lacks it.
pub(super) fn reservations(pod: &Pod, find: impl Fn(&str) -> Option<ResourceClaim>) -> Vec<Action> {
    if pod.spec.node_name.is_empty() {
        return Vec::new();
    }
    let reserve = |mut claim: ResourceClaim| {
        let status = claim.status.as_mut().filter(|status| status.allocation.is_some())?;
        let reserved = status.reserved_for.get_or_insert_default();
        if reserved.iter().any(|consumer| consumer.uid == pod.metadata.uid) {
            return None;
        }
        reserved.push(ResourceClaimConsumerReference {
            api_group: None,
            name: pod.metadata.name.clone(),
            resource: "pods".to_owned(),
            uid: pod.metadata.uid.clone(),
        });
        Some(Action::UpdateStatus(Object::of(&claim)))
    };
    let usable = |named: NamedClaim<'_>| find(named.name).filter(|claim| named.is(claim, pod));
    named_claims(pod).filter_map(|named| reserve(usable(named)?)).collect()
}
