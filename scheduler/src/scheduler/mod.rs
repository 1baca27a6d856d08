//! The scheduler without input and output: receives changes of objects and results of writes, and returns
//! decisions. No I/O, no clock, no waiting; `run` and `bind` execute the decisions.
//!
//! The scheduler is level-triggered: a change carries the current state of the object, and a repeated change
//! has no effect.

use crate::action::{Action, Binding, NominationChange, Notice, SchedulingFailure, VolumeWrites};
use crate::budgets::Budget;
use crate::cache::Cache;
use crate::change::Change;
use crate::decide::{Choice, Tie};
use crate::device_waits::DeviceWaits;
use crate::devices::{DeviceChange, DeviceEvent};
use crate::event::ClusterEvent;
use crate::extender::Extenders;
use crate::namespace::NamespaceInfo;
use crate::node::NodeInfo;
use crate::plugin::{PluginSet, PointObserver, Reservation, ReservationKind};
use crate::plugins::Registry;
use crate::pod::{PodInfo, PodOwnership, Uid};
use crate::preemption::evictions::Evictions;
use crate::profile::{Profile, Profiles};
use crate::queue::{PodBackoff, Queue, QueueDepths, QueuedPod, RefusedPods};
use crate::snapshot::Snapshot;
use crate::storage::{Record, StorageChange, StorageEvent, VolumePlan};
use crate::volume_waits::{VolumeWait, VolumeWaits, WaitOutcome};
use crate::workloads::WorkloadChange;
use extend::AskedAttempt;
use gang::GangCycle;
use jiff::Timestamp;
use kstore_api::version::Minor;
use kstore_informer::Revision;
use kstore_nondet::{HashMap, HashSet, Rng};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a scheduler chooses among nodes of equal score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TieMode {
    /// By a random number that follows from the seed, the pod and the attempt alone, so that the choice for a pod does not depend on the
    /// number of earlier decisions.
    #[default]
    Random,
    /// As kube-scheduler 1.36 without extenders ([`Tie::HeapRoot`]), so that both decide alike.
    KubeScheduler,
    /// The first of them in the order in which nodes are visited.
    First,
}

/// The scheduler's state: cache, queue, the pods whose bind is in flight, and the waits for volumes.
pub struct Scheduler {
    profiles: Profiles,
    seed: u64,
    ties: TieMode,
    start: usize,
    cache: Cache,
    snapshot: Snapshot,
    queue: Queue,
    /// Pods whose bind is in flight, in their newest version.
    binding: HashMap<Uid, QueuedPod>,
    /// Pods that gates keep out of the queue.
    gated: HashSet<Uid>,
    /// The pods of `binding` that wait for their volumes.
    waits: VolumeWaits,
    /// The pods of `binding` that wait for their devices.
    device_waits: DeviceWaits,
    /// The evictions in flight, for which pods are held in the queue.
    evictions: Evictions,
    extenders: Extenders,
    /// The attempt that waits for extenders. The pod is in flight in the queue.
    asked: Option<AskedAttempt>,
    /// The cycle of a gang that runs. Its pods that have nodes are in `binding`, and nothing else knows of them.
    gang: Option<GangCycle>,
    /// What the last cycle of a gang has decided, as far as it was not returned yet.
    decided: VecDeque<Action>,
    /// Whether the current attempt has waited for extenders, so that the cluster may have changed since its snapshot.
    was_asked: bool,
    /// The version of Kubernetes whose messages the scheduler writes.
    minor: Minor,
}

impl Scheduler {
    /// A scheduler for pods with this scheduler name. It searches `percentage` per cent of the nodes (zero:
    /// adaptive) and breaks ties by a seed drawn from `rng`.
    pub fn new(name: &str, percentage: usize, rng: &Rng) -> Self {
        let profile = Profile { percentage_of_nodes_to_score: percentage, ..Profile::named(name) };
        Self::of(profile.into(), PodBackoff::default(), rng)
    }

