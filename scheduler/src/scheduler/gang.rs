//! The scheduler's part of gangs: the pods of a gang are decided on in one cycle, without another pod in between. Each is assumed on its
//! node for those after it. At the end either enough of them have nodes and all of these are bound, or all of them are given back, as if
//! the cycle had never been. So a gang never holds nodes while it waits for more, and two gangs cannot block each other.

use super::Scheduler;
use crate::action::{Action, GangReport, GangResult, NominationChange, Notice, SchedulingFailure};
use crate::change::Change;
use crate::decide::Refusal;
use crate::event::ClusterEvent;
use crate::plugin::PluginSet;
use crate::pod::{PodInfo, PodOwnership, Uid};
use crate::pod_groups::{PodGroup, PodGroupVersion};
use crate::queue::QueuedPod;
use crate::storage::Record;
use jiff::Timestamp;
use kstore_informer::{Key, Revision};
use std::collections::VecDeque;
use std::sync::Arc;

/// The message of a gang of which too few pods have nodes.
const UNSCHEDULABLE: &str = "pod group is unschedulable";

/// The decisions on the pods of one gang.
pub(super) struct GangCycle {
    group: Key,
    /// The pod that began the cycle.
    first: Arc<PodInfo>,
    began: Timestamp,
    /// The pods on which is not decided yet, in order.
    untried: VecDeque<Uid>,
    /// The binds of the pods that have nodes.
    placed: Vec<Action>,
    /// The pods that had been nominated for another node than theirs.
    left: Vec<Uid>,
    /// What is to be done for the pods without nodes, which are in the queue again.
    refused: Vec<Action>,
    /// Why the cycle ends without a decision on the other pods.
    failure: Option<GangFailure>,
}

/// Why the pods of a gang are not decided on.
enum GangFailure {
    /// Pods or the PodGroup are missing.
    Incomplete(String),
    /// The pods do not belong together.
    Mismatch(String),
    /// The attempt of one of the pods ended with an error.
    Error(String),
}

impl GangCycle {
    /// The next pod to decide on; none after a failure.
    fn next_untried(&mut self) -> Option<Uid> {
        match self.failure {
            Some(_) => None,
            None => self.untried.pop_front(),
        }
    }

    /// Records that a pod had been nominated for another node than the one on which it was assumed.
    pub(super) fn leaves(&mut self, uid: &Uid) {
        self.left.push(Arc::clone(uid));
    }

    /// Tries a pod again whose decision was overtaken by a change.
    pub(super) fn retry(&mut self, uid: &Uid) {
        self.untried.push_front(Arc::clone(uid));
    }
}

impl Scheduler {
    /// Processes a change of a PodGroup.
    pub fn pod_group(&mut self, change: Change<Record<PodGroup>>, now: Timestamp) {
        let (Change::Set(group) | Change::Gone(group)) = &change;
        let (key, revision) = (group.key.clone(), group.revision);
        if self.cache.pod_groups_mut().apply(change) {
            self.wake_group(&key, revision, now);
        }
    }

    /// Records to which group a pod belongs. Returns the group if the pod is new there.
    pub(super) fn observe_member(&mut self, change: &Change<PodInfo>) -> Option<Key> {
        let (Change::Set(pod) | Change::Gone(pod)) = change;
        let group = pod.pod_group.as_ref().filter(|_| self.profiles.gates().schedules_gangs)?;
        let groups = self.cache.pod_groups_mut();
        if pod.ended || matches!(change, Change::Gone(_)) {
            groups.remove_pod(pod);
            return None;
        }
        groups.add_pod(pod).then(|| group.clone())
    }

    /// Wakes the pods that wait for a group.
    pub(super) fn wake_group(&mut self, group: &Key, revision: Revision, now: Timestamp) {
        let groups = &self.cache.inventory().pod_groups;
        self.queue.on_event(ClusterEvent::PodGroup(group, groups), revision, now);
    }

