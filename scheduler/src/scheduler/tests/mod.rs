//! Tests of the scheduler as a state machine: changes in, decisions out.

use super::*;
use crate::action::Evict;
use crate::decide::tests::reference_decision;
use crate::decide::{Outcome, Terms, Tie};
use crate::profile::DEFAULT_SCHEDULER_NAME;
use crate::reference::{ReferenceCluster, ReferenceDecision};
use crate::testing::{NAME, any_node, any_pod, at, cpu_pod, node, on, with};
use jiff::SignedDuration;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};
use serde_json::json;
use std::collections::BTreeMap;

fn scheduler() -> Scheduler {
    Scheduler::new(NAME, 0, &Rng::seeded(1))
}

fn bind(scheduler: &mut Scheduler, second: i64) -> Binding {
    match scheduler.next(at(second)) {
        Some(Action::Bind(binding)) => binding,
        other => panic!("expected a binding, not {other:?}"),
    }
}

fn refuse(scheduler: &mut Scheduler, second: i64) -> Notice {
    match scheduler.next(at(second)) {
        Some(Action::Refuse(notice)) => notice,
        other => panic!("expected a refusal, not {other:?}"),
    }
}

#[test]
fn an_unschedulable_pod_is_retried_only_when_resources_become_free() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(on(&cpu_pod("old", "3"), "n1")), at(0));
    s.pod(Change::Set(cpu_pod("new", "2")), at(0));
    assert_eq!(
        refuse(&mut s, 0).message,
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: \
         1 No preemption victims found for incoming pod."
    );
    s.node(Change::Set(node("n1", json!({ "podCIDR": "heartbeat" }))), at(5));
    assert!(!s.is_ready(at(200)), "a heartbeat is no news");
    s.pod(Change::Set(with(&on(&cpu_pod("old", "3"), "n1"), |pod| pod.ended = true)), at(200));
    assert_eq!(&*bind(&mut s, 200).choice.node, "n1");
}

#[test]
fn labels_that_the_server_adds_at_a_bind_wake_no_pod_that_lacks_room() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(cpu_pod("large", "5")), at(0));
    refuse(&mut s, 0);
    s.pod(Change::Set(cpu_pod("small", "1")), at(0));
    let binding = bind(&mut s, 0);
    s.bound(&binding.pod.uid);
    let labelled = with(&on(&binding.pod, "n1"), |pod| {
        pod.labels.insert("topology.kubernetes.io/zone".to_owned(), "z".to_owned());
    });
    s.pod(Change::Set(Arc::clone(&labelled)), at(1));
    assert!(!s.is_ready(at(200)), "the pod occupies what it was assumed to occupy");
    s.pod(Change::Set(with(&labelled, |pod| pod.requests.milli_cpu -= 1)), at(200));
    refuse(&mut s, 200);
}

#[test]
fn an_unschedulable_pod_is_retried_after_five_minutes_without_events() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(cpu_pod("p", "5")), at(0));
    refuse(&mut s, 0);
    assert_eq!(s.deadline(), Some(at(300)));
    assert!(s.next(at(299)).is_none());
    refuse(&mut s, 300);
    let backoff = PodBackoff { longest_stay: SignedDuration::from_secs(40), ..PodBackoff::default() };
    let mut s = Scheduler::of(Profiles::default(), backoff, &Rng::seeded(1));
    s.pod(
        Change::Set(with(&cpu_pod("p", "5"), |pod| pod.scheduler_name = DEFAULT_SCHEDULER_NAME.into())),
        at(0),
    );
    refuse(&mut s, 0);
    assert_eq!(s.deadline(), Some(at(40)), "or after the time of the flag");
    refuse(&mut s, 40);
}

