//! Tests of preemption as a state machine: waits, nominations and evictions in flight.

use super::*;
use crate::metrics::PreemptionMetrics;
use crate::testing::device_pod;
use kstore_informer::metrics::Registry;

fn preempt(scheduler: &mut Scheduler, second: i64) -> Evict {
    match scheduler.next(at(second)) {
        Some(Action::Preempt(evict)) => evict,
        other => panic!("expected evictions, not {other:?}"),
    }
}

fn ranked(name: &str, cpu: &str, priority: i32) -> Arc<PodInfo> {
    with(&cpu_pod(name, cpu), |pod| pod.priority = priority)
}

fn names(pods: &[Arc<PodInfo>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.uid).collect()
}

/// The pod on its node while the kubelet stops it.
fn terminating(pod: &Arc<PodInfo>) -> Arc<PodInfo> {
    with(pod, |pod| (pod.deleting, pod.preempted) = (true, true))
}

/// A scheduler with one full node of two pods of two cores, and the pods.
fn full() -> (Scheduler, [Arc<PodInfo>; 2]) {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let pods = ["a", "b"].map(|name| on(&ranked(name, "2", 0), "n1"));
    pods.iter().for_each(|pod| s.pod(Change::Set(Arc::clone(pod)), at(0)));
    (s, pods)
}

#[test]
fn since_1_37_a_message_names_the_node_and_counts_the_victims() {
    for (minor, end) in [
        (Minor::V36, ""),
        (Minor::V37, " preemption: found a potential placement for pod on node n1, preempting 2 victims"),
    ] {
        let (s, _) = full();
        let mut s = s.of_release(minor);
        s.pod(Change::Set(ranked("p", "4", 5)), at(0));
        let message = preempt(&mut s, 0).notice.message;
        assert_eq!(message, format!("0/1 nodes are available: 1 Insufficient cpu.{end}"), "{minor}");
    }
}

#[test]
fn a_preemptor_waits_for_its_victims_and_gets_their_node() {
    let (mut s, [a, b]) = full();
    s.pod(Change::Set(ranked("p", "4", 5)), at(0));
    let evict = preempt(&mut s, 0);
    assert_eq!((names(&evict.victims), &*evict.node), (vec!["a", "b"], "n1"));
    assert_eq!(evict.notice.nomination, NominationChange::Set("n1".into()));
    assert_eq!(evict.notice.message, "0/1 nodes are available: 1 Insufficient cpu.");
    s.node(Change::Set(node("n2", json!({ "unschedulable": true }))), at(1));
    assert!(s.next(at(1)).is_none(), "the evictions are in flight");
    s.pod(Change::Set(terminating(&a)), at(2));
    assert!(s.next(at(2)).is_none(), "one of them is");
    s.pod(Change::Set(terminating(&b)), at(3));
    s.pod(Change::Gone(terminating(&a)), at(4));
    let waits = "preemption: not eligible due to a terminating pod on the nominated node.";
    let notice = refuse(&mut s, 4);
    assert!(notice.message.ends_with(waits), "{}", notice.message);
    assert_eq!(notice.nomination, NominationChange::Set("n1".into()), "the watch has not shown it");
    // A pod of the same priority sees the node as full.
    s.pod(Change::Set(ranked("q", "2", 5)), at(5));
    let message = refuse(&mut s, 5).message;
    let full = "1 Insufficient cpu, 1 Preemption is not helpful for scheduling.";
    assert!(message.ends_with(full), "{message}");
    s.pod(Change::Gone(terminating(&b)), at(6));
    let binding = bind(&mut s, 6);
    assert_eq!((&*binding.pod.uid, &*binding.choice.node), ("p", "n1"));
}

#[test]
fn an_event_during_the_evictions_wakes_the_preemptor_afterwards() {
    let (mut s, [a, _]) = full();
    s.pod(Change::Set(ranked("p", "2", 5)), at(0));
    assert_eq!(names(&preempt(&mut s, 0).victims), ["b"], "the least important");
    s.node(Change::Set(node("n2", json!({}))), at(20));
    assert!(s.next(at(20)).is_none());
    s.pod(Change::Set(terminating(&on(&ranked("b", "2", 0), "n1"))), at(21));
    assert_eq!(&*bind(&mut s, 21).choice.node, "n2", "the new node fits now");
    assert!(s.cache().holds(&a.uid));
}

#[test]
fn a_failed_eviction_is_decided_again_after_a_second() {
    let (mut s, [_, b]) = full();
    s.pod(Change::Set(ranked("p", "2", 5)), at(0));
    preempt(&mut s, 0);
    s.evictions_failed(&[Arc::clone(&b.uid)], at(1));
    assert!(s.next(at(1)).is_none(), "not at once");
    assert_eq!(s.deadline(), Some(at(2)));
    assert_eq!(names(&preempt(&mut s, 2).victims), ["b"], "once more");
}