    /// The next pod to decide on: of the gang whose cycle runs, else the first ready one, which may begin a cycle. `None` if no pod is
    /// ready, or if a cycle has ended.
    pub(super) fn next_attempt(&mut self, now: Timestamp) -> Option<QueuedPod> {
        if self.gang.is_none() {
            let first = Arc::clone(self.queue.next_ready(now)?);
            let Some(group) = self.gang_of(&first) else { return self.queue.pop_pod(&first.uid) };
            self.gang = Some(self.begin_cycle(first, group, now));
        }
        while let Some(uid) = self.gang.as_mut()?.next_untried() {
            if let Some(queued) = self.queue.pop_pod(&uid) {
                return Some(queued);
            }
        }
        self.end_cycle(now);
        None
    }

    /// The gang of a pod whose profile schedules gangs.
    fn gang_of(&self, pod: &PodInfo) -> Option<Key> {
        let group = pod.pod_group.as_ref()?;
        self.plugins(pod).gangs()?;
        self.cache.inventory().pod_groups.is_gang(group).then(|| group.clone())
    }

    fn begin_cycle(&self, first: Arc<PodInfo>, group: Key, now: Timestamp) -> GangCycle {
        let groups = &self.cache.inventory().pod_groups;
        let untried = self.queue.takeable(groups.members(&group));
        let failure = match groups.obstacle(&group) {
            Some(why) => Some(GangFailure::Incomplete(why)),
            None => self.mismatch(&first, &group, &untried),
        };
        GangCycle {
            group,
            first,
            began: now,
            untried: untried.into(),
            placed: Vec::new(),
            left: Vec::new(),
            refused: Vec::new(),
            failure,
        }
    }

    /// Why the waiting pods of a gang, and those that have nodes, are not decided on together.
    fn mismatch(&self, first: &PodInfo, group: &Key, untried: &[Uid]) -> Option<GangFailure> {
        let groups = &self.cache.inventory().pod_groups;
        let waiting = || untried.iter().filter_map(|uid| self.queue.waiting(uid));
        match groups.get(group) {
            Some(known) if known.version == PodGroupVersion::V1Beta1 => {
                let placed = groups.members(group).filter_map(|uid| self.cache.pod(uid));
                known.mismatch(waiting().chain(placed)).map(GangFailure::Mismatch)
            }
            _ => {
                let name = &first.scheduler_name;
                let other = waiting().map(|pod| &pod.scheduler_name).find(|other| *other != name)?;
                Some(GangFailure::Error(format!(
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: {name:?} and {other:?}"
                )))
            }
        }
    }

    /// Keeps an action for the end of the cycle in which it was decided. Returns it if no cycle runs, or if it is a question to
    /// extenders.
    pub(super) fn collect(&mut self, action: Action) -> Option<Action> {
        let Some(cycle) = &mut self.gang else { return Some(action) };
        match action {
            Action::Ask(_) | Action::ReportGang(_) => return Some(action),
            Action::Bind(_) | Action::ClaimDevices(_) | Action::BindVolumes(_) => cycle.placed.push(action),
            Action::Refuse(notice) => {
                if !matches!(notice.failure, SchedulingFailure::Unfit(_)) {
                    cycle.failure = Some(GangFailure::Error(notice.message.clone()));
                }
                cycle.refused.push(Action::Refuse(notice));
            }
            Action::Preempt(_) => cycle.refused.push(action),
        }
        None
    }

    /// Ends the cycle: queues the actions for its pods, after the report about the gang.
    fn end_cycle(&mut self, now: Timestamp) {
        let Some(mut cycle) = self.gang.take() else { return };
        let groups = &self.cache.inventory().pod_groups;
        let group = groups.get(&cycle.group).cloned();
        let placed = groups.members(&cycle.group).filter(|uid| self.cache.holds(uid)).count();
        let preempting = cycle.refused.iter().filter(|one| matches!(one, Action::Preempt(_))).count();
        let reaches = |count: usize| {
            group.as_ref().is_some_and(|group| group.min_count.is_none_or(|needed| count >= needed))
        };
        let (result, message) = match cycle.failure.take() {
            None if reaches(placed) => (GangResult::Scheduled, String::new()),
            None if reaches(placed + preempting) => {
                let waits = "pod group is waiting for preemption to complete";
                (GangResult::Unschedulable, format!("{UNSCHEDULABLE}, {waits}"))
            }
            None => (GangResult::Unschedulable, UNSCHEDULABLE.to_owned()),
            Some(GangFailure::Incomplete(why)) => (GangResult::Unschedulable, why),
            Some(GangFailure::Mismatch(why)) => (GangResult::Error, why),
            Some(GangFailure::Error(why)) => {
                (GangResult::Error, format!("failed to schedule other pod from a pod group: {why}"))
            }
        };
        let report = GangReport {
            pod: Arc::clone(&cycle.first),
            group: group.clone(),
            began: cycle.began,
            result,
            message: message.clone(),
        };
        self.decided.push_back(Action::ReportGang(Box::new(report)));
        match result {
            GangResult::Scheduled => self.release_gang(cycle, now),
            _ => self.give_back_gang(cycle, result, &message, now),
        }
    }

