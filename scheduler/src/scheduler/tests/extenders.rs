//! Tests of decisions that ask extenders: what happens while they wait, and how they go on.

use super::*;
use crate::extender::{Answer, Extender, Extenders, FilterAnswer, ProposedVictims, Question, Topic};
use std::time::Duration;

/// An extender with a path for each letter: filter, prioritize, preempt (`e`).
fn extender(paths: &str) -> Extender {
    let path = |letter: char| if paths.contains(letter) { letter.to_string() } else { String::new() };
    Extender {
        url_prefix: "http://x".to_owned(),
        filter_verb: path('f'),
        prioritize_verb: path('p'),
        preempt_verb: path('e'),
        bind_verb: String::new(),
        weight: 1,
        enable_https: false,
        tls: None,
        timeout: Duration::from_secs(5),
        node_cache_capable: true,
        managed_resources: Vec::new(),
        is_ignorable: false,
    }
}

fn with_extender(nodes: &[&str], paths: &str) -> Scheduler {
    let mut s = scheduler().with_extenders(Extenders::new([extender(paths)]));
    nodes.iter().for_each(|name| s.node(Change::Set(node(name, json!({}))), at(0)));
    s
}

fn asked(action: Option<Action>) -> Question {
    match action {
        Some(Action::Ask(question)) => question,
        other => panic!("expected a question, not {other:?}"),
    }
}

/// The nodes of a question.
fn names(question: &Question) -> Vec<String> {
    let (Topic::Filter(nodes) | Topic::Prioritize(nodes)) = &question.calls[0].topic else {
        panic!("{question:?}")
    };
    nodes.iter().map(ToString::to_string).collect()
}

fn keep(nodes: &[&str]) -> Vec<Result<Answer, String>> {
    let kept = nodes.iter().map(|&name| name.to_owned()).collect();
    vec![Ok(Answer::Filter(FilterAnswer { kept, ..FilterAnswer::default() }))]
}

fn bound(action: Option<Action>) -> String {
    match action {
        Some(Action::Bind(binding)) => binding.choice.node.to_string(),
        other => panic!("expected a binding, not {other:?}"),
    }
}

#[test]
fn no_other_pod_is_decided_on_while_a_decision_waits() {
    let mut s = with_extender(&["n1", "n2"], "fp");
    s.pod(Change::Set(cpu_pod("a", "1")), at(0));
    s.pod(Change::Set(cpu_pod("b", "1")), at(0));
    assert_eq!(names(&asked(s.next(at(0)))).len(), 2);
    assert!(s.next(at(1)).is_none() && !s.is_ready(at(1)) && s.deadline().is_none());
    let scored = asked(s.resume(keep(&["n2", "n1"]), at(1), &mut ()));
    assert_eq!(names(&scored), ["n2", "n1"], "in the order of the extender");
    let scores = vec![Ok(Answer::Prioritize(vec![("n1".to_owned(), 10), ("n1".to_owned(), 10)]))];
    assert_eq!(bound(s.resume(scores, at(1), &mut ())), "n1");
    assert_eq!(&*asked(s.next(at(1))).pod.uid, "b");
}

#[test]
fn a_change_that_overtakes_a_decision_makes_the_scheduler_decide_again() {
    let mut s = with_extender(&["n1", "n2"], "f");
    s.pod(Change::Set(cpu_pod("a", "3")), at(0));
    asked(s.next(at(0)));
    s.node(Change::Gone(node("n1", json!({}))), at(0));
    assert!(s.resume(keep(&["n1"]), at(0), &mut ()).is_none(), "the node is gone");
    assert_eq!(names(&asked(s.next(at(0)))), ["n2"]);
    s.pod(Change::Set(on(&cpu_pod("other", "2"), "n2")), at(0));
    assert!(s.resume(keep(&["n2"]), at(0), &mut ()).is_none(), "another scheduler took the room");
    assert!(refuse(&mut s, 0).message.contains("1 Insufficient cpu"));
}

#[test]
fn a_pod_that_ends_or_gets_a_node_during_a_question_is_left_alone() {
    for happens in [
        |pod: &Arc<PodInfo>| Change::Gone(Arc::clone(pod)),
        |pod: &Arc<PodInfo>| Change::Set(on(pod, "n2")),
        |pod: &Arc<PodInfo>| Change::Set(with(pod, |pod| pod.deleting = true)),
    ] {
        let mut s = with_extender(&["n1", "n2"], "f");
        let pod = cpu_pod("a", "1");
        s.pod(Change::Set(Arc::clone(&pod)), at(0));
        asked(s.next(at(0)));
        s.pod(happens(&pod), at(0));
        assert!(s.resume(keep(&["n1"]), at(0), &mut ()).is_none());
        assert!(s.next(at(100)).is_none() && s.deadline().is_none());
    }
}

