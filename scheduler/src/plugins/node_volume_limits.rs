//! The plugin NodeVolumeLimits: the node can attach the pod's CSI volumes in addition to those of its pods. A
//! volume of several pods of a node counts once. The CSINode of the node's name gives the limits; without a
//! CSINode there are no limits. With the gate `VolumeLimitScaling` a node without a driver refuses the pods with the driver's volumes, if
//! the CSIDriver says so (`preventPodSchedulingIfMissing`).

use crate::event::EventKind::{NodeAdded, PodFreed};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::gates::Gates;
use crate::node_state::NodeState;
use crate::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use crate::pod::PodInfo;
use crate::storage::volume::CsiHandle;
use crate::storage::{Storage, StorageEvent};
use std::collections::{BTreeMap, BTreeSet};

/// The plugin.
#[derive(Default)]
pub(crate) struct NodeVolumeLimits {
    /// Whether CSIDrivers may require that nodes have them: the gate `VolumeLimitScaling`.
    requires_drivers: bool,
}

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

    fn gated(self, gates: Gates) -> Self {
        Self { requires_drivers: gates.requires_csi_drivers }
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, WantedVolumes<'a>> {
        let storage = &cluster.inventory.storage;
        let wanted = csi_volumes(pod, storage);
        if wanted.is_empty() { PreFilter::Skip } else { PreFilter::Check(WantedVolumes { storage, wanted }) }
    }

    fn check(&self, _pod: &PodInfo, volumes: &WantedVolumes<'_>, node: &NodeState) -> Result<(), Refused> {
        if self.requires_drivers
            && let Some(driver) = missing_driver(volumes, &node.info().name)
        {
            let text = format!("{driver} CSI driver is not installed on the node");
            return Err(Refused::by(true, 0).with_texts(vec![text.into()]));
        }
        let is_admitted = admits(&volumes.wanted, volumes.storage, node);
        if is_admitted { Ok(()) } else { Err(Refused::resolvable(0)) }
    }

    /// The removal of a pod with claims helps, and so do a new node and changes of a CSINode. So do changes of the pod's claims: their
    /// volumes may be attached already. A CSIDriver helps if it does not require itself on nodes any more.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::PodFreed(other) => !other.claims().is_empty(),
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::Storage(StorageEvent::CsiNode, _) => pod.volumes.is_some(),
            ClusterEvent::Storage(StorageEvent::Claim(key), _) => pod.uses(key),
            ClusterEvent::Storage(StorageEvent::CsiDriver(driver), storage) => {
                self.requires_drivers
                    && csi_volumes(pod, storage).iter().any(|volume| volume.driver == *driver)
                    && !storage.keeps_pods_from_other_nodes(driver)
            }
            _ => false,
        }
    }
}

/// The first driver of the pod's volumes that the node lacks and that does not let their pods run on such nodes.
fn missing_driver<'v>(volumes: &'v WantedVolumes<'_>, node: &str) -> Option<&'v str> {
    let installed = volumes.storage.csi_node(node).map(|csi| &csi.drivers);
    let is_missing = |driver: &&str| {
        volumes.storage.keeps_pods_from_other_nodes(driver)
            && installed.is_none_or(|installed| !installed.contains(*driver))
    };
    volumes.wanted.iter().map(|volume| &*volume.driver).find(is_missing)
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
