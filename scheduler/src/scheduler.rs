//! The scheduler without its edge: changes of pods and nodes and the ends of binds go in, verdicts come out. No I/O, no
//! clock, no waiting; `run` carries out what is said here.
//!
//! It is level-triggered: a change is the state that an object is in now, and telling it twice changes nothing.

use std::sync::Arc;

use jiff::Timestamp;
use kstore_informer::Revision;
use kstore_nondet::{HashMap, Rng};

use crate::cache::Cache;
use crate::decide::{Choice, Outcome, Refusal, Terms, decide};
use crate::event::ClusterEvent;
use crate::explain;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, Standing, Uid};
use crate::queue::{Depths, Queue, QueuedPod};
use crate::snapshot::Snapshot;

/// What an object has come to.
#[derive(Clone, Debug)]
pub enum Change<T> {
    /// It exists and looks like this.
    Set(Arc<T>),
    /// It is gone; this is the last that was known of it.
    Gone(Arc<T>),
}

/// What is to be done about a pod.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Bind it. It is assumed to be there until [`Scheduler::bind_ended`] says otherwise.
    Bind(Binding),
    /// Tell that no node will take it. It waits on its own account.
    Refuse(Notice),
}

/// A pod and its node.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Where it goes, and why.
    pub choice: Choice,
    /// How often the pod was tried, this time included.
    pub attempts: u32,
    /// The revision that made the pod ready.
    pub cause: Revision,
}

/// A pod and why it goes nowhere.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why, in upstream's words.
    pub message: String,
    /// Why, node by node.
    pub refusal: Refusal,
    /// The revision that made the pod ready.
    pub cause: Revision,
}

/// See the module.
pub struct Scheduler {
    name: String,
    percentage: usize,
    seed: u64,
    start: usize,
    cache: Cache,
    snapshot: Snapshot,
    queue: Queue,
    /// Pods whose bind is under way, as last seen.
    binding: HashMap<Uid, QueuedPod>,
}

impl Scheduler {
    /// The scheduler of pods that ask for `name`, which looks at `percentage` per cent of the nodes (zero: adaptive) and
    /// breaks ties by a seed drawn from `rng`.
    pub fn new(name: &str, percentage: usize, rng: &Rng) -> Self {
        Self {
            name: name.to_owned(),
            percentage,
            seed: rng.next_u64(),
            start: 0,
            cache: Cache::default(),
            snapshot: Snapshot::default(),
            queue: Queue::default(),
            binding: HashMap::default(),
        }
    }

    /// Takes in what a pod has come to.
    pub fn pod(&mut self, change: Change<PodInfo>, now: Timestamp) {
        match change {
            Change::Gone(pod) => self.release(&pod, now),
            Change::Set(pod) if pod.ended => self.release(&pod, now),
            Change::Set(pod) => match pod.standing(&self.name) {
                Standing::Assigned(node) => self.assigned(pod, &node, now),
                Standing::Pending => self.pending(pod, now),
                Standing::Ignored => self.ignored(pod),
            },
        }
    }

    /// Takes in what a node has come to.
    pub fn node(&mut self, change: Change<NodeInfo>, now: Timestamp) {
        match change {
            Change::Gone(node) => self.cache.remove_node(&node.name),
            Change::Set(new) => match self.cache.set_node(Arc::clone(&new)) {
                None => self.wake(ClusterEvent::NodeAdded(&new), new.revision, now),
                Some(old) if old.is_like(&new) => {}
                Some(old) => self.wake(ClusterEvent::NodeChanged { old: &old, new: &new }, new.revision, now),
            },
        }
    }

    /// Decides on the next pod that is ready; `None` when there is none.
    pub fn next(&mut self, now: Timestamp) -> Option<Verdict> {
        let queued = self.queue.pop(now)?;
        self.snapshot.update(&self.cache);
        let terms = Terms { start: self.start, tie: self.tie(&queued), percentage: self.percentage };
        let decision = decide(&self.snapshot, &queued.pod, terms);
        self.start = decision.next_start;
        Some(match decision.outcome {
            Outcome::Fits(choice) => Verdict::Bind(self.assume(queued, choice)),
            Outcome::Unfit(refusal) => Verdict::Refuse(self.refuse(queued, refusal, now)),
        })
    }

    /// Takes in how the bind of a pod ended. After a failure the room is free again, and the pod, if it still waits, is
    /// tried again after a back-off.
    pub fn bind_ended(&mut self, uid: &Uid, success: bool, now: Timestamp) {
        let queued = self.binding.remove(uid);
        if success {
            return;
        }
        let Some(forgotten) = self.cache.forget(uid) else { return };
        self.wake(ClusterEvent::PodFreed(&forgotten), forgotten.revision, now);
        if let Some(queued) = queued.filter(|q| q.pod.standing(&self.name) == Standing::Pending) {
            self.queue.give_back_failed(queued, now);
        }
    }

    /// Whether [`next`](Self::next) has something now.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.queue.is_ready(now)
    }

    /// When [`next`](Self::next) may have something although nothing else happens.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.queue.deadline()
    }

    /// How many pods wait where.
    pub fn depths(&self) -> Depths {
        self.queue.depths()
    }

    /// What is where.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The pod holds nothing any more and waits for nothing.
    fn release(&mut self, pod: &PodInfo, now: Timestamp) {
        self.queue.remove(&pod.uid);
        self.binding.remove(&pod.uid);
        if let Some(freed) = self.cache.remove_pod(&pod.uid) {
            self.wake(ClusterEvent::PodFreed(&freed), pod.revision, now);
        }
    }

    fn assigned(&mut self, pod: Arc<PodInfo>, node: &Arc<str>, now: Timestamp) {
        self.queue.remove(&pod.uid);
        let revision = pod.revision;
        if let Some(before) = self.cache.set_pod(pod, node) {
            self.wake(ClusterEvent::PodFreed(&before), revision, now);
        }
    }

    /// The watch still shows a pod waiting while it is assumed: then the bind, or the news of it, is under way.
    fn pending(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod;
        } else if !self.cache.holds(&pod.uid) {
            self.queue.add(pod, now);
        }
    }

    /// A bind under way is not called off; its end sees that the pod no longer waits.
    fn ignored(&mut self, pod: Arc<PodInfo>) {
        self.queue.remove(&pod.uid);
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod;
        }
    }

    fn wake(&mut self, event: ClusterEvent<'_>, revision: Revision, now: Timestamp) {
        self.queue.on_event(event, revision, now);
    }

    fn assume(&mut self, queued: QueuedPod, choice: Choice) -> Binding {
        let (pod, attempts, cause) = (Arc::clone(&queued.pod), queued.attempts, queued.cause);
        self.cache.assume(Arc::clone(&pod), &choice.node);
        self.binding.insert(Arc::clone(&pod.uid), queued);
        Binding { pod, choice, attempts, cause }
    }

    fn refuse(&mut self, queued: QueuedPod, refusal: Refusal, now: Timestamp) -> Notice {
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        self.queue.give_back_refused(queued, refusal.plugins, now);
        Notice { message: explain::message(&refusal, None), pod, refusal, cause }
    }

    /// Follows from the seed, the pod and the attempt alone, so that one pod's fate does not depend on how many others
    /// were decided before it.
    fn tie(&self, queued: &QueuedPod) -> u64 {
        let attempt = Rng::seeded(self.seed.wrapping_add(u64::from(queued.attempts)));
        attempt.fork(&queued.pod.uid).next_u64()
    }
}

#[cfg(test)]
mod tests;
