//! Plans of one reference, pattern by pattern.

use super::*;
use crate::normalise::Normaliser;
use crate::oracle::Reference;
use crate::oracle::tests::{key, request, run, scenario, stored, write};
use crate::record::{RecordedStep, RunRecord, ViewedRevision};
use serde_json::json;

const THING: &str = "things.example.com/default/a";
const POD: &str = "pods/default/p";
const CLAIM: &str = "persistentvolumeclaims/default/data-a";

/// A reference: the user creates a Thing, the operator makes a claim and a status; the user deletes the Thing, the operator deletes the
/// claim; and once more.
fn reference() -> RunRecord {
    let viewed = |mut write: RecordedWrite, things: i64, claims: i64| {
        let view = |resource: &str, delivered| ViewedRevision {
            resource: resource.to_owned(),
            delivered,
            partial: false,
        };
        write.views = vec![view("things.example.com", things), view("persistentvolumeclaims", claims)];
        write
    };
    let mut status = write(12, "op", THING, json!({}), json!({"ready": true}));
    status.verb = "update/status".to_owned();
    let pod = |mut write: RecordedWrite| {
        for object in [&mut write.before, &mut write.after].into_iter().flatten() {
            object["metadata"]["uid"] = json!("pod");
        }
        write
    };
    let writes = vec![
        write(10, "user", THING, json!(null), json!({})),
        viewed(write(11, "op", CLAIM, json!(null), json!({})), 10, 5),
        viewed(status, 10, 11),
        write(20, "user", THING, json!({}), json!({"deleted": true})),
        viewed(write(21, "op", CLAIM, json!({}), json!(null)), 20, 11),
        write(30, "user", THING, json!({"deleted": true}), json!({})),
        viewed(write(31, "op", CLAIM, json!(null), json!({})), 30, 21),
        write(32, "op", "leases.coordination.k8s.io/default/op", json!(null), json!({})),
        pod(viewed(write(33, "op", POD, json!(null), json!({})), 30, 31)),
        pod(write(34, "scheduler", POD, json!({}), json!({"nodeName": "node-0"}))),
    ];
    let requests = vec![
        request(1, "op", "list", "things.example.com/default/x", 200),
        request(2, "op", "watch", "things.example.com/default/x", 200),
    ];
    let by_revision = writes.iter().filter(|write| write.client == "op").map(|write| {
        let (verb, subresource) = write.verb.split_once('/').unwrap_or((&write.verb, ""));
        let mut request = request(write.revision as u64, "op", verb, &write.key.to_string(), 200);
        request.revision = write.revision;
        request.subresource = subresource.to_owned();
        request
    });
    let mut record = run(writes.clone());
    let webhook = json!({"name": "hook.example.com", "rules": [{"apiGroups": [""], "operations": ["CREATE"],
        "resources": ["persistentvolumeclaims"]}]});
    let configuration = "validatingwebhookconfigurations.admissionregistration.k8s.io/hook";
    let mut configured = stored(configuration, "u0", json!({}));
    configured.object["webhooks"] = json!([webhook]);
    record.initial = vec![configured];
    record.requests = requests.into_iter().chain(by_revision).collect();
    record.turns = 20;
    record.steps = [(9, 12), (19, 21), (29, 34)]
        .map(|(begin, end)| RecordedStep { name: "s".to_owned(), begin, end })
        .to_vec();
    record.end =
        vec![stored(THING, "u2", json!({})), stored(CLAIM, "u3", json!({})), stored(POD, "pod", json!({}))];
    record
}

fn with_plans(lists_from_cache: bool, patterns: &[PatternId]) -> Vec<String> {
    plans_of(reference(), lists_from_cache, patterns)
}

fn plans_of(record: RunRecord, lists_from_cache: bool, patterns: &[PatternId]) -> Vec<String> {
    with_traced(record, lists_from_cache, |traced| lines(&plans(traced, patterns).0))
}