#[test]
fn a_pod_that_changes_during_a_question_is_bound_in_its_new_form() {
    let mut s = with_extender(&["n1"], "f");
    s.pod(Change::Set(cpu_pod("a", "1")), at(0));
    asked(s.next(at(0)));
    s.pod(Change::Set(with(&cpu_pod("a", "1"), |pod| pod.revision = Revision(7))), at(0));
    let Some(Action::Bind(binding)) = s.resume(keep(&["n1"]), at(0), &mut ()) else { panic!() };
    assert_eq!(binding.pod.revision, Revision(7));
    assert!(s.next(at(0)).is_none(), "the change did not queue it a second time");
}

#[test]
fn an_event_during_a_question_wakes_a_pod_that_is_refused_afterwards() {
    for has_event in [false, true] {
        let mut s = with_extender(&["n1"], "f");
        s.pod(Change::Set(cpu_pod("a", "1")), at(0));
        asked(s.next(at(0)));
        if has_event {
            s.node(Change::Set(node("n2", json!({}))), at(0));
        }
        let action = s.resume(keep(&[]), at(0), &mut ());
        assert!(matches!(action, Some(Action::Refuse(_))), "{action:?}");
        let again = s.next(at(0));
        assert_eq!(again.is_some(), has_event, "{again:?}");
    }
}

#[test]
fn other_nodes_are_tried_if_an_extender_refuses_the_nominated_one_or_fails_there() {
    for answer in [keep(&[]), vec![Err("broken".to_owned())]] {
        let mut s = with_extender(&["n1", "n2"], "f");
        s.pod(Change::Set(with(&cpu_pod("a", "1"), |pod| pod.nominated_node = Some("n2".into()))), at(0));
        assert_eq!(names(&asked(s.next(at(0)))), ["n2"]);
        let mut all = names(&asked(s.resume(answer, at(0), &mut ())));
        all.sort_unstable();
        assert_eq!(all, ["n1", "n2"]);
        assert_eq!(bound(s.resume(keep(&["n1"]), at(0), &mut ())), "n1");
    }
}

#[test]
fn extreme_scores_of_extenders_do_not_overflow() {
    let mut s = scheduler().with_extenders(Extenders::new([
        Extender { weight: i64::MAX, ..extender("p") },
        Extender { weight: 3, ..extender("p") },
    ]));
    ["n1", "n2"].iter().for_each(|name| s.node(Change::Set(node(name, json!({}))), at(0)));
    s.pod(Change::Set(cpu_pod("a", "1")), at(0));
    assert_eq!(asked(s.next(at(0))).calls.len(), 2, "both are asked at the same time");
    let score = |node: &str, score| Ok(Answer::Prioritize(vec![(node.to_owned(), score)]));
    assert_eq!(bound(s.resume(vec![score("n2", i64::MAX), score("n2", i64::MAX)], at(0), &mut ())), "n2");
}

#[test]
fn wrong_candidates_of_an_extender_end_the_preemption_with_the_reason() {
    let victims = |uids: &[&str]| ProposedVictims {
        uids: uids.iter().map(|&uid| uid.to_owned()).collect(),
        violations: 0,
    };
    for (node_name, uids, why) in [
        (
            "n1",
            &["nobody"][..],
            "extender: http://x claims to preempt pod (UID: nobody) on node: n1, but the pod is not found on that node",
        ),
        ("n1", &[][..], "expected at least one victim pod on node \"n1\""),
        ("n7", &["old"][..], "nodeinfo not found for node name \"n7\""),
    ] {
        let mut s = with_extender(&["n1"], "e");
        s.pod(Change::Set(on(&cpu_pod("old", "4"), "n1")), at(0));
        s.pod(Change::Set(with(&cpu_pod("p", "4"), |pod| pod.priority = 5)), at(0));
        asked(s.next(at(0)));
        let answer = vec![Ok(Answer::Preempt(vec![(node_name.to_owned(), victims(uids))]))];
        let Some(Action::Refuse(notice)) = s.resume(answer, at(0), &mut ()) else { panic!() };
        assert!(notice.message.ends_with(&format!("preemption: {why}")), "{}", notice.message);
        assert_eq!(notice.failure.reason(), "Unschedulable");
    }
    let mut s = with_extender(&["n1"], "e");
    s.pod(Change::Set(on(&cpu_pod("old", "4"), "n1")), at(0));
    s.pod(Change::Set(with(&cpu_pod("p", "4"), |pod| pod.priority = 5)), at(0));
    asked(s.next(at(0)));
    let Some(Action::Refuse(notice)) = s.resume(vec![Ok(Answer::Preempt(vec![]))], at(0), &mut ()) else {
        panic!()
    };
    assert!(notice.message.ends_with("preemption: no candidate node for preemption"), "{}", notice.message);
}
