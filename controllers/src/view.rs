//! Slim views of objects that are watched in great numbers: only what plans read is decoded. Not for writing back: writes
//! to these objects are patches and deletes.

use crate::action::Target;
use crate::resource::PODS;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Affinity, PodCondition, PodReadinessGate, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kstore_api::lenient;
use kstore_informer::{Key, Object, Reference, Revision};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The metadata that plans read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub creation_timestamp: Option<Time>,
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
}

/// A pod as controllers see it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
    /// Namespace and name, kept because caches ask for it often.
    #[serde(skip)]
    pub key: Option<Key>,
}

/// The part of a pod's spec that controllers read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub node_name: String,
    pub hostname: String,
    pub subdomain: String,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub readiness_gates: Vec<PodReadinessGate>,
    /// The volumes that are claims.
    #[serde(rename = "volumes", deserialize_with = "claim_volumes")]
    pub claim_volumes: Vec<ClaimVolume>,
    /// The node that the required node affinity names, for which a DaemonSet made the pod; empty if it names none.
    #[serde(rename = "affinity", deserialize_with = "affine_node")]
    pub affine_node: String,
}

/// A volume that is a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClaimVolume {
    /// The name of the volume.
    pub name: String,
    /// The name of the claim.
    pub claim_name: String,
    /// Whether the claim is made for this volume of this pod.
    pub is_ephemeral: bool,
}

/// Reads volumes and keeps those that are claims.
fn claim_volumes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ClaimVolume>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Volume {
        name: String,
        persistent_volume_claim: Option<Source>,
        ephemeral: Option<serde::de::IgnoredAny>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Source {
        claim_name: String,
    }
    let volumes = Vec::<Volume>::deserialize(from)?;
    let claim = |v: Volume| match (v.persistent_volume_claim, v.ephemeral) {
        (Some(Source { claim_name }), _) => {
            Some(ClaimVolume { name: v.name, claim_name, is_ephemeral: false })
        }
        // The claim's name begins with that of the pod, which is not known here.
        (None, Some(_)) => Some(ClaimVolume { name: v.name, claim_name: String::new(), is_ephemeral: true }),
        (None, None) => None,
    };
    Ok(volumes.into_iter().filter_map(claim).collect())
}

/// Reads an affinity and keeps the one node that the only required term names by its field `metadata.name`.
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

/// The ports of a container.
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

/// The part of a pod's status that controllers read.
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
}

/// One address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Ip {
    pub ip: String,
}

/// How often a container was restarted, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub restart_count: i32,
    pub name: String,
    pub state: ContainerState,
}

/// The state of a container, as far as it has ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub terminated: Option<Terminated>,
}

/// How and when a container ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub exit_code: i32,
    pub finished_at: Option<Time>,
}

/// A pod's phase. A missing one counts as Pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Phase {
    /// Not all containers run yet.
    #[default]
    Pending,
    /// All containers were started.
    Running,
    /// All ended well.
    Succeeded,
    /// All ended, some badly.
    Failed,
    /// Its node does not answer.
    #[serde(other)]
    Unknown,
}

impl Phase {
    /// It will never run again.
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Meta {
    /// Deletion was asked for.
    pub(crate) fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

impl Pod {
    /// Counts towards a controller's replicas.
    pub(crate) fn active(&self) -> bool {
        !self.status.phase.is_terminal() && !self.metadata.deleting()
    }

    /// On its way out, but not ended yet.
    pub(crate) fn terminating(&self) -> bool {
        !self.status.phase.is_terminal() && self.metadata.deleting()
    }

    /// A condition by its type.
    pub(crate) fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Its Ready condition is true.
    pub(crate) fn ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// Since when it has been ready.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|c| c.status == "True")?;
        ready.last_transition_time.as_ref().map(|t| t.0)
    }

    /// How long until it counts as available: zero when it does, `None` when it is not ready.
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

    /// The pod by name and uid.
    pub(crate) fn target(&self) -> Target {
        Target {
            resource: PODS,
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            uid: self.metadata.uid.clone(),
            resource_version: None,
        }
    }

    /// The claims that its volumes name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = String> {
        self.spec.claim_volumes.iter().map(|volume| volume.claim_name.clone())
    }

    /// Whether claims are made for volumes of the pod.
    pub(crate) fn has_ephemeral_volumes(&self) -> bool {
        self.spec.claim_volumes.iter().any(|volume| volume.is_ephemeral)
    }

    /// The claims that are made for volumes of the pod.
    pub(crate) fn ephemeral_claims(&self) -> impl Iterator<Item = &str> {
        let ephemeral = self.spec.claim_volumes.iter().filter(|volume| volume.is_ephemeral);
        ephemeral.map(|volume| volume.claim_name.as_str())
    }

    /// The pod as the object of an event.
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

/// An object of which only the metadata and some of the spec count.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Slim<S> {
    pub metadata: Meta,
    pub spec: S,
}

/// A node's lease, of which only the signal counts.
pub(crate) type Lease = Slim<LeaseSpec>;

/// When a lease was renewed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaseSpec {
    pub renew_time: Option<MicroTime>,
}

/// The record that an address is taken, and by whom. It is called after the address.
pub(crate) type Address = Slim<AddressSpec>;

/// Whose an address is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AddressSpec {
    pub parent_ref: Parent,
}

/// An object by its resource and name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Parent {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// An object that wants a number of pods.
pub(crate) type Scaled = Slim<ScaledSpec>;

/// How many pods are wanted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct ScaledSpec {
    pub replicas: Option<i32>,
}

/// An object of which only the metadata counts.
pub(crate) type Plain = Slim<NoSpec>;

/// Nothing of a spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NoSpec {}

/// Reads a pod.
pub(crate) fn decode_pod(json: &[u8]) -> Result<Pod, serde_json::Error> {
    let mut pod: Pod = lenient::from_slice(json)?;
    pod.key = Some(Key::new(&pod.metadata.namespace, &pod.metadata.name));
    for volume in pod.spec.claim_volumes.iter_mut().filter(|volume| volume.is_ephemeral) {
        volume.claim_name = format!("{}-{}", pod.metadata.name, volume.name);
    }
    Ok(pod)
}

/// Reads any slim view.
pub(crate) fn decode<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    lenient::from_slice(json)
}

impl Meta {
    fn revision(&self) -> Revision {
        Revision(self.resource_version.parse().unwrap_or(0))
    }
}

impl Object for Pod {
    fn key(&self) -> Key {
        self.key.clone().unwrap_or_else(|| Key::new(&self.metadata.namespace, &self.metadata.name))
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
        Key::new(&self.metadata.namespace, &self.metadata.name)
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.metadata.revision()
    }
}

/// The object as the subject of an event.
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

/// Time from `since` to `now`; zero if `since` lies ahead.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    if since >= now { Duration::ZERO } else { now.duration_since(since).unsigned_abs() }
}
