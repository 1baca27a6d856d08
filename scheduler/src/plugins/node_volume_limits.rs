//! The plugin NodeVolumeLimits: the node can attach the pod's CSI volumes in addition to those of its pods. A
//! volume of several pods of a node counts once. The CSINode of the node's name gives the limits; without a
//! CSINode there are no limits.

use crate::event::EventKind::{NodeAdded, PodFreed};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::storage::volume::CsiHandle;
use crate::storage::{Storage, StorageEvent};
use std::collections::{BTreeMap, BTreeSet};

/// The plugin.
#[derive(Default)]
pub(crate) struct NodeVolumeLimits;

/// The CSI volumes of a pod; there are some.
pub(crate) struct WantedVolumes<'a> {
    storage: &'a Storage,
    wanted: BTreeSet<CsiHandle>,
}

impl Plugin for NodeVolumeLimits {
    type State<'a> = WantedVolumes<'a>;

    const ROW: &'static Row = &Row {
        name: "NodeVolumeLimits",
        points: &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) exceed max volume count"],
        events: EventSet::of(&[NodeAdded, PodFreed, EventKind::Storage]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, WantedVolumes<'a>> {
        let storage = &cluster.inventory.storage;
        let wanted = csi_volumes(pod, storage);
        if wanted.is_empty() { PreFilter::Skip } else { PreFilter::Check(WantedVolumes { storage, wanted }) }
    }

    fn check(&self, _pod: &PodInfo, volumes: &WantedVolumes<'_>, node: &NodeState) -> Result<(), Refused> {
        let is_admitted = admits(&volumes.wanted, volumes.storage, node);
        if is_admitted { Ok(()) } else { Err(Refused::resolvable(0)) }
    }

    /// The removal of a pod with claims helps, and so do a new node and changes of a CSINode. So do changes of the pod's claims: their
    /// volumes may be attached already.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::PodFreed(other) => !other.claims().is_empty(),
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::Storage(StorageEvent::CsiNode, _) => pod.volumes.is_some(),
            ClusterEvent::Storage(StorageEvent::Claim(key), _) => pod.uses(key),
            _ => false,
        }
    }
}

/// The CSI volumes of `pod`. A claim without volume counts as one volume of its class's provisioner.
fn csi_volumes(pod: &PodInfo, storage: &Storage) -> BTreeSet<CsiHandle> {
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
fn admits(wanted: &BTreeSet<CsiHandle>, storage: &Storage, node: &NodeState) -> bool {
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
