//! The plugin VolumeBinding: the node can use the volumes of the pod's bound claims. Claims that wait for
//! their first pod find volumes there, or a provisioner can make them. [`ClaimVolumes::of`] reads the claims once,
//! [`ClaimVolumes::plan`] checks a node.

use crate::event::EventKind::{NodeAdded, NodeChanged};
use crate::event::{ClusterEvent, EventKind, EventSet};
use crate::fields::Fields;
use crate::gates::Gates;
use crate::inventory::Inventory;
use crate::limits::VOLUME_BIND_TIMEOUT;
use crate::node::NodeInfo;
use crate::node_state::NodeState;
use crate::plugin::{
    ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Reservation, ReservationKind, Row,
};
use crate::plugins::shape::{SHAPE, Shape, ShapeFault};
use crate::pod::PodInfo;
use crate::score::Candidates;
use crate::storage::claim::{Claim, VolumeRequest};
use crate::storage::csi::Capacity;
use crate::storage::volume::{Volume, VolumePhase};
use crate::storage::{Record, Storage, StorageEvent, VolumePlan};
use jiff::SignedDuration;
use kstore_nondet::Rng;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The reason for every node while a claim waits for a volume that does not depend on the node.
const UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";

/// Bits of the reasons why a node cannot serve the claims of a pod. Several may hold.
const UNREACHABLE: u32 = 1;
const NO_VOLUME: u32 = 1 << 1;
const NO_SPACE: u32 = 1 << 2;
const VOLUME_MISSING: u32 = 1 << 3;

const TIMEOUT: &str = "bindTimeoutSeconds";

/// The plugin, with its arguments.
pub(crate) struct VolumeBinding {
    /// The time that the claims of a pod have to become bound.
    timeout: SignedDuration,
    /// The score by the used share of storage; `None` without the gate `StorageCapacityScoring`.
    shape: Option<Shape>,
}

impl Default for VolumeBinding {
    fn default() -> Self {
        Self { timeout: VOLUME_BIND_TIMEOUT, shape: None }
    }
}

impl Plugin for VolumeBinding {
    type State<'a> = ClaimVolumes<'a>;

    const ROW: &'static Row = &Row {
        name: "VolumeBinding",
        points: &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::Reserve,
            ExtensionPoint::PreBind,
            // The score by storage capacity is off by default.
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
        ],
        weight: 0,
        reasons: &[
            "node(s) didn't match PersistentVolume's node affinity",
            "node(s) didn't find available persistent volumes to bind",
            "node(s) did not have enough free storage",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        ],
        events: EventSet::of(&[NodeAdded, NodeChanged, EventKind::Storage]),
    };

    const RESERVES: Option<ReservationKind> = Some(ReservationKind::Volumes);

    fn gated(self, gates: Gates) -> Self {
        Self { shape: gates.scores_storage_capacity.then(Shape::falling), ..self }
    }

    fn configured(&self, args: &mut Fields<'_>) -> Option<Self> {
        let seconds = args.integer(TIMEOUT).unwrap_or_else(|| self.timeout.as_secs());
        if seconds < 0 {
            let text = "invalid BindTimeoutSeconds, should not be a negative value";
            args.invalid(TIMEOUT, &seconds, text);
        }
        let shape = match &self.shape {
            Some(default) => Some(Shape::read(args).unwrap_or_else(|| default.clone())),
            None => {
                if let Some(shape) = args.value(SHAPE) {
                    let text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
                    args.invalid(SHAPE, &go_points(&shape), text);
                }
                None
            }
        };
        for ShapeFault { path, value, rule } in shape.iter().flat_map(Shape::faults) {
            match value {
                None => args.required(&path, rule),
                Some(value) => args.invalid(&path, &value, rule),
            }
        }
        Some(Self { timeout: SignedDuration::from_secs(seconds), shape })
    }

    fn arguments(&self) -> Option<Value> {
        let mut printed = json!({ TIMEOUT: self.timeout.as_secs() });
        if let Some(shape) = &self.shape {
            printed[SHAPE] = shape.print();
        }
        Some(printed)
    }

    fn prefilter<'a>(&self, pod: &'a PodInfo, cluster: ClusterView<'a>) -> PreFilter<'a, ClaimVolumes<'a>> {
        if pod.claims().is_empty() {
            return PreFilter::Skip;
        }
        match ClaimVolumes::of(pod, &cluster.inventory.storage) {
            Err(why) => PreFilter::Refuse(why.into()),
            Ok(claims) => PreFilter::Check(claims),
        }
    }

    fn check(&self, _pod: &PodInfo, claims: &ClaimVolumes<'_>, node: &NodeState) -> Result<(), Refused> {
        claims.plan(node.info()).map(drop)
    }

    fn reserve(
        &self,
        pod: &PodInfo,
        node: &NodeInfo,
        inventory: &mut Inventory,
        _: &dyn Fn() -> Rng,
    ) -> Option<Reservation> {
        let plan = VolumePlan { timeout: self.timeout, ..plan(pod, &inventory.storage, node)? };
        inventory.storage.assume(&pod.uid, &node.name, &plan);
        Some(Reservation::Volumes(plan))
    }

    /// By the share of the volumes, or of the free storage, that the pod's claims would use.
    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        let shape = self.shape.as_ref().filter(|_| !pod.claims().is_empty())?;
        let claims = ClaimVolumes::of(pod, &candidates.inventory.storage).ok()?;
        Some(candidates.map(|node| capacity_score(shape, &claims.storage_use(node.info()))))
    }

    /// A new node helps, and so does a node with changed labels. So do changes of the pod's claims, their classes and bound volumes, and of
    /// volumes and capacity of their classes.
    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(..) => true,
            ClusterEvent::NodeChanged { old, new, .. } => old.labels != new.labels,
            ClusterEvent::Storage(event, storage) => storage_may_help(pod, event, storage),
            _ => false,
        }
    }
}

