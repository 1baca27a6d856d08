//! The scheduler's part of extenders: what a decision asks them, and how it goes on with their answers. While a decision waits, no other
//! pod is decided on and the snapshot stays; changes go to the cache and to the pod's flight in the queue.

use super::Scheduler;
use crate::action::Action;
use crate::decide::{FeasibleNodes, Filtered, Refusal, SearchScope, Terms, filter};
use crate::extender::{
    Answer, Call, Extender, FilterAnswer, MAX_EXTENDER_SCORE, NodeVictims, Question, Topic,
};
use crate::filter::PreFilterState;
use crate::limits::MAX_NODE_SCORE;
use crate::plugin::{ClusterView, ExtensionPoint, PointObserver, Rejection};
use crate::pod::PodInfo;
use crate::preemption::{self, Candidate, Preemption};
use crate::queue::QueuedPod;
use jiff::Timestamp;
use kstore_nondet::HashSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An attempt that waits for answers of extenders.
pub(super) struct AskedAttempt {
    queued: QueuedPod,
    stage: AskedStage,
}

/// What an attempt has found before it asks, and whom it asks.
enum AskedStage {
    /// The extender at this place filters the nodes.
    Filter(FeasibleNodes, usize, Arc<Extender>),
    /// The extenders score the nodes.
    Prioritize(FeasibleNodes, Vec<Arc<Extender>>),
    /// No node fits, and the extender at this place changes the candidates of preemption.
    Preempt(Refusal, Vec<Candidate>, usize, Arc<Extender>),
}

