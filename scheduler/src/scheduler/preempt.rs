//! The scheduler's part of preemption: refusals, evictions in flight, nominations. [`preemption`] chooses the victims.

use super::Scheduler;
use crate::action::{Action, Evict, NominationChange, Notice, SchedulingFailure};
use crate::change::Change;
use crate::decide::Refusal;
use crate::event::ClusterEvent;
use crate::explain;
use crate::plugin::{ClusterView, ExtensionPoint, PointObserver, PostFilter};
use crate::pod::{PodInfo, Uid};
use crate::preemption::{self, Candidate, CandidateSearch, Preemption};
use crate::queue::QueuedPod;
use jiff::Timestamp;
use kstore_api::version::Minor;
use std::num::NonZero;
use std::sync::Arc;

impl Scheduler {
    /// Records that these pods could not be evicted. A pod that waits for them is tried again after a back-off.
    pub fn evictions_failed(&mut self, victims: &[Uid], now: Timestamp) {
        for victim in victims {
            for released in self.evictions.end(victim, true) {
                self.queue.fail_hold(&released.preemptor, now);
            }
        }
    }

    /// Processes a pod that no node fits: evicts pods for it if that helps.
    pub(super) fn refuse(
        &mut self,
        queued: QueuedPod,
        refusal: Refusal,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Action {
        if self.post_filter(&queued.pod, &refusal).has_failed {
            observer.end(ExtensionPoint::PostFilter, false);
            return Action::Refuse(self.park(queued, refusal, None, NominationChange::Keep, now));
        }
        let cluster = ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() };
        let offset = self.attempt(&queued).fork("preemption").next_u64();
        let plugins = self.plugins(&queued.pod);
        match preemption::candidates(plugins, cluster, &queued.pod, &refusal, offset) {
            CandidateSearch::Found(candidates) => {
                self.ask_preemptors((queued, refusal, candidates, 0), now, observer)
            }
            CandidateSearch::Ended(why) => self.end_preemption(queued, refusal, why, now, observer),
        }
    }

    /// Goes on with the result of preemption for a pod that no node fits.
    pub(super) fn end_preemption(
        &mut self,
        queued: QueuedPod,
        refusal: Refusal,
        preemption: Preemption,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Action {
        observer.end(ExtensionPoint::PostFilter, matches!(preemption, Preemption::Victims(_)));
        match preemption {
            Preemption::Victims(candidate) => self.evict(queued, refusal, candidate, now),
            Preemption::Ineligible(why) => {
                // A later write of the pod may have replaced the write of the nomination.
                let node = self.cache.inventory().nominations.node_of(&queued.pod.uid);
                let node = node.filter(|node| queued.pod.nominated_node.as_ref() != Some(node)).cloned();
                let change = node.map_or(NominationChange::Keep, NominationChange::Set);
                Action::Refuse(self.park(queued, refusal, Some(&why), change, now))
            }
            Preemption::Unhelpful(why) => {
                let is_nominated =
                    self.end_nomination(&queued.pod, now) || queued.pod.nominated_node.is_some();
                self.cache.nominations_mut().nominate(&queued.pod, None);
                let change = if is_nominated { NominationChange::Clear } else { NominationChange::Keep };
                Action::Refuse(self.park(queued, refusal, why.as_deref(), change, now))
            }
        }
    }

    /// Gives a pod back to the queue until an event may help it.
    fn park(
        &mut self,
        queued: QueuedPod,
        refusal: Refusal,
        preemption: Option<&str>,
        nomination: NominationChange,
        now: Timestamp,
    ) -> Notice {
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        self.queue.give_back_refused(queued, refusal.plugins, now);
        let PostFilter { deallocation, text, .. } = self.post_filter(&pod, &refusal);
        let message = explain::message(&refusal, text, preemption);
        Notice { pod, failure: SchedulingFailure::Unfit(refusal), message, cause, deallocation, nomination }
    }

    /// Processes a pod whose attempt ended with an error. It is tried again after a back-off, and its nomination ends.
    pub(super) fn give_up(&mut self, queued: QueuedPod, message: String, now: Timestamp) -> Notice {
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        let is_nominated = self.end_nomination(&pod, now) || pod.nominated_node.is_some();
        self.cache.nominations_mut().nominate(&pod, None);
        self.queue.give_back_failed(queued, now);
        let nomination = if is_nominated { NominationChange::Clear } else { NominationChange::Keep };
        let failure = SchedulingFailure::AttemptFailed;
        Notice { pod, failure, message, cause, deallocation: None, nomination }
    }

    /// What plugins do so that the pod may fit, besides preemption.
    fn post_filter(&self, pod: &PodInfo, refusal: &Refusal) -> PostFilter {
        let cluster = ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() };
        self.plugins(pod).post_filter(pod, cluster, refusal.refusals())
    }