    /// A scheduler for the pods of these profiles, which wait after failures as `backoff` says. It breaks ties by a seed drawn from `rng`.
    pub fn of(profiles: Profiles, backoff: PodBackoff, rng: &Rng) -> Self {
        Self {
            queue: Queue::new(profiles.clone(), backoff),
            profiles,
            seed: rng.next_u64(),
            ties: TieMode::default(),
            start: 0,
            cache: Cache::default(),
            snapshot: Snapshot::default(),
            binding: HashMap::default(),
            gated: HashSet::default(),
            waits: VolumeWaits::default(),
            device_waits: DeviceWaits::default(),
            evictions: Evictions::default(),
            extenders: Extenders::default(),
            asked: None,
            gang: None,
            decided: VecDeque::new(),
            was_asked: false,
            minor: Minor::V36,
        }
    }

    /// The scheduler with these extenders.
    #[must_use]
    pub fn with_extenders(self, extenders: Extenders) -> Self {
        Self { extenders, ..self }
    }

    /// The scheduler with this choice among nodes of equal score; without a call it has the default one.
    #[must_use]
    pub fn with_ties(self, ties: TieMode) -> Self {
        Self { ties, ..self }
    }

    /// The scheduler with the messages of a version of Kubernetes; without a call it has those of 1.36.
    #[must_use]
    pub fn of_release(self, minor: Minor) -> Self {
        Self { minor, ..self }
    }

    /// The relation of a pod to this scheduler.
    fn ownership(&self, pod: &PodInfo) -> PodOwnership {
        pod.ownership(|name| self.profiles.has(name))
    }

    /// The plugins that decide on a pod.
    fn plugins(&self, pod: &PodInfo) -> &Registry {
        &self.profiles.of(pod).plugins
    }

    /// Processes a change of a pod.
    pub fn pod(&mut self, change: Change<PodInfo>, now: Timestamp) {
        self.observe_eviction(&change, now);
        let grown = self.observe_member(&change);
        match &change {
            Change::Set(pod) if pod.is_gated_for(|name| self.profiles.has(name)) => {
                self.gated.insert(Arc::clone(&pod.uid));
            }
            Change::Set(pod) | Change::Gone(pod) if !self.gated.is_empty() => {
                self.gated.remove(&pod.uid);
            }
            Change::Set(_) | Change::Gone(_) => {}
        }
        let (Change::Set(pod) | Change::Gone(pod)) = &change;
        let revision = pod.revision;
        match change {
            Change::Gone(pod) => self.release(&pod, now),
            Change::Set(pod) if pod.ended => self.release(&pod, now),
            Change::Set(pod) => match self.ownership(&pod) {
                PodOwnership::Assigned(node) => self.assigned(pod, &node, now),
                PodOwnership::Pending => self.pending(pod, now),
                PodOwnership::Ignored => self.ignored(pod, now),
            },
        }
        if let Some(group) = grown {
            self.wake_group(&group, revision, now);
        }
    }

    /// Processes a change of a node.
    pub fn node(&mut self, change: Change<NodeInfo>, now: Timestamp) {
        match change {
            Change::Gone(node) => {
                if let Some(known) = self.cache.remove_node(&node.name) {
                    self.wake(ClusterEvent::NodeRemoved(&known), node.revision, now);
                    self.waits.on_node_removed(&node.name, self.cache.storage());
                }
            }
            Change::Set(new) => match self.cache.set_node(Arc::clone(&new)) {
                None => {
                    let event = ClusterEvent::NodeAdded(&new, self.cache.devices());
                    self.queue.on_event(event, new.revision, now);
                }
                Some(old) if old.is_equivalent(&new) => {}
                Some(old) => {
                    let devices = self.cache.devices();
                    let event = ClusterEvent::NodeChanged { old: &old, new: &new, devices };
                    self.queue.on_event(event, new.revision, now);
                }
            },
        }
    }

    /// Processes a change of a namespace. Its labels affect later decisions; the change wakes no pod.
    pub fn namespace(&mut self, change: Change<NamespaceInfo>) {
        match change {
            Change::Set(ns) => self.cache.set_namespace(ns.key.name(), Some(ns.labels.clone())),
            Change::Gone(ns) => self.cache.set_namespace(ns.key.name(), None),
        }
    }

