//! Property tests and tables of the rules.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn stored(resource: &str, object: Value) -> StoredObject {
    StoredObject { resource: resource.to_owned(), object }
}

fn normaliser(states: &[&[StoredObject]]) -> Normaliser {
    Normaliser::default().with_window(1_700_000_000, 1_700_000_100).learn(states)
}

/// A state as a run could leave it. `run` decides everything that runs choose freely.
fn state(run: u64, texts: &[String]) -> Vec<StoredObject> {
    let uid = |nth: usize| format!("{run:08x}-0000-4000-8000-{nth:012x}");
    let time = format!("2026-01-01T00:00:{:02}Z", run % 60);
    let thing = json!({"metadata": {"name": "b", "namespace": "default", "uid": uid(0), "generation": 3,
        "resourceVersion": (run + 7).to_string(), "creationTimestamp": time, "finalizers": ["x", "a"]},
        "status": {"observedGeneration": 3, "since": 1_700_000_000 + run % 60,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time},
            {"type": "A", "status": "True"}]}});
    let mut all = vec![stored("things.example.com", thing)];
    for (nth, text) in texts.iter().enumerate() {
        let name = format!("b-{run:05x}{nth:03}");
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Thing", "name": "b", "uid": uid(0),
            "controller": true});
        all.push(stored(
            "pods",
            json!({"metadata": {"name": name, "namespace": "default", "uid": uid(nth + 1),
            "labels": {"app": "b", "pod-template-hash": format!("{run}")}, "ownerReferences": [owner]},
            "spec": {"nodeName": format!("node-{}", run % 3), "text": text},
            "status": {"podIP": format!("10.0.{}.{nth}", run % 200), "message": format!("pod {name} runs")}}),
        ));
    }
    // The order of a listing by name is free, too.
    if run % 2 == 1 {
        all.reverse();
    }
    all
}

proptest! {
    #[test]
    fn two_states_that_differ_by_free_choices_normalise_equally(
        texts in prop::collection::vec("[a-z]{0,6}", 0..5),
        run in 100_u64..1_000_000,
        other in 100_u64..1_000_000,
    ) {
        let (a, b) = (state(run, &texts), state(other, &texts));
        let normaliser = normaliser(&[&a, &b]);
        let differences = differences(&normaliser.normalise(&a), &normaliser.normalise(&b));
        prop_assert!(differences.is_empty() || run == other, "{:?}", differences);
    }

    #[test]
    fn normalising_is_idempotent(texts in prop::collection::vec("[a-z]{0,6}", 0..5), run in 100_u64..1_000_000) {
        let (a, b) = (state(run, &texts), state(run + 1, &texts));
        let normaliser = normaliser(&[&a, &b]);
        let once = normaliser.normalise(&a);
        let again: Vec<StoredObject> = once
            .objects
            .iter()
            .map(|(slot, object)| stored(slot.split('/').next().unwrap(), object.clone()))
            .collect();
        prop_assert_eq!(normaliser.normalise(&again), once);
    }

    #[test]
    fn an_added_removed_or_changed_object_or_field_is_a_difference(
        texts in prop::collection::vec("[a-z]{1,6}", 1..5),
        run in 100_u64..1_000_000,
        change in 0_usize..5,
    ) {
        let (a, b) = (state(run, &texts), state(run + 2, &texts));
        let normaliser = normaliser(&[&a, &b]);
        let mut changed = state(run + 4, &texts);
        let pod = changed.iter().position(|stored| stored.resource == "pods").unwrap();
        match change {
            0 => { changed.remove(pod); }
            1 => {
                let mut more = changed[pod].clone();
                more.object["metadata"]["name"] = json!("b-another");
                more.object["metadata"]["uid"] = json!("another");
                changed.push(more);
            }
            2 => changed[pod].object["spec"]["text"] = json!("OTHER"),
            3 => changed[pod].object["spec"]["more"] = json!(1),
            _ => { changed[pod].object["metadata"].as_object_mut().unwrap().remove("ownerReferences"); }
        }
        let found = differences(&normaliser.normalise(&a), &normaliser.normalise(&changed));
        prop_assert!(!found.is_empty());
    }
}

#[test]
fn jobs_of_other_hours_and_revisions_in_references_to_objects_make_no_difference() {
    let state = |hours: &[u64], revision: &str| {
        let job = |hour: &u64| {
            let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "a", "uid": "cron", "controller": true});
            stored(
                "jobs.batch",
                json!({"metadata": {"name": format!("a-{}", 29_934_930 + hour * 60), "namespace": "default",
                "uid": format!("job-{hour}"), "ownerReferences": [owner]}, "spec": {"parallelism": 1}}),
            )
        };
        let cron = json!({"metadata": {"name": "a", "namespace": "default", "uid": "cron"}});
        let volume = json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"name": "c", "resourceVersion": revision}}});
        let others = [stored("cronjobs.batch", cron), stored("persistentvolumes", volume)];
        others.into_iter().chain(hours.iter().map(job)).collect::<Vec<_>>()
    };
    let reference = state(&[1, 2, 3], "344");
    let normaliser = normaliser(&[&reference, &reference]);
    let found =
        |other: &[StoredObject]| differences(&normaliser.normalise(&reference), &normaliser.normalise(other));
    assert_eq!(found(&state(&[2, 3, 4], "926")), []);
    assert_eq!(found(&state(&[2, 3], "926")).len(), 1, "a Job less is one");
    let mut named = state(&[1, 2, 3], "344");
    named[1].object["spec"]["claimRef"]["resourceVersion"] = json!("none");
    assert_eq!(found(&named).len(), 1, "what is no revision is compared");
}

