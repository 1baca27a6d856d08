//! Tests of namespace deletion.

use super::plan::{Content, Observed, are_events, deletions, failure_of, plan};
use crate::action::Action;
use crate::resource::{CONFIGMAPS, EVENTS, PODS};
use crate::view::Meta;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, from_value, json};

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn namespace(deleting: bool) -> Namespace {
    let mut value = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    if deleting {
        value["metadata"]["deletionTimestamp"] = json!(START);
    }
    from_value(value).unwrap()
}

fn items(list: Value) -> Vec<Meta> {
    from_value(list).unwrap()
}

fn run(ns: &Namespace, contents: &[Content], failures: &[String]) -> (Vec<Action>, Option<u64>) {
    let plan = plan(Observed { namespace: ns, contents, failures, undiscovered: None }, START);
    (plan.actions, plan.wake.map(|w| w.as_secs()))
}

fn conditions(actions: &[Action]) -> Vec<String> {
    let ns: Namespace = actions.last().and_then(Action::reported).unwrap();
    let status = ns.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let all = status.conditions.as_ref().unwrap();
    let trouble = all.iter().filter(|c| c.status == "True");
    trouble.map(|c| format!("{}: {}", c.reason.as_deref().unwrap(), c.message.as_deref().unwrap())).collect()
}

#[test]
fn active_namespaces_are_kept_and_empty_terminating_ones_finalized() {
    assert_eq!(run(&namespace(false), &[], &[]), (vec![], None));
    let (actions, wake) = run(&namespace(true), &[], &[]);
    let [Action::Finalize(ns)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((ns.spec.as_ref().unwrap().finalizers.as_deref(), wake), (Some(&[][..]), None));
    assert_eq!(run(ns, &[], &[]), (vec![], None), "once is enough");
}

#[test]
fn a_namespace_waits_while_the_kinds_of_a_server_are_unknown() {
    let (ns, failure) = (namespace(true), "Discovery failed");
    let seen = Observed { namespace: &ns, contents: &[], failures: &[], undiscovered: Some(failure) };
    assert_eq!(conditions(&plan(seen, START).actions), ["DiscoveryFailed: Discovery failed"]);
}

#[test]
fn pods_are_deleted_first_with_their_grace_period() {
    let pods = items(json!([
        {"name": "a", "namespace": "n", "uid": "1"},
        {"name": "b", "namespace": "n", "uid": "2", "deletionTimestamp": START, "deletionGracePeriodSeconds": 30},
    ]));
    let maps = items(json!([{"name": "m", "namespace": "n", "uid": "3"}]));
    let contents = [Content { resource: CONFIGMAPS, items: maps }, Content { resource: PODS, items: pods }];
    let (actions, wake) = run(&namespace(true), &contents, &[]);
    let deleted = |contents: &[Content]| -> Vec<String> {
        let name = |action| match action {
            Action::Delete { target, .. } => target.name,
            Action::DeleteAll { resource, namespace } => format!("{} of {namespace}", resource.plural),
            other => panic!("{other:?}"),
        };
        deletions("n", contents).into_iter().flat_map(|(_, list)| list).map(name).collect()
    };
    assert_eq!((deleted(&contents), wake), (vec!["pods of n".to_owned()], Some(16)));
    let terminating = Content { resource: PODS, items: contents[1].items[1..].to_vec() };
    assert_eq!(deleted(&[contents[0].clone(), terminating]), [""; 0], "terminating pods are waited for");
    let text = "SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances, pods. has 2 resource instances";
    assert_eq!(conditions(&actions), [text]);
    assert_eq!(deleted(&contents[..1]), ["m"]);
}

#[test]
fn kinds_are_deleted_independently_and_events_as_a_collection() {
    let one = |name: &str| items(json!([{"name": name, "namespace": "n", "uid": name}]));
    let contents =
        [Content { resource: CONFIGMAPS, items: one("m") }, Content { resource: EVENTS, items: one("e") }];
    let lists = deletions("n", &contents);
    let [(first, maps), (second, events)] = &lists[..] else { panic!("{lists:?}") };
    assert_eq!((&*first.plural, &*second.plural), ("configmaps", "events"));
    assert!(matches!(&maps[..], [Action::Delete { .. }]));
    let [Action::DeleteAll { resource, namespace: of }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((resource, of.as_str()), (&EVENTS, "n"));
    assert!(!are_events(&contents) && are_events(&contents[1..]) && are_events(&[]));
    let (actions, wake) = run(&namespace(true), &contents[1..], &[]);
    assert!(
        !actions.iter().any(|a| matches!(a, Action::Finalize(_))),
        "a namespace does not go before its events"
    );
    assert_eq!(wake, Some(1));
    let pods = Content { resource: PODS, items: one("p") };
    assert_eq!(deletions("n", &[contents[1].clone(), pods]).len(), 1, "not while there are pods");
}

#[test]
fn a_kind_that_fails_to_delete_is_named_in_the_condition() {
    let failures = [failure_of(&CONFIGMAPS, &"denied by a webhook"), failure_of(&PODS, &"timeout")];
    let (actions, _) = run(&namespace(true), &[], &failures);
    let said = conditions(&actions);
    let text = "ContentDeletionFailed: Failed to delete all resource types, 2 remaining: configmaps.: denied by a webhook, pods.: timeout";
    assert_eq!(said, [text]);
}

#[test]
fn terminating_pods_are_checked_again_with_growing_delays() {
    let wake = |passed: i64| {
        let end = START + jiff::SignedDuration::from_secs(30 - passed);
        let pod =
            json!([{"name": "a", "uid": "1", "deletionTimestamp": end, "deletionGracePeriodSeconds": 30}]);
        run(&namespace(true), &[Content { resource: PODS, items: items(pod) }], &[]).1
    };
    assert_eq!([0, 1, 3, 7, 20].map(wake), [1, 2, 4, 8, 16].map(Some));
}

#[test]
fn namespace_conditions_name_what_blocks_deletion() {
    let maps = items(
        json!([{"name": "m", "namespace": "n", "uid": "3", "deletionTimestamp": START, "finalizers": ["x/y"]}]),
    );
    let contents = [Content { resource: CONFIGMAPS, items: maps }];
    let (actions, wake) = run(&namespace(true), &contents, &["secrets.: refused".to_owned()]);
    assert_eq!(wake, Some(8));
    let said = conditions(&actions);
    assert!(said[0].contains("secrets.: refused"), "{said:?}");
    assert!(said[2].contains("x/y in 1 resource instances"), "{said:?}");
    let ns = actions.last().and_then(Action::reported).unwrap();
    let again = run(&ns, &contents, &["secrets.: refused".to_owned()]).0;
    assert_eq!(again, [], "the same trouble is told once");
}

#[test]
fn unlisted_kinds_count_as_content() {
    let (actions, wake) = run(&namespace(true), &[], &["secrets.: refused".to_owned()]);
    assert!(!actions.iter().any(|a| matches!(a, Action::Finalize(_))));
    assert_eq!(wake, Some(1));
}