    /// Processes a change of a PodDisruptionBudget. It affects later preemptions and wakes no pod.
    pub fn budget(&mut self, change: Change<Record<Budget>>) {
        self.cache.budgets_mut().apply(change);
    }

    /// Processes a change of a Service or controller. It affects later scores and wakes no pod.
    pub fn workload(&mut self, change: WorkloadChange) {
        self.cache.workloads_mut().apply(change);
    }

    /// Processes a change of a storage object.
    pub fn storage(&mut self, change: StorageChange, now: Timestamp) {
        let revision = change.revision();
        if let Some(event) = self.cache.storage_mut().apply(change) {
            self.on_storage_event(&event, revision, now);
        }
    }

    /// Processes a change of a claim, class or slice of devices.
    pub fn devices(&mut self, change: DeviceChange, now: Timestamp) {
        let revision = change.revision();
        if let Some(event) = self.cache.devices_mut().apply(change) {
            self.on_device_event(&event, revision, now);
        }
    }

    fn on_device_event(&mut self, event: &DeviceEvent, revision: Revision, now: Timestamp) {
        self.queue.on_event(ClusterEvent::Devices(event, self.cache.devices()), revision, now);
        if let DeviceEvent::Claim(claim) = event {
            self.device_waits.on_claim(claim, revision, self.cache.devices());
        }
    }

    fn on_storage_event(&mut self, event: &StorageEvent, revision: Revision, now: Timestamp) {
        let storage = self.cache.storage();
        self.queue.on_event(ClusterEvent::Storage(event, storage), revision, now);
        self.waits.on_storage_event(event, revision, storage, |name| self.cache.node(name));
    }

    /// Decides on the next ready pod, or continues with a pod whose volumes are ready. `None` if no pod is
    /// ready, and while the decision on one waits for extenders ([`Action::Ask`]).
    pub fn next(&mut self, now: Timestamp) -> Option<Action> {
        self.next_observed(now, &mut ())
    }

    /// Like [`next`](Self::next). `observer` hears of the end of each extension point of an attempt.
    pub fn next_observed(&mut self, now: Timestamp, observer: &mut dyn PointObserver) -> Option<Action> {
        if let Some(verdict) = self.end_waits(now) {
            return Some(verdict);
        }
        loop {
            if let Some(action) = self.decided.pop_front() {
                return Some(action);
            }
            if self.asked.is_some() {
                return None;
            }
            let Some(queued) = self.next_attempt(now) else {
                // The end of a gang's cycle leaves actions.
                match self.decided.is_empty() {
                    true => return None,
                    false => continue,
                }
            };
            let action = self.try_pod(queued, now, observer)?;
            if let Some(action) = self.collect(action) {
                return Some(action);
            }
        }
    }

    /// Decides on a popped pod; `None` while the decision waits for extenders.
    fn try_pod(
        &mut self,
        queued: QueuedPod,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let _span = tracing::debug_span!("decide", pod = %queued.pod.key).entered();
        self.snapshot.update(&self.cache);
        self.cache.keep_tallies(&queued.pod);
        observer.begin();
        self.was_asked = false;
        self.search(queued, false, now, observer)
    }

    /// Records that the volumes of a pod's claims were written at `revision`. The pod waits until the claims
    /// are bound.
    pub fn volumes_written(&mut self, writes: &VolumeWrites, revision: Revision, now: Timestamp) {
        let attempt = (&writes.binding.pod.uid, writes.binding.attempts);
        self.waits.written(attempt, (revision, now), self.cache.storage(), |name| self.cache.node(name));
    }

    /// Records that the API refused the volumes of a pod's claims.
    pub fn volumes_refused(&mut self, writes: &VolumeWrites, error: &str) {
        self.waits.refused(&writes.binding.pod.uid, writes.binding.attempts, error.to_owned());
    }

    /// Records that the API accepted a bind. The watch will confirm it.
    pub fn bound(&mut self, uid: &Uid) {
        self.binding.remove(uid);
    }

    /// Records that the API accepted the writes to the claims of a bind at `revision`. The watch will show them.
    pub fn devices_written(&mut self, binding: &Binding, revision: Revision) {
        if let Some(plan) = &binding.devices {
            self.cache.devices_mut().written(&binding.pod.uid, plan, revision);
        }
    }

