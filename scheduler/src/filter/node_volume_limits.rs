//! The NodeVolumeLimits filter: the node can attach the pod's CSI volumes in addition to those of its pods. A
//! volume of several pods of a node counts once. The CSINode of the node's name gives the limits; without a
//! CSINode there are no limits.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::NodeState;
use crate::event::ClusterEvent;
use crate::pod::PodInfo;
use crate::storage::volume::CsiHandle;
use crate::storage::{Storage, StorageEvent};

/// The reason of a refusal.
pub const REASON: &str = "node(s) exceed max volume count";

/// The CSI volumes of `pod`. A claim without volume counts as one volume of its class's provisioner.
pub fn csi_volumes(pod: &PodInfo, storage: &Storage) -> BTreeSet<CsiHandle> {
    let volume = |claim: &crate::pod::PodClaim| {
        let key = claim.key(pod);
        let record = storage.claim(&key)?;
        match record.volume.as_deref().and_then(|name| storage.volume(name)) {
            Some(volume) => volume.csi.clone(),
            None => {
                let driver = storage.class(&record.class)?.provisioner.clone();
                Some(CsiHandle { driver, handle: format!("csilimits-{}/{}", key.namespace(), key.name()) })
            }
        }
    };
    pod.claims().iter().filter_map(volume).collect()
}

/// Whether the node can attach `wanted` in addition to the volumes of its pods.
pub fn admits(wanted: &BTreeSet<CsiHandle>, storage: &Storage, node: &NodeState) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let Some(limits) = storage.csi_node(&node.info().name).map(|csi| &csi.limits) else { return true };
    if !wanted.iter().any(|volume| limits.contains_key(&volume.driver)) {
        return true;
    }
    let attached: BTreeSet<CsiHandle> =
        node.pods().iter().flat_map(|pod| csi_volumes(pod, storage)).collect();
    let mut counts: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for volume in wanted.difference(&attached) {
        counts.entry(&volume.driver).or_default().1 += 1;
    }
    for volume in &attached {
        if let Some((now, _)) = counts.get_mut(&*volume.driver) {
            *now += 1;
        }
    }
    counts.iter().all(|(driver, (now, new))| limits.get(*driver).is_none_or(|limit| now + new <= *limit))
}

/// The removal of a pod with claims helps, and so does a new node.
pub fn may_help(event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::PodFreed(other) => !other.claims().is_empty(),
        ClusterEvent::NodeAdded(_) => true,
        ClusterEvent::NodeChanged { .. } | ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) => false,
    }
}

/// Changes of a CSINode help, and changes of the pod's claims: their volumes may be attached already.
pub fn storage_may_help(pod: &PodInfo, event: &StorageEvent) -> bool {
    match event {
        StorageEvent::CsiNode => true,
        StorageEvent::Claim(key) => pod.uses(key),
        StorageEvent::Volume(_)
        | StorageEvent::Class(_)
        | StorageEvent::CsiDriver(_)
        | StorageEvent::Capacity(_) => false,
    }
}
