//! The plugin VolumeRestrictions: no other pod uses a claim with ReadWriteOncePod, and no pod on the node
//! uses a disk that cannot be shared.

use super::volume_binding::not_found;
use crate::event::EventKind::{NodeAdded, NodeChanged, PodFreed};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::node_state::NodeState;
use crate::plugin::{Adjustment, ClusterView, ExtensionPoint, Plugin, PodMove, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::storage::{Storage, StorageEvent};
use kstore_informer::Key;
use std::collections::BTreeSet;

/// The plugin.
#[derive(Default)]
pub(crate) struct VolumeRestrictions;

/// Indices of the reasons: a pod, perhaps on another node, uses the claim; a pod on the node uses the disk.
const CLAIM_IN_USE: u32 = 0;
const DISK_IN_USE: u32 = 1;

impl Plugin for VolumeRestrictions {
    type State<'a> = ExclusiveClaims;

    const ROW: &'static Row = &Row {
        name: "VolumeRestrictions",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
        weight: 0,
        reasons: &[
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            "node(s) had no available disk",
        ],
        events: EventSet::of(&[NodeAdded, NodeChanged, PodFreed, EventKind::Storage]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, ExclusiveClaims> {
        if pod.volumes.is_none() {
            return PreFilter::Skip;
        }
        match ExclusiveClaims::of(pod, &cluster.inventory.storage) {
            Err(why) => PreFilter::Refuse(why.into()),
            Ok(exclusive) => PreFilter::Check(exclusive),
        }
    }

    fn check(&self, pod: &PodInfo, exclusive: &ExclusiveClaims, node: &NodeState) -> Result<(), Refused> {
        let disks = pod.disks();
        if !disks.is_empty() {
            let taken = node.pods().iter().flat_map(|other| other.disks());
            if taken.into_iter().any(|disk| disks.iter().any(|own| own.conflicts_with(disk))) {
                return Err(Refused::resolvable(DISK_IN_USE));
            }
        }
        if exclusive.uses > 0 { Err(Refused::resolvable(CLAIM_IN_USE)) } else { Ok(()) }
    }

    fn adjust(&self, _pod: &PodInfo, exclusive: &mut ExclusiveClaims, adjustment: &Adjustment<'_>) {
        exclusive.adjust(adjustment.other, adjustment.change);
    }

    /// The removal of a pod that used the same claim or disk helps, and so does a change of a claim of the pod; for disks, also another
    /// node.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::PodFreed(other) => {
                let shares_claim = pod.claims().iter().any(|claim| other.uses(&claim.key(pod)));
                let shares_disk = || {
                    pod.disks().iter().any(|own| other.disks().iter().any(|disk| own.conflicts_with(disk)))
                };
                shares_claim || shares_disk()
            }
            ClusterEvent::NodeAdded(..) | ClusterEvent::NodeChanged { .. } => !pod.disks().is_empty(),
            ClusterEvent::Storage(StorageEvent::Claim(key), _) => pod.uses(key),
            _ => false,
        }
    }
}

/// The claims of a pod that no other pod may use, and the number of uses by other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExclusiveClaims {
    claims: BTreeSet<Key>,
    uses: usize,
}

impl ExclusiveClaims {
    /// Looks up the exclusive claims of `pod`.
    ///
    /// # Errors
    ///
    /// A claim does not exist, in kube-scheduler's words: no node can have the pod.
    fn of(pod: &PodInfo, storage: &Storage) -> Result<Self, String> {
        let mut found = Self::default();
        for claim in pod.claims().iter().filter(|claim| !claim.is_ephemeral) {
            let key = claim.key(pod);
            let record = storage.claim(&key).ok_or_else(|| not_found(&claim.name))?;
            if record.is_exclusive {
                found.uses += storage.users(&key);
                found.claims.insert(key);
            }
        }
        Ok(found)
    }

    /// Adds or subtracts the uses by `other`.
    fn adjust(&mut self, other: &PodInfo, change: PodMove) {
        if self.claims.is_empty() {
            return;
        }
        let uses = other.claims().iter().filter(|claim| self.claims.contains(&claim.key(other))).count();
        match change {
            PodMove::Added => self.uses += uses,
            PodMove::Removed => self.uses -= uses,
        }
    }
}