    /// Nominates a pod for the node of `candidate`, and holds it until the API has the evictions. A victim whose
    /// eviction is in flight for another pod is not evicted again. A victim that waits for its volumes or devices has no node in
    /// the API yet: it goes back to the queue, and the API hears nothing of it.
    fn evict(&mut self, queued: QueuedPod, refusal: Refusal, candidate: Candidate, now: Timestamp) -> Action {
        let Candidate { node, victims, violations: _ } = candidate;
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        let nominations = self.cache.nominations_mut();
        let displaced: Vec<_> = nominations.below(&pod, &node).cloned().collect();
        displaced.iter().for_each(|other| nominations.nominate(other, None));
        nominations.nominate(&pod, Some(Arc::clone(&node)));
        let placement = (self.minor >= Minor::V37).then(|| {
            let count = victims.len();
            format!("found a potential placement for pod on node {node}, preempting {count} victims")
        });
        let (message, by) = (explain::message(&refusal, None, placement.as_deref()), refusal.plugins);
        let count = NonZero::new(victims.len());
        let alive = victims.into_iter().filter(|victim| !victim.deleting);
        let (waiting, alive): (Vec<_>, Vec<_>) = alive.partition(|victim| self.is_waiting(&victim.uid));
        let is_new = |victim: &&Arc<PodInfo>| !self.evictions.is_evicting(&victim.uid);
        let victims = alive.iter().filter(is_new).cloned().collect();
        match self.evictions.add(&pod.uid, alive.iter().map(|victim| &victim.uid)) {
            true => self.queue.give_back_held(queued, by, now),
            false => self.queue.give_back_refused(queued, by, now),
        }
        let deallocation = self.post_filter(&pod, &refusal).deallocation;
        let failure = SchedulingFailure::Unfit(refusal);
        let nomination = NominationChange::Set(Arc::clone(&node));
        let notice = Notice { pod, failure, message, cause, deallocation, nomination };
        let selected = count.filter(|_| !(alive.is_empty() && waiting.is_empty()));
        let withdrawn = waiting.iter().filter_map(|victim| self.withdraw(&victim.uid, now)).collect();
        Action::Preempt(Evict { notice, node, victims, selected, withdrawn, displaced })
    }

    /// Notices that a victim is being deleted, has ended, or is gone. Its preemptors may be tried again.
    pub(super) fn observe_eviction(&mut self, change: &Change<PodInfo>, now: Timestamp) {
        let pod = match change {
            Change::Gone(pod) => pod,
            Change::Set(pod) if pod.deleting || pod.ended => pod,
            Change::Set(_) => return,
        };
        if self.evictions.is_evicting(&pod.uid) {
            for released in self.evictions.end(&pod.uid, false) {
                match released.has_failed {
                    true => self.queue.fail_hold(&released.preemptor, now),
                    false => self.queue.end_hold(&released.preemptor, now),
                }
            }
        }
    }

    /// Removes a pod from the queue, and its nomination. Pods that the nomination kept away may fit now.
    pub(super) fn dequeue(&mut self, pod: &PodInfo, now: Timestamp) {
        self.queue.remove(&pod.uid);
        self.evictions.remove_preemptor(&pod.uid);
        self.end_nomination(pod, now);
    }

    /// True if the pod was nominated.
    fn end_nomination(&mut self, pod: &PodInfo, now: Timestamp) -> bool {
        let was_nominated = self.cache.nominations_mut().remove(&pod.uid).is_some();
        if was_nominated {
            self.wake(ClusterEvent::PodFreed(pod), pod.revision, now);
        }
        was_nominated
    }
}
