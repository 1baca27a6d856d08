//! Partial decoding of numerous objects: only the fields that plans read. These types cannot be written back:
//! writes to such objects are patches and deletes.

use crate::action::Target;
use crate::resource::PODS;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Affinity, PodCondition, PodReadinessGate, PodResourceClaim, PodResourceClaimStatus, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_informer::{Key, Object, Reference, Revision};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Metadata fields that plans read.
pub(crate) type Meta =
    ProjectedMeta<BTreeMap<String, String>, BTreeMap<String, String>, Vec<OwnerReference>, Time>;

/// Fields of a pod that controllers read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
    /// Cached namespace and name, because caches request them often.
    #[serde(skip)]
    pub key: Option<Key>,
}

/// Fields of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub node_name: String,
    pub hostname: String,
    pub subdomain: String,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub readiness_gates: Vec<PodReadinessGate>,
    pub resource_claims: Vec<PodResourceClaim>,
    /// The volumes with a claim, existing or ephemeral.
    #[serde(rename = "volumes", deserialize_with = "claim_volumes")]
    pub claim_volumes: Vec<ClaimVolume>,
    /// The node in the required node affinity, for which a DaemonSet created the pod; empty without one.
    #[serde(rename = "affinity", deserialize_with = "affine_node")]
    pub affine_node: String,
    /// The PodGroup that the pod names; empty without one.
    #[serde(rename = "schedulingGroup", deserialize_with = "pod_group")]
    pub pod_group: String,
}

/// A volume with a claim, existing or ephemeral.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClaimVolume {
    /// Name of the volume.
    pub name: String,
    /// Name of the claim. For an ephemeral volume, [`decode_pod`] derives it from the pod's name.
    pub claim_name: String,
    /// Whether the claim is created for the pod from a template.
    pub is_ephemeral: bool,
}

/// Decodes volumes and keeps those with claims.
fn claim_volumes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ClaimVolume>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Volume {
        name: String,
        persistent_volume_claim: Option<Source>,
        ephemeral: Option<IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Source {
        claim_name: String,
    }
    let volumes = Vec::<Volume>::deserialize(from)?;
    let claim = |volume: Volume| {
        let (is_ephemeral, source) = (volume.ephemeral.is_some(), volume.persistent_volume_claim);
        if source.is_none() && !is_ephemeral {
            return None;
        }
        let claim_name = source.map(|source| source.claim_name).unwrap_or_default();
        Some(ClaimVolume { name: volume.name, claim_name, is_ephemeral })
    };
    Ok(volumes.into_iter().filter_map(claim).collect())
}

/// Decodes an affinity and returns the node that its only required term names by the field `metadata.name`.
fn affine_node<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let affinity = Affinity::deserialize(from)?;
    let required = affinity.node_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    let fields = required
        .into_iter()
        .flat_map(|r| r.node_selector_terms)
        .flat_map(|t| t.match_fields.unwrap_or_default());
    let names = fields.filter(|f| f.key == "metadata.name" && f.operator == "In").filter_map(|f| f.values);
    let name = names.filter(|values| values.len() == 1).flatten().next();
    Ok(name.unwrap_or_default())
}

/// Decodes a scheduling group and returns its PodGroup.
fn pod_group<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct SchedulingGroup {
        pod_group_name: String,
    }
    Ok(SchedulingGroup::deserialize(from)?.pod_group_name)
}

/// Ports of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub ports: Vec<ContainerPort>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub name: String,
    pub container_port: i32,
    pub protocol: String,
}

/// Fields of a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub phase: Phase,
    pub conditions: Vec<PodCondition>,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<Ip>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    pub extended_resource_claim_status: Option<ExtendedResourceClaim>,
}

/// The claim for the extended resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExtendedResourceClaim {
    pub resource_claim_name: String,
}

/// An IP address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Ip {
    pub ip: String,
}

/// Restarts and termination of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub restart_count: i32,
    pub name: String,
    pub state: ContainerState,
}

/// Termination state of a container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub terminated: Option<Terminated>,
}

/// Exit code and time of a terminated container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub exit_code: i32,
    pub finished_at: Option<Time>,
}

