//! The claim for the extended resources of a pod: its requests for devices, and which of them serves each container. Pure.
//!
//! # The rule
//!
//! Each container that runs as long as the pod has a request of its own for each resource. An init container that is no sidecar uses the
//! requests of the containers after it, as it ends before they start. If those are too few, it needs a request for the rest; of all such
//! requests for a resource the pod gets the largest, which these containers share.

use super::claim::{Alternative, Claim, Count, FINALIZER, OF_RESOURCES, Request};
use super::class::Class;
use crate::pod::{ContainerRequests, PodInfo};
use crate::storage::Record;
use kstore_api::meta::generated_name;
use kstore_informer::{Key, Revision};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The name of a claim that is not created yet. It is not valid, so that no other claim has it.
const UNNAMED: &str = "<extended-resources>";

/// Which request of the claim serves a resource of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMapping {
    /// The name of the container.
    pub container: String,
    /// The name of the resource.
    pub resource: Arc<str>,
    /// The name of the request.
    pub request: String,
}

/// The claim that a pod needs on a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ResourcesClaim {
    /// The claim, which has no name yet.
    pub(crate) claim: Record<Claim>,
    /// Which request serves each resource of each container.
    pub(crate) mappings: Vec<RequestMapping>,
}

/// A request of the claim for devices of one class.
struct DeviceRequest {
    name: String,
    count: i64,
}

impl ResourcesClaim {
    /// The claim of `pod` for these resources, each of which devices of a class satisfy.
    pub(crate) fn of<'r>(
        pod: &PodInfo,
        resources: impl Iterator<Item = (&'r Arc<str>, &'r Record<Class>)>,
    ) -> Self {
        let containers = pod.device_requests.as_deref().unwrap_or_default();
        let (mut requests, mut mappings) = (BTreeMap::new(), Vec::new());
        for (resource, class) in resources {
            let (found, mapped) = of_resource(containers, resource);
            requests
                .extend(found.into_iter().map(|request| (request.name, (class.key.name(), request.count))));
            mappings.extend(mapped);
        }
        let requests = requests.into_iter().map(|(name, (class, count))| request(name, class, count));
        let claim = Claim {
            controller: Some(pod.uid.to_string()),
            is_of_resources: true,
            has_finalizer: true,
            requests: requests.collect(),
            ..Claim::default()
        };
        let key = Key::new(pod.key.namespace(), UNNAMED);
        Self { claim: Record { key, uid: String::new(), revision: Revision(0), fields: claim }, mappings }
    }

    /// Gives the claim a name that ends with `suffix`.
    pub(crate) fn named(mut self, pod: &PodInfo, suffix: &str) -> Self {
        self.claim.key = Key::new(pod.key.namespace(), &generated_name(&base_name(pod), suffix));
        self
    }
}

/// The base of the names of claims for the extended resources of a pod.
pub(crate) fn base_name(pod: &PodInfo) -> String {
    format!("{}-extended-resources-", pod.key.name())
}

/// The claim as the API gets it for its creation.
pub(crate) fn manifest(pod: &PodInfo, claim: &Record<Claim>) -> Value {
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": pod.key.name(), "uid": &*pod.uid, "controller": true });
    let request = |request: &Request| {
        let exactly = request.alternatives.first().map(|exactly| match exactly.count {
            Count::Exact(count) => {
                json!({ "deviceClassName": exactly.class, "allocationMode": "ExactCount", "count": count })
            }
            Count::All => json!({ "deviceClassName": exactly.class, "allocationMode": "All" }),
        });
        json!({ "name": request.name, "exactly": exactly })
    };
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": pod.key.namespace(), "name": claim.key.name(), "generateName": base_name(pod),
            "annotations": { OF_RESOURCES: "true" }, "ownerReferences": [owner], "finalizers": [FINALIZER],
        },
        "spec": { "devices": { "requests": claim.requests.iter().map(request).collect::<Vec<_>>() } },
    })
}

/// What the status of the pod says about the claim.
pub(crate) fn pod_status(claim: &str, mappings: &[RequestMapping]) -> Value {
    let mapping = |one: &RequestMapping| json!({ "containerName": one.container, "resourceName": &*one.resource, "requestName": one.request });
    let mappings: Vec<Value> = mappings.iter().map(mapping).collect();
    json!({ "extendedResourceClaimStatus": { "resourceClaimName": claim, "requestMappings": mappings } })
}

fn request(name: String, class: &str, count: i64) -> Request {
    let alternative = Alternative {
        subrequest: None,
        class: class.to_owned(),
        selectors: Vec::new(),
        count: Count::Exact(usize::try_from(count).unwrap_or(usize::MAX)),
        admin_access: None,
        tolerations: Vec::new(),
        tolerations_json: Value::Array(Vec::new()),
        capacity: BTreeMap::new(),
    };
    Request { name, alternatives: vec![alternative] }
}

/// The requests and the mappings for one resource.
fn of_resource(
    containers: &[ContainerRequests],
    resource: &Arc<str>,
) -> (Vec<DeviceRequest>, Vec<RequestMapping>) {
    let wanting = containers.iter().filter_map(|container| {
        let wanted = container.resources.iter().find(|wanted| wanted.resource == *resource)?;
        let name = format!("container-{}-request-{}", container.index, wanted.index);
        Some((container, DeviceRequest { name, count: wanted.count }))
    });
    let (short, long): (Vec<_>, Vec<_>) = wanting.partition(|(container, _)| container.is_short_lived);
    let mapping = |container: &ContainerRequests, request: &str| RequestMapping {
        container: container.name.clone(),
        resource: Arc::clone(resource),
        request: request.to_owned(),
    };
    let mut mappings: Vec<RequestMapping> =
        long.iter().map(|(container, own)| mapping(container, &own.name)).collect();
    let mut shared: Option<DeviceRequest> = None;
    let (mut of_short, mut rest_names) = (Vec::new(), BTreeSet::new());
    for (container, own) in short {
        let mut missing = own.count;
        for (_, later) in long.iter().filter(|(later, _)| later.index > container.index) {
            if missing > 0 {
                missing = missing.saturating_sub(later.count);
                of_short.push(mapping(container, &later.name));
            }
        }
        if missing > 0 {
            of_short.push(mapping(container, &own.name));
            rest_names.insert(own.name.clone());
            if shared.as_ref().is_none_or(|largest| largest.count < missing) {
                shared = Some(DeviceRequest { count: missing, ..own });
            }
        }
    }
    if let Some(shared) = &shared {
        let of_rest = of_short.iter_mut().filter(|mapping| rest_names.contains(&mapping.request));
        of_rest.for_each(|mapping| mapping.request.clone_from(&shared.name));
    }
    mappings.extend(of_short);
    (shared.into_iter().chain(long.into_iter().map(|(_, own)| own)).collect(), mappings)
}

#[cfg(test)]
mod tests;
