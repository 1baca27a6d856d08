//! Caches that several controllers read, with their indexes.

use super::selected::label_hash;
use super::{Sources, Watched};
use crate::claim::{ControlledObject, controller_of};
use crate::device_claims;
use crate::resource::{PODS, resource_of};
use crate::set_kind::decode_replication_controller;
use crate::view::{self, Address, Pod};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::api::networking::v1::IPAddress;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use kstore_client::{Obj, WatchParams};
use kstore_informer::{Builder, Index, Informer, Key};
use std::net::IpAddr;
use std::ops::Deref;

/// Index value under which possible controllers find an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LookupKey {
    /// The uid of the object's controller.
    Controller(String),
    /// Hash of the namespace and of one label, see [`label_hash`].
    Label(u64),
    /// The node that a pod is bound to.
    Node(String),
    /// A PersistentVolumeClaim that a pod uses, as `namespace/name`.
    VolumeClaim(String),
    /// A ResourceClaim that a pod uses, as `namespace/name`.
    ResourceClaim(String),
    /// The PodGroup that a pod names, as `namespace/name`.
    PodGroup(String),
}

impl LookupKey {
    /// Emits the values under which possible controllers of an object in this namespace find it: its
    /// controller and its labels.
    pub(crate) fn emit(object: &impl ControlledObject, namespace: &str, emit: &mut dyn FnMut(Self)) {
        if let Some(owner) = controller_of(object.owners()) {
            emit(Self::Controller(owner.uid.clone()));
        }
        for (name, value) in object.labels() {
            emit(Self::Label(label_hash(namespace, name, value)));
        }
    }
}

/// Cache of all pods.
#[derive(Clone)]
pub(crate) struct Pods {
    informer: Informer<Pod>,
    /// Index by controller, label, node, claims and PodGroup.
    pub by_lookup_key: Index<Pod, LookupKey>,
}

impl Watched for Pods {
    fn start(from: &Sources<'_>) -> Self {
        let by_lookup_key = Index::new(|pod: &Pod, emit: &mut dyn FnMut(LookupKey)| {
            let namespace = &*pod.metadata.namespace;
            LookupKey::emit(pod, namespace, emit);
            if !pod.spec.node_name.is_empty() {
                emit(LookupKey::Node(pod.spec.node_name.clone()));
            }
            for claim in pod.claims() {
                emit(LookupKey::VolumeClaim(Key::new(namespace, &claim).to_string()));
            }
            for claim in device_claims::used_by(pod) {
                emit(LookupKey::ResourceClaim(Key::new(namespace, claim).to_string()));
            }
            if !pod.spec.pod_group.is_empty() {
                emit(LookupKey::PodGroup(Key::new(namespace, &pod.spec.pod_group).to_string()));
            }
        });
        let source = from.multi.project::<core::Pod, _, _>(WatchParams::default(), view::decode_pod);
        Self {
            informer: from.start("pods", Some(PODS), Builder::new(source).index(&by_lookup_key)),
            by_lookup_key,
        }
    }
}

impl Deref for Pods {
    type Target = Informer<Pod>;
    fn deref(&self) -> &Informer<Pod> {
        &self.informer
    }
}

/// Cache of all ReplicaSets.
#[derive(Clone)]
pub(crate) struct ReplicaSets {
    informer: Informer<Obj<ReplicaSet>>,
    /// Index by controller and label.
    pub by_lookup_key: Index<Obj<ReplicaSet>, LookupKey>,
}

impl ReplicaSets {
    fn index() -> Index<Obj<ReplicaSet>, LookupKey> {
        Index::new(|set: &Obj<ReplicaSet>, emit: &mut dyn FnMut(LookupKey)| {
            LookupKey::emit(&**set, set.metadata.namespace.as_deref().unwrap_or_default(), emit);
        })
    }
}

impl Watched for ReplicaSets {
    fn start(from: &Sources<'_>) -> Self {
        let by_lookup_key = Self::index();
        let builder =
            Builder::new(from.multi.trimmed::<ReplicaSet>(WatchParams::default())).index(&by_lookup_key);
        Self {
            informer: from.start("replicasets", Some(resource_of::<ReplicaSet>()), builder),
            by_lookup_key,
        }
    }
}