    /// Lets the pods of a gang be bound, and the others of it fail.
    fn release_gang(&mut self, cycle: GangCycle, now: Timestamp) {
        for action in cycle.placed {
            let Some(binding) = action.binding() else { continue };
            if self.binding.contains_key(&binding.pod.uid) {
                let has_left = cycle.left.contains(&binding.pod.uid);
                self.announce(&binding.pod, binding.cause, has_left, now);
                self.decided.push_back(action);
            } else {
                self.undo(&action);
            }
        }
        self.decided.extend(cycle.refused);
    }

    /// Takes the nodes of a gang back, and gives its pods back to the queue.
    fn give_back_gang(&mut self, cycle: GangCycle, result: GangResult, message: &str, now: Timestamp) {
        let mut by: PluginSet = self.plugins(&cycle.first).gangs().into_iter().collect();
        for refused in &cycle.refused {
            if let Action::Refuse(Notice { failure: SchedulingFailure::Unfit(refusal), .. }) = refused {
                by = by.union(refusal.plugins);
            } else if let Action::Preempt(evict) = refused
                && let SchedulingFailure::Unfit(refusal) = &evict.notice.failure
            {
                by = by.union(refusal.plugins);
            }
        }
        let text = match message {
            UNSCHEDULABLE => format!("{message}, waiting for minCount pods from a gang to be scheduled"),
            other => other.to_owned(),
        };
        let placed: Vec<_> = cycle.placed.iter().filter_map(|action| self.undo(action)).collect();
        let untried: Vec<_> = cycle.untried.iter().filter_map(|uid| self.queue.pop_pod(uid)).collect();
        for queued in placed.into_iter().chain(untried) {
            if self.ownership(&queued.pod) != PodOwnership::Pending {
                self.queue.land(&queued.pod.uid);
                continue;
            }
            let action = match result {
                GangResult::Error => Action::Refuse(self.give_up(queued, text.clone(), now)),
                _ => self.refuse_member(queued, text.clone(), by, now),
            };
            self.decided.push_back(action);
        }
        self.decided.extend(cycle.refused);
    }

    /// Gives a pod of a gang back to the queue until an event may help the gang.
    fn refuse_member(&mut self, queued: QueuedPod, message: String, by: PluginSet, now: Timestamp) -> Action {
        let (pod, cause) = (Arc::clone(&queued.pod), queued.cause);
        self.cache.nominations_mut().observe(&pod);
        self.queue.give_back_refused(queued, by, now);
        let (contradiction, rejections) = (Some(message.clone().into()), Vec::new());
        let refusal = Refusal { nodes: 0, contradiction, rejections, plugins: by, left_out: None };
        let (failure, nomination) = (SchedulingFailure::Unfit(refusal), NominationChange::Keep);
        Action::Refuse(Notice { pod, failure, message, cause, deallocation: None, nomination })
    }

    /// Reverts a decision of the cycle, of which nobody has heard: no event is due. Returns the pod, if it is still there.
    fn undo(&mut self, action: &Action) -> Option<QueuedPod> {
        let binding = action.binding()?;
        let uid = &binding.pod.uid;
        if let Some(wait) = self.waits.remove(uid) {
            self.cache.storage_mut().forget(uid, &wait.plan);
        }
        if let Some(plan) = &binding.devices {
            self.cache.devices_mut().forget(uid, plan);
        }
        self.cache.forget(uid);
        self.binding.remove(uid)
    }
}
