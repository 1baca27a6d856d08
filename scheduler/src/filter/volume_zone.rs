//! The VolumeZone filter: the node is in the zone and region that the labels of the pod's volumes name. A
//! node without such labels is in every zone: clusters of one zone need not label their nodes.

use crate::event::ClusterEvent;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::storage::{Storage, StorageEvent};

/// The reason for a node in another zone.
pub const REASON: &str = "node(s) had no available volume zone";

/// Labels that name a zone or region, each with the label that replaced it.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// A zone label of a volume: the node must have one of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneLabel {
    label: &'static str,
    replaced_by: &'static str,
    values: Vec<String>,
}

/// The zone labels of the pod's bound volumes.
///
/// # Errors
///
/// A volume does not exist, in kube-scheduler's words: no node can have the pod.
pub fn prefilter(pod: &PodInfo, storage: &Storage) -> Result<Vec<ZoneLabel>, String> {
    let mut zones = Vec::new();
    for claim in pod.claims().iter().filter(|claim| !claim.is_ephemeral) {
        let record = storage.claim(&claim.key(pod));
        let Some(name) = record.and_then(|record| record.volume.as_deref()) else { continue };
        let volume = storage.volume(name).ok_or_else(|| format!("persistentvolume \"{name}\" not found"))?;
        for (label, replaced_by) in LABELS {
            if let Some(text) = volume.labels.get(label) {
                // `__` separates the zones of a volume that is in several.
                let values = text.split("__").map(|value| value.trim().to_owned()).collect();
                zones.push(ZoneLabel { label, replaced_by, values });
            }
        }
    }
    Ok(zones)
}

/// Whether the node is in the zones of the volumes.
pub fn admits(zones: &[ZoneLabel], node: &NodeInfo) -> bool {
    if zones.is_empty() || !LABELS.iter().any(|(label, _)| node.labels.contains_key(*label)) {
        return true;
    }
    zones.iter().all(|zone| {
        let here = node.labels.get(zone.label).or_else(|| node.labels.get(zone.replaced_by));
        here.is_some_and(|here| zone.values.contains(here))
    })
}

/// A new node helps, and so does a node with changed labels.
pub fn may_help(event: ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdded(_) => true,
        ClusterEvent::NodeChanged { old, new } => old.labels != new.labels,
        ClusterEvent::NodeRemoved(_) | ClusterEvent::PodPlaced(_) | ClusterEvent::PodFreed(_) => false,
    }
}

/// Changes of the pod's claims and their volumes help.
pub fn storage_may_help(pod: &PodInfo, event: &StorageEvent, storage: &Storage) -> bool {
    match event {
        StorageEvent::Claim(key) => pod.uses(key),
        StorageEvent::Volume(volume) => super::volume_binding::claims_of(pod, storage)
            .any(|claim| claim.volume.as_deref() == Some(volume.key.name())),
        StorageEvent::Class(_)
        | StorageEvent::CsiNode
        | StorageEvent::CsiDriver(_)
        | StorageEvent::Capacity(_) => false,
    }
}
