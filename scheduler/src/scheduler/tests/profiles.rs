//! Tests of several profiles in one scheduler: pods, plugins and waits of each.

use super::*;
use crate::configuration::Configuration;
use crate::testing::decode_node;

fn configured(rest: &str) -> Scheduler {
    let text =
        format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{rest}");
    let read = Configuration::parse(&text, &Registry::in_tree()).unwrap();
    Scheduler::of(read.profiles, read.backoff, &Rng::seeded(1))
}

fn of(scheduler: &str, pod: &Arc<PodInfo>) -> Change<PodInfo> {
    Change::Set(with(pod, |pod| scheduler.clone_into(&mut pod.scheduler_name)))
}

#[test]
fn each_profile_decides_on_its_pods_and_leaves_those_of_others() {
    let mut s = configured(
        "profiles: [{schedulerName: default-scheduler}, {schedulerName: packed, pluginConfig: [{name: NodeResourcesFit, \
         args: {scoringStrategy: {type: MostAllocated}}}]}]",
    );
    for name in ["n1", "n2"] {
        s.node(Change::Set(node(name, json!({}))), at(0));
    }
    s.pod(Change::Set(on(&cpu_pod("old", "2"), "n1")), at(0));
    s.pod(of("other", &cpu_pod("third", "1")), at(0));
    assert!(s.next(at(0)).is_none(), "no profile has this name");
    s.pod(of("packed", &cpu_pod("p1", "1")), at(0));
    assert_eq!(&*bind(&mut s, 0).choice.node, "n1", "the fullest node");
    s.pod(of(NAME, &cpu_pod("p2", "1")), at(0));
    assert_eq!(&*bind(&mut s, 0).choice.node, "n2", "the emptiest node");
    let gated = with(&cpu_pod("gated", "1"), |pod| pod.gated = true);
    s.pod(of("packed", &gated), at(0));
    assert_eq!(s.depths().gated, 1);
}

#[test]
fn a_profile_without_default_preemption_evicts_no_pod() {
    let file = "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]";
    for (mut s, evicts) in [(configured(""), true), (configured(file), false)] {
        s.node(Change::Set(node("n1", json!({}))), at(0));
        s.pod(Change::Set(on(&cpu_pod("low", "4"), "n1")), at(0));
        s.pod(Change::Set(with(&cpu_pod("high", "4"), |pod| pod.priority = 5)), at(0));
        match (s.next(at(0)), evicts) {
            (Some(Action::Preempt(_)), true) => {}
            (Some(Action::Refuse(notice)), false) => {
                let text = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate";
                assert_eq!(notice.message, text);
            }
            (other, _) => panic!("unexpected: {other:?}"),
        }
    }
}

#[test]
fn an_added_affinity_refuses_nodes_and_wakes_its_pods_when_one_matches() {
    let mut s = configured(
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: \
         {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]}}}}]}]",
    );
    let pool = |name: &str, pool: &str| {
        let status = json!({ "allocatable": { "cpu": "4", "memory": "1Gi", "pods": "110" } });
        decode_node(&json!({ "metadata": { "name": name, "labels": { "pool": pool } }, "status": status }))
    };
    s.node(Change::Set(pool("n1", "b")), at(0));
    s.pod(Change::Set(cpu_pod("p", "1")), at(0));
    let refused = "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity.";
    assert!(refuse(&mut s, 0).message.starts_with(refused));
    s.node(Change::Set(pool("n2", "b")), at(20));
    assert!(s.next(at(20)).is_none(), "the new node does not match either");
    s.node(Change::Set(pool("n1", "a")), at(20));
    assert_eq!(&*bind(&mut s, 20).choice.node, "n1");
}

#[test]
fn the_back_off_is_that_of_the_configuration() {
    let mut s = configured("podInitialBackoffSeconds: 100\npodMaxBackoffSeconds: 200");
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(cpu_pod("p", "1")), at(0));
    let binding = bind(&mut s, 0);
    let again = |s: &mut Scheduler, second: i64| {
        assert_eq!(s.deadline(), Some(at(second)));
        bind(s, second)
    };
    s.bind_failed(&binding.pod.uid, "no", at(0)).unwrap();
    let binding = again(&mut s, 100);
    s.bind_failed(&binding.pod.uid, "no", at(100)).unwrap();
    let binding = again(&mut s, 300);
    s.bind_failed(&binding.pod.uid, "no", at(300)).unwrap();
    again(&mut s, 500);
}

#[test]
fn without_scores_the_first_feasible_node_is_taken_and_the_next_search_begins_behind_it() {
    let mut s = configured("profiles: [{plugins: {score: {disabled: [{name: '*'}]}}}]");
    for name in ["n1", "n2", "n3"] {
        s.node(Change::Set(node(name, json!({}))), at(0));
    }
    let nodes = ["a", "b", "c", "d"].map(|name| {
        s.pod(Change::Set(cpu_pod(name, "1")), at(0));
        bind(&mut s, 0).choice.node.to_string()
    });
    assert_eq!(nodes, ["n1", "n2", "n3", "n1"]);
}