/// The points of a shape as kube-scheduler prints them in an error: with the names of Go's fields.
fn go_points(shape: &Value) -> Vec<impl Serialize> {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct GoPoint {
        utilization: i64,
        score: i64,
    }
    let number = |point: &Value, name: &str| point[name].as_i64().unwrap_or_default();
    let point =
        |point: &Value| GoPoint { utilization: number(point, "utilization"), score: number(point, "score") };
    shape.as_array().into_iter().flatten().map(point).collect()
}

/// The writes for the claims of a pod if it is bound to `node`, which the filters admitted; `None` if there are none.
fn plan(pod: &PodInfo, storage: &Storage, node: &NodeInfo) -> Option<VolumePlan> {
    if pod.claims().is_empty() {
        return None;
    }
    let claims = ClaimVolumes::of(pod, storage).expect("a pod that was admitted may have volumes");
    let plan = claims.plan(node).expect("the filters asked for this plan");
    (!plan.is_empty()).then_some(plan)
}

/// The claims of a pod, sorted by what each needs of a node.
pub(crate) struct ClaimVolumes<'a> {
    storage: &'a Storage,
    /// Volumes of bound claims; `None` for a deleted volume.
    bound: Vec<Option<&'a Record<Volume>>>,
    /// Claims whose volume a provisioner makes for a node that was selected before.
    selected: Vec<(&'a Arc<Record<Claim>>, &'a str)>,
    /// Claims without a selected node, smallest first, so that a small claim does not take the volume that a
    /// large one needs.
    open: Vec<OpenClaim<'a>>,
}

/// A claim that waits for its first pod, and the volumes that it can get on some node.
struct OpenClaim<'a> {
    claim: &'a Arc<Record<Claim>>,
    size: i64,
    /// The volume reserved for the claim: the claim gets no other one.
    kept: Option<&'a Arc<Record<Volume>>>,
    /// Free volumes that fit, smallest first, then by name.
    free: Vec<&'a Arc<Record<Volume>>>,
}

/// The reason if a claim does not exist.
pub(super) fn not_found(claim: &str) -> String {
    format!("persistentvolumeclaim \"{claim}\" not found")
}

/// The existing claims of `pod`.
pub(super) fn claims_of<'a>(
    pod: &'a PodInfo,
    storage: &'a Storage,
) -> impl Iterator<Item = &'a Arc<Record<Claim>>> {
    pod.claims().iter().filter_map(|claim| storage.claim(&claim.key(pod)))
}

