//! [`HintIndex`]: the pods that wait for an event, by the plugins that refused them and by what these plugins see of a pod. An event asks
//! only pods that one of its plugins may help, and one of many pods that are alike.

use super::QueuedPod;
use crate::plugin::PluginSet;
use crate::pod::{PodInfo, Uid};
use jiff::Timestamp;
use kstore_nondet::HashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The time and number of a pod's entry into the unschedulable pods, which order them.
pub(super) type ParkedSince = (Timestamp, u64);

/// Classes of pods with the same hash. A pod of a further one is a class of its own, so that adding a pod compares it with few others.
const CLASSES_PER_HASH: u64 = 4;

/// The class of a waiting pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HintClass {
    /// Pods that are alike to all plugins: a hash of what they are, and a number among the classes of the hash.
    Alike(u64, u64),
    /// One pod, by the number of its entry.
    Single(u64),
}

/// Place of a profile, and the plugins that refused the pod at its last attempt.
type RefusedBy = (usize, PluginSet);

/// Waiting pods by profile, the set of the plugins that refused them, and class.
#[derive(Default)]
pub(super) struct HintIndex {
    pods: BTreeMap<RefusedBy, BTreeMap<HintClass, WaitingPods>>,
    keys: HashMap<Uid, (RefusedBy, HintClass)>,
}

/// The pods of one class that the same plugins refused; at least one.
#[derive(Default)]
pub(super) struct WaitingPods {
    pub(super) unschedulable: BTreeMap<ParkedSince, Uid>,
    /// Those that wait for the evictions of their victims.
    pub(super) held: BTreeSet<Uid>,
}

impl WaitingPods {
    /// One of the pods. All of them get the same answer from a plugin.
    pub(super) fn any(&self) -> Option<&Uid> {
        self.unschedulable.values().next().or(self.held.first())
    }
}

/// Whether plugins cannot tell the pods apart when they judge an event. Names of claims and groups tell pods apart.
fn are_alike(a: &PodInfo, b: &PodInfo) -> bool {
    a.key.namespace() == b.key.namespace()
        && (&a.scheduler_name, &a.node_name, &a.ports) == (&b.scheduler_name, &b.node_name, &b.ports)
        && (&a.requests, &a.tolerations, &a.labels) == (&b.requests, &b.tolerations, &b.labels)
        && (&a.affinity, &a.pod_affinity, &a.spread) == (&b.affinity, &b.pod_affinity, &b.spread)
        && (a.restarts_all_containers, &a.preferences) == (b.restarts_all_containers, &b.preferences)
}

/// A hash of a part of what [`are_alike`] compares.
fn hash(pod: &PodInfo) -> u64 {
    let mut hasher = DefaultHasher::new();
    (pod.key.namespace(), &pod.scheduler_name, &pod.labels, &pod.affinity.selector).hash(&mut hasher);
    (pod.requests.milli_cpu, pod.requests.memory, pod.tolerations.len()).hash(&mut hasher);
    hasher.finish()
}

/// Whether a pod names objects that no other pod need name, so that an event may help it alone.
fn is_single(pod: &PodInfo) -> bool {
    pod.volumes.is_some()
        || !pod.device_claims.is_empty()
        || pod.device_requests.is_some()
        || pod.pod_group.is_some()
}

impl HintIndex {
    /// Adds an unschedulable pod of the profile at this place. `are_in_tree` says whether this crate has all plugins that refused it:
    /// another crate's plugin may tell any two pods apart. `pod` is the pod of a uid in the index.
    pub(super) fn park<'q>(
        &mut self,
        (profile, are_in_tree): (usize, bool),
        queued: &QueuedPod,
        pod: impl Fn(&Uid) -> Option<&'q PodInfo>,
    ) {
        let since = (queued.queued, queued.entry);
        self.entry((profile, are_in_tree), queued, pod).unschedulable.insert(since, queued.pod.uid.clone());
    }

    /// Adds a held pod, with the arguments of [`park`](Self::park).
    pub(super) fn hold<'q>(
        &mut self,
        (profile, are_in_tree): (usize, bool),
        queued: &QueuedPod,
        pod: impl Fn(&Uid) -> Option<&'q PodInfo>,
    ) {
        self.entry((profile, are_in_tree), queued, pod).held.insert(queued.pod.uid.clone());
    }

    fn entry<'q>(
        &mut self,
        (profile, are_in_tree): (usize, bool),
        queued: &QueuedPod,
        pod: impl Fn(&Uid) -> Option<&'q PodInfo>,
    ) -> &mut WaitingPods {
        let by = (profile, queued.refused_by);
        let classes = self.pods.entry(by).or_default();
        let class = match are_in_tree && !is_single(&queued.pod) {
            true => {
                let hash = hash(&queued.pod);
                let is_free = |number: &u64| {
                    let others = classes.get(&HintClass::Alike(hash, *number));
                    let one = others.and_then(WaitingPods::any).and_then(&pod);
                    one.is_none_or(|one| are_alike(one, &queued.pod))
                };
                let number = (0..CLASSES_PER_HASH).find(is_free);
                number.map_or(HintClass::Single(queued.entry), |number| HintClass::Alike(hash, number))
            }
            false => HintClass::Single(queued.entry),
        };
        self.keys.insert(queued.pod.uid.clone(), (by, class));
        classes.entry(class).or_default()
    }

    /// Removes a pod. One that is not in the index changes nothing.
    pub(super) fn remove(&mut self, queued: &QueuedPod) {
        let Some((by, class)) = self.keys.remove(&queued.pod.uid) else { return };
        let Some(classes) = self.pods.get_mut(&by) else { return };
        let Some(pods) = classes.get_mut(&class) else { return };
        pods.unschedulable.remove(&(queued.queued, queued.entry));
        pods.held.remove(&queued.pod.uid);
        if pods.any().is_none() {
            classes.remove(&class);
        }
        if classes.is_empty() {
            self.pods.remove(&by);
        }
    }

    /// The waiting pods whose profile, by its place, and refusing plugins `is_wanted`, class by class.
    pub(super) fn of(
        &self,
        is_wanted: impl Fn(usize, PluginSet) -> bool,
    ) -> impl Iterator<Item = &WaitingPods> {
        let wanted = self.pods.iter().filter(move |((profile, by), _)| is_wanted(*profile, *by));
        wanted.flat_map(|(_, classes)| classes.values())
    }
}
