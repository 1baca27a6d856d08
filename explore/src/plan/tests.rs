//! Tests of plans: their JSON, their lines, their controls.

use super::*;
use serde_json::json;

fn key() -> ObjectKey {
    ObjectKey { resource: "configmaps".to_owned(), namespace: "default".to_owned(), name: "a".to_owned() }
}

fn kill() -> PlannedAction {
    let kill = Operation::Kill { program: "op".to_owned(), start: Restart::Now, cache: None };
    PlannedAction::at(at_request(("op", "update", ""), &key(), 2, RequestPhase::Done), kill)
}

#[test]
fn a_plan_has_the_json_of_the_lab_and_comes_back() {
    let action = kill();
    let written = serde_json::to_value(&action).unwrap();
    let expected = json!({"action": "kill", "program": "op", "trigger": {"request": {"client": "op",
        "verb": "update", "resource": "configmaps", "subresource": "", "namespace": "default", "name": "a",
        "nth": 2, "phase": "done"}}});
    assert_eq!(written, expected);
    assert_eq!(serde_json::from_value::<PlannedAction>(written).unwrap(), action);
}

#[test]
fn the_control_of_a_kill_is_an_orderly_restart_and_that_of_a_fault_is_nothing() {
    let subject = Subject { resource: "configmaps".to_owned(), verb: "update".to_owned() };
    let plan = |actions| Plan { pattern: PatternId::Crash, subject: subject.clone(), actions };
    let lines = |plan: Plan| plan.actions.iter().map(PlannedAction::line).collect::<Vec<_>>();
    let expected = [
        "wait  when op does update configmaps/default/a, second time, after it is done",
        "restart op in order  when all clients are quiet",
    ];
    assert_eq!(lines(plan(vec![kill()]).control().unwrap()), expected);
    let recreate = Operation::Recreate { object: "configmaps/default/a".to_owned(), until: None };
    let control = plan(vec![PlannedAction::at_once(recreate)]).control().unwrap();
    let slowly = "the user deletes configmaps/default/a and creates it when all clients are quiet  when all clients are quiet";
    assert_eq!(lines(control.clone()), [slowly]);
    assert!(control.changes_input() && !plan(vec![kill()]).changes_input());
    let trigger = at_request(("op", "update", ""), &key(), 1, RequestPhase::Arrived);
    assert_eq!(plan(vec![PlannedAction::at(trigger, Operation::Touch {})]).control(), None);
}

#[test]
fn actions_are_lines_that_a_person_can_follow() {
    let line = kill().line();
    assert_eq!(
        line,
        "kill op, start it  when op does update configmaps/default/a, second time, after it is done"
    );
    let thaw = PlannedAction::at(Trigger::quiet(), Operation::Thaw { cache: "b".to_owned(), step: None });
    assert_eq!(thaw.line(), "thaw cache \"b\"  when all clients are quiet");
}

#[test]
fn plans_that_differ_in_how_often_an_action_is_done_have_different_titles() {
    let title = |times| {
        let trigger = at_request(("op", "update", ""), &key(), 1, RequestPhase::Arrived);
        let touch = PlannedAction { times, ..PlannedAction::at(trigger, Operation::Touch {}) };
        let subject = Subject { resource: "configmaps".to_owned(), verb: "update".to_owned() };
        Plan { pattern: PatternId::Touch, subject, actions: vec![touch] }.title()
    };
    assert_eq!(title(1), "touch when op does update configmaps/default/a, before it is done");
    assert_eq!(title(3), "touch, 3 times when op does update configmaps/default/a, before it is done");
}
