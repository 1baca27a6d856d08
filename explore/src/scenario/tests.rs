//! A whole scenario, and every mistake of one.

use super::*;
use crate::oracle::{OracleId, Severity};
use proptest::prelude::*;
use std::fs;

fn parse(text: &str) -> Result<Scenario, String> {
    let folder = tempfile::tempdir().unwrap();
    for path in ["crds", "rbac"] {
        fs::create_dir(folder.path().join(path)).unwrap();
    }
    fs::write(folder.path().join("backup.yaml"), "").unwrap();
    let file = folder.path().join("s.yaml");
    let prefix = format!("{}:", file.display());
    let folder = format!("{}/", folder.path().display());
    let shown = |error: ScenarioError| error.to_string().replace(&prefix, "").replace(&folder, "");
    Scenario::parse(text, &file).map_err(shown)
}

const HEAD: &str = "apiVersion: explore.kstore.io/v1alpha1\nkind: Scenario\nmetadata: {name: recreate}\n";

#[test]
fn a_whole_scenario_is_read() {
    let text = format!(
        "{HEAD}cluster:
  components: [controllers, kubelet-sim]
  nodes: 2
  crds: [crds]
  manifests: [rbac]
operators:
- name: backup
  command: [./backup, --leader-elect=false]
  serviceAccount: backup-system/backup
  env: {{GOMAXPROCS: \"2\"}}
  ready: {{watches: [backups.example.com]}}
steps:
- apply: backup.yaml
- wait: {{object: backups.example.com/default/b, condition: Ready, within: 90s}}
- patch: {{object: backups.example.com/default/b, merge: {{spec: {{keep: 3}}}}}}
- settle: {{}}
- advance: 3d
- exec: [./check.sh]
- delete: {{object: backups.example.com/default/b, wait: true}}
- apply: backup.yaml
- recreate: {{object: backups.example.com/default/b}}
invariants:
- name: one-active-job
  objects: {{jobs: {{resource: jobs.batch, namespace: default}}}}
  expression: jobs.filter(j, !has(j.status.completionTime)).size() <= 1
  when: always
expect:
- {{object: persistentvolumeclaims/default/data-b, exists: true}}
volatile: [{{resource: secrets, path: \"data['password']\"}}]
fungible: [{{resource: pods, selector: app=worker}}]
ignore: [{{resource: events}}, {{client: other}}]
severity: {{hot-loop: suspicion}}
"
    );
    let scenario = parse(&text).unwrap();
    assert_eq!(scenario.name, "recreate");
    let cluster = &scenario.cluster;
    assert_eq!((cluster.controllers, cluster.scheduler, cluster.nodes), (true, false, 2));
    let names: Vec<&str> = scenario.steps.iter().map(|step| step.name.as_str()).collect();
    let expected = [
        "apply-1",
        "wait-1",
        "patch-1",
        "settle-1",
        "advance-1",
        "exec-1",
        "delete-1",
        "apply-2",
        "recreate-1",
    ];
    assert_eq!(names, expected);
    assert_eq!(scenario.steps[4].action, StepAction::Advance(Duration::from_secs(3 * 86_400)));
    assert_eq!(scenario.operators[0].ready, Ready::Watches(vec!["backups.example.com".to_owned()]));
    assert_eq!(scenario.volatile[0].path, ["data", "password"]);
    assert_eq!(scenario.severity[&OracleId::HotLoop], Severity::Suspicion);
    assert_eq!(scenario.paths().len(), 4);
    assert!(scenario.ignores_resource("events") && scenario.ignores_client("other"));
    let pod = serde_json::json!({"metadata": {"labels": {"app": "worker"}}});
    assert!(scenario.is_fungible("pods", &pod) && !scenario.is_fungible("jobs.batch", &pod));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic_and_every_refusal_has_a_position_in_the_text(
        dropped in prop::collection::btree_set(0_usize..WHOLE.len(), 0..20),
        added in prop::collection::vec((0_usize..WHOLE.len(), "[-:\\[\\]{}, a-z&*!|>'\"#\n]{1,3}"), 0..4),
    ) {
        let mut text: String =
            WHOLE.char_indices().filter(|(at, _)| !dropped.contains(at)).map(|(_, character)| character).collect();
        for (at, more) in added {
            let at = at.min(text.len());
            text.insert_str(at, &more);
        }
        if let Err(refused) = Scenario::parse(&text, Path::new("s.yaml")) {
            prop_assert!(!refused.mistakes.is_empty());
            for mistake in refused.mistakes {
                prop_assert!(mistake.position.line >= 1 && mistake.position.line <= text.lines().count() + 1);
            }
        }
    }
}

/// A scenario without files, in ASCII.
const WHOLE: &str = "apiVersion: explore.kstore.io/v1alpha1
kind: Scenario
metadata: {name: a}
cluster: {components: [controllers], nodes: 0}
operators: [{name: a, command: [b], env: {A: b}, ready: {log: x}}]
steps:
- wait: {object: a.b/c/d, condition: Ready, within: 9s}
- patch: {object: a/b, merge: {spec: {n: 1}}}
- advance: 1h
invariants: [{name: i, objects: {x: {resource: y}}, expression: 'x.size() < 2'}]
expect: [{object: a/b, exists: true}]
volatile: [{resource: a, path: b.c}]
severity: {late: note}
";

/// A scenario with another part.
fn with(part: &str) -> String {
    format!("{HEAD}steps: []\n{part}\n")
}

/// Each text is refused with a line that begins as expected.
fn refuses(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let refused = parse(text).unwrap_err();
        assert!(
            refused.lines().any(|line| line.starts_with(expected)),
            "{text}\nsaid {refused}\nnot {expected}"
        );
    }
}

#[test]
fn every_mistake_in_steps_and_the_cluster_is_refused_with_line_and_column() {
    let steps = |step: &str| format!("{HEAD}steps:\n- {step}\n");
    refuses(&[
        ("kind: Scenario\n".to_owned(), "1:1: a scenario needs the field \"apiVersion\""),
        (format!("{HEAD}stepz: []\n"), "4:1: a scenario has no field \"stepz\": did you mean \"steps\"?"),
        (HEAD.replace("Scenario", "Pod"), "2:7: kind is Scenario, and not \"Pod\""),
        (HEAD.to_owned(), "1:1: a scenario needs the field \"steps\""),
        (steps("aply: x"), "5:3: a step has no field \"aply\": did you mean \"apply\"?"),
        (steps("apply: x.yaml"), "5:10: apply: there is no file or folder x.yaml"),
        (steps("{apply: backup.yaml, settle: {}}"), "5:3: a step has one verb of apply, wait"),
        (
            steps("advance: soon"),
            "5:12: advance must be a duration such as 90s, 1h30m or 3d, and not \"soon\"",
        ),
        (steps("advance: [1]"), "5:12: advance must be a text, and is a list"),
        (steps("exec: []"), "5:9: exec needs a command"),
        (steps("delete: {object: b}"), "5:20: write delete.object as RESOURCE/NAMESPACE/NAME"),
        (steps("wait: {object: a/b}"), "5:9: wait has one of condition, matches, deleted, exists"),
        (steps("wait: {object: a/b, deleted: 1}"), "5:32: deleted must be true or false, and is a number"),
        (with("cluster: {nodes: 1000}"), "5:18: cluster.nodes is at most 100, and not 1000"),
        (
            with("cluster: {components: [controler]}"),
            "5:24: there is no component \"controler\": did you mean",
        ),
        (
            with("cluster: {components: [controllers], nodes: 1}"),
            "5:45: nodes need the component \"kubelet-sim\"",
        ),
        (
            with("cluster: {controllers: [deploy]}"),
            "5:25: cluster.controllers: \"deploy\" is not in the list of known controllers",
        ),
        (
            with("cluster: {controllers: [attachdetach]}"),
            "5:25: cluster.controllers: kstore has no controller \"persistentvolume-attach-detach-controller\"",
        ),
        (with("cluster: {controllers: []}"), "5:24: cluster.controllers names no controller"),
        (
            with("cluster: {components: [], controllers: [job]}"),
            "5:40: single controllers need the component \"controllers\"",
        ),
        (with("cluster: {hosts: {}}"), "5:11: cluster has no field \"hosts\"; it has components"),
        (
            with("cluster: {services: {a: \"127.0.0.1:{port:x}\"}}"),
            "5:21: cluster.services: the Service \"a\" at \"127.0.0.1:1\" must have the form NAMESPACE/NAME",
        ),
    ]);
}

#[test]
fn every_mistake_in_the_other_parts_is_refused_with_line_and_column() {
    refuses(&[
        (with("operators: [{name: A}]"), "5:20: the name \"A\" of an operator has more than lower-case"),
        (with("operators: [{name: a}, {name: a}]"), "5:24: two operators have the name \"a\""),
        (with("operators: [{name: a, replicas: 9}]"), "5:33: operators.replicas is at most 5, and not 9"),
        (with("operators: [{name: a, replicas: 0}]"), "5:33: an operator has one replica at least"),
        (
            with("operators: [{name: a, replicas: 2}, {name: a-2}]"),
            "5:37: two operators have the name \"a-2\"",
        ),
        (
            with("operators: [{name: a, serviceAccount: x}]"),
            "5:39: write a service account as NAMESPACE/NAME",
        ),
        (
            with("operators: [{name: a, ready: {}}]"),
            "5:30: ready has one of \"watches\", \"log\" and \"port\"",
        ),
        (
            with("invariants: [{name: a, objects: {}, expression: \"1 +\"}]"),
            "5:49: expression: compilation failed",
        ),
        (
            with("invariants: [{name: a, objects: {}, expression: \"1\"}]"),
            "5:49: expression: must evaluate to bool",
        ),
        (
            with("invariants: [{name: a, objects: {}, expression: \"true\", when: now}]"),
            "5:63: when is \"always\"",
        ),
        (with("expect: [{object: a/b}]"), "5:10: an expectation needs \"exists\" or \"matches\""),
        (with("volatile: [{resource: a, path: \"a..b\"}]"), "5:32: write a path as in"),
        (with("fungible: [{resource: a, selector: x}]"), "5:36: write a selector as NAME=VALUE"),
        (with("ignore: [{}]"), "5:10: an item of ignore has either \"resource\" or \"client\""),
        (
            with("severity: {hotloop: bug}"),
            "5:12: severity has no field \"hotloop\": did you mean \"hot-loop\"?",
        ),
        (with("severity: {hot-loop: bad}"), "5:22: a severity is bug, suspicion or note"),
        (format!("{HEAD}steps: [\n"), "4:8: unclosed bracket"),
    ]);
}

#[test]
fn all_mistakes_are_found_at_once() {
    let refused = parse(&format!("{HEAD}steps:\n- apply: x\n- advance: 1\nclusters: {{}}\n")).unwrap_err();
    let positions: Vec<&str> = refused.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(positions, ["5:10", "6:12", "7:1"]);
}

#[test]
fn replicas_of_an_operator_are_operators_with_names_of_their_own() {
    let scenario =
        parse(&with("operators: [{name: a, env: {X: one}, replicas: 3}, {name: b, replicas: 1}]")).unwrap();
    let all = scenario.operators.iter().map(|operator| (operator.name.as_str(), operator.group()));
    assert_eq!(all.collect::<Vec<_>>(), [("a", "a"), ("a-2", "a"), ("a-3", "a"), ("b", "b")]);
    let [first, second, ..] = &scenario.operators[..] else { panic!("there are four") };
    assert_eq!((&first.env, &first.ready), (&second.env, &second.ready));
    assert_eq!((&first.replica_of, second.replica_of.as_deref()), (&None, Some("a")));
}

#[test]
fn single_controllers_are_chosen_by_their_names() {
    let cluster = |text: &str| parse(&with(&format!("cluster: {text}"))).unwrap().cluster;
    let chosen = cluster("{controllers: [deployment, replicaset-controller]}");
    assert_eq!((chosen.controllers, chosen.only_controllers.len()), (true, 2));
    assert_eq!(cluster("{components: [controllers]}").only_controllers, Vec::<String>::new());
}
