//! The VolumeRestrictions filter: no other pod uses a claim with ReadWriteOncePod, and no pod on the node
//! uses a disk that cannot be shared.

use std::collections::BTreeSet;

use kstore_informer::Key;

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::pod::PodInfo;
use crate::storage::{Storage, StorageEvent};

/// The reason for every node while another pod uses the claim.
pub const CLAIM_IN_USE: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";

/// The reason for a node with a pod that uses the disk.
pub const DISK_IN_USE: &str = "node(s) had no available disk";

/// The reason for refusing a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restriction {
    /// A pod, perhaps on another node, uses the claim.
    ClaimInUse,
    /// A pod on the node uses the disk.
    DiskInUse,
}

/// The claims of a pod that no other pod may use, and the number of uses by other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExclusiveClaims {
    claims: BTreeSet<Key>,
    uses: usize,
}

impl ExclusiveClaims {
    /// Adds or subtracts the uses by `other`.
    pub(super) fn adjust(&mut self, other: &PodInfo, change: super::Change) {
        if self.claims.is_empty() {
            return;
        }
        let uses = other.claims().iter().filter(|claim| self.claims.contains(&claim.key(other))).count();
        match change {
            super::Change::Added => self.uses += uses,
            super::Change::Removed => self.uses -= uses,
        }
    }
}

/// Looks up the exclusive claims of `pod`.
///
/// # Errors
///
/// A claim does not exist, in kube-scheduler's words: no node can have the pod.
pub fn prefilter(pod: &PodInfo, storage: &Storage) -> Result<ExclusiveClaims, String> {
    let mut found = ExclusiveClaims::default();
    for claim in pod.claims().iter().filter(|claim| !claim.is_ephemeral) {
        let key = claim.key(pod);
        let record = storage.claim(&key).ok_or_else(|| super::volume_binding::not_found(&claim.name))?;
        if record.is_exclusive {
            found.uses += storage.users(&key);
            found.claims.insert(key);
        }
    }
    Ok(found)
}

/// Whether the node admits the pod next to the pods that use volumes.
///
/// # Errors
///
/// The restriction that the pod would break.
pub fn check(pod: &PodInfo, exclusive: &ExclusiveClaims, node: &NodeState) -> Result<(), Restriction> {
    let disks = pod.disks();
    if !disks.is_empty() {
        let taken = node.pods().iter().flat_map(|other| other.disks());
        if taken.into_iter().any(|disk| disks.iter().any(|own| own.conflicts_with(disk))) {
            return Err(Restriction::DiskInUse);
        }
    }
    if exclusive.uses > 0 { Err(Restriction::ClaimInUse) } else { Ok(()) }
}

/// The removal of a pod that used the same claim or disk helps; for disks, also another node.
pub fn may_help(pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::PodFreed(other) => {
            let shares_claim = pod.claims().iter().any(|claim| other.uses(&claim.key(pod)));
            let shares_disk =
                || pod.disks().iter().any(|own| other.disks().iter().any(|disk| own.conflicts_with(disk)));
            shares_claim || shares_disk()
        }
        ClusterEvent::NodeAdded(_) | ClusterEvent::NodeChanged { .. } => !pod.disks().is_empty(),
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) => false,
    }
}

/// A change of a claim of the pod helps.
pub fn storage_may_help(pod: &PodInfo, event: &StorageEvent) -> bool {
    matches!(event, StorageEvent::Claim(key) if pod.uses(key))
}
