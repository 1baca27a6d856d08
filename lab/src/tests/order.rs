//! Serial order of requests and watch events, over the network.

use super::client::TestClient;
use super::perturbing::next_event;
use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

/// A request of a script.
type Scripted = (Method, String, Option<Value>);

/// A cluster whose client `op` has requests in serial order.
struct Ordered {
    admin: TestClient,
    op: TestClient,
    requests: u64,
}

impl Ordered {
    async fn new(admin: &TestClient, order: Value) -> Self {
        let op = admin.at(&format!("https://{}", admin.host), "op");
        let ordered = Self { admin: admin.clone(), op, requests: 0 };
        // The tool of the test asks for things, too, and nothing waits for it.
        ordered.define("test", json!({"match": {"agent": "test"}, "counted": false})).await;
        ordered.define("op", json!({"match": {"agent": "op"}, "window": "1ms"})).await;
        let plan = json!({"name": "order", "actions": [order]});
        assert_eq!(admin.lab(Method::POST, "/plans", Some(plan)).await.code, 201);
        ordered.until("/plans/order", |plan| plan["state"] == "done").await;
        ordered.busy(true).await;
        ordered
    }

    async fn define(&self, name: &str, body: Value) {
        let defined = self.admin.lab(Method::PUT, &format!("/clients/{name}"), Some(body)).await;
        assert_eq!(defined.code, 200, "{defined:?}");
    }

    /// While the client says that it is busy, nothing has its turn.
    async fn busy(&self, is_busy: bool) {
        self.define("op", json!({"busy": is_busy})).await;
    }

    async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) {
        while !holds(&self.admin.lab(Method::GET, path, None).await.body) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Sends requests at once, in this order of arrival, and lets them have their turns.
    async fn round(&mut self, requests: Vec<Scripted>) {
        let mut sent = Vec::new();
        for (method, path, body) in requests {
            let op = self.op.clone();
            sent.push(tokio::spawn(async move { op.api(method, &path, body).await.code }));
            self.requests += 1;
            let requests = self.requests;
            let is_op = |client: &&Value| client["name"] == "op";
            self.until("/clients", |all| {
                all["clients"].as_array().unwrap().iter().find(is_op).unwrap()["requests"] == requests
            })
            .await;
        }
        self.busy(false).await;
        for code in sent {
            let code = code.await.unwrap();
            assert!(code < 300, "{code}");
        }
        self.busy(true).await;
    }

    async fn writes(&self) -> Vec<Value> {
        let writes = self.admin.lab(Method::GET, "/writes?client=op", None).await.body;
        writes["writes"].as_array().unwrap().clone()
    }
}

fn create(name: &str) -> Scripted {
    (Method::POST, CONFIG_MAPS.to_owned(), Some(config_map(name)))
}

fn delete(name: &str) -> Scripted {
    (Method::DELETE, format!("{CONFIG_MAPS}/{name}"), None)
}

fn names(writes: &[Value]) -> Vec<&str> {
    writes.iter().map(|write| write["objects"][0]["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_have_their_turns_by_name_and_swaps_are_exceptions() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let order = json!({"action": "order", "swaps": [2], "patience": "1h"});
    let mut ordered = Ordered::new(&admin, order).await;
    ordered.round(["d", "b", "a", "c"].map(create).into()).await;
    assert_eq!(names(&ordered.writes().await), ["a", "c", "b", "d"], "the second turn is that of another");
    let log = admin.lab(Method::GET, "/requests?client=op", None).await.body;
    let logged = log["requests"].as_array().unwrap().iter().map(|row| row["objectVersion"].as_i64());
    assert!(logged.is_sorted(), "the log has requests in the order of their turns: {log}");
    assert_eq!(admin.lab(Method::DELETE, "/plans/order", None).await.code, 200);
    let free = tokio::time::timeout(Duration::from_secs(60), ordered.op.api(Method::GET, CONFIG_MAPS, None));
    assert_eq!(free.await.unwrap().code, 200, "without the plan nothing waits, although the client is busy");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_delivered_when_it_has_its_turn_and_then_the_next() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let (_, mut watch) = admin
        .at(&format!("https://{}", admin.host), "op")
        .open(Method::GET, &format!("{CONFIG_MAPS}?watch=1"), None, None)
        .await;
    let ordered = Ordered::new(&admin, json!({"action": "order", "patience": "1h"})).await;
    for name in ["x", "y"] {
        assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(config_map(name))).await.code, 201);
    }
    let busy = admin.lab(Method::POST, "/quiet", Some(json!({"patience": "10ms"}))).await;
    let waits = busy.body["details"]["causes"].to_string();
    assert!(busy.code == 504 && waits.contains("waiting after turn 0: 1 event"), "{busy:?}");
    let mut rest = Vec::new();
    let mut seen = Vec::new();
    while let Some(event) = next_event(&mut watch, &mut rest).await {
        seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
    }
    assert!(!seen.iter().any(|name| name == "x" || name == "y"), "{seen:?}");
    ordered.busy(false).await;
    let mut delivered = Vec::new();
    while delivered.len() < 2 {
        if let Some(event) = next_event(&mut watch, &mut rest).await {
            delivered.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(delivered, ["x", "y"]);
    assert_eq!(admin.lab(Method::POST, "/quiet", None).await.code, 200);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_becomes_quiet_delays_a_turn_for_the_patience_and_the_plan_says_so() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let ordered = Ordered::new(&admin, json!({"action": "order", "patience": "20ms"})).await;
    assert_eq!(ordered.op.api(Method::GET, CONFIG_MAPS, None).await.code, 200, "although it is busy");
    let events = admin.lab(Method::GET, "/plans/order/events", None).await.body.to_string();
    // On a busy machine there may be further reasons.
    for said in ["turn 1 was given although ", "client op: says that it is busy"] {
        assert!(events.contains(said), "{events}");
    }
    lab.end().await;
}

/// What a script writes, with the objects: the same requests in two rounds, arriving in another order.
async fn script(is_reversed: bool) -> String {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::ALL).await;
    admin.lab(Method::POST, "/settled", None).await;
    let mut ordered = Ordered::new(&admin, json!({"action": "order", "seed": 5, "patience": "1h"})).await;
    let rounds: [Vec<Scripted>; 2] =
        [["a", "b", "c"].map(create).into(), vec![create("d"), delete("a"), delete("b")]];
    for mut requests in rounds {
        if is_reversed {
            requests.reverse();
        }
        ordered.round(requests).await;
        ordered.busy(false).await;
        let advanced = admin.lab(Method::POST, "/clock/advance", Some(json!({"by": "1m"}))).await;
        assert_eq!(advanced.body["ended"], "there", "{advanced:?}");
        ordered.busy(true).await;
    }
    let mut log = String::new();
    for write in admin.lab(Method::GET, "/writes", None).await.body["writes"].as_array().unwrap() {
        let path = format!("/writes/{}", write["revision"]);
        log.push_str(&admin.lab(Method::GET, &path, None).await.body.to_string());
        log.push('\n');
    }
    lab.end().await;
    log
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_with_one_seed_have_the_same_revision_log_byte_for_byte() {
    let (forward, backward) = (script(false).await, script(true).await);
    assert!(forward.lines().count() > 20 && forward.contains("\"name\":\"d\""), "{forward}");
    for (one, other) in forward.lines().zip(backward.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(forward, backward);
}
