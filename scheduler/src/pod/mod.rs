//! A pod as the scheduler caches it: a few facts, computed once when the object arrives. `pod/decode` reads
//! them from JSON; the scheduler never encodes them.

mod decode;
mod device_claims;
mod device_requests;
mod preferences;
mod volumes;

use crate::affinity::NodeAffinity;
use crate::disk::Disk;
use crate::pod_constraints::{Labels, PodAffinity, Spread};
use crate::ports::HostPort;
use crate::resources::Resources;
use crate::taint::Toleration;
pub use decode::decode;
pub(crate) use decode::{DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER};
pub use device_requests::{ContainerRequests, ResourceRequest};
use jiff::Timestamp;
use kstore_informer::{Key, Object, Revision};
use std::sync::Arc;

/// A pod's uid: a pod created again under the same name has another.
pub type Uid = Arc<str>;

/// The requests that LeastAllocated counts, with a default for containers without requests. Wide enough for
/// the sum over all pods of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// Millicores.
    pub milli_cpu: i128,
    /// Bytes.
    pub memory: i128,
}

/// The `PodScheduled` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A machine-readable reason.
    pub reason: String,
    /// A human-readable message.
    pub message: String,
}

/// The scheduler's data of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// Namespace and name.
    pub key: Key,
    /// The uid.
    pub uid: Uid,
    /// The revision of the decoded object.
    pub revision: Revision,
    /// The object's generation, which conditions repeat.
    pub generation: i64,
    /// The name of the scheduler that is responsible for the pod.
    pub scheduler_name: String,
    /// The node to which the pod is assigned.
    pub node_name: Option<Arc<str>>,
    /// The priority; pods with a higher one go first.
    pub priority: i32,
    /// Whether the pod must not preempt other pods (`preemptionPolicy: Never`).
    pub never_preempts: bool,
    /// The node for which the pod is nominated (`status.nominatedNodeName`): pods were evicted there for it.
    pub nominated_node: Option<Arc<str>>,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// Whether a scheduler has evicted the pod for a pod of higher priority (condition `DisruptionTarget`).
    pub preempted: bool,
    /// The time at which the kubelet accepted the pod.
    pub started: Option<Timestamp>,
    /// Whether the pod has terminated (phase Succeeded or Failed) and occupies nothing.
    pub ended: bool,
    /// Whether the pod has scheduling gates.
    pub gated: bool,
    /// Whether a rule of a container restarts all containers of the pod (`restartPolicyRules`).
    pub restarts_all_containers: bool,
    /// The PodGroup that the pod names (`spec.schedulingGroup`).
    pub pod_group: Option<Key>,
    /// The resource requests.
    pub requests: Resources,
    /// The requests that LeastAllocated counts.
    pub nonzero: NonZero,
    /// The host ports.
    pub ports: Vec<HostPort>,
    /// The volumes that matter to scheduling; `None` for most pods.
    pub volumes: Option<Box<PodVolumes>>,
    /// The resource claims that the pod uses, in the order of its spec.
    pub device_claims: Vec<ClaimSource>,
    /// The resources that devices may satisfy, by container; `None` for most pods.
    pub device_requests: Option<Box<[ContainerRequests]>>,
    /// The tolerations.
    pub tolerations: Vec<Toleration>,
    /// The node affinity and node selector.
    pub affinity: NodeAffinity,
    /// The labels, which other pods' terms select.
    pub labels: Labels,
    /// The pod affinity and anti-affinity terms.
    pub pod_affinity: PodAffinity,
    /// The topology spread constraints that a node must keep (`whenUnsatisfiable: DoNotSchedule`).
    pub spread: Vec<Spread>,
    /// What only the scores of an unassigned pod read; `None` for an assigned pod.
    pub preferences: Option<Box<Preferences>>,
    /// The `PodScheduled` condition, if the pod has one.
    pub scheduled: Option<ScheduledCondition>,
}

/// The facts about a pod that only its scores read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// The images of the containers, init containers and image volumes that have one, each with a tag or digest.
    pub images: Vec<String>,
    /// The number of containers, init containers and image volumes.
    pub image_users: usize,
    /// The topology spread constraints that nodes should keep (`whenUnsatisfiable: ScheduleAnyway`).
    pub spread: Vec<Spread>,
    /// Whether the pod has any topology spread constraint. Without one the default constraints apply.
    pub has_spread: bool,
    /// The controller that owns the pod, if its pods are spread by default.
    pub controller: Option<(WorkloadKind, String)>,
}

