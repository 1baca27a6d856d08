//! [`Storage`]: claims, volumes, classes and CSI objects, indexed for the volume filters. It also holds the
//! scheduler's decisions about claims and volumes that the API does not show yet. Pure; the informers feed
//! it.

pub mod claim;
pub mod class;
pub mod csi;
mod plan;
mod record;
pub mod volume;

use crate::change::Change;
use crate::pod::{PodInfo, Uid};
use claim::Claim;
use class::Class;
use csi::{Capacity, CsiDriver, CsiNode};
use kstore_informer::{Key, Revision};
pub(crate) use plan::Progress;
pub use plan::{ClaimedVolume, VolumePlan};
pub use record::Record;
pub(crate) use record::{MetaDoc, controller_uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use volume::Volume;

/// A change of an object of one of the storage kinds.
#[derive(Clone, Debug)]
pub enum StorageChange {
    /// A change of a PersistentVolumeClaim.
    Claim(Change<Record<Claim>>),
    /// A change of a PersistentVolume.
    Volume(Change<Record<Volume>>),
    /// A change of a StorageClass.
    Class(Change<Record<Class>>),
    /// A change of a CSINode.
    CsiNode(Change<Record<CsiNode>>),
    /// A change of a CSIDriver.
    CsiDriver(Change<Record<CsiDriver>>),
    /// A change of a CSIStorageCapacity.
    Capacity(Change<Record<Capacity>>),
}

/// A change that may alter the result of a volume filter.
#[derive(Clone, Debug)]
pub enum StorageEvent {
    /// A claim, by key.
    Claim(Key),
    /// A volume in its last state.
    Volume(Arc<Record<Volume>>),
    /// A class, by name.
    Class(String),
    /// The CSINode of a node.
    CsiNode,
    /// A CSIDriver, by name.
    CsiDriver(String),
    /// The capacity for volumes of a class; the name of the class.
    Capacity(String),
}

/// Objects of one kind, by key.
pub(crate) type Records<T> = BTreeMap<Key, Arc<Record<T>>>;

/// Volumes that a claim can still get, by class and key.
type OpenVolumes = BTreeMap<String, BTreeSet<Key>>;

/// The storage objects of the cluster, and the scheduler's decisions about them.
#[derive(Default)]
pub struct Storage {
    claims: Records<Claim>,
    volumes: Records<Volume>,
    classes: Records<Class>,
    csi_nodes: Records<CsiNode>,
    csi_drivers: Records<CsiDriver>,
    capacities: Records<Capacity>,
    /// Volumes that are not bound. Most volumes are bound, so that a search for a volume checks few.
    open: OpenVolumes,
    /// The number of pods on nodes that use a claim, for claims in use.
    users: BTreeMap<Key, usize>,
    /// Volumes that a decision assigned to a claim: the claim, its uid, and the pods of the decisions.
    assumed_volumes: BTreeMap<Key, (Key, String, BTreeSet<Uid>)>,
    /// Claims whose volume a provisioner shall make: the node, and the pods of the decisions.
    assumed_nodes: BTreeMap<Key, (Arc<str>, BTreeSet<Uid>)>,
}

impl StorageChange {
    /// The revision of the object.
    pub fn revision(&self) -> Revision {
        fn of<T>(change: &Change<Record<T>>) -> Revision {
            match change {
                Change::Set(record) | Change::Gone(record) => record.revision,
            }
        }
        match self {
            Self::Claim(change) => of(change),
            Self::Volume(change) => of(change),
            Self::Class(change) => of(change),
            Self::CsiNode(change) => of(change),
            Self::CsiDriver(change) => of(change),
            Self::Capacity(change) => of(change),
        }
    }
}

/// Applies a change of an object. Returns its key if the object is new, deleted, replaced, or has other
/// fields.
pub(crate) fn store<T: PartialEq>(records: &mut Records<T>, change: Change<Record<T>>) -> Option<Key> {
    let key = match &change {
        Change::Set(record) | Change::Gone(record) => record.key.clone(),
    };
    let (before, after) = match change {
        Change::Set(record) => (records.insert(key.clone(), Arc::clone(&record)), Some(record)),
        Change::Gone(_) => (records.remove(&key), None),
    };
    let is_news = match (&before, &after) {
        (Some(before), Some(after)) => before.uid != after.uid || before.fields != after.fields,
        (None, None) => false,
        _ => true,
    };
    is_news.then_some(key)
}

impl Storage {
    /// Applies a change. `None` if the volume filters read nothing of what changed.
    pub fn apply(&mut self, change: StorageChange) -> Option<StorageEvent> {
        let name = |key: Key| key.name().to_owned();
        match change {
            StorageChange::Claim(change) => store(&mut self.claims, change).map(StorageEvent::Claim),
            StorageChange::Volume(change) => self.set_volume(change).map(StorageEvent::Volume),
            StorageChange::Class(change) => {
                store(&mut self.classes, change).map(|key| StorageEvent::Class(name(key)))
            }
            StorageChange::CsiNode(change) => {
                store(&mut self.csi_nodes, change).map(|_| StorageEvent::CsiNode)
            }
            StorageChange::CsiDriver(change) => {
                store(&mut self.csi_drivers, change).map(|key| StorageEvent::CsiDriver(name(key)))
            }
            StorageChange::Capacity(change) => {
                let (Change::Set(record) | Change::Gone(record)) = &change;
                let class = record.class.clone();
                store(&mut self.capacities, change).map(|_| StorageEvent::Capacity(class))
            }
        }
    }

    fn set_volume(&mut self, change: Change<Record<Volume>>) -> Option<Arc<Record<Volume>>> {
        let (Change::Set(record) | Change::Gone(record)) = &change;
        let (key, last) = (record.key.clone(), Arc::clone(record));
        let before = self.volumes.get(&key).cloned();
        let is_news = store(&mut self.volumes, change).is_some();
        if is_news {
            if let Some(before) = before
                && let Some(of_class) = self.open.get_mut(&before.class)
            {
                of_class.remove(&key);
                if of_class.is_empty() {
                    self.open.remove(&before.class);
                }
            }
            let now = self.volumes.get(&key).filter(|now| now.phase != volume::VolumePhase::Unavailable);
            if let Some(now) = now {
                self.open.entry(now.class.clone()).or_default().insert(key);
            }
        }
        is_news.then_some(last)
    }

    /// The claim of this namespace and name.
    pub fn claim(&self, key: &Key) -> Option<&Arc<Record<Claim>>> {
        self.claims.get(key)
    }

    /// The volume of this name.
    pub fn volume(&self, name: &str) -> Option<&Arc<Record<Volume>>> {
        self.volumes.get(&Key::new("", name))
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<&Arc<Record<Class>>> {
        self.classes.get(&Key::new("", name))
    }

    /// The CSINode of the node of this name.
    pub fn csi_node(&self, name: &str) -> Option<&CsiNode> {
        self.csi_nodes.get(&Key::new("", name)).map(|record| &record.fields)
    }

    /// Whether the driver publishes its capacity.
    pub(crate) fn publishes_capacity(&self, driver: &str) -> bool {
        let driver = self.csi_drivers.get(&Key::new("", driver));
        driver.is_some_and(|driver| driver.publishes_capacity)
    }

    /// Whether pods with volumes of the driver run only on nodes that have it.
    pub(crate) fn keeps_pods_from_other_nodes(&self, driver: &str) -> bool {
        let driver = self.csi_drivers.get(&Key::new("", driver));
        driver.is_some_and(|driver| driver.keeps_pods_from_other_nodes)
    }

    /// The published capacities.
    pub(crate) fn capacities(&self) -> impl Iterator<Item = &Capacity> {
        self.capacities.values().map(|record| &record.fields)
    }

    /// The unbound volumes of a class, sorted by name.
    pub(crate) fn open_volumes(&self, class: &str) -> impl Iterator<Item = &Arc<Record<Volume>>> {
        self.open.get(class).into_iter().flatten().map(|key| &self.volumes[key])
    }

    /// Whether the volume is bound to a claim, reserved for it, or assigned to it by a decision: `Some(true)`
    /// for this claim, `Some(false)` for another one, `None` for a free volume.
    pub(crate) fn is_kept_for(&self, volume: &Record<Volume>, claim: &Record<Claim>) -> Option<bool> {
        match (self.assumed_volumes.get(&volume.key), &volume.claim) {
            (Some((key, uid, _)), _) => Some(*key == claim.key && *uid == claim.uid),
            (None, Some(reference)) => Some(reference.refers_to(claim)),
            (None, None) => None,
        }
    }

    /// The node for which the provisioner shall make the claim's volume, decided or written.
    pub(crate) fn selected_node<'a>(&'a self, claim: &'a Record<Claim>) -> Option<&'a str> {
        let assumed = self.assumed_nodes.get(&claim.key).map(|(node, _)| &**node);
        assumed.or(claim.selected_node.as_deref())
    }

    /// The number of pods on nodes that use the claim, counted once for each of their volumes.
    pub(crate) fn users(&self, claim: &Key) -> usize {
        self.users.get(claim).copied().unwrap_or(0)
    }

    /// Counts an assigned pod as a user of its claims.
    pub(crate) fn add_user(&mut self, pod: &PodInfo) {
        for claim in pod.claims() {
            *self.users.entry(claim.key(pod)).or_default() += 1;
        }
    }

    /// Reverts [`add_user`](Self::add_user).
    pub(crate) fn remove_user(&mut self, pod: &PodInfo) {
        for claim in pod.claims() {
            let key = claim.key(pod);
            let count = self.users.get_mut(&key).expect("a pod was counted as a user when it was placed");
            *count -= 1;
            if *count == 0 {
                self.users.remove(&key);
            }
        }
    }

    /// Assumes that the pod gets these volumes on `node` before the API shows it, so that no other pod gets
    /// them.
    pub(crate) fn assume(&mut self, pod: &Uid, node: &Arc<str>, plan: &VolumePlan) {
        for (volume, claim) in &plan.bind {
            let entry = || (claim.key.clone(), claim.uid.clone(), BTreeSet::new());
            let assumed = self.assumed_volumes.entry(volume.key.clone()).or_insert_with(entry);
            assert!(assumed.0 == claim.key, "a volume is assumed for one claim");
            assumed.2.insert(Arc::clone(pod));
        }
        for claim in &plan.provision {
            let entry = || (Arc::clone(node), BTreeSet::new());
            let assumed = self.assumed_nodes.entry(claim.key.clone()).or_insert_with(entry);
            assumed.1.insert(Arc::clone(pod));
        }
    }

    /// Reverts [`assume`](Self::assume). Other pods that share a claim keep their assumption. Returns the
    /// events of everything that is free again.
    pub(crate) fn forget(&mut self, pod: &Uid, plan: &VolumePlan) -> Vec<StorageEvent> {
        let mut events = Vec::new();
        for (volume, _) in &plan.bind {
            if let Some((_, _, pods)) = self.assumed_volumes.get_mut(&volume.key) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.assumed_volumes.remove(&volume.key);
                    events.push(StorageEvent::Volume(Arc::clone(volume)));
                }
            }
        }
        for claim in &plan.provision {
            if let Some((_, pods)) = self.assumed_nodes.get_mut(&claim.key) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.assumed_nodes.remove(&claim.key);
                    events.push(StorageEvent::Claim(claim.key.clone()));
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests;
