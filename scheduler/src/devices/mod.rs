//! [`Devices`]: resource claims, device classes and resource slices, indexed for the DynamicResources filter. It
//! also holds the allocations that the scheduler decided and the API does not show yet. Pure; the informers
//! feed it.

pub mod allocate;
pub(crate) mod binding;
pub mod capacity;
pub mod claim;
pub mod class;
mod constraint;
mod counters;
pub(crate) mod extended;
mod in_use;
pub mod outcome;
pub mod plan;
pub mod pools;
#[cfg(test)]
mod reference;
mod selectors;
pub mod slice;
pub mod taint_rule;
#[cfg(test)]
mod tests;

use crate::change::Change;
use crate::pod::Uid;
use crate::resources::CLASS_PREFIX;
use crate::storage::{Record, Records, store};
use crate::taint::Taint;
use claim::{Allocation, Claim};
use class::Class;
use in_use::InUse;
use jiff::Timestamp;
use kstore_informer::{Key, Revision};
use plan::DevicePlan;
use pools::Pools;
use selectors::Selectors;
use slice::{Device, Slice};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use taint_rule::TaintRule;

/// The identity of a device. Cloning is cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The name of the driver.
    pub driver: Arc<str>,
    /// The name of the pool, unique for the driver.
    pub pool: Arc<str>,
    /// The name of the device, unique in the pool.
    pub device: Arc<str>,
}

impl DeviceId {
    /// The identity with these names.
    pub fn new(driver: &str, pool: &str, device: &str) -> Self {
        Self { driver: driver.into(), pool: pool.into(), device: device.into() }
    }
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// A change of an object of one of the kinds of devices.
#[derive(Clone, Debug)]
pub enum DeviceChange {
    /// A change of a ResourceClaim.
    Claim(Change<Record<Claim>>),
    /// A change of a DeviceClass.
    Class(Change<Record<Class>>),
    /// A change of a ResourceSlice.
    Slice(Change<Record<Slice>>),
    /// A change of a DeviceTaintRule.
    TaintRule(Change<Record<TaintRule>>),
}

/// A change that may alter the result of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceEvent {
    /// A claim changed, by key.
    Claim(Key),
    /// Devices became free.
    Freed,
    /// A class changed, by name.
    Class(Arc<str>),
    /// A slice or a rule of taints changed.
    Supply,
}

/// A decided allocation that the API does not show yet.
#[derive(Debug)]
struct AssumedAllocation {
    pod: Uid,
    /// The uid of the claim; `None` for a claim that is created with its allocation.
    claim: Option<String>,
    allocation: Arc<Allocation>,
    /// The revision at which the API accepted the allocation; `None` while the write is in flight.
    written: Option<Revision>,
}

/// The claims, classes, slices and rules of taints of the cluster, and the scheduler's decisions about them.
#[derive(Default)]
pub struct Devices {
    claims: Records<Claim>,
    classes: Records<Class>,
    /// The names of the classes that state an extended resource, by resource. The first one counts: the newest, then by name.
    of_resources: BTreeMap<String, BTreeSet<(Reverse<Timestamp>, Key)>>,
    /// The claims that were made for the extended resources of pods, by the uid of the pod.
    resources_claims: BTreeMap<String, BTreeSet<Key>>,
    taint_rules: Records<TaintRule>,
    pools: Pools,
    selectors: Selectors,
    in_use: InUse,
    /// Decided allocations by the key of the claim.
    assumed: BTreeMap<Key, AssumedAllocation>,
}

impl DeviceChange {
    /// The revision of the object.
    pub fn revision(&self) -> Revision {
        fn of<T>(change: &Change<Record<T>>) -> Revision {
            match change {
                Change::Set(record) | Change::Gone(record) => record.revision,
            }
        }
        match self {
            Self::Claim(change) => of(change),
            Self::Class(change) => of(change),
            Self::Slice(change) => of(change),
            Self::TaintRule(change) => of(change),
        }
    }
}