/// Phase of a pod. A missing phase counts as Pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Phase {
    /// Not all containers are running yet.
    #[default]
    Pending,
    /// All containers were started.
    Running,
    /// All containers succeeded.
    Succeeded,
    /// All containers ended, at least one with a failure.
    Failed,
    /// The node is unreachable, or the phase is unknown.
    #[serde(other)]
    Unknown,
}

impl Phase {
    /// Whether the pod will never run again.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Pod {
    /// Whether the pod counts towards a controller's replicas.
    pub(crate) fn active(&self) -> bool {
        !self.status.phase.is_terminal() && !self.metadata.is_deleting()
    }

    /// Whether the pod is being deleted and has not ended.
    pub(crate) fn terminating(&self) -> bool {
        !self.status.phase.is_terminal() && self.metadata.is_deleting()
    }

    /// The condition of this type.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Whether the Ready condition is true.
    pub(crate) fn ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// When the pod became ready, if it is.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|c| c.status == "True")?;
        ready.last_transition_time.as_ref().map(|t| t.0)
    }

    /// Time until the pod counts as available: zero if it does, `None` if it is not ready.
    pub(crate) fn available_in(&self, min_ready: i32, now: Timestamp) -> Option<Duration> {
        if !self.ready() {
            return None;
        }
        if min_ready <= 0 {
            return Some(Duration::ZERO);
        }
        let since = self.ready_since()?;
        let passed = now.duration_since(since).unsigned_abs();
        let passed = if since > now { Duration::ZERO } else { passed };
        Some(Duration::from_secs(min_ready.unsigned_abs().into()).saturating_sub(passed))
    }

    /// Reference to the pod by name and uid.
    pub(crate) fn target(&self) -> Target {
        Target {
            resource: PODS,
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            resource_version: None,
        }
    }

    /// The claim names of its volumes.
    pub(crate) fn claims(&self) -> impl Iterator<Item = String> {
        self.spec.claim_volumes.iter().map(|volume| volume.claim_name.clone())
    }

    /// Event reference to the pod.
    pub(crate) fn subject(&self) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            ..Reference::default()
        }
    }
}

/// Partial object with metadata and some spec fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Slim<S> {
    pub metadata: Meta,
    pub spec: S,
}

/// A node's Lease with its renew time.
pub(crate) type Lease = Slim<LeaseSpec>;

/// Renew time of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub renew_time: Option<MicroTime>,
}

/// An IPAddress object, named after its address, with its owner.
pub(crate) type Address = Slim<AddressSpec>;

/// Owner of an address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AddressSpec {
    pub parent_ref: Parent,
}

/// Reference to an object by resource and name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Parent {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// Partial workload with its replicas.
pub(crate) type Scaled = Slim<ScaledSpec>;

/// Desired number of pods.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ScaledSpec {
    pub replicas: Option<i32>,
}

/// Partial object with metadata only.
pub(crate) type Plain = Slim<NoSpec>;

/// Empty spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NoSpec {}

/// Decodes a pod.
pub(crate) fn decode_pod(json: &[u8]) -> Result<Pod, serde_json::Error> {
    let mut pod: Pod = lenient::from_slice(json)?;
    pod.key = Some(pod.metadata.key());
    for volume in pod.spec.claim_volumes.iter_mut().filter(|volume| volume.is_ephemeral) {
        volume.claim_name = format!("{}-{}", pod.metadata.name, volume.name);
    }
    Ok(pod)
}

/// Decodes any partial type.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    lenient::from_slice(json)
}

impl Object for Pod {
    fn key(&self) -> Key {
        self.key.clone().unwrap_or_else(|| self.metadata.key())
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.metadata.revision()
    }
}

impl<S: Send + Sync + 'static> Object for Slim<S> {
    fn key(&self) -> Key {
        self.metadata.key()
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.metadata.revision()
    }
}

/// Event reference to an object.
pub(crate) fn subject(api_version: &str, kind: &str, meta: &ObjectMeta) -> Reference {
    Reference {
        api_version: api_version.into(),
        kind: kind.into(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        ..Reference::default()
    }
}

/// `now` in the precision of `metav1.Time`.
pub(crate) fn seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Time from `since` to `now`; zero if `since` is in the future.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    if since >= now { Duration::ZERO } else { now.duration_since(since).unsigned_abs() }
}
