//! Gangs: the pods of a PodGroup get their nodes together or not at all.

use super::*;
use crate::action::{GangReport, GangResult};
use crate::gates::Gates;
use crate::pod_groups::{self, PodGroup, PodGroupVersion};
use crate::testing::set;
use kstore_informer::Key;
use std::collections::BTreeSet;

fn gang_profile(name: &str, schedules_gangs: bool) -> Profile {
    let plugins = Registry::in_tree_with(Gates { schedules_gangs, ..Gates::default() });
    Profile { plugins, ..Profile::named(name) }
}

fn gang_scheduler() -> Scheduler {
    Scheduler::of(gang_profile(NAME, true).into(), PodBackoff::default(), &Rng::seeded(1))
}

fn group(name: &str, min_count: usize) -> Change<Record<PodGroup>> {
    let meta = json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": "3" });
    let policy = json!({ "gang": { "minCount": min_count } });
    let decode = pod_groups::decoder(PodGroupVersion::V1Alpha2);
    set(&json!({ "metadata": meta, "spec": { "schedulingPolicy": policy } }), decode)
}

fn member(name: &str, group: &str, cpu: &str) -> Arc<PodInfo> {
    with(&cpu_pod(name, cpu), |pod| pod.pod_group = Some(Key::new("ns", group)))
}

/// All actions until nothing is ready: the report of each cycle with its message, and the pods that are bound and refused after it.
#[derive(Default)]
struct Turn {
    reports: Vec<GangReport>,
    bound: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
}

fn turn(s: &mut Scheduler, second: i64) -> Turn {
    let mut turn = Turn::default();
    while let Some(action) = s.next(at(second)) {
        match action {
            Action::Bind(binding) => {
                turn.bound.insert(binding.pod.uid.to_string(), binding.choice.node.to_string());
                s.bound(&binding.pod.uid);
                s.pod(Change::Set(on(&binding.pod, &binding.choice.node)), at(second));
            }
            Action::Refuse(notice) => drop(turn.refused.insert(notice.pod.uid.to_string(), notice.message)),
            Action::ReportGang(report) => turn.reports.push(*report),
            other => panic!("{other:?}"),
        }
    }
    turn
}

#[test]
fn a_gang_is_bound_when_the_last_node_that_it_needs_appears() {
    let mut s = gang_scheduler();
    for name in ["n1", "n2", "n3"] {
        s.node(Change::Set(node(name, json!({}))), at(0));
    }
    s.pod_group(group("train", 4), at(0));
    for name in ["a", "b", "c"] {
        s.pod(Change::Set(member(name, "train", "3")), at(0));
    }
    assert!(s.next(at(0)).is_none(), "three pods of four exist");
    assert_eq!(s.depths().gated, 3);
    s.pod(Change::Set(member("d", "train", "3")), at(1));
    let first = turn(&mut s, 1);
    assert_eq!(first.reports.len(), 1);
    let report = &first.reports[0];
    assert_eq!((report.result, &*report.message), (GangResult::Unschedulable, "pod group is unschedulable"));
    assert!(first.bound.is_empty(), "{:?}", first.bound);
    let waits = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled";
    assert_eq!(first.refused.values().filter(|message| **message == waits).count(), 3);
    let unfit =
        first.refused.values().filter(|message| message.starts_with("0/3 nodes are available: 3 Insuff"));
    assert_eq!(unfit.count(), 1, "{:?}", first.refused);
    for uid in ["a", "b", "c", "d"] {
        assert!(!s.cache().holds(&uid.into()), "nothing is held for the gang");
    }
    s.node(Change::Set(node("n4", json!({}))), at(20));
    let second = turn(&mut s, 20);
    assert_eq!((second.bound.len(), second.refused.len()), (4, 0));
    let nodes: BTreeSet<_> = second.bound.values().collect();
    assert_eq!(nodes.len(), 4);
    assert_eq!(second.reports[0].result, GangResult::Scheduled);
    assert!(s.next(at(500)).is_none());
}