#[test]
fn values_that_differ_between_references_are_volatile_and_keep_their_type() {
    let state = |value: Value, order: [&str; 2]| {
        vec![stored(
            "configmaps",
            json!({"metadata": {"name": "a", "namespace": "default"},
            "data": {"random": value}, "list": order}),
        )]
    };
    let (a, b) = (state(json!("x1"), ["p", "q"]), state(json!("x2"), ["q", "p"]));
    let normaliser = normaliser(&[&a, &b]);
    let learned = normaliser.learned().unwrap();
    assert_eq!(learned.volatile.iter().next().unwrap().path, ["data", "random"]);
    assert_eq!(learned.unordered.iter().next().unwrap().path, ["list"]);
    assert_eq!(normaliser.normalise(&a), normaliser.normalise(&b));
    let volatility = normaliser.volatility(&normaliser.normalise(&a));
    // The name, the namespace, the value and the items of the list.
    assert_eq!((volatility.paths, volatility.volatile), (4, 1));
    assert!(volatility.is_high(), "a quarter is more than a tenth");
    assert_eq!(volatility.unordered, ["configmaps list"]);
    let other = state(json!(7), ["p", "q"]);
    assert_eq!(differences(&normaliser.normalise(&a), &normaliser.normalise(&other)).len(), 1);
    let missing = vec![stored(
        "configmaps",
        json!({"metadata": {"name": "a", "namespace": "default"},
        "data": {}, "list": ["p", "q"]}),
    )];
    assert_eq!(differences(&normaliser.normalise(&a), &normaliser.normalise(&missing)).len(), 1);
}

#[test]
fn rules_drop_and_name_what_no_run_chooses() {
    let secret = STANDARD_SECRET;
    let state = vec![
        stored("events", json!({"metadata": {"name": "e"}})),
        stored("configmaps", json!({"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}})),
        stored("nodes", json!({"metadata": {"name": "node-0"}, "status": {"phase": "x"}})),
        stored(
            "secrets",
            json!({"metadata": {"name": "s", "namespace": "default"}, "data": {"a": secret, "b": "aGk="}}),
        ),
        stored(
            "configmaps",
            json!({"metadata": {"name": "c", "namespace": "default",
            "annotations": {"lab.kstore.io/touch": "1"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"uid": "none", "kind": "Thing", "name": "t"}]},
            "data": {"y": "a: 1\nb: 2\n", "j": "{\"k\":1}", "t": "hello: x"}}),
        ),
    ];
    let normal = Normaliser::default().normalise(&state);
    let slots: Vec<&str> = normal.objects.keys().map(String::as_str).collect();
    assert_eq!(slots, ["configmaps/default/c", "nodes/node-0", "secrets/default/s"]);
    let map = &normal.objects["configmaps/default/c"];
    assert_eq!(map["metadata"]["deletionTimestamp"], true);
    assert!(map["metadata"].get("annotations").is_none());
    assert_eq!(map["metadata"]["ownerReferences"][0]["slot"], "missing");
    assert_eq!(map["data"], json!({"y": {"a": 1, "b": 2}, "j": {"k": 1}, "t": {"hello": "x"}}));
    assert_eq!(
        normal.objects["secrets/default/s"]["data"],
        json!({"a": {"pem": [{"kind": "CERTIFICATE"}]}, "b": {"text": "hi"}})
    );
    assert!(normal.objects["nodes/node-0"].get("status").is_none());
}

/// A certificate in PEM, in base64.
const STANDARD_SECRET: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

#[test]
fn texts_that_a_step_sets_are_compared_as_they_are() {
    let given = json!({"spec": {"until": "2030-01-01T00:00:00Z", "address": "10.9.9.9"}});
    let scenario = crate::oracle::tests::scenario("");
    let normaliser = Normaliser::new(&scenario, std::slice::from_ref(&given));
    let state = |until: &str| {
        let object = json!({"metadata": {"name": "a"}, "until": until, "address": "10.9.9.9"});
        normaliser
            .normalise(&[stored("things.example.com", object)])
            .objects
            .remove("things.example.com/a")
            .unwrap()
    };
    assert_eq!(state("2030-01-01T00:00:00Z")["until"], "2030-01-01T00:00:00Z");
    assert_eq!(state("2031-01-01T00:00:00Z")["until"], "time");
    assert_eq!(state("")["address"], "10.9.9.9");
}

#[test]
fn times_in_a_text_are_replaced_and_nothing_else_is() {
    let text = r#"status is {"last":"2026-11-29T12:40:00Z"}, since 2026-11-29T12:40:00.5+01:00: v1.2-3, a.example.com."#;
    let expected = r#"status is {"last":"time"}, since time: v1.2-3, a.example.com."#;
    assert_eq!(super::text_without_times(text), expected);
    assert_eq!(super::text_without_times(""), "");
}