impl Scheduler {
    /// Searches nodes for a pod, and goes on with what it finds. `None` if the pod's decision was overtaken by a change.
    pub(super) fn search(
        &mut self,
        queued: QueuedPod,
        skips_nominated: bool,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let profile = self.profiles.of(&queued.pod);
        let percentage = profile.percentage_of_nodes_to_score;
        let terms = Terms { start: self.start, tie: self.tie(&queued), percentage };
        let scope = SearchScope { skips_nominated, has_extenders: self.extenders.compare_nodes() };
        let cluster = ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() };
        let filtering = filter(&profile.plugins, cluster, &queued.pod, (terms, scope), observer);
        self.start = filtering.next_start;
        match filtering.outcome {
            Filtered::Feasible(nodes) => self.ask_filters((queued, nodes, 0), now, observer),
            Filtered::Unfit(refusal) => Some(self.refuse(queued, refusal, now, observer)),
            Filtered::Failed(why) => Some(Action::Refuse(self.give_up(queued, why, now))),
        }
    }

    /// Goes on with the answers to the last question. `None` if the pod is gone or scheduled by others, or if a change has overtaken the
    /// decision; the scheduler decides on the pod again then. `None` as well if the pod is one of a gang: the end of
    /// its cycle decides.
    pub fn resume(
        &mut self,
        answers: Vec<Result<Answer, String>>,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let action = self.resume_attempt(answers, now, observer)?;
        self.collect(action)
    }

    fn resume_attempt(
        &mut self,
        mut answers: Vec<Result<Answer, String>>,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let AskedAttempt { mut queued, stage } = self.asked.take()?;
        self.was_asked = true;
        queued.pod = Arc::clone(self.queue.in_flight(&queued.pod.uid)?);
        let _span = tracing::debug_span!("decide", pod = %queued.pod.key).entered();
        let first = |answers: &mut Vec<_>| answers.pop().unwrap_or_else(|| Err("no answer".to_owned()));
        match stage {
            AskedStage::Filter(nodes, place, extender) => {
                let answer = first(&mut answers);
                self.filtered((queued, nodes, place), &extender, answer, now, observer)
            }
            AskedStage::Prioritize(nodes, extenders) => {
                let extra = self.scores(&nodes, &extenders, &answers);
                self.place(queued, &nodes, &extra, now, observer)
            }
            AskedStage::Preempt(refusal, candidates, place, extender) => {
                let left = match self.proposed(&extender, first(&mut answers)) {
                    Ok(left) => left,
                    Err(why) if extender.is_ignorable => {
                        tracing::warn!(extender = extender.name(), why, "skipped an extender that failed");
                        candidates
                    }
                    Err(why) => {
                        let ineligible = Preemption::Ineligible(why.into());
                        return Some(self.end_preemption(queued, refusal, ineligible, now, observer));
                    }
                };
                Some(self.ask_preemptors((queued, refusal, left, place + 1), now, observer))
            }
        }
    }

    /// Asks the next extender that filters nodes, from a place on, or goes on without.
    fn ask_filters(
        &mut self,
        (queued, nodes, place): (QueuedPod, FeasibleNodes, usize),
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let Some((place, extender)) = self.extenders.filter(&queued.pod, place) else {
            return self.ask_prioritizers(queued, nodes, now, observer);
        };
        let extender = Arc::clone(extender);
        let calls = vec![Call { extender: Arc::clone(&extender), topic: Topic::Filter(self.names(&nodes)) }];
        Some(self.ask(queued, calls, AskedStage::Filter(nodes, place, extender)))
    }

    /// Goes on after an extender has filtered the nodes.
    fn filtered(
        &mut self,
        (queued, mut nodes, place): (QueuedPod, FeasibleNodes, usize),
        extender: &Extender,
        answer: Result<Answer, String>,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let kept = match answer {
            Ok(Answer::Filter(answer)) => self.keep(&mut nodes, extender, answer),
            Ok(_) => Err("the answer is to another question".to_owned()),
            Err(why) => Err(why),
        };
        match kept {
            Err(why) if extender.is_ignorable => {
                tracing::warn!(extender = extender.name(), why, "skipped an extender that failed");
            }
            // As in kube-scheduler, the other nodes are tried then.
            Err(_) if nodes.is_nominated => return self.search(queued, true, now, observer),
            Err(why) => return Some(Action::Refuse(self.give_up(queued, why, now))),
            Ok(()) if !nodes.slots.is_empty() => {}
            Ok(()) if nodes.is_nominated => return self.search(queued, true, now, observer),
            Ok(()) => {
                let refusal = nodes.into_refusal(self.snapshot.nodes().len());
                return Some(self.refuse(queued, refusal, now, observer));
            }
        }
        self.ask_filters((queued, nodes, place + 1), now, observer)
    }

    /// Keeps the nodes that an extender admits, in its order, and its reasons against others.
    fn keep(
        &self,
        nodes: &mut FeasibleNodes,
        extender: &Extender,
        answer: FilterAnswer,
    ) -> Result<(), String> {
        let name = |slot: &usize| &*self.snapshot.nodes()[*slot].info().name;
        let asked: BTreeMap<&str, usize> = nodes.slots.iter().map(|slot| (name(slot), *slot)).collect();
        let (mut kept, mut known) = (Vec::new(), HashSet::default());
        for name in &answer.kept {
            let slot = asked.get(name.as_str()).copied().ok_or_else(|| {
                let url = extender.name();
                format!(
                    "extender \"{url}\" claims a filtered node \"{name}\" which is not found in the input node list"
                )
            })?;
            if known.insert(slot) {
                kept.push(slot);
            }
        }
        let unresolvable = answer.unresolvable.iter().map(|(node, why)| (node, why, false));
        let others = answer.failed.iter().filter(|(node, _)| !answer.unresolvable.contains_key(*node));
        for (node, why, is_resolvable) in unresolvable.chain(others.map(|(node, why)| (node, why, true))) {
            if let Some(slot) = asked.get(node.as_str()).filter(|slot| !known.contains(*slot)) {
                nodes.rejections.push((*slot, Rejection::by_extender(is_resolvable, why)));
            }
        }
        nodes.slots = kept;
        Ok(())
    }

    fn ask_prioritizers(
        &mut self,
        queued: QueuedPod,
        nodes: FeasibleNodes,
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let extenders = match nodes.slots.len() {
            1 => Vec::new(),
            _ => self.extenders.prioritizers(&queued.pod),
        };
        if extenders.is_empty() {
            return self.place(queued, &nodes, &[], now, observer);
        }
        let names = self.names(&nodes);
        let call = |one: &Arc<Extender>| Call {
            extender: Arc::clone(one),
            topic: Topic::Prioritize(Arc::clone(&names)),
        };
        let calls = extenders.iter().map(call).collect();
        Some(self.ask(queued, calls, AskedStage::Prioritize(nodes, extenders)))
    }

    /// What extenders add to the total of each node. One that failed adds nothing.
    fn scores(
        &self,
        nodes: &FeasibleNodes,
        extenders: &[Arc<Extender>],
        answers: &[Result<Answer, String>],
    ) -> Vec<i64> {
        let name = |slot: &usize| &*self.snapshot.nodes()[*slot].info().name;
        let places: BTreeMap<&str, usize> =
            nodes.slots.iter().enumerate().map(|(place, slot)| (name(slot), place)).collect();
        let mut extra = vec![0_i64; nodes.slots.len()];
        for (extender, answer) in extenders.iter().zip(answers) {
            match answer {
                Ok(Answer::Prioritize(scores)) => {
                    let scale = extender.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_SCORE);
                    for (node, score) in scores {
                        if let Some(place) = places.get(node.as_str()) {
                            extra[*place] = extra[*place].saturating_add(score.saturating_mul(scale));
                        }
                    }
                }
                Ok(_) => {}
                Err(why) => {
                    tracing::warn!(extender = extender.name(), why, "an extender did not score the nodes");
                }
            }
        }
        extra
    }

    /// Chooses among the nodes and assumes the pod there. After an answer of an extender, time has passed: if the node does not admit the
    /// pod any more, the pod is tried again at once.
    fn place(
        &mut self,
        queued: QueuedPod,
        nodes: &FeasibleNodes,
        extra: &[i64],
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Option<Action> {
        let tie = self.tie(&queued);
        let cluster = ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() };
        let plugins = self.plugins(&queued.pod);
        let choice = nodes.choose(plugins, cluster, &queued.pod, (tie, extra), observer);
        if self.was_asked && !self.still_admits(&queued.pod, &choice.node) {
            if let Some(cycle) = &mut self.gang {
                cycle.retry(&queued.pod.uid);
            }
            self.queue.give_back_overtaken(queued);
            return None;
        }
        let action = self.assume(queued, choice, now);
        observer.end(ExtensionPoint::Reserve, true);
        Some(action)
    }

    /// Whether the node admits the pod in the newest state of the cluster.
    fn still_admits(&mut self, pod: &PodInfo, node: &str) -> bool {
        self.snapshot.update(&self.cache);
        let cluster = ClusterView { snapshot: &self.snapshot, inventory: self.cache.inventory() };
        let Some(slot) = self.snapshot.slot(node) else { return false };
        let Ok(mut state) = PreFilterState::of(self.plugins(pod), cluster, pod) else { return false };
        let (node, nominations) = (&self.snapshot.nodes()[slot], &cluster.inventory.nominations);
        state.check_with_nominated(node, nominations, self.snapshot.namespaces()).is_ok()
    }

    /// Asks the next extender that changes the candidates of preemption, from a place on, or evicts pods.
    pub(super) fn ask_preemptors(
        &mut self,
        (queued, refusal, candidates, place): (QueuedPod, Refusal, Vec<Candidate>, usize),
        now: Timestamp,
        observer: &mut dyn PointObserver,
    ) -> Action {
        let next = self.extenders.preemptor(&queued.pod, place).filter(|_| !candidates.is_empty());
        let Some((place, extender)) = next else {
            return self.end_preemption(queued, refusal, preemption::best(candidates), now, observer);
        };
        let extender = Arc::clone(extender);
        let of_node = |one: &Candidate| NodeVictims {
            node: Arc::clone(&one.node),
            victims: one.victims.clone(),
            violations: one.violations,
        };
        let topic = Topic::Preempt(candidates.iter().map(of_node).collect());
        let calls = vec![Call { extender: Arc::clone(&extender), topic }];
        self.ask(queued, calls, AskedStage::Preempt(refusal, candidates, place, extender))
    }

    /// The candidates that an extender leaves.
    fn proposed(
        &self,
        extender: &Extender,
        answer: Result<Answer, String>,
    ) -> Result<Vec<Candidate>, String> {
        let Answer::Preempt(nodes) = answer? else {
            return Err("the answer is to another question".to_owned());
        };
        let mut left = Vec::new();
        for (node, victims) in nodes {
            let slot = self.snapshot.slot(&node);
            let slot = slot.ok_or_else(|| format!("nodeinfo not found for node name \"{node}\""))?;
            let there = &self.snapshot.nodes()[slot];
            let found = preemption::proposed(there, &victims.uids, victims.violations).map_err(|uid| {
                let url = extender.name();
                format!(
                    "extender: {url} claims to preempt pod (UID: {uid}) on node: {node}, but the pod is not found on that node"
                )
            })?;
            match found.victims.is_empty() {
                true if extender.is_ignorable => {}
                true => return Err(format!("expected at least one victim pod on node \"{node}\"")),
                false => left.push((slot, found)),
            }
        }
        left.sort_by_key(|(slot, _)| *slot);
        Ok(left.into_iter().map(|(_, candidate)| candidate).collect())
    }

    fn ask(&mut self, queued: QueuedPod, calls: Vec<Call>, stage: AskedStage) -> Action {
        let question = Question { pod: Arc::clone(&queued.pod), calls };
        self.asked = Some(AskedAttempt { queued, stage });
        Action::Ask(question)
    }

    fn names(&self, nodes: &FeasibleNodes) -> Arc<[Arc<str>]> {
        nodes.slots.iter().map(|slot| Arc::clone(&self.snapshot.nodes()[*slot].info().name)).collect()
    }
}
