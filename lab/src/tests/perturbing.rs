//! Faults, lagging caches and plans over the network, as an unchanged client sees them.

use super::client::{TestAnswer, TestClient};
use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::time::Duration;

/// The next event of a JSON watch; `None` if it ended, or nothing came for a while.
pub(super) async fn next_event(body: &mut Incoming, rest: &mut Vec<u8>) -> Option<Value> {
    loop {
        if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            return serde_json::from_slice(&line).ok();
        }
        let frame = tokio::time::timeout(Duration::from_millis(400), body.frame()).await.ok()??;
        rest.extend_from_slice(frame.ok()?.data_ref()?);
    }
}

/// All events that come within a while, as type, name and revision.
async fn events(body: &mut Incoming) -> Vec<(String, String)> {
    let (mut rest, mut found) = (Vec::new(), Vec::new());
    while let Some(event) = next_event(body, &mut rest).await {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        found.push((event["type"].as_str().unwrap().to_owned(), name.to_owned()));
    }
    found
}

fn names(answer: &TestAnswer) -> Vec<&str> {
    let items = answer.body["items"].as_array().unwrap().iter();
    items
        .filter_map(|item| item["metadata"]["name"].as_str())
        .filter(|name| *name != "kube-root-ca.crt")
        .collect()
}

fn added(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ("ADDED".to_owned(), (*name).to_owned())).collect()
}

async fn create(client: &TestClient, name: &str) -> TestAnswer {
    client.api(Method::POST, CONFIG_MAPS, Some(config_map(name))).await
}