    /// Records that the API refused a bind. The resources are free again. If the pod still waits, the
    /// scheduler tries it again after a back-off, and the notice reports `error`. `None` if the pod no longer
    /// waits.
    pub fn bind_failed(&mut self, uid: &Uid, error: &str, now: Timestamp) -> Option<Notice> {
        self.extender_bind_failed(uid, format!("running Bind plugin \"DefaultBinder\": {error}"), now)
    }

    /// Records that an extender failed to bind a pod. Like [`bind_failed`](Self::bind_failed), with the extender's own words.
    pub fn extender_bind_failed(&mut self, uid: &Uid, message: String, now: Timestamp) -> Option<Notice> {
        self.fail(uid, SchedulingFailure::BindFailed, message, now)
    }

    /// Records that the API refused a bind with writes to claims of devices. The devices are free again;
    /// otherwise like [`bind_failed`](Self::bind_failed).
    pub fn devices_refused(&mut self, binding: &Binding, error: &str, now: Timestamp) -> Option<Notice> {
        self.forget_devices(binding, now);
        let message = self.plugins(&binding.pod).pre_bind_error(ReservationKind::Devices, error);
        let notice = self.fail(&binding.pod.uid, SchedulingFailure::DevicesFailed, message, now)?;
        let is_awaited = binding.devices.as_ref().is_some_and(|plan| !plan.unprepared.is_empty());
        let nomination = if is_awaited { NominationChange::Clear } else { notice.nomination.clone() };
        Some(Notice { nomination, ..notice })
    }

    /// Discards the decision about the devices of a pod; other pods may get them then.
    fn forget_devices(&mut self, binding: &Binding, now: Timestamp) {
        let Some(plan) = &binding.devices else { return };
        if let Some(event) = self.cache.devices_mut().forget(&binding.pod.uid, plan) {
            self.on_device_event(&event, binding.pod.revision, now);
        }
    }

    fn fail(
        &mut self,
        uid: &Uid,
        failure: SchedulingFailure,
        message: String,
        now: Timestamp,
    ) -> Option<Notice> {
        let queued = self.binding.remove(uid);
        let forgotten = self.cache.forget(uid)?;
        self.wake(ClusterEvent::PodFreed(&forgotten), forgotten.revision, now);
        let queued = queued.filter(|q| self.ownership(&q.pod) == PodOwnership::Pending)?;
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        // The nomination of a pod that waited for its volumes may not be in the known version yet.
        let is_nominated =
            matches!(failure, SchedulingFailure::VolumesFailed) || pod.nominated_node.is_some();
        self.cache.nominations_mut().nominate(&pod, None);
        self.queue.give_back_failed(queued, now);
        let nomination = if is_nominated { NominationChange::Clear } else { NominationChange::Keep };
        Some(Notice { pod, failure, message, cause, deallocation: None, nomination })
    }

    /// Continues with a pod whose wait for volumes is over.
    fn end_wait(&mut self, wait: VolumeWait, outcome: WaitOutcome, now: Timestamp) -> Option<Action> {
        let uid = &wait.binding.pod.uid;
        match outcome {
            Ok(revision) => {
                // The API shows all of the plan: no resource becomes free.
                self.cache.storage_mut().forget(uid, &wait.plan);
                // Revision zero: the claims were bound before the wait.
                let cause = if revision == Revision(0) { wait.binding.cause } else { revision };
                Some(claim_or_bind(Binding { at: now, cause, ..wait.binding }))
            }
            Err(why) => {
                self.forget_volumes(&wait, now);
                self.forget_devices(&wait.binding, now);
                let why = format!("binding volumes: {why}");
                let plugins = self.plugins(&wait.binding.pod);
                let message = plugins.pre_bind_error(ReservationKind::Volumes, &why);
                self.fail(uid, SchedulingFailure::VolumesFailed, message, now).map(Action::Refuse)
            }
        }
    }

