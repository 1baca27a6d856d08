//! The filters: the nodes on which a pod may run, and the reasons against the others. Pure; one file per
//! plugin, with its check and its queueing hint. The filters run in kube-scheduler's default order, and the
//! first refusal per node counts.

pub mod dynamic_resources;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_topology_spread;
pub mod taint_toleration;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cache::NodeState;
use crate::devices::{DeviceEvent, Devices};
use crate::event::ClusterEvent;
use crate::inventory::Inventory;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::pod_constraints::Namespaces;
use crate::preemption::nominations::Nominations;
use crate::snapshot::Snapshot;
use crate::storage::volume::CsiHandle;
use crate::storage::{Storage, StorageEvent, VolumePlan};
use crate::tally::Tallies;
use dynamic_resources::{DeviceClaims, DeviceConflict};
use inter_pod_affinity::{AffinityConflict, ExistingPods};
use node_resources_fit::Shortage;
use pod_topology_spread::{Counts, SpreadConflict};
use volume_binding::{ClaimVolumes, VolumeConflict};
use volume_restrictions::{ExclusiveClaims, Restriction};
use volume_zone::ZoneLabel;

/// The filters, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// The node is not cordoned.
    NodeUnschedulable,
    /// The pod names this node, or no node.
    NodeName,
    /// The pod tolerates the node's taints.
    TaintToleration,
    /// The node satisfies the pod's node selector and node affinity.
    NodeAffinity,
    /// The pod's host ports are free on the node.
    NodePorts,
    /// The node has enough free resources for the pod's requests.
    NodeResourcesFit,
    /// No other pod uses a claim or disk that cannot be shared.
    VolumeRestrictions,
    /// The node can attach the pod's volumes in addition to those of its pods.
    NodeVolumeLimits,
    /// The node can use the volumes of the pod's claims, or unbound claims can get volumes there.
    VolumeBinding,
    /// The node is in the zones of the pod's volumes.
    VolumeZone,
    /// The node keeps the pod's topology spread constraints.
    PodTopologySpread,
    /// The node satisfies the pod's affinity, and no anti-affinity of the pod or of existing pods excludes
    /// it.
    InterPodAffinity,
    /// The node can use the devices of the pod's claims, or open claims can get devices there.
    DynamicResources,
}

impl Plugin {
    /// All filters in the order in which they run.
    pub const ALL: [Self; 13] = [
        Self::NodeUnschedulable,
        Self::NodeName,
        Self::TaintToleration,
        Self::NodeAffinity,
        Self::NodePorts,
        Self::NodeResourcesFit,
        Self::VolumeRestrictions,
        Self::NodeVolumeLimits,
        Self::VolumeBinding,
        Self::VolumeZone,
        Self::PodTopologySpread,
        Self::InterPodAffinity,
        Self::DynamicResources,
    ];

    /// The plugin's name in kube-scheduler's configuration and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeUnschedulable => "NodeUnschedulable",
            Self::NodeName => "NodeName",
            Self::TaintToleration => "TaintToleration",
            Self::NodeAffinity => "NodeAffinity",
            Self::NodePorts => "NodePorts",
            Self::NodeResourcesFit => "NodeResourcesFit",
            Self::VolumeRestrictions => "VolumeRestrictions",
            Self::NodeVolumeLimits => "NodeVolumeLimits",
            Self::VolumeBinding => "VolumeBinding",
            Self::VolumeZone => "VolumeZone",
            Self::PodTopologySpread => "PodTopologySpread",
            Self::InterPodAffinity => "InterPodAffinity",
            Self::DynamicResources => "DynamicResources",
        }
    }
}

/// A set of filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginSet(u16);

impl PluginSet {
    /// Every filter.
    pub fn all() -> Self {
        Plugin::ALL.into_iter().collect()
    }

    /// Adds a filter.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u8;
    }

    /// Whether the filter is in the set.
    pub fn contains(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u8) != 0
    }

    /// Whether no filter is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The filters of the set in order.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        Plugin::ALL.into_iter().filter(move |plugin| self.contains(*plugin))
    }
}

