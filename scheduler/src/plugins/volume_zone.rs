//! The plugin VolumeZone: the node is in the zone and region that the labels of the pod's volumes name. A
//! node without such labels is in every zone: clusters of one zone need not label their nodes.

use super::volume_binding::claims_of;
use crate::event::EventKind::{NodeAdded, NodeChanged};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::storage::{Storage, StorageEvent};

/// Labels that name a zone or region, each with the label that replaced it.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// The plugin.
#[derive(Default)]
pub(crate) struct VolumeZone;

impl Plugin for VolumeZone {
    /// The zone labels of the pod's bound volumes; there are some.
    type State<'a> = Vec<ZoneLabel>;

    const ROW: &'static Row = &Row {
        name: "VolumeZone",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) had no available volume zone"],
        events: EventSet::of(&[NodeAdded, NodeChanged, EventKind::Storage]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, Vec<ZoneLabel>> {
        match zone_labels(pod, &cluster.inventory.storage) {
            Err(why) => PreFilter::Refuse(why.into()),
            Ok(zones) if zones.is_empty() => PreFilter::Skip,
            Ok(zones) => PreFilter::Check(zones),
        }
    }

    fn check(&self, _pod: &PodInfo, zones: &Vec<ZoneLabel>, node: &NodeState) -> Result<(), Refused> {
        if admits(zones, node.info()) { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    /// A new node helps, and so do a node with changed labels, and changes of the pod's claims and their volumes.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::NodeChanged { old, new, .. } => old.labels != new.labels,
            ClusterEvent::Storage(StorageEvent::Claim(key), _) => pod.uses(key),
            ClusterEvent::Storage(StorageEvent::Volume(volume), storage) => {
                claims_of(pod, storage).any(|claim| claim.volume.as_deref() == Some(volume.key.name()))
            }
            _ => false,
        }
    }
}

/// A zone label of a volume: the node must have one of the values.
pub(crate) struct ZoneLabel {
    label: &'static str,
    replaced_by: &'static str,
    values: Vec<String>,
}

/// The zone labels of the pod's bound volumes.
///
/// # Errors
///
/// A volume does not exist, in kube-scheduler's words: no node can have the pod.
fn zone_labels(pod: &PodInfo, storage: &Storage) -> Result<Vec<ZoneLabel>, String> {
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
fn admits(zones: &[ZoneLabel], node: &NodeInfo) -> bool {
    if !LABELS.iter().any(|(label, _)| node.labels.contains_key(*label)) {
        return true;
    }
    zones.iter().all(|zone| {
        let here = node.labels.get(zone.label).or_else(|| node.labels.get(zone.replaced_by));
        here.is_some_and(|here| zone.values.contains(here))
    })
}