impl<'a> ClaimVolumes<'a> {
    /// Sorts the claims of `pod` by what each needs of a node.
    ///
    /// # Errors
    ///
    /// Why no node can have the pod, in kube-scheduler's words.
    fn of(pod: &PodInfo, storage: &'a Storage) -> Result<Self, String> {
        let mut records = Vec::with_capacity(pod.claims().len());
        for claim in pod.claims() {
            let name = &claim.name;
            let record = storage.claim(&claim.key(pod));
            let record = record.ok_or_else(|| match claim.is_ephemeral {
                false => not_found(name),
                true => format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                ),
            })?;
            if record.lost {
                let volume = record.volume.as_deref().unwrap_or_default();
                return Err(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            if record.deleting {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            if claim.is_ephemeral && record.controller.as_deref() != Some(&*pod.uid) {
                let (namespace, pod) = (pod.key.namespace(), pod.key.name());
                return Err(format!(
                    "PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
                ));
            }
            records.push(record);
        }
        let mut claims = Self { storage, bound: Vec::new(), selected: Vec::new(), open: Vec::new() };
        for record in records {
            if record.is_bound() {
                let name = record.volume.as_deref();
                claims.bound.push(name.and_then(|name| storage.volume(name)).map(|volume| &**volume));
                continue;
            }
            // A claim that names its volume does not wait for a pod, in any binding mode of its class.
            let waits = storage.class(&record.class).is_some_and(|class| class.waits_for_consumer);
            if !waits || record.volume.is_some() {
                return Err(UNBOUND_IMMEDIATE.to_owned());
            }
            match storage.selected_node(record) {
                Some(node) => claims.selected.push((record, node)),
                None => claims.open.push(OpenClaim::find(record, storage)),
            }
        }
        claims.open.sort_by_key(|open| open.size);
        Ok(claims)
    }
}

impl<'a> OpenClaim<'a> {
    fn find(claim: &'a Arc<Record<Claim>>, storage: &'a Storage) -> Self {
        let mut found = Self { claim, size: 0, kept: None, free: Vec::new() };
        let Some(request) = claim.request.as_deref() else { return found };
        found.size = request.size;
        for volume in storage.open_volumes(&claim.class) {
            match storage.is_kept_for(volume, claim) {
                Some(true) if suffices(request, volume) && found.kept.is_none() => found.kept = Some(volume),
                None if is_free_for(request, volume) => found.free.push(volume),
                Some(_) | None => {}
            }
        }
        found.free.sort_by_key(|volume| volume.size);
        found
    }

    /// The volume that the claim gets on `node`, other than those in `taken`.
    fn volume_on(&self, node: &NodeInfo, taken: &VolumePlan) -> Option<&'a Arc<Record<Volume>>> {
        let is_taken = |volume: &Record<Volume>| taken.bind.iter().any(|(other, _)| other.key == volume.key);
        let fits = |volume: &&&Arc<Record<Volume>>| !is_taken(volume) && volume.is_reachable_from(node);
        match &self.kept {
            Some(kept) => Some(kept).filter(fits).copied(),
            None => self.free.iter().find(fits).copied(),
        }
    }
}

/// Whether a volume reserved for a claim satisfies the request.
fn suffices(request: &VolumeRequest, volume: &Volume) -> bool {
    volume.size >= request.size
        && volume.is_block == request.is_block
        && volume.attributes_class == request.attributes_class
        && !volume.deleting
}

fn is_free_for(request: &VolumeRequest, volume: &Volume) -> bool {
    suffices(request, volume)
        && volume.phase == VolumePhase::Available
        && volume.modes.includes(request.modes)
        && request.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
}

impl ClaimVolumes<'_> {
    /// The writes for the claims if the pod is bound to `node`.
    ///
    /// # Errors
    ///
    /// Why the node cannot serve the claims.
    fn plan(&self, node: &NodeInfo) -> Result<VolumePlan, Refused> {
        let mut reasons = 0;
        for volume in &self.bound {
            match volume {
                None => {
                    reasons |= VOLUME_MISSING;
                    break;
                }
                Some(volume) if !volume.is_reachable_from(node) => {
                    reasons |= UNREACHABLE;
                    break;
                }
                Some(_) => {}
            }
        }
        let mut plan = VolumePlan::default();
        for (claim, selected) in &self.selected {
            if **selected != *node.name {
                reasons |= NO_VOLUME;
                return Err(Refused::by(false, reasons));
            }
            plan.provision.push(Arc::clone(claim));
        }
        for open in &self.open {
            match open.volume_on(node, &plan) {
                Some(volume) => plan.bind.push((Arc::clone(volume), Arc::clone(open.claim))),
                None => plan.provision.push(Arc::clone(open.claim)),
            }
        }
        for claim in &plan.provision {
            match self.can_provision(claim, node) {
                Provision::Possible => {}
                Provision::NotHere => {
                    reasons |= NO_VOLUME;
                    break;
                }
                Provision::NoSpace => {
                    reasons |= NO_SPACE;
                    break;
                }
            }
        }
        if reasons == 0 { Ok(plan) } else { Err(Refused::by(false, reasons)) }
    }