    /// Discards the decision about the volumes of a pod; other pods may get them then.
    fn forget_volumes(&mut self, wait: &VolumeWait, now: Timestamp) {
        let pod = &wait.binding.pod;
        for event in self.cache.storage_mut().forget(&pod.uid, &wait.plan) {
            self.on_storage_event(&event, pod.revision, now);
        }
    }

    /// Cancels the pod's wait for volumes. True if the pod waited.
    fn cancel_wait(&mut self, uid: &Uid, now: Timestamp) -> bool {
        if self.device_waits.remove(uid).is_some() {
            self.binding.remove(uid);
            return true;
        }
        let Some(wait) = self.waits.remove(uid) else { return false };
        self.forget_volumes(&wait, now);
        self.forget_devices(&wait.binding, now);
        self.binding.remove(uid);
        true
    }

    /// Whether [`next`](Self::next) returns a decision now.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        !self.decided.is_empty()
            || (self.asked.is_none() && (self.gang.is_some() || self.queue.is_ready(now)))
            || self.waits.is_ready()
            || self.device_waits.is_ready()
            || self.waits.deadline().into_iter().chain(self.device_waits.deadline()).any(|at| at <= now)
    }

    /// The time at which [`next`](Self::next) may return a decision without a further change.
    pub fn deadline(&self) -> Option<Timestamp> {
        let queue = self.queue.deadline().filter(|_| self.asked.is_none());
        queue.into_iter().chain(self.waits.deadline()).chain(self.device_waits.deadline()).min()
    }

    /// The number of pods in each queue, and behind gates.
    pub fn depths(&self) -> QueueDepths {
        let depths = self.queue.depths();
        QueueDepths { gated: depths.gated + self.gated.len(), ..depths }
    }

    /// How many of the waiting pods each plugin refused.
    pub fn refused(&self) -> &RefusedPods {
        self.queue.refused()
    }

    /// The cache of nodes and pods.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Forgets the pod: it occupies nothing and waits for nothing.
    fn release(&mut self, pod: &PodInfo, now: Timestamp) {
        self.cancel_wait(&pod.uid, now);
        self.dequeue(pod, now);
        self.binding.remove(&pod.uid);
        self.cache.devices_mut().forget_created(&pod.uid);
        if let Some(freed) = self.cache.remove_pod(&pod.uid) {
            self.wake(ClusterEvent::PodFreed(&freed), pod.revision, now);
        }
    }

    fn assigned(&mut self, pod: Arc<PodInfo>, node: &Arc<str>, now: Timestamp) {
        self.cancel_wait(&pod.uid, now);
        self.dequeue(&pod, now);
        let (known, stays) = (self.cache.holds(&pod.uid), self.cache.is_on(&pod.uid, node));
        let before = self.cache.set_pod(Arc::clone(&pod), node);
        if let Some(before) = &before {
            if stays && pod.keeps_all_of(before) {
                return self.changed(before, &pod, now);
            }
            self.wake(ClusterEvent::PodFreed(before), pod.revision, now);
        }
        if !known || before.is_some() {
            self.wake(ClusterEvent::PodPlaced(&pod), pod.revision, now);
        }
    }

    /// Processes a change of an assigned pod that leaves no room on its node.
    fn changed(&mut self, old: &PodInfo, new: &PodInfo, now: Timestamp) {
        if new.deleting && !old.deleting {
            self.wake(ClusterEvent::PodTerminating(old), new.revision, now);
        }
        if new.labels != old.labels {
            self.wake(ClusterEvent::PodRelabeled { old, new }, new.revision, now);
        }
    }

    /// Processes an unassigned pod. The watch may still show an assumed pod as unassigned, while the bind or
    /// its watch event is in flight. A pod that a plugin keeps out of the queue waits without an attempt.
    fn pending(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod;
        } else if !self.cache.holds(&pod.uid) {
            self.cache.nominations_mut().observe(&pod);
            let span = tracing::debug_span!("queue", pod = %pod.key);
            span.in_scope(|| match self.plugins(&pod).keeps_out(&pod, self.cache.inventory()) {
                None => self.queue.add(pod, now),
                Some(plugin) => self.queue.add_waiting(pod, PluginSet::from_iter([plugin]), now),
            });
        }
    }

    /// Processes a pod that is not to be scheduled. A bind in flight continues; its end sees that the pod no
    /// longer waits. A wait for volumes is cancelled.
    fn ignored(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        self.dequeue(&pod, now);
        if self.cancel_wait(&pod.uid, now)
            && let Some(freed) = self.cache.forget(&pod.uid)
        {
            self.wake(ClusterEvent::PodFreed(&freed), pod.revision, now);
        }
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod;
        }
    }

    fn wake(&mut self, event: ClusterEvent<'_>, revision: Revision, now: Timestamp) {
        self.queue.on_event(event, revision, now);
    }

    fn assume(&mut self, queued: QueuedPod, choice: Choice, now: Timestamp) -> Action {
        let (pod, attempts, cause) = (Arc::clone(&queued.pod), queued.attempts, queued.cause);
        let since = queued.since;
        let (mut plan, mut devices) = (None, None);
        let seed = self.seed;
        let node = self.cache.reservable(&choice.node).expect("a pod is admitted to a node that exists");
        let plugins = &self.profiles.of(&pod).plugins;
        for reservation in plugins.reserve(&pod, node, &|| random(seed, attempts, &pod.uid)) {
            match reservation {
                Reservation::Volumes(volumes) => plan = Some(volumes),
                Reservation::Devices(claims) => devices = Some(Arc::new(claims)),
            }
        }
        self.queue.land(&pod.uid);
        let nominated = self.cache.nominations_mut().remove(&pod.uid);
        self.cache.assume(Arc::clone(&pod), &choice.node);
        self.binding.insert(Arc::clone(&pod.uid), queued);
        let has_left = nominated.is_some_and(|node| node != choice.node);
        match &mut self.gang {
            None => self.announce(&pod, cause, has_left, now),
            Some(cycle) if has_left => cycle.leaves(&pod.uid),
            Some(_) => {}
        }
        let binding = Binding { pod, choice, attempts, cause, at: now, since, devices };
        match plan {
            None => claim_or_bind(binding),
            Some(plan) => Action::BindVolumes(self.wait_for_volumes(binding, plan)),
        }
    }

    /// Wakes the pods that a pod on its node helps, and those that its nomination for another node kept away.
    fn announce(&mut self, pod: &PodInfo, cause: Revision, has_left: bool, now: Timestamp) {
        self.wake(ClusterEvent::PodPlaced(pod), cause, now);
        if has_left {
            self.wake(ClusterEvent::PodFreed(pod), cause, now);
        }
    }

    fn wait_for_volumes(&mut self, binding: Binding, plan: VolumePlan) -> VolumeWrites {
        let node = &binding.choice.node;
        let writes = VolumeWrites {
            bind: plan.unwritten_bindings().cloned().collect(),
            provision: plan.unwritten_nodes(node).cloned().collect(),
            binding: binding.clone(),
        };
        self.waits.add(binding, plan);
        writes
    }

    /// The choice among nodes of equal score in the pod's attempt.
    fn tie(&self, queued: &QueuedPod) -> Tie {
        match self.ties {
            TieMode::Random => Tie::Number(self.attempt(queued).next_u64()),
            TieMode::KubeScheduler => Tie::HeapRoot,
            TieMode::First => Tie::Number(0),
        }
    }

    /// The random numbers of the pod's attempt.
    fn attempt(&self, queued: &QueuedPod) -> Rng {
        random(self.seed, queued.attempts, &queued.pod.uid)
    }
}

/// What is to be done for a pod that has its volumes: its devices may have to be prepared before it is bound.
fn claim_or_bind(binding: Binding) -> Action {
    match &binding.devices {
        Some(plan) if !plan.unprepared.is_empty() => Action::ClaimDevices(binding),
        _ => Action::Bind(binding),
    }
}

/// The random numbers of a pod's attempt.
fn random(seed: u64, attempts: u32, uid: &Uid) -> Rng {
    Rng::seeded(seed.wrapping_add(u64::from(attempts))).fork(uid)
}

mod await_devices;
mod extend;
mod followed;
mod gang;
mod preempt;

#[cfg(test)]
mod tests;