impl FromIterator<Plugin> for PluginSet {
    fn from_iter<I: IntoIterator<Item = Plugin>>(plugins: I) -> Self {
        let mut set = Self::default();
        plugins.into_iter().for_each(|plugin| set.insert(plugin));
        set
    }
}

/// The reason for refusing a node: the first filter that refused it, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The node is cordoned.
    NodeUnschedulable,
    /// The pod names another node.
    NodeName,
    /// The pod does not tolerate a taint.
    TaintToleration,
    /// The node does not match the node selector or affinity.
    NodeAffinity,
    /// A host port is in use.
    NodePorts,
    /// A resource is insufficient.
    NodeResourcesFit(Shortage),
    /// A claim or disk is in use.
    VolumeRestrictions(Restriction),
    /// The node cannot attach that many volumes.
    NodeVolumeLimits,
    /// The pod's claims have no volumes that the node can use.
    VolumeBinding(VolumeConflict),
    /// The pod's volumes are in another zone.
    VolumeZone,
    /// A topology spread constraint would be broken.
    PodTopologySpread(SpreadConflict),
    /// An affinity or anti-affinity term refuses the node.
    InterPodAffinity(AffinityConflict),
    /// The pod's claims have no devices that the node can use.
    DynamicResources(DeviceConflict),
}

impl Rejection {
    /// The filter that refused.
    pub fn plugin(&self) -> Plugin {
        match self {
            Self::NodeUnschedulable => Plugin::NodeUnschedulable,
            Self::NodeName => Plugin::NodeName,
            Self::TaintToleration => Plugin::TaintToleration,
            Self::NodeAffinity => Plugin::NodeAffinity,
            Self::NodePorts => Plugin::NodePorts,
            Self::NodeResourcesFit(_) => Plugin::NodeResourcesFit,
            Self::VolumeRestrictions(_) => Plugin::VolumeRestrictions,
            Self::NodeVolumeLimits => Plugin::NodeVolumeLimits,
            Self::VolumeBinding(_) => Plugin::VolumeBinding,
            Self::VolumeZone => Plugin::VolumeZone,
            Self::PodTopologySpread(_) => Plugin::PodTopologySpread,
            Self::InterPodAffinity(_) => Plugin::InterPodAffinity,
            Self::DynamicResources(_) => Plugin::DynamicResources,
        }
    }

    /// Whether removing pods from the node could change the result.
    pub fn is_resolvable(&self) -> bool {
        match self {
            Self::NodeUnschedulable
            | Self::NodeName
            | Self::TaintToleration
            | Self::NodeAffinity
            | Self::VolumeBinding(_)
            | Self::VolumeZone
            | Self::DynamicResources(_) => false,
            Self::NodePorts | Self::VolumeRestrictions(_) | Self::NodeVolumeLimits => true,
            Self::NodeResourcesFit(shortage) => shortage.is_resolvable(),
            Self::PodTopologySpread(uneven) => *uneven == SpreadConflict::MaxSkew,
            Self::InterPodAffinity(unwelcome) => *unwelcome != AffinityConflict::Affinity,
        }
    }