#[test]
fn pods_wait_for_their_pod_group_and_those_above_min_count_are_optional() {
    let mut s = gang_scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    for name in ["a", "b", "c"] {
        s.pod(Change::Set(member(name, "g", "2")), at(0));
    }
    assert!(s.next(at(0)).is_none(), "there is no PodGroup");
    s.pod_group(group("g", 2), at(1));
    let done = turn(&mut s, 1);
    assert_eq!((done.bound.len(), done.refused.len()), (2, 1));
    assert!(done.refused["c"].starts_with("0/1 nodes are available"), "{:?}", done.refused);
    // A later pod needs no others: enough pods of the gang have nodes.
    s.node(Change::Set(node("n2", json!({}))), at(20));
    assert_eq!(turn(&mut s, 20).bound["c"], "n2");
}

#[test]
fn a_gang_that_does_not_fit_leaves_the_room_to_others_and_wakes_nobody() {
    let mut s = gang_scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod_group(group("big", 3), at(0));
    s.pod_group(group("small", 2), at(0));
    for (name, of) in [("a", "big"), ("b", "big"), ("c", "big"), ("d", "small"), ("e", "small")] {
        s.pod(Change::Set(member(name, of, "2")), at(0));
    }
    let done = turn(&mut s, 0);
    assert_eq!(done.bound.keys().collect::<Vec<_>>(), ["d", "e"]);
    assert_eq!(done.reports.len(), 2, "each gang was tried once");
    assert!(turn(&mut s, 100).reports.is_empty(), "the failed cycle is no event for itself");
}

#[test]
fn the_pods_of_a_gang_must_have_one_scheduler() {
    let profiles = Profiles::new(vec![gang_profile("a", true), gang_profile("b", true)]);
    let mut s = Scheduler::of(profiles, PodBackoff::default(), &Rng::seeded(1));
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod_group(group("g", 2), at(0));
    for name in ["a", "b"] {
        let pod = with(&member(name, "g", "1"), |pod| pod.scheduler_name = name.to_owned());
        s.pod(Change::Set(pod), at(0));
    }
    let Some(Action::ReportGang(report)) = s.next(at(0)) else { panic!("a cycle") };
    assert_eq!(report.result, GangResult::Error);
    let message = "failed to schedule other pod from a pod group: all pods in a single pod group should have the same \
                   .spec.schedulerName set, got: \"a\" and \"b\"";
    for _ in 0..2 {
        let notice = refuse(&mut s, 0);
        assert_eq!((&*notice.message, notice.failure.reason()), (message, "SchedulerError"));
    }
    assert!(s.next(at(0)).is_none(), "the pods back off");
}

#[test]
fn the_pods_of_a_gang_of_1_37_have_the_priority_of_their_group_and_one_preemption_policy() {
    let group = |priority: i32| {
        let meta = json!({ "namespace": "ns", "name": "g", "uid": "g", "resourceVersion": "3" });
        let spec = json!({ "schedulingPolicy": { "gang": { "minCount": 2 } }, "priority": priority });
        let decode = pod_groups::decoder(PodGroupVersion::V1Beta1);
        set(&json!({ "metadata": meta, "spec": spec }), decode)
    };
    let all = "all pods in a single pod group should have the same";
    for (own, of_group, never, expected) in [
        (5, 5, false, None),
        (5, 4, false, Some(format!("{all} priority as the pod group's priority, got 5 and 4"))),
        (5, 5, true, Some(format!("{all} preemption policy, got Never and PreemptLowerPriority"))),
    ] {
        let mut s = gang_scheduler();
        s.node(Change::Set(node("n1", json!({}))), at(0));
        s.pod_group(group(of_group), at(0));
        for (name, never) in [("a", false), ("b", never)] {
            let pod = with(&member(name, "g", "1"), |pod| {
                pod.priority = own;
                pod.never_preempts = never;
            });
            s.pod(Change::Set(pod), at(0));
        }
        let Some(Action::ReportGang(report)) = s.next(at(0)) else { panic!("a cycle") };
        match expected {
            None => assert_eq!(report.result, GangResult::Scheduled),
            Some(why) => {
                assert_eq!((report.result, &report.message), (GangResult::Error, &why));
                assert_eq!(refuse(&mut s, 0).message, why);
            }
        }
    }
}

