//! Plans step by step: what is armed, held, injected and undone.

use super::*;
use crate::plan::StepPhase;
use crate::plan::matching::{ObservedRequest, ObservedWrite};
use crate::request::Verb;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn machine(actions: Value) -> (PlanMachine, Vec<Order>) {
    let plan: Plan = serde_json::from_value(json!({"actions": actions})).unwrap();
    PlanMachine::new("p".to_owned(), &plan, (now(), 1)).unwrap()
}

fn request<'a>(number: u64, name: &'a str, body: &'a dyn Fn() -> Value) -> ObservedRequest<'a> {
    ObservedRequest {
        number,
        phase: Phase::Arrived,
        client: "backup",
        verb: Verb::Create,
        resource: "configmaps",
        subresource: "",
        namespace: "default",
        name,
        old: &|| Value::Null,
        new: body,
        request: body,
    }
}

fn create(machine: &mut PlanMachine, number: u64, name: &str) -> Vec<Order> {
    let body = || json!({"metadata": {"name": name}, "data": {"n": number}});
    machine.step(&Observation::Request(&request(number, name, &body)), now())
}

fn states(machine: &PlanMachine) -> Vec<ActionState> {
    machine.report().actions.iter().map(|action| action.state).collect()
}

fn kill(start: Value, trigger: Value) -> Value {
    json!({"action": "kill", "program": "backup", "start": start, "trigger": trigger})
}

#[test]
fn the_nth_matching_request_is_held_until_the_operation_is_done() {
    use ActionState::{Armed, Done, Held, Waiting};
    let on = json!({"request": {"client": "backup", "verb": "create", "resource": "configmaps", "nth": 2}});
    let (mut plan, orders) = machine(json!([kill(json!("now"), on), {"action": "thaw", "cache": "b"}]));
    assert_eq!((orders, states(&plan)), (Vec::new(), vec![Armed, Waiting]));
    assert_eq!(create(&mut plan, 1, "a"), []);
    let orders = create(&mut plan, 2, "b");
    assert!(matches!(
        orders[..],
        [Order::Hold(0), Order::Begin(0, Operation::Kill { .. }, _), Order::Begin(1, ..)]
    ));
    assert_eq!(states(&plan), [Held, Held]);
    plan.completed(0, Ok(()), now());
    plan.completed(1, Err("no cache".to_owned()), now());
    assert_eq!(states(&plan), [Done, ActionState::Skipped]);
    assert_eq!((plan.state(), plan.report().actions[1].why.as_str()), (PlanState::Done, "no cache"));
    assert!(plan.report().actions[0].fired_by.starts_with("request 2: backup create configmaps/default/b"));
}

#[test]
fn an_end_of_an_operation_is_carried_out_at_its_own_trigger() {
    let on = json!({"request": {"verb": "create"}});
    let start = json!({"when": {"time": {"after": "6m"}}});
    let (mut plan, _) = machine(json!([kill(start, on)]));
    create(&mut plan, 1, "a");
    plan.completed(0, Ok(()), now());
    assert_eq!(states(&plan), [ActionState::Held]);
    let early = now().checked_add(std::time::Duration::from_secs(359)).unwrap();
    assert_eq!(plan.step(&Observation::Time(early), early), []);
    let due = plan.next_time().unwrap();
    assert!(matches!(plan.step(&Observation::Time(due), due)[..], [Order::Undo(0, Operation::Kill { .. })]));
    assert_eq!((plan.state(), plan.next_time()), (PlanState::Done, None));
}

#[test]
fn conditions_see_old_new_and_the_request() {
    let on = json!({"request": {"where": "new.data.n >= 2 && request.metadata.name.startsWith('b') && old == null"}});
    let (mut plan, _) = machine(json!([{"action": "error", "times": 2, "trigger": on}]));
    assert_eq!(create(&mut plan, 3, "a"), []);
    assert_eq!(create(&mut plan, 1, "b"), []);
    assert!(matches!(create(&mut plan, 2, "b")[..], [Order::Inject(0, Fault::Error { .. })]));
    assert_eq!(create(&mut plan, 4, "a"), [], "each further request must match, too");
    assert!(matches!(create(&mut plan, 5, "b")[..], [Order::Inject(0, _)]));
    assert_eq!((create(&mut plan, 6, "b"), plan.state()), (Vec::new(), PlanState::Done));
}