    /// Calls `emit` with each reason, in kube-scheduler's words.
    pub fn reasons(&self, emit: &mut dyn FnMut(&str)) {
        match self {
            Self::NodeUnschedulable => emit(node_unschedulable::REASON),
            Self::NodeName => emit(node_name::REASON),
            Self::TaintToleration => emit(taint_toleration::REASON),
            Self::NodeAffinity => emit(node_affinity::REASON),
            Self::NodePorts => emit(node_ports::REASON),
            Self::NodeResourcesFit(shortage) => shortage.reasons(emit),
            Self::VolumeRestrictions(Restriction::ClaimInUse) => emit(volume_restrictions::CLAIM_IN_USE),
            Self::VolumeRestrictions(Restriction::DiskInUse) => emit(volume_restrictions::DISK_IN_USE),
            Self::NodeVolumeLimits => emit(node_volume_limits::REASON),
            Self::VolumeBinding(conflict) => conflict.reasons(emit),
            Self::VolumeZone => emit(volume_zone::REASON),
            Self::DynamicResources(conflict) => conflict.reasons(emit),
            Self::PodTopologySpread(SpreadConflict::MaxSkew) => emit(pod_topology_spread::REASON),
            Self::PodTopologySpread(SpreadConflict::NoDomain) => emit(pod_topology_spread::NO_DOMAIN),
            Self::InterPodAffinity(AffinityConflict::Affinity) => emit(inter_pod_affinity::AFFINITY),
            Self::InterPodAffinity(AffinityConflict::AntiAffinity) => emit(inter_pod_affinity::ANTI_AFFINITY),
            Self::InterPodAffinity(AffinityConflict::ExistingAntiAffinity) => {
                emit(inter_pod_affinity::EXISTING_ANTI_AFFINITY);
            }
        }
    }
}

/// The volumes of a pod, looked up once before the filters check nodes.
pub struct Volumes<'a> {
    storage: &'a Storage,
    claims: ClaimVolumes<'a>,
    exclusive: ExclusiveClaims,
    csi: BTreeSet<CsiHandle>,
    zones: Vec<ZoneLabel>,
}

/// A refusal by a filter before any node is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimsRefusal {
    /// The filter.
    pub plugin: Plugin,
    /// The reason in kube-scheduler's words.
    pub why: String,
}

impl<'a> Volumes<'a> {
    /// Looks up the volumes of `pod`; `None` if no volume of it matters to scheduling.
    ///
    /// # Errors
    ///
    /// Why no node can have the pod.
    pub fn of(pod: &PodInfo, storage: &'a Storage) -> Result<Option<Self>, ClaimsRefusal> {
        if pod.volumes.is_none() {
            return Ok(None);
        }
        let by = |plugin| move |why| ClaimsRefusal { plugin, why };
        let exclusive =
            volume_restrictions::prefilter(pod, storage).map_err(by(Plugin::VolumeRestrictions))?;
        let claims = volume_binding::prefilter(pod, storage).map_err(by(Plugin::VolumeBinding))?;
        let zones = volume_zone::prefilter(pod, storage).map_err(by(Plugin::VolumeZone))?;
        let csi = node_volume_limits::csi_volumes(pod, storage);
        Ok(Some(Self { storage, claims, exclusive, csi, zones }))
    }

    /// The writes for the pod's claims if the pod is bound to `node`, which the filters admitted.
    ///
    /// # Errors
    ///
    /// Why the node cannot serve the claims.
    pub fn plan(&self, node: &NodeInfo) -> Result<VolumePlan, VolumeConflict> {
        self.claims.plan(node)
    }

    fn check(&self, pod: &PodInfo, node: &NodeState) -> Result<(), Rejection> {
        volume_restrictions::check(pod, &self.exclusive, node).map_err(Rejection::VolumeRestrictions)?;
        if !node_volume_limits::admits(&self.csi, self.storage, node) {
            return Err(Rejection::NodeVolumeLimits);
        }
        self.claims.plan(node.info()).map_err(Rejection::VolumeBinding)?;
        if volume_zone::admits(&self.zones, node.info()) { Ok(()) } else { Err(Rejection::VolumeZone) }
    }
}

/// The volumes and the devices of a pod, looked up once before the filters check nodes.
#[derive(Default)]
pub struct Claims<'a> {
    volumes: Option<Volumes<'a>>,
    devices: Option<DeviceClaims<'a>>,
}

