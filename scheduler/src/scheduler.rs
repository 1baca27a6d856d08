//! The scheduler without its edge: changes of pods and nodes and the ends of binds go in, verdicts come out. No I/O, no
//! clock, no waiting; `run` and `bind` carry out what is said here.
//!
//! It is level-triggered: a change is the state that an object is in now, and telling it twice changes nothing.

use std::sync::Arc;

use jiff::Timestamp;
use kstore_informer::{Causes, Revision};
use kstore_nondet::{HashMap, Rng};

use crate::cache::Cache;
use crate::claim::ClaimInfo;
use crate::decide::{self, Choice, Outcome, Refusal, Terms, decide};
use crate::event::ClusterEvent;
use crate::explain;
use crate::filter::volume_binding;
use crate::namespace::NamespaceInfo;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, Standing, Uid};
use crate::queue::{Depths, Queue, QueuedPod};
use crate::snapshot::Snapshot;
use crate::victims;

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
    /// Bind it. It is assumed to be there until [`Scheduler::bind_failed`] says otherwise.
    Bind(Binding),
    /// Tell that no node will take it. It waits until that may have changed.
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
    /// When it was decided.
    pub at: Timestamp,
}

impl Binding {
    /// What led to it: the pod as it is, and what made it ready, which may be something else, such as a new node.
    pub fn causes(&self) -> Causes {
        causes(&self.pod, self.cause)
    }
}

/// A pod and why it goes nowhere.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// Why, node by node, or why not at all.
    pub trouble: Trouble,
    /// Why, in upstream's words.
    pub message: String,
    /// The revision that made the pod ready.
    pub cause: Revision,
}

impl Notice {
    /// What led to it, as for a [`Binding`].
    pub fn causes(&self) -> Causes {
        causes(&self.pod, self.cause)
    }
}

fn causes(pod: &PodInfo, ready: Revision) -> Causes {
    [pod.revision, ready].into_iter().collect()
}

/// What keeps a pod from its node.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// No node will take it.
    Unfit(Refusal),
    /// The API did not accept the bind.
    BindFailed,
}