#[test]
fn a_pod_with_spread_constraints_wakes_when_an_unusable_empty_domain_is_removed() {
    let mut s = scheduler();
    let zone = |name: &str, cordoned: bool| {
        let mut node = NodeInfo::clone(&node(name, json!({ "unschedulable": cordoned })));
        node.labels.insert("topology.kubernetes.io/zone".to_owned(), name.to_owned());
        Arc::new(node)
    };
    s.node(Change::Set(zone("open", false)), at(0));
    s.node(Change::Set(zone("cordoned", true)), at(0));
    let spec = json!({ "topologySpreadConstraints": [{
        "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "x" } }
    }] });
    let pod = |name: &str| {
        let pod = crate::testing::pod(name, spec.clone());
        Change::Set(with(&pod, |pod| drop(pod.labels.insert("app".into(), "x".into()))))
    };
    s.pod(pod("a"), at(0));
    bind(&mut s, 0);
    s.pod(pod("b"), at(0));
    assert_eq!(
        refuse(&mut s, 0).message,
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, \
         1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/2 nodes are available: \
         1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    s.node(Change::Gone(zone("cordoned", true)), at(20));
    assert_eq!(&*bind(&mut s, 20).choice.node, "open");
}

#[test]
fn a_pod_in_an_empty_cluster_is_scheduled_with_the_first_node() {
    let mut s = scheduler();
    s.pod(Change::Set(cpu_pod("p", "1")), at(0));
    assert_eq!(refuse(&mut s, 0).message, "no nodes available to schedule pods");
    assert!(s.next(at(1)).is_none());
    s.node(Change::Set(node("n1", json!({}))), at(2));
    let binding = bind(&mut s, 2);
    assert_eq!((&*binding.choice.node, binding.attempts), ("n1", 2));
}

#[test]
fn a_failed_bind_frees_the_resources_and_the_pod_is_retried_after_one_second() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let pod = cpu_pod("p", "3");
    s.pod(Change::Set(Arc::clone(&pod)), at(0));
    bind(&mut s, 0);
    s.pod(Change::Set(cpu_pod("q", "3")), at(0));
    refuse(&mut s, 0);
    let notice = s.bind_failed(&pod.uid, "conflict", at(5)).unwrap();
    assert_eq!(notice.message, "running Bind plugin \"DefaultBinder\": conflict");
    assert_eq!(&*bind(&mut s, 5).pod.uid, "q", "freed resources wake the waiting pod");
    assert!(s.next(at(5)).is_none());
    assert_eq!(s.deadline(), Some(at(6)));
    assert_eq!(&*refuse(&mut s, 6).pod.uid, "p");
}

#[test]
fn a_pod_deleted_during_a_failing_bind_is_forgotten() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let pod = cpu_pod("p", "3");
    s.pod(Change::Set(Arc::clone(&pod)), at(0));
    bind(&mut s, 0);
    s.pod(Change::Set(with(&pod, |pod| pod.deleting = true)), at(1));
    assert!(s.cache().is_assumed(&pod.uid), "the bind may yet succeed");
    assert!(s.bind_failed(&pod.uid, "gone", at(1)).is_none());
    assert!(!s.cache().holds(&pod.uid));
    assert!(s.next(at(100)).is_none() && s.deadline().is_none());
}

#[test]
fn a_stale_update_of_a_bound_pod_does_not_requeue_it() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let pod = cpu_pod("p", "3");
    s.pod(Change::Set(Arc::clone(&pod)), at(0));
    bind(&mut s, 0);
    s.bound(&pod.uid);
    s.pod(Change::Set(Arc::clone(&pod)), at(1));
    assert!(s.next(at(1)).is_none() && s.cache().is_assumed(&pod.uid));
    s.pod(Change::Set(on(&pod, "n1")), at(2));
    assert!(s.cache().holds(&pod.uid) && !s.cache().is_assumed(&pod.uid));
}

#[test]
fn pods_of_other_schedulers_are_ignored() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let pod = cpu_pod("p", "1");
    let changes: [fn(&mut PodInfo); 4] = [
        |pod| pod.scheduler_name = "other".to_owned(),
        |pod| pod.gated = true,
        |pod| pod.deleting = true,
        |pod| pod.ended = true,
    ];
    for change in changes {
        s.pod(Change::Set(with(&pod, change)), at(0));
        assert!(s.next(at(0)).is_none());
    }
    s.pod(Change::Set(pod), at(1));
    assert_eq!(bind(&mut s, 1).attempts, 1, "the last gate is gone");
}

