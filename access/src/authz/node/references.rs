//! [`NodePods`]: the objects to which the pods of each node refer. For a request, only the pods of its node
//! that have changed since the last one are decoded.

use crate::persistent_index::delimited;
use crate::pod_references::{self, items};
use kstore_registry::cache::Objects;
use kstore_registry::entry::Entry;
use kstore_registry::lookup::Lookup;
use kstore_registry::persistent_map::Identity;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Annotation of mirror pods, which a node creates itself: their references grant nothing.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Fewest nodes after which those without pods are removed.
const SWEEP: usize = 64;

/// The kinds to which pods refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Referenced {
    Secret,
    ConfigMap,
    Claim,
    ResourceClaim,
    ServiceAccount,
}

impl Referenced {
    /// The text that identifies a referenced object.
    fn key(self, namespace: &str, name: &str) -> String {
        let kind = match self {
            Self::Secret => 's',
            Self::ConfigMap => 'c',
            Self::Claim => 'v',
            Self::ResourceClaim => 'r',
            Self::ServiceAccount => 'a',
        };
        format!("{kind}{}{name}", delimited(namespace))
    }
}

/// The references of the pods of all nodes that have sent requests.
#[derive(Debug, Default)]
pub(super) struct NodePods(Mutex<Nodes>);

#[derive(Debug, Default)]
struct Nodes {
    references: BTreeMap<Box<str>, Arc<Mutex<NodeReferences>>>,
    /// Number of nodes at which those without pods are removed next.
    sweep_at: usize,
}

impl NodePods {
    /// Whether a pod of the node refers to an object, in the newest durable state.
    pub(super) fn refer(
        &self,
        cluster: &dyn Lookup,
        node: &str,
        to: Referenced,
        (namespace, name): (&str, &str),
    ) -> bool {
        let references = self.0.lock().of(cluster, node);
        let mut references = references.lock();
        // Read with the lock, so that an older state never replaces a newer one.
        references.follow(&cluster.pods_of_node(node));
        references.counts.contains_key(to.key(namespace, name).as_str())
    }
}

#[cfg(test)]
impl NodePods {
    /// How many states of pods have been decoded for a node.
    pub(super) fn decoded(&self, node: &str) -> usize {
        self.0.lock().references[node].lock().decoded
    }

    /// The number of known nodes.
    pub(super) fn len(&self) -> usize {
        self.0.lock().references.len()
    }
}

impl Nodes {
    fn of(&mut self, cluster: &dyn Lookup, node: &str) -> Arc<Mutex<NodeReferences>> {
        if let Some(known) = self.references.get(node) {
            return known.clone();
        }
        if self.references.len() >= self.sweep_at.max(SWEEP) {
            self.references.retain(|node, _| !cluster.pods_of_node(node).is_empty());
            self.sweep_at = 2 * self.references.len();
        }
        self.references.entry(node.into()).or_default().clone()
    }
}

/// The references of the pods of one node.
#[derive(Debug, Default)]
struct NodeReferences {
    /// The pods that the rest was made from.
    seen: Option<Identity<Entry>>,
    /// Pods in key order.
    pods: Vec<PodReferences>,
    /// The number of pods that refer to an object, by [`Referenced::key`].
    counts: BTreeMap<Box<str>, usize>,
    /// How many states of pods have been decoded.
    #[cfg(test)]
    decoded: usize,
}

/// The references of one state of a pod.
#[derive(Debug)]
struct PodReferences {
    key: Box<str>,
    /// The state. The weak reference keeps the allocation, so that no newer state can be at its address.
    state: Weak<Entry>,
    references: Vec<Box<str>>,
}

impl PodReferences {
    fn of(entry: &Arc<Entry>) -> Self {
        let mut references: Vec<Box<str>> =
            references(&entry.parse_without_managed_fields()).map(Into::into).collect();
        references.sort();
        references.dedup();
        Self { key: entry.key().into(), state: Arc::downgrade(entry), references }
    }

    fn is_of(&self, entry: &Arc<Entry>) -> bool {
        std::ptr::eq(self.state.as_ptr(), Arc::as_ptr(entry))
    }
}

impl NodeReferences {
    /// Brings the references up to date with the node's current pods. Decodes only changed pods.
    fn follow(&mut self, pods: &Objects) {
        if self.seen.as_ref().is_some_and(|seen| seen.is_of(pods)) {
            return;
        }
        // Taken as a whole: a panic leaves no references instead of outdated ones.
        let mut next = std::mem::take(self);
        let mut known = std::mem::take(&mut next.pods).into_iter().peekable();
        for entry in pods.from("") {
            // A pod with a smaller key is gone; one with this key and another state has changed.
            while let Some(old) = known.next_if(|pod| *pod.key <= *entry.key() && !pod.is_of(entry)) {
                next.remove(&old);
            }
            match known.next_if(|pod| pod.is_of(entry)) {
                Some(same) => next.pods.push(same),
                None => next.add(PodReferences::of(entry)),
            }
        }
        known.for_each(|gone| next.remove(&gone));
        next.seen = Some(pods.identity());
        *self = next;
    }

    fn add(&mut self, pod: PodReferences) {
        #[cfg(test)]
        {
            self.decoded += 1;
        }
        for reference in &pod.references {
            *self.counts.entry(reference.clone()).or_default() += 1;
        }
        self.pods.push(pod);
    }

    fn remove(&mut self, pod: &PodReferences) {
        for reference in &pod.references {
            if let Some(count) = self.counts.get_mut(reference) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(reference);
                }
            }
        }
    }
}

/// The keys of all objects to which a pod refers; none for mirror pods.
fn references(pod: &Value) -> impl Iterator<Item = String> + '_ {
    let is_mirror = !pod["metadata"]["annotations"][MIRROR].is_null();
    let pod = (!is_mirror).then_some(pod);
    pod.into_iter().flat_map(|pod| {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let key = move |to: Referenced| move |name: &str| to.key(namespace, name);
        let resource_claims = items(&spec["resourceClaims"])
            .chain(items(&status["resourceClaimStatuses"]))
            .chain([&status["extendedResourceClaimStatus"]])
            .filter_map(|claim| claim["resourceClaimName"].as_str());
        let claims = claims_of(pod).map(move |claim| Referenced::Claim.key(namespace, &claim));
        pod_references::secrets(spec)
            .map(key(Referenced::Secret))
            .chain(pod_references::config_maps(spec).map(key(Referenced::ConfigMap)))
            .chain(resource_claims.map(key(Referenced::ResourceClaim)))
            .chain(spec["serviceAccountName"].as_str().map(key(Referenced::ServiceAccount)))
            .chain(claims)
    })
}

/// The names of a pod's claims, including those of ephemeral volumes.
fn claims_of(pod: &Value) -> impl Iterator<Item = String> + '_ {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    items(&pod["spec"]["volumes"]).filter_map(move |volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        let ephemeral = volume["ephemeral"]
            .is_object()
            .then(|| format!("{name}-{}", volume["name"].as_str().unwrap_or_default()));
        claim.or(ephemeral)
    })
}