#[test]
fn a_victim_is_evicted_once_and_the_pod_of_higher_priority_gets_the_node() {
    let (mut s, [a, b]) = full();
    s.pod(Change::Set(ranked("p", "4", 5)), at(0));
    preempt(&mut s, 0);
    s.pod(Change::Set(ranked("q", "4", 7)), at(0));
    let evict = preempt(&mut s, 0);
    assert!(evict.victims.is_empty(), "their evictions are in flight");
    assert_eq!(names(&evict.displaced), ["p"]);
    s.pod(Change::Gone(a), at(1));
    s.pod(Change::Gone(b), at(1));
    assert_eq!(&*bind(&mut s, 1).pod.uid, "q");
    assert_eq!(&*refuse(&mut s, 2).pod.uid, "p");
}

#[test]
fn the_deletion_of_a_nominated_pod_wakes_the_pods_that_it_kept_away() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    // It waits for a claim and is not tried, but its room is kept.
    let nominated = with(&device_pod("p", &["absent"]), |pod| {
        pod.requests = cpu_pod("p", "4").requests.clone();
        (pod.priority, pod.nominated_node) = (5, Some("n1".into()));
    });
    s.pod(Change::Set(Arc::clone(&nominated)), at(0));
    s.pod(Change::Set(ranked("q", "1", 5)), at(0));
    assert!(refuse(&mut s, 0).message.contains("Insufficient cpu"));
    assert!(s.next(at(20)).is_none());
    s.pod(Change::Gone(nominated), at(20));
    assert_eq!(&*bind(&mut s, 20).pod.uid, "q");
}

#[test]
fn a_new_scheduler_takes_nominations_from_the_status() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    s.pod(Change::Set(terminating(&on(&ranked("a", "4", 0), "n1"))), at(0));
    let nominated = with(&ranked("p", "4", 5), |pod| pod.nominated_node = Some("n1".into()));
    s.pod(Change::Set(nominated), at(0));
    assert!(refuse(&mut s, 0).message.ends_with("terminating pod on the nominated node."));
    s.pod(Change::Set(ranked("q", "1", 5)), at(1));
    assert!(refuse(&mut s, 1).message.contains("Insufficient cpu"));
    s.pod(Change::Gone(on(&ranked("a", "4", 0), "n1")), at(9));
    assert_eq!(&*bind(&mut s, 9).pod.uid, "p");
}

#[test]
fn a_nomination_is_cleared_if_no_eviction_helps() {
    let mut s = scheduler();
    s.node(Change::Set(node("n1", json!({}))), at(0));
    let nominated = with(&ranked("p", "5", 5), |pod| pod.nominated_node = Some("n1".into()));
    s.pod(Change::Set(nominated), at(0));
    assert_eq!(refuse(&mut s, 0).nomination, NominationChange::Clear);
    s.pod(Change::Set(ranked("q", "4", 5)), at(1));
    assert_eq!(&*bind(&mut s, 1).pod.uid, "q");
}

#[test]
fn each_pod_that_no_node_fits_is_an_attempt_and_each_choice_of_victims_is_counted() {
    let registry = Registry::new();
    let metrics = PreemptionMetrics::registered(&registry);
    let page = || {
        let mut page = String::new();
        registry.render(&mut page);
        let values = page.lines().filter(|line| !line.starts_with('#') && !line.contains("bucket"));
        values.map(|line| line.rsplit_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>().join(" ")
    };
    let next = |s: &mut Scheduler, second| metrics.observe(&s.next(at(second)).unwrap());
    let mut empty = scheduler();
    empty.pod(Change::Set(ranked("p", "1", 5)), at(0));
    next(&mut empty, 0);
    assert_eq!(page(), "0 0 0", "attempts, sum and count of victims: without nodes there is no attempt");
    let (mut s, [a, b]) = full();
    s.pod(Change::Set(ranked("low", "4", 0)), at(0));
    next(&mut s, 0);
    assert_eq!(page(), "1 0 0", "there is no victim");
    s.pod(Change::Set(ranked("p", "4", 5)), at(0));
    next(&mut s, 0);
    assert_eq!(page(), "2 2 1");
    // One of the victims is being deleted already, and counts; the other's eviction is in flight.
    s.pod(Change::Set(terminating(&a)), at(0));
    s.pod(Change::Set(ranked("q", "4", 7)), at(0));
    next(&mut s, 0);
    assert_eq!(page(), "3 4 2");
    // All victims are being deleted.
    s.pod(Change::Set(terminating(&b)), at(0));
    s.pod(Change::Set(ranked("r", "4", 9)), at(1));
    next(&mut s, 1);
    assert_eq!(page(), "4 4 2");
}