#[test]
fn a_freeze_stands_at_the_write_that_fired_it() {
    let on = json!({"write": {"resource": "backups.example.com", "where": "new.metadata.deletionTimestamp != null"}});
    let (mut plan, _) = machine(json!([{"action": "freeze", "cache": "b", "trigger": on}]));
    let write = |plan: &mut PlanMachine, revision: i64, new: Value| {
        let (old, new) = (|| Value::Null, || new.clone());
        let write = ObservedWrite {
            by: "kubectl",
            resource: "backups.example.com",
            namespace: "default",
            name: "b",
            revision,
            old: &old,
            new: &new,
        };
        plan.step(&Observation::Write(&write), now())
    };
    assert_eq!(write(&mut plan, 7, json!({"metadata": {}})), [], "a condition that fails does not match");
    let orders = write(&mut plan, 8, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let cause = Cause { revision: 8, watch: 0 };
    assert!(matches!(&orders[..], [Order::Begin(0, Operation::Freeze { .. }, found)] if *found == cause));
}

#[test]
fn any_all_with_and_the_end_of_a_plan() {
    use ActionState::{Armed, Done, Held, Waiting};
    let all = json!({"all": [{"quiet": {}}, {"step": {"name": "apply-1", "phase": "end"}}]});
    let any = json!({"any": [{"after": 9}, {"quiet": {"client": "backup"}}]});
    let (mut plan, _) = machine(json!([
        {"action": "pause", "program": "a", "until": {"quiet": {}}, "trigger": all},
        {"action": "thaw", "cache": "b", "trigger": any, "with": "previous"},
        {"action": "leap", "by": "1h", "trigger": {"after": 1}},
    ]));
    assert_eq!(states(&plan), [Armed, Armed, Waiting]);
    plan.step(&Observation::Quiet("backup"), now());
    assert_eq!(states(&plan), [Armed, Held, Waiting], "the group has not fired");
    plan.step(&Observation::Quiet(""), now());
    plan.step(&Observation::Step("apply-1", StepPhase::Begin), now());
    let orders = plan.step(&Observation::Step("apply-1", StepPhase::End), now());
    assert!(matches!(orders[..], [Order::Begin(0, ..)]));
    assert_eq!(states(&plan), [Held, Held, Armed]);
    plan.completed(0, Ok(()), now());
    let orders = plan.end(now());
    assert!(matches!(orders[..], [Order::Release, Order::Undo(0, Operation::Pause { .. })]));
    assert_eq!((states(&plan)[0], plan.state()), (Done, PlanState::NotReached));
    assert_eq!(plan.step(&Observation::Quiet(""), now()), [], "it has ended");
}

#[test]
fn triggers_and_faults_that_cannot_be_used_are_refused_by_place() {
    let refused = |actions: Value| {
        let plan: Plan = serde_json::from_value(json!({"actions": actions})).unwrap();
        PlanMachine::new("p".to_owned(), &plan, (now(), 1)).map(|_| ()).unwrap_err().pointer
    };
    let thaw = |trigger: Value| json!([{"action": "thaw", "cache": "b", "trigger": trigger}]);
    assert_eq!(refused(thaw(json!({"quiet": {"nth": 0}}))), "/actions/0/trigger/quiet/nth");
    assert_eq!(refused(thaw(json!({"write": {"where": "1 +"}}))), "/actions/0/trigger/write/where");
    assert_eq!(refused(thaw(json!({"any": []}))), "/actions/0/trigger/any");
    let deep = (0..6).fold(json!({"after": 1}), |inner, _| json!({"all": [inner]}));
    assert!(refused(thaw(deep)).starts_with("/actions/0/trigger/all/0"));
    let (mut plan, _) = machine(json!([{"action": "cut", "trigger": {"quiet": {}}}]));
    plan.step(&Observation::Quiet(""), now());
    assert_eq!(states(&plan), [ActionState::Skipped], "a quiet client has no watch to cut");
}

#[test]
fn plans_read_and_write_the_forms_of_the_api() {
    let actions = json!([
        {"action": "kill", "program": "backup", "cache": "b", "trigger": {"request": {"verb": "create", "phase": "done"}}},
        {"action": "lost-answer", "how": "reset", "times": 3, "trigger": {"request": {}}, "with": "previous"},
        {"action": "skip", "until": {"write": {"name": "x"}}, "trigger": {"event": {"type": "MODIFIED"}}},
        {"action": "leap", "by": "-30m0s"},
        {"action": "node-fault", "node": "n", "fault": "slow", "value": "3", "after": "5s", "duration": "1m", "every": "1h"},
        {"action": "node-fault", "node": "n", "fault": "crash", "until": {"time": {"after": "6m"}}},
    ]);
    let plan: Plan = serde_json::from_value(json!({"actions": actions})).unwrap();
    let again: Plan = serde_json::from_value(serde_json::to_value(&plan).unwrap()).unwrap();
    assert_eq!(plan, again);
    let wrong = |action: Value| serde_json::from_value::<PlannedAction>(action).unwrap_err().to_string();
    assert!(wrong(json!({"action": "kil"})).contains("did you mean \"kill\"?"));
    assert!(
        wrong(json!({"action": "kill", "programm": "x"}))
            .starts_with("unknown field `programm`, expected one of `program`")
    );
    assert!(wrong(json!({"program": "x"})).contains("missing field `action`"));
}