mod await_devices;
mod devices;
mod extended_resources;
mod extenders;
mod gangs;
mod preemption;
mod profiles;
mod timing;
mod volume_model;
mod volumes;

/// An operation of the model. Numbers select among the existing objects.
#[derive(Clone, Debug)]
enum Op {
    SetNode(Arc<NodeInfo>),
    RemoveNode(usize),
    Create(Arc<PodInfo>),
    Delete(usize),
    End(usize),
    Decide,
    BindEnds(usize, bool),
    EvictionEnds(usize, bool),
    Confirm(usize),
    Pass(i64),
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0usize..6).prop_flat_map(|n| any_node(format!("n{n}"))).prop_map(Op::SetNode),
        1 => (0usize..6).prop_map(Op::RemoveNode),
        6 => any_pod("pod".to_owned()).prop_map(Op::Create),
        1 => (0usize..50).prop_map(Op::Delete),
        1 => (0usize..50).prop_map(Op::End),
        8 => Just(Op::Decide),
        3 => (0usize..50, proptest::bool::weighted(0.7)).prop_map(|(n, ok)| Op::BindEnds(n, ok)),
        3 => (0usize..50, proptest::bool::weighted(0.8)).prop_map(|(n, ok)| Op::EvictionEnds(n, ok)),
        3 => (0usize..50).prop_map(Op::Confirm),
        2 => (0i64..400).prop_map(Op::Pass),
    ]
}

/// The true cluster, with a scheduler that receives its changes.
struct ModelRun {
    scheduler: Scheduler,
    cluster: ReferenceCluster,
    /// All pods by uid, with their node once the API has it.
    pods: BTreeMap<Uid, Arc<PodInfo>>,
    /// Binds in flight.
    binding: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Binds that the API accepted and the watch has not shown.
    unseen: Vec<(Arc<PodInfo>, Arc<str>)>,
    /// Evictions in flight.
    evicting: Vec<Uid>,
    sizes: BTreeMap<Arc<str>, Arc<NodeInfo>>,
    created: usize,
    now: i64,
}

impl ModelRun {
    fn new() -> Self {
        Self {
            scheduler: scheduler(),
            cluster: ReferenceCluster::default(),
            pods: BTreeMap::new(),
            binding: Vec::new(),
            unseen: Vec::new(),
            evicting: Vec::new(),
            sizes: BTreeMap::new(),
            created: 0,
            now: 0,
        }
    }

    fn pick(&self, n: usize) -> Option<Arc<PodInfo>> {
        self.pods.values().nth(n % self.pods.len().max(1)).cloned()
    }

    fn gone(&mut self, uid: &Uid) {
        self.pods.remove(uid);
        self.unseen.retain(|(pod, _)| pod.uid != *uid);
        self.cluster.placed.retain(|(pod, _)| pod.uid != *uid);
        self.cluster.nominated.retain(|(pod, _)| pod.uid != *uid);
        self.evicting.retain(|victim| victim != uid);
    }

