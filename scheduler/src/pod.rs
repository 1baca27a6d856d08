//! A pod as the scheduler sees it: a few facts, computed once when the object arrives. Not the API's type; decoding from
//! its JSON is `pod/decode`, and nothing is ever encoded back.

mod decode;
mod volumes;

use std::sync::Arc;

use kstore_informer::{Key, Object, Revision};

use crate::affinity::NodeAffinity;
use crate::companions::{Companions, Labels, Spread};
use crate::disk::Disk;
use crate::ports::HostPort;
use crate::resources::Resources;
use crate::taint::Toleration;

pub use decode::decode;

/// A pod's identity: a pod created again under the same name has another.
pub type Uid = Arc<str>;

/// What LeastAllocated counts: requests in which a container that asks for nothing is taken to need a little. Wide enough
/// to sum over all pods of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonZero {
    /// Millicores.
    pub milli_cpu: i128,
    /// Bytes.
    pub memory: i128,
}

/// The condition `PodScheduled`, as the API has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledCondition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for programs.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// What the scheduler keeps of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInfo {
    /// Its namespace and name.
    pub key: Key,
    /// Its identity.
    pub uid: Uid,
    /// The revision of the object these facts come from.
    pub revision: Revision,
    /// The object's generation, which conditions repeat.
    pub generation: i64,
    /// Which scheduler is to place it.
    pub scheduler_name: String,
    /// Where it has been placed.
    pub node_name: Option<Arc<str>>,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it must not push others out (`preemptionPolicy: Never`).
    pub never_preempts: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has ended (phase Succeeded or Failed) and holds nothing any more.
    pub ended: bool,
    /// Whether scheduling gates are left.
    pub gated: bool,
    /// What it asks for.
    pub requests: Resources,
    /// What LeastAllocated counts for it.
    pub nonzero: NonZero,
    /// The host ports it wants.
    pub ports: Vec<HostPort>,
    /// Its volumes that matter to scheduling; `None` for none, as most pods have.
    pub volumes: Option<Box<PodVolumes>>,
    /// The taints it bears.
    pub tolerations: Vec<Toleration>,
    /// The nodes it wants.
    pub affinity: NodeAffinity,
    /// Its labels, by which other pods' terms mean it.
    pub labels: Labels,
    /// What it requires of other pods.
    pub companions: Companions,
    /// How it must be spread among its like.
    pub spread: Vec<Spread>,
    /// Its condition `PodScheduled`, if it has one.
    pub scheduled: Option<ScheduledCondition>,
}

/// The volumes of a pod that decide on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// Claims, each once, in the order of the volumes.
    pub claims: Vec<PodClaim>,
    /// Disks of the kinds that existed before claims.
    pub disks: Vec<Disk>,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// Name of the claim.
    pub name: String,
    /// Whether the claim is made for the pod's ephemeral volume, and lives as long as the pod.
    pub is_ephemeral: bool,
}

impl PodClaim {
    /// Namespace and name of the claim, which `pod` uses.
    pub fn key(&self, pod: &PodInfo) -> Key {
        Key::new(pod.key.namespace(), &self.name)
    }
}

/// What a pod is to this scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is on this node, placed by whomever, and holds its requests there.
    Assigned(Arc<str>),
    /// It waits for this scheduler.
    Pending,
    /// It has ended, is being deleted before it was placed, is gated, or belongs to another scheduler.
    Ignored,
}

impl PodInfo {
    /// The claims that its volumes name.
    pub fn claims(&self) -> &[PodClaim] {
        self.volumes.as_ref().map_or(&[], |volumes| &volumes.claims)
    }

    /// The disks that its volumes name.
    pub fn disks(&self) -> &[Disk] {
        self.volumes.as_ref().map_or(&[], |volumes| &volumes.disks)
    }

    /// Whether its volumes name the claim.
    pub fn uses(&self, claim: &Key) -> bool {
        claim.namespace() == self.key.namespace() && self.claims().iter().any(|own| own.name == claim.name())
    }

    /// What the pod is to the scheduler of this name.
    pub fn standing(&self, scheduler_name: &str) -> Standing {
        match &self.node_name {
            _ if self.ended => Standing::Ignored,
            Some(node) => Standing::Assigned(Arc::clone(node)),
            None if self.deleting || self.gated || self.scheduler_name != scheduler_name => Standing::Ignored,
            None => Standing::Pending,
        }
    }

    /// Whether the two hold the same on a node, so that one can stand for the other there.
    pub fn holds_like(&self, other: &Self) -> bool {
        (&self.requests, self.nonzero, &self.ports, self.priority, self.deleting, &self.labels)
            == (&other.requests, other.nonzero, &other.ports, other.priority, other.deleting, &other.labels)
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
