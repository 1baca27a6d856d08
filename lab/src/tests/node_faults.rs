//! Tests of the faults of simulated nodes, by calls and by plans.

use super::{CONFIG_MAPS, TestClient, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use serde_json::{Value, json};

const FAULTS: &str = "/nodes/node-0/faults";

async fn advance(client: &TestClient, by: &str) {
    let advanced = client.lab(Method::POST, "/clock/advance", Some(json!({"by": by}))).await;
    assert_eq!(advanced.code, 200, "{advanced:?}");
}

/// Status of the condition `Ready` of the node.
async fn ready(client: &TestClient) -> String {
    let node = client.api(Method::GET, "/api/v1/nodes/node-0", None).await.body;
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|one| one["type"] == "Ready").unwrap();
    ready["status"].as_str().unwrap().to_owned()
}

/// Item and state of each fault.
fn shown(body: &Value) -> Vec<(&str, &str)> {
    let faults = body["faults"].as_array().unwrap().iter();
    faults.map(|one| (one["item"].as_str().unwrap(), one["state"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_has_its_faults_at_once_and_until_they_end() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    let crash = json!({"fault": "crash", "duration": "2m"});
    let added = admin.lab(Method::POST, FAULTS, Some(crash)).await;
    assert_eq!((added.code, shown(&added.body)), (201, vec![("crash+120", "active")]), "{added:?}");
    let later = json!({"fault": "not-ready", "value": "why", "after": "1h", "duration": "30m"});
    let added = admin.lab(Method::POST, FAULTS, Some(later)).await;
    let both = vec![("crash+120", "active"), ("not-ready=why@3600+1800", "waiting")];
    assert_eq!((added.code, shown(&added.body)), (201, both.clone()), "{added:?}");
    let node = admin.api(Method::GET, "/api/v1/nodes/node-0", None).await.body;
    let annotation = &node["metadata"]["annotations"]["kubelet-sim.kstore.io/fault"];
    assert_eq!(annotation, "crash+120; not-ready=why@3600+1800", "as kubectl would annotate it");

    // A fork has the faults with their times.
    let fork = admin.lab(Method::POST, "/clusters", Some(json!({"name": "branch"}))).await;
    let branch = admin.at(fork.body["url"].as_str().unwrap(), "test");
    let of_branch = branch.lab(Method::GET, FAULTS, None).await;
    assert_eq!(shown(&of_branch.body), both);
    for cluster in [&admin, &branch] {
        advance(cluster, "90s").await;
        assert_eq!(ready(cluster).await, "Unknown", "a node without power misses its Lease");
        advance(cluster, "60s").await;
        assert_eq!(ready(cluster).await, "True");
    }
    branch.lab(Method::DELETE, FAULTS, None).await;
    for (cluster, expected) in [(&branch, "True"), (&admin, "False")] {
        advance(cluster, "1h").await;
        assert_eq!(ready(cluster).await, expected);
    }
    let over = admin.lab(Method::GET, FAULTS, None).await;
    assert_eq!(shown(&over.body)[0], ("crash+120", "over"));
    let hang = admin.lab(Method::POST, FAULTS, Some(json!({"fault": "hang"}))).await;
    let held = vec![("not-ready=why@3600+1800", "active"), ("hang", "active")];
    assert_eq!(shown(&hang.body), held, "what is over uses up no place");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_withdrawn_by_name_or_all_and_mistakes_are_refused() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    for fault in ["hang", "memory-pressure", "network-unavailable"] {
        assert_eq!(admin.lab(Method::POST, FAULTS, Some(json!({"fault": fault}))).await.code, 201);
    }
    assert_eq!(admin.lab(Method::POST, "/nodes/node-0/stop", None).await.code, 200);
    let four = admin.lab(Method::GET, FAULTS, None).await;
    assert_eq!(shown(&four.body).len(), 4, "a stop is one of them: {four:?}");
    let left = admin.lab(Method::DELETE, &format!("{FAULTS}?fault=hang"), None).await;
    let expected =
        vec![("memory-pressure", "active"), ("network-unavailable", "active"), ("freeze", "active")];
    assert_eq!((left.code, shown(&left.body)), (200, expected));
    let left = admin.lab(Method::DELETE, &format!("{FAULTS}?fault=freeze"), None).await;
    assert_eq!(shown(&left.body).len(), 2, "stop means freeze");
    let none = admin.lab(Method::DELETE, FAULTS, None).await;
    assert_eq!((none.code, &none.body["faults"]), (200, &json!([])));
    for (method, path, body, code, text) in [
        (Method::POST, FAULTS, json!({"fault": "crush"}), 400, "did you mean \"crash\"?"),
        (Method::POST, FAULTS, json!({"falt": "crash"}), 400, "did you mean \"fault\"?"),
        (Method::POST, FAULTS, json!({"fault": "not-ready", "value": "a;b"}), 400, "a value has no ';'"),
        (Method::POST, FAULTS, json!({"fault": "crash", "duration": "long"}), 400, "duration such as"),
        (Method::POST, "/nodes/none/faults", json!({"fault": "crash"}), 404, "no simulated node"),
        (Method::GET, "/nodes/none/faults", Value::Null, 404, "no simulated node"),
        (Method::DELETE, "/nodes/node-0/faults?fault=hnag", Value::Null, 400, "did you mean \"hang\"?"),
        (Method::DELETE, "/nodes/node-0/faults?falt=hang", Value::Null, 400, "did you mean \"fault\"?"),
    ] {
        let refused = admin.lab(method, path, (!body.is_null()).then_some(body.clone())).await;
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(refused.code == code && message.contains(text), "{body}: {refused:?}");
    }
    for _ in 0..16 {
        let one = json!({"fault": "not-ready", "after": "1h"});
        assert_eq!(admin.lab(Method::POST, FAULTS, Some(one)).await.code, 201);
    }
    assert_eq!(admin.lab(Method::POST, FAULTS, Some(json!({"fault": "hang"}))).await.code, 429);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_lets_a_node_fail_at_a_write_and_heal_at_a_time() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    let action = json!({"action": "node-fault", "node": "node-0", "fault": "partition",
        "trigger": {"write": {"resource": "configmaps", "name": "begin"}}, "until": {"time": {"after": "10m"}}});
    let wrong = json!({"actions": [{"action": "node-fault", "node": "node-0", "fault": "partitoin"}]});
    let refused = admin.lab(Method::POST, "/plans", Some(wrong)).await;
    assert_eq!(refused.code, 400, "{refused:?}");
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.starts_with("/actions/0/fault: ") && message.contains("\"partition\"?"), "{message}");
    let plan = json!({"name": "away", "actions": [action]});
    let made = admin.lab(Method::POST, "/plans", Some(plan)).await;
    assert_eq!((made.code, &made.body["actions"][0]["state"]), (201, &json!("armed")), "{made:?}");
    assert_eq!(made.body["actions"][0]["action"]["fault"], "partition");
    advance(&admin, "2m").await;
    assert_eq!(ready(&admin).await, "True");
    assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(config_map("begin"))).await.code, 201);
    advance(&admin, "2m").await;
    assert_eq!(ready(&admin).await, "Unknown");
    let faults = admin.lab(Method::GET, FAULTS, None).await;
    assert_eq!(shown(&faults.body), [("partition", "active")]);
    advance(&admin, "9m").await;
    let plan = admin.lab(Method::GET, "/plans/away", None).await;
    assert_eq!(plan.body["actions"][0]["state"], "done", "{plan:?}");
    advance(&admin, "1m").await;
    assert_eq!(ready(&admin).await, "True");
    let faults = admin.lab(Method::GET, FAULTS, None).await;
    assert_eq!(faults.body["faults"], json!([]), "the plan withdraws what it brought");
    lab.end().await;
}