impl Devices {
    /// Applies a change. `None` if the filter reads nothing of what changed.
    pub fn apply(&mut self, change: DeviceChange) -> Option<DeviceEvent> {
        match change {
            DeviceChange::Claim(change) => self.set_claim(change),
            DeviceChange::Class(change) => self.set_class(change),
            DeviceChange::Slice(change) => self.pools.apply(change).then_some(DeviceEvent::Supply),
            DeviceChange::TaintRule(change) => {
                store(&mut self.taint_rules, change).is_some().then_some(DeviceEvent::Supply)
            }
        }
    }

    fn set_class(&mut self, change: Change<Record<Class>>) -> Option<DeviceEvent> {
        let (Change::Set(record) | Change::Gone(record)) = &change;
        let before = self.classes.get(&record.key).cloned();
        if let Change::Set(record) = &change {
            record.selectors.iter().for_each(|text| self.selectors.retain(text));
        }
        let name: Arc<str> = record.key.name().into();
        if let Some((resource, rank)) = before.as_deref().and_then(rank_of) {
            remove(&mut self.of_resources, &resource, &rank);
        }
        if let Change::Set(record) = &change
            && let Some((resource, rank)) = rank_of(record)
        {
            self.of_resources.entry(resource).or_default().insert(rank);
        }
        let is_news = store(&mut self.classes, change).is_some();
        for text in before.iter().flat_map(|record| &record.selectors) {
            self.selectors.release(text);
        }
        is_news.then_some(DeviceEvent::Class(name))
    }

    fn set_claim(&mut self, change: Change<Record<Claim>>) -> Option<DeviceEvent> {
        let (Change::Set(record) | Change::Gone(record)) = &change;
        let key = record.key.clone();
        let before = self.claims.get(&key).cloned();
        if let Change::Set(record) = &change {
            record.selectors().for_each(|text| self.selectors.retain(text));
            record.allocation.iter().for_each(|allocation| self.in_use.add(allocation));
        }
        if let Some(pod) = before.as_deref().and_then(pod_of) {
            remove(&mut self.resources_claims, pod, &key);
        }
        if let Change::Set(record) = &change
            && let Some(pod) = pod_of(record)
        {
            self.resources_claims.entry(pod.to_owned()).or_default().insert(key.clone());
        }
        let is_gone = matches!(change, Change::Gone(_));
        let is_news = store(&mut self.claims, change).is_some();
        if let Some(before) = &before {
            before.selectors().for_each(|text| self.selectors.release(text));
            before.allocation.iter().for_each(|allocation| self.in_use.remove(allocation));
        }
        self.settle(&key, is_gone);
        let had_devices = before.is_some_and(|before| before.allocation.is_some());
        let has_devices = self.claims.get(&key).is_some_and(|now| now.allocation.is_some());
        match is_news {
            true if had_devices && !has_devices => Some(DeviceEvent::Freed),
            true => Some(DeviceEvent::Claim(key)),
            false => None,
        }
    }