    fn step(&mut self, op: Op) {
        let now = at(self.now);
        match op {
            Op::SetNode(node) => {
                // A node that shrinks below its used resources would be overcommitted without the scheduler:
                // nodes keep their first size.
                let first = self.sizes.entry(Arc::clone(&node.name)).or_insert_with(|| Arc::clone(&node));
                let mut node = NodeInfo::clone(&node);
                (node.allocatable, node.allowed_pods) = (first.allocatable.clone(), first.allowed_pods);
                let node = Arc::new(node);
                self.cluster.set_node(Arc::clone(&node));
                self.scheduler.node(Change::Set(node), now);
            }
            Op::RemoveNode(n) => {
                let name = format!("n{n}");
                self.cluster.remove_node(&name);
                self.scheduler.node(Change::Gone(Arc::new(NodeInfo::named(&name))), now);
            }
            Op::Create(pod) => {
                self.created += 1;
                let pod = with(&pod, |pod| pod.uid = format!("u{:03}", self.created).into());
                self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
                self.scheduler.pod(Change::Set(pod), now);
            }
            Op::Delete(n) => {
                if let Some(pod) = self.pick(n) {
                    self.gone(&pod.uid);
                    self.scheduler.pod(Change::Gone(pod), now);
                }
            }
            Op::End(n) => {
                if let Some(pod) = self.pick(n) {
                    self.gone(&pod.uid);
                    self.scheduler.pod(Change::Set(with(&pod, |pod| pod.ended = true)), now);
                }
            }
            Op::Decide => self.decide(),
            Op::BindEnds(n, success) => self.bind_ends(n, success),
            Op::EvictionEnds(n, success) => self.eviction_ends(n, success),
            Op::Confirm(n) => {
                if !self.unseen.is_empty() {
                    let (pod, node) = self.unseen.remove(n % self.unseen.len());
                    let pod = on(&pod, &node);
                    self.pods.insert(Arc::clone(&pod.uid), Arc::clone(&pod));
                    self.scheduler.pod(Change::Set(pod), now);
                }
            }
            Op::Pass(seconds) => self.now += seconds,
        }
    }

    fn decide(&mut self) {
        let start = self.scheduler.start;
        let Some(verdict) = self.scheduler.next(at(self.now)) else { return };
        let (pod, outcome, attempts) = match &verdict {
            Action::Bind(b) => (Arc::clone(&b.pod), Outcome::Fits(b.choice.clone()), b.attempts),
            Action::Refuse(n) => {
                let SchedulingFailure::Unfit(refusal) = &n.failure else {
                    panic!("a refusal says which nodes refused")
                };
                (Arc::clone(&n.pod), Outcome::Unfit(refusal.clone()), 0)
            }
            Action::Preempt(evict) => {
                let SchedulingFailure::Unfit(refusal) = &evict.notice.failure else {
                    panic!("a refusal says which nodes refused")
                };
                (Arc::clone(&evict.notice.pod), Outcome::Unfit(refusal.clone()), 0)
            }
            Action::ClaimDevices(_) | Action::BindVolumes(_) | Action::ReportGang(_) | Action::Ask(_) => {
                panic!("no pod here has claims, and there are no extenders")
            }
        };
        let tie =
            Rng::seeded(self.scheduler.seed.wrapping_add(u64::from(attempts))).fork(&pod.uid).next_u64();
        let (expected, next) =
            self.cluster.decide(&pod, Terms { start, tie: Tie::Number(tie), percentage: 0 });
        assert_eq!(reference_decision(&outcome), expected);
        assert_eq!(self.scheduler.start, next);
        assert!(self.pods[&pod.uid].node_name.is_none(), "only waiting pods are decided on");
        match verdict {
            Action::Bind(binding) => {
                self.cluster.nominated.retain(|(other, _)| other.uid != pod.uid);
                self.cluster.placed.push((Arc::clone(&pod), Arc::clone(&binding.choice.node)));
                self.binding.push((pod, binding.choice.node));
            }
            Action::Refuse(notice) => {
                if notice.nomination == NominationChange::Clear {
                    self.cluster.nominated.retain(|(other, _)| other.uid != pod.uid);
                }
                assert!(self.cluster.preempts(&pod).is_none(), "{} may preempt", pod.uid);
            }
            Action::Preempt(evict) => self.evict(evict),
            Action::ClaimDevices(_) | Action::BindVolumes(_) | Action::ReportGang(_) | Action::Ask(_) => {}
        }
    }