async fn set(admin: &TestClient, rules: Value) {
    let answer = admin.lab(Method::PUT, "/faults", Some(json!({"seed": 7, "rules": rules}))).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_without_valid_credentials_are_not_perturbed() {
    let (_lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    set(&admin, json!([{"fault": "error"}])).await;
    assert_eq!(create(&admin, "a").await.code, 500);
    assert_eq!(create(&admin.anonymous(), "a").await.code, 403);
    assert_eq!(create(&admin.with_token("none"), "a").await.code, 401);
    let counts = admin.lab(Method::GET, "/faults/counts", None).await.body;
    assert_eq!(counts["rules"][0]["hits"], 1, "{counts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeded_rules_refuse_lose_and_touch_and_each_is_counted() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let url = lab.cluster("main").unwrap().url.clone();
    let operator = admin.at(&url, "operator/v1");
    let of_operator = json!({"agent": "operator"});
    let rule = |fault: &str| json!([{"fault": fault, "client": of_operator, "request": {"resources": ["configmaps"]}}]);
    set(&admin, rule("error")).await;
    let refused = create(&operator, "a").await;
    assert_eq!((refused.code, &refused.body["message"]), (500, &json!("etcdserver: request timed out")));
    assert_eq!(create(&admin, "a").await.code, 201, "other clients see no fault");
    set(&admin, rule("lost-answer")).await;
    assert_eq!(create(&operator, "b").await.code, 504);
    assert_eq!(create(&operator, "b").await.code, 409, "it was performed");
    set(&admin, json!([{"fault": "unavailable", "how": "reset", "client": of_operator}])).await;
    assert!(operator.try_open(Method::GET, CONFIG_MAPS, None, None).await.is_err());
    set(&admin, rule("touch")).await;
    let path = format!("{CONFIG_MAPS}/a");
    let before = operator.api(Method::GET, &path, None).await.body;
    let conflict = operator.api(Method::PUT, &path, Some(before.clone())).await;
    assert_eq!((conflict.code, &conflict.body["reason"]), (409, &json!("Conflict")));
    let after = operator.api(Method::GET, &path, None).await.body;
    assert_ne!(
        after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"],
        "409 has a newer object"
    );
    assert!(after["metadata"]["annotations"]["lab.kstore.io/touch"].is_string());
    let mut unconditional = after;
    unconditional["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(operator.api(Method::PUT, &path, Some(unconditional)).await.code, 200);
    let counts = admin.lab(Method::GET, "/faults/counts", None).await.body;
    assert_eq!(counts["rules"], json!([{"name": "touch", "fault": "touch", "hits": 1, "skipped": 1}]));
    let log = admin.lab(Method::GET, "/requests?client=operator&verb=update", None).await.body;
    assert_eq!(log["requests"][0]["fault"], "touch");
    let refused = admin.lab(Method::PUT, "/faults", Some(json!({"rules": [{"fault": "conflict"}]}))).await;
    assert!(refused.code == 403 && refused.body["message"].as_str().unwrap().contains("illegal: true"));
    let wrong = json!({"rules": [{"fault": "touch", "probabilty": 0.5}]});
    let refused = admin.lab(Method::PUT, "/faults", Some(wrong)).await;
    assert_eq!(refused.body["message"], "/rules/0/probabilty: is no member; did you mean \"probability\"?");
    assert_eq!(admin.lab(Method::DELETE, "/faults", None).await.code, 200);
    assert_eq!(create(&operator, "c").await.code, 201);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_cache_shows_its_state_and_a_thaw_delivers_what_was_held_in_order() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let operator = admin.at(&lab.cluster("main").unwrap().url.clone(), "operator/v1");
    create(&admin, "a").await;
    assert_eq!(admin.lab(Method::PUT, "/caches/b", None).await.code, 200);
    let routes =
        json!([{"client": {"agent": "operator"}, "request": {"resources": ["configmaps"]}, "cache": "b"}]);
    assert_eq!(admin.lab(Method::PUT, "/routes", Some(routes)).await.code, 200);
    let frozen =
        admin.lab(Method::POST, "/caches/b/freeze", Some(json!({"resources": ["configmaps"]}))).await;
    let at = frozen.body["frozen"]["configmaps"].as_i64().unwrap();
    let list = |query: String| {
        let operator = operator.clone();
        async move { operator.api(Method::GET, &format!("{CONFIG_MAPS}{query}"), None).await }
    };
    let watch = async |query: &str| {
        operator.open(Method::GET, &format!("{CONFIG_MAPS}?watch=1&{query}"), None, None).await.1
    };
    for name in ["b", "c"] {
        create(&operator, name).await;
    }
    assert_eq!(names(&list(String::new()).await), ["a", "b", "c"], "without a version: the newest state");
    let stale = list("?resourceVersion=0".to_owned()).await;
    assert_eq!(
        (names(&stale), &stale.body["metadata"]["resourceVersion"]),
        (vec!["a"], &json!(at.to_string()))
    );
    assert_eq!(names(&list(format!("?resourceVersion={at}")).await), ["a"], "at least N ≤ r: the state at r");
    let late = list(format!("?resourceVersion={}", at + 1)).await;
    assert_eq!((late.code, &late.body["details"]["retryAfterSeconds"]), (504, &json!(1)));
    let object = format!("{CONFIG_MAPS}/c");
    assert_eq!(operator.api(Method::GET, &object, None).await.code, 200);
    assert_eq!(operator.api(Method::GET, &format!("{object}?resourceVersion=0"), None).await.code, 404);
    assert_eq!(
        names(&list(format!("?resourceVersion={}&resourceVersionMatch=Exact", at + 1)).await),
        ["a", "b"]
    );
    let ignored = |found: Vec<(String, String)>| {
        found.into_iter().filter(|(_, name)| name != "kube-root-ca.crt").collect::<Vec<_>>()
    };
    let mut from_r = watch(&format!("resourceVersion={at}")).await;
    let mut beyond = watch(&format!("resourceVersion={}", at + 1)).await;
    let mut any = watch("resourceVersion=0").await;
    assert_eq!(events(&mut from_r).await, [], "silence");
    assert_eq!(events(&mut beyond).await, []);
    assert_eq!(ignored(events(&mut any).await), added(&["a"]), "the state at r");
    let mut marked =
        watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true").await;
    let refused = next_event(&mut marked, &mut Vec::new()).await.unwrap();
    assert_eq!(
        (&refused["type"], &refused["object"]["code"]),
        (&json!("ERROR"), &json!(504)),
        "it waits for the head"
    );
    admin.lab(Method::POST, "/caches/b/thaw", Some(json!({"resources": ["configmaps"], "step": 1}))).await;
    assert_eq!(events(&mut from_r).await, added(&["b"]), "one change");
    assert_eq!(events(&mut any).await, added(&["b"]));
    assert_eq!(names(&list("?resourceVersion=0".to_owned()).await), ["a", "b"]);
    let back = admin
        .lab(Method::POST, "/caches/b/freeze", Some(json!({"resources": ["configmaps"], "at": at})))
        .await;
    assert_eq!(back.code, 409, "no cache goes back");
    admin.lab(Method::POST, "/caches/b/thaw", None).await;
    assert_eq!((events(&mut from_r).await, events(&mut any).await), (added(&["c"]), added(&["c"])));
    assert_eq!(events(&mut beyond).await, added(&["c"]));
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_holds_freezes_and_injects_at_what_it_observes() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let operator = admin.at(&lab.cluster("main").unwrap().url.clone(), "operator/v1");
    let start = async |actions: Value| {
        let answer = admin.lab(Method::POST, "/plans", Some(json!({"actions": actions}))).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer.body["id"].as_str().unwrap().to_owned()
    };
    let second =
        json!({"request": {"client": "operator", "verb": "create", "resource": "configmaps", "nth": 2}});
    let plan = start(json!([{"action": "too-many", "seconds": 3, "trigger": second}])).await;
    assert_eq!(create(&operator, "a").await.code, 201);
    assert_eq!(create(&operator, "b").await.code, 429);
    assert_eq!(create(&operator, "b").await.code, 201);
    let report = admin.lab(Method::GET, &format!("/plans/{plan}"), None).await.body;
    assert_eq!((&report["state"], &report["actions"][0]["state"]), (&json!("done"), &json!("done")));
    admin.lab(Method::DELETE, &format!("/plans/{plan}"), None).await;

    // An open watch is cut before an event whose object meets a condition, and its next watch is expired once there is another one.
    let on = json!({"event": {"client": "operator", "resource": "configmaps", "where": "new.metadata.name == 'd'"}});
    let until = json!({"write": {"resource": "configmaps", "name": "e"}});
    let plan = start(json!([{"action": "skip", "until": until, "trigger": on}])).await;
    let version = create(&admin, "c").await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version.parse::<i64>().unwrap() - 1);
    let (_, mut body) = operator.open(Method::GET, &path, None, None).await;
    assert_eq!(events(&mut body).await, added(&["c"]));
    create(&admin, "d").await;
    assert_eq!(events(&mut body).await, [], "cut before the event");
    let (client, again) = (operator.clone(), path.clone());
    let blocked = tokio::spawn(async move { client.open(Method::GET, &again, None, None).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!blocked.is_finished(), "the next watch waits");
    create(&admin, "e").await;
    let (_, mut body) = blocked.await.unwrap();
    let expired = next_event(&mut body, &mut Vec::new()).await.unwrap();
    assert_eq!((&expired["type"], &expired["object"]["code"]), (&json!("ERROR"), &json!(410)));
    let report = admin.lab(Method::GET, &format!("/plans/{plan}"), None).await.body;
    assert_eq!(report["state"], "done", "{report}");
    admin.lab(Method::DELETE, &format!("/plans/{plan}"), None).await;

    // A request that is held goes on with `resume`.
    let pause = json!({"action": "pause", "program": "none", "until": {"quiet": {}},
        "trigger": {"request": {"client": "operator", "verb": "delete", "phase": "done"}}});
    let plan = start(json!([pause])).await;
    assert_eq!(operator.api(Method::DELETE, &format!("{CONFIG_MAPS}/e"), None).await.code, 200);
    let report = admin.lab(Method::GET, &format!("/plans/{plan}"), None).await.body;
    assert_eq!(
        (&report["actions"][0]["state"], &report["actions"][0]["why"]),
        (&json!("skipped"), &json!("the lab has no program \"none\""))
    );
    let events = admin.lab(Method::GET, &format!("/plans/{plan}/events"), None).await.body;
    assert_eq!(events["events"].as_array().unwrap().len(), 3, "armed, held, skipped: {events}");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bounds_on_rules_caches_routes_and_plans_hold() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let code = async |method: Method, path: &str, body: Value| admin.lab(method, path, Some(body)).await.code;
    let many = |length: usize, one: Value| Value::Array(vec![one; length]);
    let rules = json!({"rules": many(257, json!({"fault": "error"}))});
    assert_eq!(code(Method::PUT, "/faults", rules).await, 429);
    for number in 0..8 {
        assert_eq!(code(Method::PUT, &format!("/caches/c{number}"), json!({})).await, 200);
    }
    assert_eq!(code(Method::PUT, "/caches/more", json!({})).await, 429);
    assert_eq!(code(Method::PUT, "/routes", many(65, json!({"cache": "c0"}))).await, 429);
    assert_eq!(code(Method::PUT, "/routes", json!([{"cache": "none"}])).await, 404);
    let quiet = json!({"action": "thaw", "cache": "c0", "trigger": {"step": {"name": "never"}}});
    assert_eq!(code(Method::POST, "/plans", json!({"actions": many(65, quiet.clone())})).await, 400);
    for number in 0..8 {
        let plan = json!({"name": format!("p{number}"), "actions": [quiet]});
        assert_eq!(code(Method::POST, "/plans", plan.clone()).await, 201);
        assert_eq!(code(Method::POST, "/plans", plan).await, 201, "an equal one is the same");
    }
    let other = json!({"name": "p0", "actions": [{"action": "resume"}]});
    assert_eq!(code(Method::POST, "/plans", other).await, 409);
    assert_eq!(code(Method::POST, "/plans", json!({"actions": [quiet]})).await, 429);
    assert_eq!(code(Method::POST, "/clusters/main/reset", json!({})).await, 409, "plans run");
    assert_eq!(code(Method::DELETE, "/plans/p0", Value::Null).await, 200);
    assert_eq!(code(Method::DELETE, "/plans/p0", Value::Null).await, 200, "of what is gone: 200");
    assert_eq!(code(Method::GET, "/plans/p0", Value::Null).await, 404);
    lab.end().await;
}