fn with_traced<T>(record: RunRecord, lists_from_cache: bool, then: impl FnOnce(&Traced<'_>) -> T) -> T {
    let mut scenario = scenario("");
    let object = crate::scenario::ObjectRef::parse(THING).unwrap();
    scenario.steps.push(crate::scenario::Step {
        name: "patch-1".to_owned(),
        position: crate::yaml::Position::default(),
        action: crate::scenario::StepAction::Patch { object, merge: json!({"spec": {"n": 2}}) },
    });
    let normaliser = Normaliser::new(&scenario, &[]).learn(&[&record.end]);
    let references = [Reference { end: normaliser.normalise(&record.end), record }];
    let programs = [TracedProgram { name: "op".to_owned(), lists_from_cache }];
    let applied = [key(THING)];
    let traced = Traced {
        scenario: &scenario,
        references: &references,
        normaliser: &normaliser,
        programs: &programs,
        applied: &applied,
    };
    then(&traced)
}

fn lines(plans: &[Plan]) -> Vec<String> {
    let line = |plan: &Plan| plan.actions.iter().map(PlannedAction::line).collect::<Vec<_>>().join(" | ");
    plans.iter().map(line).collect()
}

#[test]
fn a_crash_is_planned_before_and_after_each_distinct_write() {
    let plans = with_plans(false, &[PatternId::Crash]);
    assert_eq!(plans.len(), 10, "{plans:#?}");
    let first = "kill op, start it  when op does create persistentvolumeclaims/default, after it is done";
    assert!(plans.contains(&first.to_owned()), "{plans:#?}");
    let second = "kill op, start it  when op does create persistentvolumeclaims/default, second time, before it is done";
    assert!(plans.contains(&second.to_owned()), "{plans:#?}");
    let status =
        "kill op, start it  when op does update things.example.com/default/a/status, after it is done";
    assert!(plans.contains(&status.to_owned()), "{plans:#?}");
}

#[test]
fn time_travel_is_planned_only_for_programs_that_list_from_a_cache() {
    assert_eq!(with_plans(false, &[PatternId::Stale]), Vec::<String>::new());
    let plans = with_plans(true, &[PatternId::Stale]);
    let expected = "freeze cache \"behind\" for things.example.com  when persistentvolumeclaims/default/data-a is written, \
        second time | kill op, start it on cache \"behind\"  when persistentvolumeclaims/default/data-a is written | \
        wait  when op does list things.example.com, before it is done | thaw cache \"behind\"  when all clients are quiet";
    assert!(plans.contains(&expected.to_owned()), "{plans:#?}");
    let earlier = "freeze cache \"behind\" for things.example.com  when an event of things.example.com/default/a is due to op, third time";
    assert!(plans.iter().any(|plan| plan.starts_with(earlier)), "{plans:#?}");
}

#[test]
fn a_state_is_skipped_between_two_changes_by_others() {
    let plans = with_plans(false, &[PatternId::Skip, PatternId::Down]);
    let skip = "show no event from here until things.example.com/default/a is written  when an event of \
        things.example.com/default/a is due to op, third time";
    assert!(plans.contains(&skip.to_owned()), "{plans:#?}");
    let down = "kill op, start it when things.example.com/default/a is written  when an event of \
        things.example.com/default/a is due to op, third time";
    assert!(plans.contains(&down.to_owned()), "{plans:#?}");
    // What the program writes because it saw the change does not come while it does not see it.
    let mut record = reference();
    let noted = write(22, "op", THING, json!({"deleted": true}), json!({"deleted": true, "noted": true}));
    let index = record.writes.partition_point(|write| write.revision < noted.revision);
    record.writes.insert(index, noted);
    let plans = plans_of(record, false, &[PatternId::Skip, PatternId::Down]);
    for expected in [skip, down] {
        assert!(plans.contains(&expected.to_owned()), "{plans:#?}");
    }
}

/// Regression: on an overloaded machine a node wrote a status twice in the reference of which plans were made. Their count of events never
/// came, and what these plans looked for was not found.
#[test]
fn a_run_whose_fault_did_not_come_is_planned_for_where_it_differs() {
    let skip = [PatternId::Skip];
    let mut slow = reference();
    let status = write(15, "kubelet", THING, json!({"ready": true}), json!({"ready": true, "seen": 1}));
    slow.writes.insert(slow.writes.partition_point(|write| write.revision < 15), status);
    let known = with_traced(slow, false, |traced| plans(traced, &skip).0);
    let third = "show no event from here until things.example.com/default/a is written  when an event of \
        things.example.com/default/a is due to op, third time";
    assert!(!lines(&known).iter().any(|plan| plan == third), "{:#?}", lines(&known));
    let further = with_traced(reference(), false, |traced| further_plans(traced, &skip, &known));
    assert!(lines(&further).iter().any(|plan| plan == third), "{:#?}", lines(&further));
    let all: Vec<Plan> = known.into_iter().chain(further).collect();
    let again = with_traced(reference(), false, |traced| further_plans(traced, &skip, &all));
    assert_eq!(lines(&again), Vec::<String>::new());
}

#[test]
fn every_pattern_makes_plans_and_names_itself() {
    for pattern in PatternId::ALL {
        assert!(!with_plans(true, &[pattern]).is_empty(), "{pattern}");
        assert_eq!(PatternId::named(pattern.name()), Some(pattern));
        assert_eq!(serde_json::to_value(pattern).unwrap(), pattern.name());
    }
    let webhook = with_plans(false, &[PatternId::Webhook]);
    let expected = "webhook hook.example.com fails (refused) until all clients are quiet  when op does create \
        persistentvolumeclaims/default, before it is done";
    assert!(webhook.contains(&expected.to_owned()), "{webhook:#?}");
    let freeze = with_plans(false, &[PatternId::Freeze]);
    let expected = "route op on cache \"behind\"  at once | freeze cache \"behind\" for persistentvolumeclaims  when \
        op does create persistentvolumeclaims/default, before it is done | thaw cache \"behind\"  when all clients are quiet";
    assert!(freeze.contains(&expected.to_owned()), "{freeze:#?}");
}

#[test]
fn the_same_references_make_the_same_plans_in_the_same_order() {
    assert_eq!(with_plans(true, &PatternId::ALL), with_plans(true, &PatternId::ALL));
}

#[test]
fn writes_that_are_not_worth_a_plan_are_counted_by_rule() {
    let scenario = scenario("ignore: [{resource: secrets}]\n");
    let mut record = reference();
    record.writes.push(write(40, "op", "secrets/default/s", json!(null), json!({})));
    record.writes.push(write(41, "op", THING, json!({"n": 1}), json!({"n": 1})));
    for revision in 42..50 {
        record.writes.push(write(revision, "op", THING, json!({"n": revision}), json!({"n": revision + 1})));
    }
    let mut other = record.clone();
    other.writes.retain(|write| write.verb != "update/status");
    let normaliser = Normaliser::new(&scenario, &[]).learn(&[&record.end]);
    let end = normaliser.normalise(&record.end);
    let references = [record, other].map(|record| Reference { end: end.clone(), record });
    let programs = [TracedProgram { name: "op".to_owned(), lists_from_cache: false }];
    let traced = Traced {
        scenario: &scenario,
        references: &references,
        normaliser: &normaliser,
        programs: &programs,
        applied: &[],
    };
    let mut counts = PrunedCounts::default();
    let writes = prune::distinct_writes(&traced, &mut counts);
    assert_eq!((counts.ignored, counts.unchanged, counts.repeated, counts.unsteady), (2, 1, 5, 1));
    assert_eq!(writes.len(), 4 + limits::OF_A_SHAPE);
}

#[test]
fn orders_have_priorities_by_a_seed_that_change_within_the_run() {
    let plans = with_plans(false, &[PatternId::Order]);
    assert_eq!(plans.len() as u64, limits::ORDERS);
    for plan in &plans {
        let (_, turns) = plan.split_once("otherwise from turn ").unwrap_or_else(|| panic!("{plan}"));
        let turns = turns.trim_end_matches("  at once").split(", ").map(|turn| turn.parse::<u64>().unwrap());
        assert!(
            turns.clone().all(|turn| (1..=20).contains(&turn)) && (1..=3).contains(&turns.count()),
            "{plan}"
        );
    }
}
