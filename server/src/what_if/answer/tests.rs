//! Tests of answers: the difference of two states, its text and its exit code.

use super::*;

fn workload(name: &str) -> Workload {
    Workload { namespace: "default".to_owned(), kind: "Deployment".to_owned(), name: name.to_owned() }
}

fn pod(name: &str, of: Option<&str>, node: Option<&str>) -> PodFact {
    let alone = Workload { kind: "Pod".to_owned(), ..workload(name) };
    PodFact {
        uid: name.to_owned(),
        key: format!("default/{name}"),
        workload: of.map_or(alone, workload),
        is_controlled: of.is_some(),
        node: node.map(str::to_owned),
        is_ending: false,
        message: if node.is_none() { "Insufficient cpu".to_owned() } else { String::new() },
        milli_cpu: 1000,
    }
}

fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": { "allocatable": { "cpu": "4" } } })
}

/// Node a leaves with a pod of `api`, one without controller, and one that was pending; `web` is new.
fn answer() -> Answer {
    let old = [
        pod("api-1", Some("api"), Some("a")),
        pod("api-2", Some("api"), Some("b")),
        pod("debug", None, Some("a")),
        pod("stuck", Some("big"), None),
    ];
    let before = Pods { all: old.clone().into() };
    let mut all = vec![old[1].clone(), old[3].clone()];
    all.push(pod("api-3", Some("api"), Some("b")));
    all.extend([pod("web-1", Some("web"), Some("b")), pod("web-2", Some("web"), None)]);
    all.push(PodFact { is_ending: true, ..old[0].clone() });
    let after = Pods { all };
    let circumstances = Circumstances {
        revision: 412,
        asked: [workload("web")].into(),
        left: vec!["node/a".to_owned()],
        unread: vec!["secrets".to_owned()],
        webhooks: 2,
        ..Circumstances::default()
    };
    let (nodes_before, nodes_after) = ([node("a"), node("b")], [node("b")]);
    let before = StateView { pods: &before, nodes: &nodes_before };
    Answer::of(before, StateView { pods: &after, nodes: &nodes_after }, circumstances)
}

#[test]
fn an_answer_counts_what_is_asked_about_and_all_others() {
    let expected = "\
on a copy of the cluster as of #412; nothing was changed

                          PODS  PLACED PENDING EVICTED    LOST
Deployment default/web       2       1       1
others                       3       2       1       1       1
PENDING  default/stuck, default/web-2: Insufficient cpu
EVICTED  from node/a: 1 pod of Deployment default/api → b
LOST     1 pod without controller: default/debug
NODES    2 → 1; cpu requested: mean 37.5 → 75.0 %, max 50.0 → 75.0 %
NOT ASKED  2 webhooks about pods
NOT READ  secrets: no permission to list them
";
    assert_eq!(answer().text(), expected);
}

#[test]
fn data_has_the_place_of_each_new_pod() {
    let data = answer().data();
    let places = json!([{ "pod": "default/api-3", "node": "b" }, { "pod": "default/web-1", "node": "b" }]);
    assert_eq!((&data["placements"], &data["lost"]), (&places, &json!(["default/debug"])));
    assert_eq!(data["pending"][0]["pendingBefore"], 1);
    assert_eq!(data["evicted"][0]["replacedOn"], json!(["b"]));
}

#[test]
fn the_command_fails_by_what_is_new_and_named() {
    let all = answer();
    assert!(all.fails(&[]) && all.fails(&[FailOn::Lost]) && all.fails(&[FailOn::Pending, FailOn::Lost]));
    let mut known = all;
    (known.evicted, known.lost) = (Vec::new(), Vec::new());
    known.pending[0].pods.truncate(1);
    assert!(!known.fails(&[]), "what was pending before is no consequence");
}

#[test]
fn pods_of_deleted_workloads_are_neither_evicted_nor_lost() {
    let before = Pods { all: vec![pod("api-1", Some("api"), Some("a")), pod("alone", None, Some("a"))] };
    let after = Pods::default();
    let deleted = [workload("api"), Workload { kind: "Pod".to_owned(), ..workload("alone") }].into();
    let circumstances = Circumstances { deleted, ..Circumstances::default() };
    let view = |pods| StateView { pods, nodes: &[] };
    let answer = Answer::of(view(&before), view(&after), circumstances);
    assert!(answer.evicted.is_empty() && answer.lost.is_empty() && !answer.fails(&[]));
}

#[test]
fn blocked_evictions_and_unsettled_work_are_said() {
    let mut answer = answer();
    answer.circumstances.blocked = (0..6).map(|index| format!("default/db-{index}")).collect();
    answer.circumstances.unsettled = vec!["b: pod default/x is starting".to_owned()];
    let text = answer.text();
    let names = "default/db-0, default/db-1, default/db-2, default/db-3 and 2 more";
    assert!(
        text.contains(&format!("BLOCKED  6 pods on node/a, kept by disruption budgets: {names}\n")),
        "{text}"
    );
    assert!(
        text.ends_with("NOT SETTLED after ten minutes of virtual time: b: pod default/x is starting\n"),
        "{text}"
    );
}