impl<'a> Claims<'a> {
    /// Looks up the volumes and devices of `pod`.
    ///
    /// # Errors
    ///
    /// Why no node can have the pod.
    pub fn of(pod: &PodInfo, inventory: &'a Inventory) -> Result<Self, ClaimsRefusal> {
        let volumes = Volumes::of(pod, &inventory.storage)?;
        let devices = dynamic_resources::prefilter(pod, &inventory.devices);
        let devices = devices.map_err(|why| ClaimsRefusal { plugin: Plugin::DynamicResources, why })?;
        Ok(Self { volumes, devices })
    }
}

/// The state over all nodes, volumes and devices that the filters need before they check one node.
pub struct PreFilterState<'a> {
    counts: Counts,
    existing: ExistingPods,
    claims: Claims<'a>,
}

impl<'v> PreFilterState<'v> {
    /// Computes the state for `pod` with `claims`. `tallies` has the counts of the cache of `snapshot`.
    pub fn of(pod: &PodInfo, snapshot: &Snapshot, tallies: &Tallies, claims: Claims<'v>) -> Self {
        let counts = pod_topology_spread::count(pod, snapshot, tallies);
        let existing = inter_pod_affinity::count(pod, snapshot);
        Self { counts, existing, claims }
    }
}

/// A change of the pods on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A pod is added.
    Added,
    /// A pod is removed.
    Removed,
}

impl Change {
    /// The count after the change of one counted pod.
    fn of(self, count: i64) -> i64 {
        match self {
            Self::Added => count + 1,
            Self::Removed => count - 1,
        }
    }
}

impl PreFilterState<'_> {
    /// Counts a change of `other` on `node`, as if the state had been computed after it.
    pub fn adjust(
        &mut self,
        pod: &PodInfo,
        node: &NodeInfo,
        other: &PodInfo,
        change: Change,
        namespaces: &Namespaces,
    ) {
        self.counts.adjust(pod, node, other, change);
        self.existing.adjust(pod, node, other, change, namespaces);
        if let Some(volumes) = &mut self.claims.volumes {
            volumes.exclusive.adjust(other, change);
        }
    }
}

/// Runs every filter in order for `pod` on `node`; `prefilter_state` is the state computed for `pod`.
///
/// # Errors
///
/// The first refusal.
pub fn check(pod: &PodInfo, prefilter_state: &PreFilterState<'_>, node: &NodeState) -> Result<(), Rejection> {
    if !node_unschedulable::admits(pod, node.info()) {
        return Err(Rejection::NodeUnschedulable);
    }
    if !node_name::admits(pod, node.info()) {
        return Err(Rejection::NodeName);
    }
    if !taint_toleration::admits(pod, node.info()) {
        return Err(Rejection::TaintToleration);
    }
    if !node_affinity::admits(pod, node.info()) {
        return Err(Rejection::NodeAffinity);
    }
    if !node_ports::admits(pod, node) {
        return Err(Rejection::NodePorts);
    }
    node_resources_fit::check(pod, node).map_err(Rejection::NodeResourcesFit)?;
    if let Some(volumes) = &prefilter_state.claims.volumes {
        volumes.check(pod, node)?;
    }
    pod_topology_spread::check(&prefilter_state.counts, node.info()).map_err(Rejection::PodTopologySpread)?;
    inter_pod_affinity::check(&prefilter_state.existing, node.info()).map_err(Rejection::InterPodAffinity)?;
    match &prefilter_state.claims.devices {
        Some(devices) => devices.check(node.info()).map_err(Rejection::DynamicResources),
        None => Ok(()),
    }
}

/// Like [`check`], but `node` must also admit the pod together with the waiting pods that are nominated for it and go
/// before the pod. It must admit the pod without them as well: they may come later or never.
///
/// # Errors
///
/// The first refusal.
pub fn check_with_nominated(
    pod: &PodInfo,
    prefilter_state: &mut PreFilterState<'_>,
    node: &NodeState,
    nominations: &Nominations,
    namespaces: &Namespaces,
) -> Result<(), Rejection> {
    let mut ahead = nominations.ahead_of(pod, &node.info().name).peekable();
    if ahead.peek().is_some() {
        let ahead: Vec<_> = ahead.collect();
        let mut crowded = node.clone();
        for other in &ahead {
            crowded.add(Arc::clone(other));
            prefilter_state.adjust(pod, node.info(), other, Change::Added, namespaces);
        }
        let verdict = check(pod, prefilter_state, &crowded);
        for other in ahead {
            prefilter_state.adjust(pod, node.info(), other, Change::Removed, namespaces);
        }
        verdict?;
    }
    check(pod, prefilter_state, node)
}