impl Trouble {
    /// The word that the pod's condition gives as its reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unfit(_) => "Unschedulable",
            Self::BindFailed => "SchedulerError",
        }
    }
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
            Change::Gone(node) => {
                if let Some(known) = self.cache.remove_node(&node.name) {
                    self.wake(ClusterEvent::NodeRemoved(&known), node.revision, now);
                }
            }
            Change::Set(new) => match self.cache.set_node(Arc::clone(&new)) {
                None => self.wake(ClusterEvent::NodeAdded(&new), new.revision, now),
                Some(old) if old.is_like(&new) => {}
                Some(old) => self.wake(ClusterEvent::NodeChanged { old: &old, new: &new }, new.revision, now),
            },
        }
    }

    /// Takes in what a namespace has come to. Its labels matter to decisions to come; they wake nobody.
    pub fn namespace(&mut self, change: Change<NamespaceInfo>) {
        match change {
            Change::Set(ns) => self.cache.set_namespace(ns.key.name(), Some(ns.labels.clone())),
            Change::Gone(ns) => self.cache.set_namespace(ns.key.name(), None),
        }
    }

    /// Takes in what a claim has come to.
    pub fn claim(&mut self, change: Change<ClaimInfo>, now: Timestamp) {
        let (claim, deleting) = match change {
            Change::Set(claim) => (Arc::clone(&claim), Some(claim.deleting)),
            Change::Gone(claim) => (claim, None),
        };
        if self.cache.set_claim(&claim.key, deleting) {
            self.queue.on_claim(&claim.key, claim.revision, now);
        }
    }

    /// Decides on the next pod that is ready; `None` when there is none.
    pub fn next(&mut self, now: Timestamp) -> Option<Verdict> {
        let queued = self.queue.pop(now)?;
        let _span = tracing::debug_span!("decide", pod = %queued.pod.key).entered();
        self.snapshot.update(&self.cache);
        let nodes = self.snapshot.nodes().len();
        let unbound = volume_binding::refusal(&queued.pod, self.cache.claims());
        if let Some(why) = unbound.filter(|_| nodes > 0) {
            return Some(Verdict::Refuse(self.refuse(queued, decide::unbound(nodes, why), now)));
        }
        let terms = Terms { start: self.start, tie: self.tie(&queued), percentage: self.percentage };
        let decision = decide(&self.snapshot, &queued.pod, terms);
        self.start = decision.next_start;
        Some(match decision.outcome {
            Outcome::Fits(choice) => Verdict::Bind(self.assume(queued, choice, now)),
            Outcome::Unfit(refusal) => Verdict::Refuse(self.refuse(queued, refusal, now)),
        })
    }

    /// Takes in that the API accepted a bind. The watch will confirm it.
    pub fn bound(&mut self, uid: &Uid) {
        self.binding.remove(uid);
    }

    /// Takes in that the API did not accept a bind. The room is free again, and the pod, if it still waits, is tried
    /// again after a back-off and is told `error`. `None` if there is nobody to tell.
    pub fn bind_failed(&mut self, uid: &Uid, error: &str, now: Timestamp) -> Option<Notice> {
        let queued = self.binding.remove(uid);
        let forgotten = self.cache.forget(uid)?;
        self.wake(ClusterEvent::PodFreed(&forgotten), forgotten.revision, now);
        let queued = queued.filter(|q| q.pod.standing(&self.name) == Standing::Pending)?;
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        self.queue.give_back_failed(queued, now);
        let message = format!("running Bind plugin \"DefaultBinder\": {error}");
        Some(Notice { pod, trouble: Trouble::BindFailed, message, cause })
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
        let known = self.cache.holds(&pod.uid);
        let before = self.cache.set_pod(Arc::clone(&pod), node);
        if let Some(before) = &before {
            self.wake(ClusterEvent::PodFreed(before), pod.revision, now);
        }
        if !known || before.is_some() {
            self.wake(ClusterEvent::PodPlaced(&pod), pod.revision, now);
        }
    }

    /// The watch still shows a pod waiting while it is assumed: then the bind, or the news of it, is under way.
    fn pending(&mut self, pod: Arc<PodInfo>, now: Timestamp) {
        if let Some(queued) = self.binding.get_mut(&pod.uid) {
            queued.pod = pod;
        } else if !self.cache.holds(&pod.uid) {
            let span = tracing::debug_span!("queue", pod = %pod.key);
            span.in_scope(|| self.queue.add(pod, now));
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

    fn assume(&mut self, queued: QueuedPod, choice: Choice, now: Timestamp) -> Binding {
        let (pod, attempts, cause) = (Arc::clone(&queued.pod), queued.attempts, queued.cause);
        self.cache.assume(Arc::clone(&pod), &choice.node);
        self.binding.insert(Arc::clone(&pod.uid), queued);
        self.wake(ClusterEvent::PodPlaced(&pod), cause, now);
        Binding { pod, choice, attempts, cause, at: now }
    }

    fn refuse(&mut self, queued: QueuedPod, refusal: Refusal, now: Timestamp) -> Notice {
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        self.queue.give_back_refused(queued, refusal.plugins, now);
        let preemption = victims::why_not(&self.snapshot, &pod, &refusal);
        let message = explain::message(&refusal, preemption.as_deref());
        Notice { pod, trouble: Trouble::Unfit(refusal), message, cause }
    }

    /// Follows from the seed, the pod and the attempt alone, so that one pod's luck does not depend on how many others
    /// were decided before it.
    fn tie(&self, queued: &QueuedPod) -> u64 {
        let attempt = Rng::seeded(self.seed.wrapping_add(u64::from(queued.attempts)));
        attempt.fork(&queued.pod.uid).next_u64()
    }
}

#[cfg(test)]
mod tests;
