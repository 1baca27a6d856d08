//! What a client of a real cluster sees under random faults, caches and plans is legal: the checker of legality judges a record of it.

use super::client::TestClient;
use super::perturbing::next_event;
use super::{CONFIG_MAPS, config_map, lab};
use crate::clock::Mode;
use crate::host::ComponentChoice;
use crate::legality::{Change, Delivered, History, Read, WatchLog, WriteLog, check};
use crate::request::{EventType, Version};
use http::Method;
use kstore_nondet::Rng;
use serde_json::{Value, json};

/// Plans that are tried, each on the state that the one before left.
const PLANS: u64 = 40;

fn version_of(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn event_type(text: &str) -> EventType {
    match text {
        "ADDED" => EventType::Added,
        "MODIFIED" => EventType::Modified,
        "DELETED" => EventType::Deleted,
        "BOOKMARK" => EventType::Bookmark,
        _ => EventType::Error,
    }
}

/// Records what a client sees.
struct Recorder {
    operator: TestClient,
    admin: TestClient,
    history: History,
    n: u64,
}

impl Recorder {
    async fn head(&self) -> i64 {
        let main = self.admin.lab(Method::GET, "/clusters/main", None).await;
        main.body["revision"].as_i64().unwrap()
    }

    async fn list(&mut self, query: &str, version: Version) {
        let began = self.head().await;
        let answer = self.operator.try_open(Method::GET, &format!("{CONFIG_MAPS}?{query}"), None, None).await;
        let Ok((code, body)) = answer else { return };
        let Ok(bytes) = http_body_util::BodyExt::collect(body).await else { return };
        let body: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or(Value::Null);
        let items = body["items"].as_array().into_iter().flatten();
        let objects =
            items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), version_of(item)));
        let (n, resource) = (self.n, "configmaps".to_owned());
        let (objects, ended) = (objects.collect(), self.head().await);
        let revision = version_of(&body);
        self.history.reads.push(Read {
            n,
            resource,
            version,
            began,
            ended,
            code,
            revision,
            objects,
            is_list: true,
        });
    }

    async fn watch(&mut self, query: &str, version: Version, sends_initial_events: bool) {
        let began = self.head().await;
        let path = format!("{CONFIG_MAPS}?watch=1&{query}");
        let Ok((200, mut body)) = self.operator.try_open(Method::GET, &path, None, None).await else {
            return;
        };
        let (mut rest, mut events) = (Vec::new(), Vec::new());
        while let Some(event) = next_event(&mut body, &mut rest).await {
            let (kind, object) = (event_type(event["type"].as_str().unwrap()), &event["object"]);
            let code = object["code"].as_i64().unwrap_or(0);
            let revision = if kind == EventType::Error { code } else { version_of(object) };
            let mark = &object["metadata"]["annotations"]["k8s.io/initial-events-end"];
            let object = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            events.push(Delivered { kind, object, revision, is_initial_end: mark == "true" });
        }
        let (n, resource, ended) = (self.n, "configmaps".to_owned(), self.head().await);
        self.history.watches.push(WatchLog {
            n,
            resource,
            version,
            sends_initial_events,
            began,
            ended,
            events,
        });
    }

    async fn update(&mut self, name: &str) {
        let path = format!("{CONFIG_MAPS}/{name}");
        let Ok((200, body)) = self.operator.try_open(Method::GET, &path, None, None).await else { return };
        let Ok(bytes) = http_body_util::BodyExt::collect(body).await else { return };
        let mut object: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap();
        let sent = version_of(&object);
        object["data"] = json!({"n": self.n.to_string()});
        let answer = self.operator.try_open(Method::PUT, &path, Some(object), None).await;
        let (code, revision) = match answer {
            Ok((code, body)) => {
                let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
                (code, version_of(&serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
            }
            Err(_) => (0, 0),
        };
        let now = self.admin.api(Method::GET, &path, None).await.body;
        let is_mine = now["data"]["n"] == json!(self.n.to_string());
        let (resource, object, ended) = ("configmaps".to_owned(), name.to_owned(), self.head().await);
        let performed = if is_mine { version_of(&now) } else { 0 };
        let is_refused_before = matches!(code, 429 | 500 | 503);
        let n = self.n;
        self.history.writes.push(WriteLog {
            n,
            resource,
            object,
            sent,
            ended,
            code,
            revision,
            performed,
            is_refused_before,
        });
    }

    /// All changes of config maps in the default namespace, from a watch of the history by an administrator.
    async fn record_changes(&mut self, from: i64) {
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}");
        let (_, mut body) = self.admin.open(Method::GET, &path, None, None).await;
        let mut rest = Vec::new();
        while let Some(event) = next_event(&mut body, &mut rest).await {
            let object = &event["object"];
            self.history.changes.push(Change {
                revision: version_of(object),
                resource: "configmaps".to_owned(),
                object: object["metadata"]["name"].as_str().unwrap().to_owned(),
                exists: event["type"] != "DELETED",
            });
        }
    }
}