/// Whether `event` may have changed the result of `plugin` for `pod`. A wrong yes costs an attempt. A wrong
/// no delays the pod for minutes, until the queue flushes the unschedulable pods.
pub fn may_help(plugin: Plugin, pod: &PodInfo, event: ClusterEvent<'_>) -> bool {
    match plugin {
        Plugin::NodeUnschedulable => node_unschedulable::may_help(pod, event),
        Plugin::NodeName => node_name::may_help(pod, event),
        Plugin::TaintToleration => taint_toleration::may_help(pod, event),
        Plugin::NodeAffinity => node_affinity::may_help(pod, event),
        Plugin::NodePorts => node_ports::may_help(pod, event),
        Plugin::NodeResourcesFit => node_resources_fit::may_help(pod, event),
        Plugin::VolumeRestrictions => volume_restrictions::may_help(pod, event),
        Plugin::NodeVolumeLimits => node_volume_limits::may_help(event),
        Plugin::VolumeBinding => volume_binding::may_help(event),
        Plugin::VolumeZone => volume_zone::may_help(event),
        Plugin::PodTopologySpread => pod_topology_spread::may_help(pod, event),
        Plugin::InterPodAffinity => inter_pod_affinity::may_help(pod, event),
        Plugin::DynamicResources => dynamic_resources::may_help(event),
    }
}

/// Whether a change of a storage object may have changed the result of `plugin` for `pod`; the counterpart of
/// [`may_help`].
pub fn storage_may_help(plugin: Plugin, pod: &PodInfo, event: &StorageEvent, storage: &Storage) -> bool {
    match plugin {
        Plugin::VolumeRestrictions => volume_restrictions::storage_may_help(pod, event),
        Plugin::NodeVolumeLimits => node_volume_limits::storage_may_help(pod, event),
        Plugin::VolumeBinding => volume_binding::storage_may_help(pod, event, storage),
        Plugin::VolumeZone => volume_zone::storage_may_help(pod, event, storage),
        Plugin::NodeUnschedulable
        | Plugin::NodeName
        | Plugin::TaintToleration
        | Plugin::NodeAffinity
        | Plugin::NodePorts
        | Plugin::NodeResourcesFit
        | Plugin::PodTopologySpread
        | Plugin::InterPodAffinity
        | Plugin::DynamicResources => false,
    }
}

/// Whether a change of a claim, class or slice of devices may have changed the result of `plugin` for `pod`; the
/// counterpart of [`may_help`].
pub fn device_may_help(plugin: Plugin, pod: &PodInfo, event: &DeviceEvent, devices: &Devices) -> bool {
    plugin == Plugin::DynamicResources && dynamic_resources::device_may_help(pod, event, devices)
}

/// Whether the waiting pod's own change may have changed the result of `plugin` for it.
pub fn own_change_may_help(plugin: Plugin, old: &PodInfo, new: &PodInfo) -> bool {
    match plugin {
        Plugin::NodeUnschedulable | Plugin::TaintToleration => old.tolerations != new.tolerations,
        Plugin::NodeAffinity => old.affinity != new.affinity,
        Plugin::NodeResourcesFit => old.requests.exceeds(&new.requests),
        Plugin::PodTopologySpread | Plugin::InterPodAffinity => old.labels != new.labels,
        Plugin::DynamicResources => old.device_claims != new.device_claims,
        Plugin::NodeName
        | Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeBinding
        | Plugin::VolumeZone => false,
    }
}