/// Cache of all ReplicationControllers, converted to the equivalent ReplicaSets.
#[derive(Clone)]
pub(crate) struct ReplicationControllers(pub ReplicaSets);

impl Watched for ReplicationControllers {
    fn start(from: &Sources<'_>) -> Self {
        let (by_lookup_key, params) = (ReplicaSets::index(), WatchParams::default());
        let source = from.multi.project::<ReplicationController, _, _>(params, decode_replication_controller);
        let resource = resource_of::<ReplicationController>();
        let informer =
            from.start("replicationcontrollers", Some(resource), Builder::new(source).index(&by_lookup_key));
        Self(ReplicaSets { informer, by_lookup_key })
    }
}

impl Deref for ReplicaSets {
    type Target = Informer<Obj<ReplicaSet>>;
    fn deref(&self) -> &Informer<Obj<ReplicaSet>> {
        &self.informer
    }
}

/// A device, as slices and allocations name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceId {
    /// Driver that has the device.
    pub driver: String,
    /// Pool of the driver.
    pub pool: String,
    /// Name in the pool.
    pub device: String,
}

/// Cache of all ResourceClaims.
#[derive(Clone)]
pub(crate) struct ResourceClaims {
    informer: Informer<Obj<ResourceClaim>>,
    /// Index by the uid of the pod that a claim was created for.
    pub of_pod: Index<Obj<ResourceClaim>, String>,
    /// Index by allocated device.
    pub holding: Index<Obj<ResourceClaim>, DeviceId>,
}

/// The devices that are allocated for a claim.
pub(crate) fn allocated(claim: &ResourceClaim) -> &[DeviceRequestAllocationResult] {
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
    devices.and_then(|devices| devices.results.as_deref()).unwrap_or_default()
}

impl From<&DeviceRequestAllocationResult> for DeviceId {
    fn from(result: &DeviceRequestAllocationResult) -> Self {
        Self { driver: result.driver.clone(), pool: result.pool.clone(), device: result.device.clone() }
    }
}

impl Watched for ResourceClaims {
    fn start(from: &Sources<'_>) -> Self {
        let of_pod = Index::new(|claim: &Obj<ResourceClaim>, emit: &mut dyn FnMut(String)| {
            device_claims::owner(claim).into_iter().for_each(|owner| emit(owner.uid.clone()));
        });
        let holding = Index::new(|claim: &Obj<ResourceClaim>, emit: &mut dyn FnMut(DeviceId)| {
            allocated(claim).iter().for_each(|result| emit(result.into()));
        });
        let source = from.multi.trimmed::<ResourceClaim>(WatchParams::default());
        let builder = Builder::new(source).index(&of_pod).index(&holding);
        let resource = Some(resource_of::<ResourceClaim>());
        Self { informer: from.start("resourceclaims", resource, builder), of_pod, holding }
    }
}

impl Deref for ResourceClaims {
    type Target = Informer<Obj<ResourceClaim>>;
    fn deref(&self) -> &Informer<Obj<ResourceClaim>> {
        &self.informer
    }
}

/// Cache of all Services.
#[derive(Clone)]
pub(crate) struct Services {
    informer: Informer<Obj<Service>>,
    /// Index by cluster IP.
    pub at: Index<Obj<Service>, IpAddr>,
}

impl Watched for Services {
    fn start(from: &Sources<'_>) -> Self {
        let at = Index::new(|service: &Obj<Service>, emit: &mut dyn FnMut(IpAddr)| {
            crate::service_ips::addresses_of(service).for_each(emit);
        });
        let builder = Builder::new(from.multi.trimmed::<Service>(WatchParams::default())).index(&at);
        Self { informer: from.start("services", Some(resource_of::<Service>()), builder), at }
    }
}

impl Deref for Services {
    type Target = Informer<Obj<Service>>;
    fn deref(&self) -> &Informer<Obj<Service>> {
        &self.informer
    }
}

/// Cache of the IPAddress objects, which record allocated addresses.
impl Watched for Informer<Address> {
    fn start(from: &Sources<'_>) -> Self {
        let source = from.multi.project::<IPAddress, _, _>(WatchParams::default(), view::decode::<Address>);
        from.start("ipaddresses", Some(resource_of::<IPAddress>()), Builder::new(source))
    }
}