    /// The use of storage by class if the pod is bound to `node`: of the existing volumes that the claims get, or without any, of the
    /// capacity from which a provisioner makes them.
    fn storage_use(&self, node: &NodeInfo) -> BTreeMap<&str, StorageUse> {
        let mut classes: BTreeMap<&str, StorageUse> = BTreeMap::new();
        let Ok(plan) = self.plan(node) else { return classes };
        let size =
            |claim: &Record<Claim>| i128::from(claim.request.as_ref().map_or(0, |request| request.size));
        for open in self.open.iter().filter(|_| !plan.bind.is_empty()) {
            if let Some((volume, claim)) = plan.bind.iter().find(|(_, claim)| claim.key == open.claim.key) {
                let of_class = classes.entry(&open.claim.class).or_default();
                of_class.requested += size(claim);
                of_class.capacity += i128::from(volume.size);
            }
        }
        let selected = self.selected.iter().map(|(claim, _)| *claim);
        let provisioned = selected.chain(self.open.iter().map(|open| open.claim));
        for claim in provisioned.filter(|_| plan.bind.is_empty()) {
            if let Some(capacity) = self.capacity(claim, node) {
                let of_class = classes.entry(&claim.class).or_default();
                of_class.requested += size(claim);
                // All claims of a class get their volumes from the same capacity.
                of_class.capacity = i128::from(capacity.total);
            }
        }
        classes
    }

    /// The published capacity from which a provisioner makes the claim's volume for the node.
    fn capacity(&self, claim: &Record<Claim>, node: &NodeInfo) -> Option<&Capacity> {
        let class = self.storage.class(&claim.class)?;
        let size = claim.request.as_ref().map_or(0, |request| request.size);
        let suffices = |capacity: &&Capacity| capacity.suffices(&claim.class, size, node);
        let publishes = self.storage.publishes_capacity(&class.provisioner);
        self.storage.capacities().find(suffices).filter(|_| publishes)
    }

    fn can_provision(&self, claim: &Record<Claim>, node: &NodeInfo) -> Provision {
        let class = self.storage.class(&claim.class);
        let Some(class) = class.filter(|class| class.provisions() && class.admits(node)) else {
            return Provision::NotHere;
        };
        let size = claim.request.as_ref().map_or(0, |request| request.size);
        let mut capacities = self.storage.capacities();
        if !self.storage.publishes_capacity(&class.provisioner)
            || capacities.any(|capacity| capacity.suffices(&claim.class, size, node))
        {
            Provision::Possible
        } else {
            Provision::NoSpace
        }
    }
}

/// Storage of one class, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StorageUse {
    requested: i128,
    capacity: i128,
}

/// The mean of the classes' scores, rounded.
fn capacity_score(shape: &Shape, classes: &BTreeMap<&str, StorageUse>) -> i64 {
    let of_class = |of_class: &StorageUse| match of_class.capacity {
        capacity if capacity == 0 || of_class.requested > capacity => shape.at(100),
        capacity => shape.at(i64::try_from(of_class.requested * 100 / capacity).unwrap_or(100)),
    };
    let (sum, count) = (classes.values().map(of_class).sum::<i64>(), classes.len() as i64);
    if count == 0 { 0 } else { (2 * sum + count) / (2 * count) }
}

/// Whether a provisioner can make a volume for a node.
enum Provision {
    Possible,
    /// The class has no provisioner, or none for this node.
    NotHere,
    NoSpace,
}

/// Helpful changes: the pod's claims, their classes and bound volumes, and volumes and capacity of their
/// classes.
fn storage_may_help(pod: &PodInfo, event: &StorageEvent, storage: &Storage) -> bool {
    let unbound = || claims_of(pod, storage).filter(|claim| !claim.is_bound());
    match event {
        StorageEvent::Claim(key) => pod.uses(key),
        StorageEvent::Volume(volume) => {
            // A volume that is reserved for one claim helps no other claim.
            let may_get = |claim: &Record<Claim>| match &volume.claim {
                Some(reference) => reference.key == claim.key,
                None => claim.class == volume.class,
            };
            claims_of(pod, storage).any(|claim| match claim.is_bound() {
                true => claim.volume.as_deref() == Some(volume.key.name()),
                false => may_get(claim),
            })
        }
        StorageEvent::Class(name) | StorageEvent::Capacity(name) => {
            unbound().any(|claim| claim.class == *name)
        }
        StorageEvent::CsiDriver(name) => {
            unbound().any(|claim| storage.class(&claim.class).is_some_and(|class| class.provisioner == *name))
        }
        StorageEvent::CsiNode => false,
    }
}

#[cfg(test)]
mod tests;