    /// The claim of this namespace and name.
    pub fn claim(&self, key: &Key) -> Option<&Arc<Record<Claim>>> {
        self.claims.get(key)
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<&Arc<Record<Class>>> {
        self.classes.get(&Key::new("", name))
    }

    /// The class whose devices satisfy requests for this resource: the one that the resource names, or the newest that states it.
    pub(crate) fn class_of_resource(&self, resource: &str) -> Option<&Arc<Record<Class>>> {
        match resource.strip_prefix(CLASS_PREFIX) {
            Some(name) => self.class(name),
            None => self.of_resources.get(resource)?.first().and_then(|(_, key)| self.classes.get(key)),
        }
    }

    /// The first claim that a scheduler made for the extended resources of a pod in this namespace.
    pub(crate) fn claim_of_resources(&self, pod: &Uid, namespace: &str) -> Option<&Arc<Record<Claim>>> {
        let claims = self.resources_claims.get(&**pod)?;
        claims.iter().find(|key| key.namespace() == namespace).and_then(|key| self.claims.get(key))
    }

    /// The taints of a device that keep claims away: those of its slice, and those that rules give it.
    pub(crate) fn taints_of<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a Taint> {
        let given = self.taint_rules.values().filter_map(|rule| rule.taint_of(&device.id));
        device.taints.iter().chain(given)
    }

    /// Whether an allocation of the claim is decided and the API does not show it yet.
    pub(crate) fn is_being_allocated(&self, claim: &Key) -> bool {
        self.assumed.contains_key(claim)
    }

    /// Assumes that the claims of a plan are allocated before the API shows it, so that no other claim gets the
    /// devices.
    pub(crate) fn assume(&mut self, pod: &Uid, plan: &DevicePlan) {
        let allocate =
            plan.allocate.iter().map(|(claim, allocation)| (claim, allocation, Some(claim.uid.clone())));
        let create = plan.create.iter().map(|created| (&created.claim, &created.allocation, None));
        for (record, allocation, claim) in allocate.chain(create) {
            self.in_use.add(allocation);
            let (pod, allocation) = (Arc::clone(pod), Arc::clone(allocation));
            let assumed = AssumedAllocation { pod, claim, allocation, written: None };
            let before = self.assumed.insert(record.key.clone(), assumed);
            assert!(before.is_none(), "a claim is allocated once at a time");
        }
    }

    /// Reverts [`assume`](Self::assume). Returns an event if devices are free again.
    pub(crate) fn forget(&mut self, pod: &Uid, plan: &DevicePlan) -> Option<DeviceEvent> {
        let mut is_freed = false;
        for key in plan.assumed() {
            if self.assumed.get(key).is_some_and(|assumed| assumed.pod == *pod) {
                self.drop_assumed(key);
                is_freed = true;
            }
        }
        is_freed.then_some(DeviceEvent::Freed)
    }

    /// Ends the assumption that a claim exists which was created for a pod that is done. The claim may be deleted before any change
    /// shows it.
    pub(crate) fn forget_created(&mut self, pod: &Uid) {
        let is_own = |assumed: &AssumedAllocation| {
            assumed.pod == *pod && assumed.claim.is_none() && assumed.written.is_some()
        };
        let own = self.assumed.iter().find(|(_, assumed)| is_own(assumed)).map(|(key, _)| key.clone());
        own.iter().for_each(|key| self.drop_assumed(key));
    }

    /// Records that the API accepted a plan at `revision`. The assumption ends when the claims show it.
    pub(crate) fn written(&mut self, pod: &Uid, plan: &DevicePlan, revision: Revision) {
        for key in plan.assumed() {
            if let Some(assumed) = self.assumed.get_mut(key).filter(|assumed| assumed.pod == *pod) {
                assumed.written = Some(revision);
                self.settle(key, false);
            }
        }
    }

    /// Ends the assumption about a claim whose object shows its result: it is allocated, changed after the
    /// write, or gone. A claim that is created with its allocation is missing before. `is_deleted`: a change says that the claim is gone.
    fn settle(&mut self, key: &Key, is_deleted: bool) {
        let Some(assumed) = self.assumed.get(key) else { return };
        let is_same = |now: &&Arc<Record<Claim>>| assumed.claim.as_ref().is_none_or(|uid| now.uid == *uid);
        let is_settled = match self.claims.get(key).filter(is_same) {
            Some(now) => {
                now.allocation.is_some() || assumed.written.is_some_and(|written| now.revision >= written)
            }
            None => is_deleted || assumed.claim.is_some(),
        };
        if is_settled {
            self.drop_assumed(key);
        }
    }

    fn drop_assumed(&mut self, key: &Key) {
        if let Some(assumed) = self.assumed.remove(key) {
            self.in_use.remove(&assumed.allocation);
        }
    }
}

/// The extended resource that a class states, and the class with its rank among those of the same resource.
fn rank_of(class: &Record<Class>) -> Option<(String, (Reverse<Timestamp>, Key))> {
    let resource = class.extended_resource.clone()?;
    Some((resource, (Reverse(class.created), class.key.clone())))
}

/// The uid of the pod for whose extended resources a scheduler made the claim.
fn pod_of(claim: &Record<Claim>) -> Option<&str> {
    claim.controller.as_deref().filter(|_| claim.is_of_resources)
}

/// Removes an item from the set of a name, and an empty set.
fn remove<T: Ord>(sets: &mut BTreeMap<String, BTreeSet<T>>, name: &str, item: &T) {
    if let Some(set) = sets.get_mut(name) {
        set.remove(item);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}