/// A kind of object that selects pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// A Service.
    Service,
    /// A ReplicationController.
    ReplicationController,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
}

/// The volumes of a pod that limit the choice of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// The claims, each once, in the order of the volumes.
    pub claims: Vec<PodClaim>,
    /// The disks named in the pod's own spec.
    pub disks: Vec<Disk>,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The name of the claim.
    pub name: String,
    /// Whether the claim belongs to the pod's ephemeral volume and lives as long as the pod.
    pub is_ephemeral: bool,
}

impl PodClaim {
    /// Namespace and name of the claim of `pod`.
    pub fn key(&self, pod: &PodInfo) -> Key {
        Key::new(pod.key.namespace(), &self.name)
    }
}

/// The ResourceClaim of an entry of `spec.resourceClaims`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// The claim of this name.
    Named(String),
    /// The claim of this name, which was created from a template for the pod.
    Generated(String),
    /// No claim was created from the template yet.
    Missing,
    /// The pod's status says that the entry needs no claim.
    Unneeded,
}

impl ClaimSource {
    /// The name of the claim, if it is known.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) | Self::Generated(name) => Some(name),
            Self::Missing | Self::Unneeded => None,
        }
    }
}

/// The pod's relation to this scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodOwnership {
    /// The pod is assigned to this node, by any scheduler, and occupies its requests there.
    Assigned(Arc<str>),
    /// The pod waits for this scheduler.
    Pending,
    /// The pod has terminated, is being deleted unassigned, is gated, or belongs to another scheduler.
    Ignored,
}

impl PodInfo {
    /// The claims that the pod's volumes name.
    pub fn claims(&self) -> &[PodClaim] {
        self.volumes.as_ref().map_or(&[], |volumes| &volumes.claims)
    }

    /// The disks that the pod's volumes name.
    pub fn disks(&self) -> &[Disk] {
        self.volumes.as_ref().map_or(&[], |volumes| &volumes.disks)
    }

    /// Whether the pod's volumes name the claim.
    pub fn uses(&self, claim: &Key) -> bool {
        claim.namespace() == self.key.namespace() && self.claims().iter().any(|own| own.name == claim.name())
    }

    /// The pod's relation to the scheduler that is responsible for these scheduler names.
    pub fn ownership(&self, is_responsible: impl Fn(&str) -> bool) -> PodOwnership {
        match &self.node_name {
            _ if self.ended => PodOwnership::Ignored,
            Some(node) => PodOwnership::Assigned(Arc::clone(node)),
            None if self.deleting || self.gated || !is_responsible(&self.scheduler_name) => {
                PodOwnership::Ignored
            }
            None => PodOwnership::Pending,
        }
    }

    /// Whether the pod would wait for the scheduler that is responsible for these scheduler names if it had no gates.
    pub fn is_gated_for(&self, is_responsible: impl Fn(&str) -> bool) -> bool {
        let is_open = !self.ended && !self.deleting && self.node_name.is_none();
        self.gated && is_open && is_responsible(&self.scheduler_name)
    }

    /// When the pod started, for comparisons: a pod that has not started counts as started last.
    pub fn start_order(&self) -> Timestamp {
        self.started.unwrap_or(Timestamp::MAX)
    }

    /// Whether both versions of a pod are the same to preemption.
    pub fn preempts_same(&self, other: &Self) -> bool {
        (self.preempted, self.started) == (other.preempted, other.started)
    }

    /// Whether both pods occupy the same on a node, so that the cache may replace one by the other.
    pub fn occupies_same(&self, other: &Self) -> bool {
        self.deleting == other.deleting && self.occupation() == other.occupation()
    }

    /// Whether this version of the pod occupies at least what the one `before` does on the same node.
    pub fn keeps_all_of(&self, before: &Self) -> bool {
        !before.requests.exceeds(&self.requests)
            && before.ports == self.ports
            && before.priority == self.priority
            && before.deleting <= self.deleting
    }

    fn occupation(&self) -> (&Resources, NonZero, &[HostPort], i32, &Labels) {
        (&self.requests, self.nonzero, &self.ports, self.priority, &self.labels)
    }
}

impl Object for PodInfo {
    fn key(&self) -> Key {
        self.key.clone()
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}