/// A random plan of one or two actions.
fn random_plan(rng: &Rng) -> Value {
    let request = json!({"request": {"client": "operator", "nth": 1 + rng.below(3)}});
    let change = json!({"request": {"client": "operator", "verb": "update", "phase": "arrived"}});
    let done = json!({"request": {"client": "operator", "verb": "update", "phase": "done"}});
    let event = json!({"event": {"client": "operator", "nth": 1 + rng.below(2)}});
    let write = json!({"write": {"resource": "configmaps", "nth": 1 + rng.below(3)}});
    let actions = [
        json!({"action": "error", "trigger": request}),
        json!({"action": "too-many", "seconds": 1, "trigger": request}),
        json!({"action": "unavailable", "how": "reset", "trigger": request}),
        json!({"action": "timeout", "trigger": request}),
        json!({"action": "touch", "trigger": change, "times": 2}),
        json!({"action": "lost-answer", "trigger": done}),
        json!({"action": "lost-answer", "how": "reset", "trigger": change}),
        json!({"action": "cut", "how": "end", "trigger": event}),
        json!({"action": "cut", "how": "reset", "trigger": event}),
        json!({"action": "cut", "how": "frame", "trigger": event}),
        json!({"action": "expire", "trigger": event}),
        json!({"action": "freeze", "cache": "b", "trigger": write}),
        json!({"action": "freeze", "cache": "b", "resources": ["configmaps"], "trigger": event}),
        json!({"action": "thaw", "cache": "b", "resources": ["configmaps"], "step": 1, "trigger": request}),
        json!({"action": "skip", "until": write, "trigger": event}),
    ];
    let one = || actions[usize::try_from(rng.below(actions.len() as u64)).unwrap()].clone();
    json!({"actions": [one(), one()]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_random_plans_show_to_a_client_is_legal() {
    let (lab, admin) = lab(Mode::Real, ComponentChoice::NONE).await;
    let operator = admin.at(&lab.cluster("main").unwrap().url.clone(), "operator/v1");
    let mut recorder = Recorder { operator, admin: admin.clone(), history: History::default(), n: 0 };
    let begin = recorder.head().await;
    super::shown::keep(&lab);
    for name in ["a", "b", "c"] {
        assert_eq!(admin.api(Method::POST, CONFIG_MAPS, Some(config_map(name))).await.code, 201);
    }
    admin.lab(Method::PUT, "/caches/b", None).await;
    let routes = json!([{"client": {"agent": "operator"}, "cache": "b"}]);
    assert_eq!(admin.lab(Method::PUT, "/routes", Some(routes)).await.code, 200);
    recorder.history.compacted = 1;
    let rng = Rng::seeded(3);
    for plan in 0..PLANS {
        let started = admin.lab(Method::POST, "/plans", Some(random_plan(&rng))).await;
        assert_eq!(started.code, 201, "{}", started.body);
        let id = started.body["id"].as_str().unwrap().to_owned();
        let from = recorder.head().await;
        let writing = admin.clone();
        let writer = tokio::spawn(async move {
            for number in 0..3 {
                tokio::time::sleep(std::time::Duration::from_millis(40)).await;
                let name = format!("w{plan}-{number}");
                writing.api(Method::POST, CONFIG_MAPS, Some(config_map(&name))).await;
            }
        });
        recorder.n = plan;
        match plan % 4 {
            0 => recorder.watch(&format!("resourceVersion={from}"), Version::Min(from), false).await,
            1 => recorder.watch("resourceVersion=0", Version::Any, false).await,
            2 => recorder.list("resourceVersion=0", Version::Any).await,
            _ => recorder.list("", Version::Unset).await,
        }
        recorder.update("a").await;
        writer.await.unwrap();
        assert_eq!(admin.lab(Method::DELETE, &format!("/plans/{id}"), None).await.code, 200);
    }
    recorder.record_changes(begin).await;
    let History { reads, watches, writes, .. } = &recorder.history;
    assert!(
        reads.len() + watches.len() > 10 && writes.len() > 10,
        "{} {} {}",
        reads.len(),
        watches.len(),
        writes.len()
    );
    let found = check(&recorder.history);
    assert!(found.is_empty(), "{}\n{:#?}", found[0], recorder.history);
    // The record that the lab keeps itself says the same.
    let recorded = super::shown::observed(&lab).await.history();
    assert!(recorded.watches.len() >= watches.len() && recorded.writes.len() >= writes.len());
    let found = check(&recorded);
    assert!(found.is_empty(), "{}\n{recorded:#?}", found[0]);
    lab.end().await;
}