#[test]
fn a_group_of_1_37_without_a_gang_is_scheduled_when_one_pod_has_a_node() {
    let group = |version: PodGroupVersion| {
        let meta = json!({ "namespace": "ns", "name": "g", "uid": "g", "resourceVersion": "3" });
        let spec = json!({ "schedulingPolicy": { "basic": {} } });
        set(&json!({ "metadata": meta, "spec": spec }), pod_groups::decoder(version))
    };
    for (version, reports) in [(PodGroupVersion::V1Alpha2, 0), (PodGroupVersion::V1Beta1, 1)] {
        let mut s = gang_scheduler();
        s.node(Change::Set(node("n1", json!({}))), at(0));
        s.pod_group(group(version), at(0));
        for name in ["a", "b", "c"] {
            s.pod(Change::Set(member(name, "g", "2")), at(0));
        }
        let done = turn(&mut s, 0);
        assert_eq!(
            (done.bound.len(), done.refused.len(), done.reports.len()),
            (2, 1, reports),
            "{version:?}"
        );
        assert!(done.reports.iter().all(|report| report.result == GangResult::Scheduled));
    }
}

#[test]
fn without_the_gate_the_pods_of_a_group_are_bound_one_by_one() {
    let profile = gang_profile(NAME, false);
    assert!(profile.plugins.id("GangScheduling").is_none());
    let mut s = Scheduler::of(profile.into(), PodBackoff::default(), &Rng::seeded(1));
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(member("a", "g", "1")), at(0));
    assert_eq!(&*bind(&mut s, 0).choice.node, "n1");
}

/// A change of the cluster. Numbers choose among the nodes, gangs and pods.
#[derive(Clone, Debug)]
enum Step {
    AddNode(usize),
    RemoveNode(usize),
    SetGroup(usize, usize),
    RemoveGroup(usize),
    AddMember(usize),
    AddSingle(usize),
    Delete(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0usize..4).prop_map(Step::AddNode),
        1 => (0usize..4).prop_map(Step::RemoveNode),
        2 => (0usize..3, 1usize..5).prop_map(|(group, min)| Step::SetGroup(group, min)),
        1 => (0usize..3).prop_map(Step::RemoveGroup),
        6 => (0usize..3).prop_map(Step::AddMember),
        1 => (1usize..4).prop_map(Step::AddSingle),
        2 => (0usize..20).prop_map(Step::Delete),
    ]
}

/// A pod with its gang, cores and node.
struct ModelPod {
    pod: Arc<PodInfo>,
    gang: Option<usize>,
    cores: usize,
    node: Option<String>,
}

/// What a plain look at the cluster knows: four cores on each node, and the pods of a gang request the same.
#[derive(Default)]
struct Model {
    nodes: BTreeSet<String>,
    groups: BTreeMap<usize, usize>,
    pods: Vec<ModelPod>,
    names: usize,
}

impl Model {
    fn add(&mut self, s: &mut Scheduler, gang: Option<usize>, cores: usize, now: i64) {
        self.names += 1;
        let (name, cpu) = (format!("p{}", self.names), cores.to_string());
        let pod = gang.map_or_else(|| cpu_pod(&name, &cpu), |gang| member(&name, &format!("g{gang}"), &cpu));
        s.pod(Change::Set(Arc::clone(&pod)), at(now));
        self.pods.push(ModelPod { pod, gang, cores, node: None });
    }

