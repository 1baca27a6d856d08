//! Tests of the log of attempts: folding of equal results, bounds, and names that callers may see.

use super::*;
use crate::action::NominationChange;
use crate::decide::{Choice, Refusal};
use crate::decide::{Outcome, Terms, Tie, decide};
use crate::plugin::ClusterView;
use crate::plugins::Registry;
use crate::testing::{at, cpu_pod, node, on};
use serde_json::json;

/// The refusal of a pod in a cluster with this number of full nodes and one tainted node.
fn refusal(full: usize) -> Refusal {
    let mut cache = crate::cache::Cache::default();
    for index in 0..full {
        let name = format!("n{index}");
        cache.set_node(node(&name, json!({})));
        cache.set_pod(on(&cpu_pod(&format!("on-{name}"), "3"), &name), &name.as_str().into());
    }
    cache.set_node(node("tainted", json!({ "taints": [{ "key": "k", "effect": "NoSchedule" }] })));
    let mut snapshot = crate::snapshot::Snapshot::default();
    snapshot.update(&cache);
    let view = ClusterView { snapshot: &snapshot, inventory: cache.inventory() };
    let terms = Terms { start: 0, tie: Tie::Number(0), percentage: 0 };
    match decide(&Registry::in_tree(), view, &cpu_pod("p", "2"), terms, &mut ()).outcome {
        Outcome::Unfit(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn notice(failure: SchedulingFailure, message: &str) -> Notice {
    let (pod, message, cause) = (cpu_pod("p", "2"), message.to_owned(), Revision(3));
    Notice { pod, failure, message, cause, deallocation: None, nomination: NominationChange::Keep }
}

fn binding(name: &str, attempts: u32) -> Binding {
    let scores = vec![("NodeResourcesFit", 70)];
    let choice = Choice { node: "n1".into(), evaluated: 5, feasible: 3, best: 1, total: 70, scores };
    let pod = cpu_pod(name, "1");
    Binding { pod, choice, attempts, cause: Revision(4), at: at(9), since: at(0), devices: None }
}

fn records(log: &AttemptLog, name: &str) -> Vec<Attempt> {
    log.of(&Key::new("ns", name)).into_iter().flat_map(|pod| pod.attempts).collect()
}

#[test]
fn a_copy_of_the_log_has_its_records_and_takes_others() {
    let log = AttemptLog::default();
    assert!(log.is_empty());
    log.placed(&binding("a", 1), Revision(20));
    let copy = log.copy();
    log.placed(&binding("b", 1), Revision(21));
    copy.placed(&binding("a", 2), Revision(22));
    let numbers = |log: &AttemptLog| ["a", "b"].map(|name| records(log, name).len());
    assert_eq!((numbers(&log), numbers(&copy), copy.is_empty()), ([1, 1], [1, 0], false));
    assert_eq!(records(&copy, "a")[0].seen, Revision(22));
    assert_eq!(records(&log, "a")[0].seen, Revision(20));
}

#[test]
fn equal_refusals_are_one_record_with_their_number_and_times() {
    let log = AttemptLog::default();
    for second in 0..3 {
        let notice = notice(SchedulingFailure::Unfit(refusal(2)), "0/3 nodes are available");
        log.refused(&notice, at(second), Revision(10 + second as u64));
    }
    log.placed(&binding("p", 4), Revision(20));
    let [refused, placed] = &records(&log, "p")[..] else { panic!("{:?}", records(&log, "p")) };
    assert_eq!((refused.number, refused.repeats, refused.seen), (1, 2, Revision(12)));
    assert_eq!((refused.first, refused.last), (at(0), at(2)));
    let AttemptResult::Refused(result) = &refused.result else { panic!() };
    let reasons: Vec<_> =
        result.reasons.iter().map(|r| (r.plugin, r.reason.as_str(), r.nodes, r.is_resolvable)).collect();
    let expected = [
        ("NodeResourcesFit", "Insufficient cpu", 2, true),
        ("TaintToleration", "node(s) had untolerated taint(s)", 1, false),
    ];
    assert_eq!((reasons, result.others, result.nodes), (expected.to_vec(), 0, 3));
    assert_eq!((placed.number, placed.seen, placed.cause), (4, Revision(20), Revision(4)));
}

#[test]
fn a_refused_bind_belongs_to_its_attempt_and_a_second_action_of_an_attempt_is_no_repeat() {
    let log = AttemptLog::default();
    log.placed(&binding("p", 1), Revision(5));
    log.placed(&binding("p", 1), Revision(6));
    log.refused(&notice(SchedulingFailure::BindFailed, "binding rejected"), at(2), Revision(7));
    log.placed(&binding("p", 2), Revision(8));
    let all = records(&log, "p");
    let numbers: Vec<_> = all.iter().map(|attempt| (attempt.number, attempt.repeats)).collect();
    assert_eq!(numbers, [(1, 0), (1, 0), (2, 0)]);
    assert_eq!(all[1].result, AttemptResult::Failed("binding rejected".to_owned()));
}

#[test]
fn reasons_beyond_the_bound_are_counted_together_and_messages_are_cut() {
    let mut many = refusal(1);
    let own = many.rejections[0].1.clone();
    for index in 0..40 {
        let text: Arc<str> = format!("reason {index}").into();
        let refused = crate::plugin::Refused::by(true, 0).with_texts(vec![text]);
        let row = Registry::in_tree().row(own.plugin());
        many.rejections.push((0, crate::plugin::Rejection::new(own.plugin(), row, refused)));
    }
    let log = AttemptLog::default();
    log.refused(&notice(SchedulingFailure::Unfit(many), &"x".repeat(5_000)), at(0), Revision(1));
    let AttemptResult::Refused(result) = records(&log, "p").remove(0).result else { panic!() };
    assert_eq!((result.reasons.len(), result.others), (crate::limits::ATTEMPT_REASONS, 30));
    assert_eq!(result.message.len(), crate::limits::EVENT_MESSAGE_BYTES);
}

#[test]
fn the_oldest_pods_are_dropped_at_the_bound_in_bytes() {
    let log = AttemptLog::default();
    let pods = 40_000;
    (0..pods).for_each(|index| log.placed(&binding(&format!("p{index}"), 1), Revision(1)));
    let bytes = log.0.lock().bytes;
    assert!(bytes <= ATTEMPT_LOG_BYTES && bytes > ATTEMPT_LOG_BYTES / 2, "{bytes}");
    assert_eq!((records(&log, "p0").len(), records(&log, &format!("p{}", pods - 1)).len()), (0, 1));
    let records = log.0.lock();
    let known = records.pods.len();
    assert_eq!(known, records.order.len());
    assert!(known > 5_000, "a record is small: {known}");
}

#[test]
fn a_pod_has_a_bounded_number_of_records() {
    let log = AttemptLog::default();
    for index in 0..20 {
        let failed = notice(SchedulingFailure::AttemptFailed, &format!("error {index}"));
        log.refused(&failed, at(index), Revision(1));
    }
    let all = records(&log, "p");
    assert_eq!((all.len(), all.last().unwrap().number), (ATTEMPTS_PER_POD, 20));
}

#[test]
fn names_of_nodes_and_victims_are_shown_only_to_callers_who_may_list_them() {
    let log = AttemptLog::default();
    let notice = notice(SchedulingFailure::Unfit(refusal(1)), "0/2 nodes are available");
    let victims = vec![on(&cpu_pod("victim", "1"), "n0")];
    let evict = Evict {
        notice,
        node: "n0".into(),
        victims,
        selected: None,
        withdrawn: Vec::new(),
        displaced: Vec::new(),
    };
    log.preempted(&evict, at(1), Revision(2));
    let shown = |nodes, pods| {
        let (revision, document) =
            log.of(&Key::new("ns", "p"))[0].documents(VisibleNames { nodes, pods }).remove(0);
        assert_eq!((revision, document["result"].as_str()), (2, Some("refused")));
        document["refused"]["evictions"].clone()
    };
    assert_eq!(shown(false, false), json!({ "count": 1 }));
    assert_eq!(shown(true, true), json!({ "count": 1, "node": "n0", "pods": ["ns/victim"] }));
}