    fn evict(&mut self, evict: Evict) {
        let pod = &evict.notice.pod;
        for victim in &evict.victims {
            assert!(victim.priority < pod.priority, "only pods of lower priority are evicted");
            assert!(!self.evicting.contains(&victim.uid), "{} is evicted twice", victim.uid);
            self.evicting.push(Arc::clone(&victim.uid));
        }
        let candidates = self.cluster.preempts(pod).expect("the reference knows victims as well");
        assert!(candidates.iter().any(|candidate| candidate.node == evict.node));
        let displaced =
            |other: &PodInfo, node: &Arc<str>| *node == evict.node && other.priority < pod.priority;
        self.cluster.nominated.retain(|(other, node)| other.uid != pod.uid && !displaced(other, node));
        self.cluster.nominated.push((Arc::clone(pod), evict.node));
    }

    /// Ends an eviction: the victim is gone, or the API refused.
    fn eviction_ends(&mut self, n: usize, success: bool) {
        if self.evicting.is_empty() {
            return;
        }
        let victim = self.evicting.remove(n % self.evicting.len());
        let pod = Arc::clone(&self.pods[&victim]);
        if success {
            self.gone(&victim);
            self.scheduler.pod(Change::Gone(pod), at(self.now));
        } else {
            self.scheduler.evictions_failed(&[victim], at(self.now));
        }
    }

    fn bind_ends(&mut self, n: usize, success: bool) {
        if self.binding.is_empty() {
            return;
        }
        let (pod, node) = self.binding.remove(n % self.binding.len());
        let exists = self.pods.contains_key(&pod.uid);
        let success = success && exists;
        if success {
            self.unseen.push((Arc::clone(&pod), node));
            self.scheduler.bound(&pod.uid);
        } else {
            self.cluster.placed.retain(|(placed, _)| placed.uid != pod.uid);
            self.scheduler.bind_failed(&pod.uid, "no", at(self.now));
        }
    }

    /// Asserts that no node is overcommitted and no waiting pod is lost.
    fn check(&self) {
        for node in &self.cluster.nodes {
            let pods = self.cluster.pods_on(node);
            let mut sum = crate::resources::Resources::default();
            pods.iter().for_each(|pod| sum.add(&pod.requests));
            assert!(!sum.exceeds(&node.allocatable), "{} is overcommitted", node.name);
            assert!(pods.len() as i64 <= node.allowed_pods);
            let ports: Vec<_> = pods.iter().flat_map(|pod| &pod.ports).collect();
            let conflict = |i: usize| ports[i + 1..].iter().any(|other| ports[i].conflicts_with(other));
            assert!(!(0..ports.len()).any(conflict), "a port of {} is taken twice", node.name);
        }
        for pod in self.pods.values().filter(|pod| pod.node_name.is_none()) {
            let held = self.scheduler.cache.is_assumed(&pod.uid);
            assert!(held != self.scheduler.queue.contains(&pod.uid), "{} waits or is assumed", pod.uid);
        }
        for pod in self.scheduler.queue.unschedulable() {
            let (reference_decision, _) =
                self.cluster.decide(pod, Terms { start: 0, tie: Tie::Number(0), percentage: 0 });
            assert!(
                matches!(reference_decision, ReferenceDecision::Nowhere { .. }),
                "{} sleeps although it fits",
                pod.uid
            );
        }
        if self.evicting.is_empty() {
            assert!(self.scheduler.evictions.is_empty(), "a pod waits for no eviction");
        }
        let held = self.cluster.placed.iter().filter(|(pod, _)| self.scheduler.cache.holds(&pod.uid)).count();
        assert_eq!(held, self.cluster.placed.len(), "what is placed is counted");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn decisions_equal_the_reference_and_no_node_is_overcommitted(
        ops in proptest::collection::vec(any_op(), 1..80),
    ) {
        let mut run = ModelRun::new();
        for op in ops {
            run.step(op);
            run.check();
        }
    }

    #[test]
    fn the_same_changes_and_seed_give_the_same_decisions(
        ops in proptest::collection::vec(any_op(), 1..60),
    ) {
        let history = |ops: Vec<Op>| {
            let mut run = ModelRun::new();
            ops.into_iter().for_each(|op| run.step(op));
            format!("{:?} {:?}", run.cluster.placed, run.scheduler.depths())
        };
        prop_assert_eq!(history(ops.clone()), history(ops));
    }
}