    fn apply(&mut self, s: &mut Scheduler, step: &Step, now: i64) {
        match step {
            Step::AddNode(at_index) => {
                let name = format!("n{at_index}");
                s.node(Change::Set(node(&name, json!({}))), at(now));
                self.nodes.insert(name);
            }
            Step::RemoveNode(index) => {
                let name = format!("n{index}");
                if self.nodes.remove(&name) {
                    s.node(Change::Gone(node(&name, json!({}))), at(now));
                }
                let is_there = |one: &ModelPod| one.node.as_ref() == Some(&name);
                for one in self.pods.iter().filter(|one| is_there(one)) {
                    s.pod(Change::Gone(on(&one.pod, &name)), at(now));
                }
                self.pods.retain(|one| !is_there(one));
            }
            Step::SetGroup(gang, min) => {
                s.pod_group(group(&format!("g{gang}"), *min), at(now));
                self.groups.insert(*gang, *min);
            }
            Step::RemoveGroup(gang) => {
                if let Some(min) = self.groups.remove(gang) {
                    let Change::Set(gone) = group(&format!("g{gang}"), min) else { unreachable!() };
                    s.pod_group(Change::Gone(gone), at(now));
                }
            }
            Step::AddMember(gang) => self.add(s, Some(*gang), gang + 1, now),
            Step::AddSingle(cores) => self.add(s, None, *cores, now),
            Step::Delete(index) if *index < self.pods.len() => {
                let ModelPod { pod, node, .. } = self.pods.remove(*index);
                let last = node.map_or_else(|| Arc::clone(&pod), |node| on(&pod, &node));
                s.pod(Change::Gone(last), at(now));
            }
            Step::Delete(_) => {}
        }
    }

    /// The number of pods of these cores for which there is room.
    fn room(&self, cores: usize) -> usize {
        let used = |name: &String| -> usize {
            let there = self.pods.iter().filter(|one| one.node.as_ref() == Some(name));
            there.map(|one| one.cores).sum()
        };
        self.nodes.iter().map(|name| (4 - used(name)) / cores).sum()
    }

    /// The pods of a gang with nodes, and those without.
    fn count(&self, gang: usize) -> (usize, usize) {
        let of_gang = self.pods.iter().filter(|one| one.gang == Some(gang));
        let (bound, waiting): (Vec<_>, Vec<_>) = of_gang.partition(|one| one.node.is_some());
        (bound.len(), waiting.len())
    }

    /// Lets the scheduler decide until nothing is ready. A gang of which a pod was bound has at least `minCount` pods with nodes then.
    fn settle(&mut self, s: &mut Scheduler, now: i64) {
        let bound = turn(s, now).bound;
        let mut grown = BTreeSet::new();
        for one in &mut self.pods {
            if let Some(chosen) = bound.get(&*one.pod.uid) {
                one.node = Some(chosen.clone());
                grown.extend(one.gang);
            }
        }
        for gang in grown {
            let (bound, _) = self.count(gang);
            assert!(bound >= self.groups[&gang], "{bound} pods of gang {gang} have nodes");
        }
    }

    /// No pod or gang waits for which there is room.
    fn check_progress(&self) {
        for (gang, needed) in &self.groups {
            let (bound, waiting) = self.count(*gang);
            let fitting = waiting.min(self.room(gang + 1));
            assert!(
                fitting == 0 || bound + fitting < *needed,
                "gang {gang} waits although {fitting} pods fit"
            );
        }
        let waits = |one: &&ModelPod| one.gang.is_none() && one.node.is_none() && self.room(one.cores) > 0;
        let waiting = self.pods.iter().find(waits);
        assert!(waiting.is_none(), "a pod waits although it fits: {:?}", waiting.map(|one| &one.pod.key));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn gangs_are_bound_whole_as_soon_as_there_is_room(steps in proptest::collection::vec(any_step(), 1..60)) {
        let (mut s, mut model) = (gang_scheduler(), Model::default());
        for (step, now) in steps.iter().zip((0i64..).step_by(100)) {
            model.apply(&mut s, step, now);
            model.settle(&mut s, now);
            // After every back-off, but before the queue tries pods again that no event has woken.
            model.settle(&mut s, now + 60);
            model.check_progress();
        }
    }
}
