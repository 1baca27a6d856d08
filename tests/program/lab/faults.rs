//! Faults, a lagging cache and plans against the real binary, as a client over HTTP sees them: with the system's clock, where requests stay
//! on the process's runtime, and with a manual one, where a thread serves them.

use super::{LAB, MAPS, lab, map, start};
use kstore_tests::wait::until;
use kstore_tests::{Https, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The answer to a GET, as it comes.
struct Answer {
    socket: TlsStream<TcpStream>,
    text: String,
}

impl Answer {
    async fn begin(server: &Server, https: &Https, path: &str) -> Self {
        let mut socket = https.try_connect().await.unwrap();
        let host = server.address().replace("https://", "");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: https-test/1.0\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        Self { socket, text: String::new() }
    }

    /// Reads until the text is there, or to the end. Returns whether it is there.
    async fn has(&mut self, text: &str) -> bool {
        let mut piece = [0; 4096];
        while !self.text.contains(text) {
            match self.socket.read(&mut piece).await {
                Ok(length) if length > 0 => self.text.push_str(&String::from_utf8_lossy(&piece[..length])),
                _ => return false,
            }
        }
        true
    }
}

async fn create(https: &Https, name: &str) -> (u16, Value) {
    let reply = https.call("POST", MAPS, &map(name)).await;
    (reply.code, reply.json())
}

/// Names of the config maps in a list.
async fn names(https: &Https, query: &str) -> Vec<String> {
    let list = https.call("GET", &format!("{MAPS}{query}"), "").await.json();
    let names = list["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap());
    names.filter(|name| *name != "kube-root-ca.crt").map(str::to_owned).collect()
}

async fn rules_refuse_and_are_counted(server: &Server, https: &Https) {
    assert_eq!(create(https, "a").await.0, 201);
    let client = json!({"agent": "https-test"});
    let creates = json!({"resources": ["configmaps"], "verbs": ["create"]});
    let rules = json!({"seed": 7, "rules": [{"fault": "error", "client": client, "request": creates}]});
    assert_eq!(lab(https, "PUT", "/faults", &rules).await.0, 200);
    let (code, refused) = create(https, "b").await;
    assert_eq!((code, &refused["message"]), (500, &json!("etcdserver: request timed out")));
    let (_, counts) = lab(https, "GET", "/faults/counts", &Value::Null).await;
    assert_eq!(counts["rules"][0]["hits"], 1, "{counts}");
    let rules = json!({"rules": [{"fault": "unavailable", "how": "reset", "client": client}]});
    assert_eq!(lab(https, "PUT", "/faults", &rules).await.0, 200);
    let mut reset = Answer::begin(server, https, MAPS).await;
    assert!(!reset.has("HTTP/1.1").await, "the connection is reset: {}", reset.text);
    let refused = lab(https, "PUT", "/faults", &json!({"rules": [{"fault": "conflict"}]})).await;
    assert_eq!(refused.0, 403, "no real server does it: {}", refused.1);
    assert_eq!(lab(https, "DELETE", "/faults", &Value::Null).await.0, 200);
    assert_eq!(create(https, "b").await.0, 201);
    let (_, log) = lab(https, "GET", "/requests?client=https-test&verb=create", &Value::Null).await;
    let faults: Vec<&Value> = log["requests"].as_array().unwrap().iter().map(|row| &row["fault"]).collect();
    assert_eq!(faults, [&Value::Null, &json!("error"), &Value::Null], "{log}");
}

async fn a_frozen_cache_holds_events_until_it_thaws(server: &Server, https: &Https) {
    assert_eq!(lab(https, "PUT", "/caches/behind", &json!({})).await.0, 200);
    let routes = json!([{"client": {"agent": "https-test"}, "cache": "behind"}]);
    assert_eq!(lab(https, "PUT", "/routes", &routes).await.0, 200);
    let maps = json!({"resources": ["configmaps"]});
    assert_eq!(lab(https, "POST", "/caches/behind/freeze", &maps).await.0, 200);
    assert_eq!(create(https, "c").await.0, 201);
    assert_eq!(names(https, "").await, ["a", "b", "c"], "the newest state without a version");
    assert_eq!(names(https, "?resourceVersion=0").await, ["a", "b"], "any state is an older one");
    let mut watch = Answer::begin(server, https, &format!("{MAPS}?watch=true&resourceVersion=0")).await;
    assert!(watch.has("\"name\":\"b\"").await);
    assert!(!watch.text.contains("\"name\":\"c\""));
    assert_eq!(lab(https, "POST", "/caches/behind/thaw", &json!({})).await.0, 200);
    assert!(watch.has("\"name\":\"c\"").await, "what was held: {}", watch.text);
    assert_eq!(names(https, "?resourceVersion=0").await, ["a", "b", "c"]);
    assert_eq!(lab(https, "DELETE", "/caches/behind", &Value::Null).await.0, 200);
}

async fn plans_act_at_events_and_writes(server: &Server, https: &Https) {
    let cut = json!({"action": "cut", "how": "frame",
        "trigger": {"event": {"client": "https-test", "resource": "configmaps", "where": "new.metadata.name == 'd'"}}});
    assert_eq!(lab(https, "POST", "/plans", &json!({"name": "cut", "actions": [cut]})).await.0, 201);
    let mut watch = Answer::begin(server, https, &format!("{MAPS}?watch=true&resourceVersion=0")).await;
    assert!(watch.has("\"name\":\"c\"").await);
    assert_eq!(create(https, "d").await.0, 201);
    assert!(!watch.has("never there").await, "it ends");
    assert!(
        watch.text.contains("{\"type\":\"ADDED\"") && !watch.text.ends_with("\r\n0\r\n\r\n"),
        "{}",
        watch.text
    );
    let (_, plan) = lab(https, "GET", "/plans/cut", &Value::Null).await;
    assert_eq!((&plan["state"], &plan["actions"][0]["state"]), (&json!("done"), &json!("done")), "{plan}");

    let program = json!({"name": "sleeper", "command": ["sleep", "600"]});
    assert_eq!(lab(https, "POST", "/programs", &program).await.0, 201);
    let made = json!({"write": {"by": "https-test", "resource": "configmaps", "name": "e"}});
    let kill = json!({"action": "kill", "program": "sleeper", "trigger": made});
    assert_eq!(lab(https, "POST", "/plans", &json!({"name": "kill", "actions": [kill]})).await.0, 201);
    assert_eq!(create(https, "e").await.0, 201);
    let done = until("the plan is done", async || {
        let (_, plan) = lab(https, "GET", "/plans/kill", &Value::Null).await;
        (plan["state"] == "done").then_some(plan)
    });
    let plan = done.await;
    assert!(plan["actions"][0]["firedBy"].as_str().unwrap().contains("configmaps/default/e"), "{plan}");
    let (_, report) = lab(https, "GET", "/programs/sleeper", &Value::Null).await;
    assert_eq!((&report["incarnation"], &report["state"]), (&json!(1), &json!("running")), "{report}");
    for name in ["cut", "kill"] {
        assert_eq!(lab(https, "DELETE", &format!("/plans/{name}"), &Value::Null).await.0, 200);
    }
    let unknown = json!({"actions": [{"action": "frieze", "cache": "behind"}]});
    let (code, refused) = lab(https, "POST", "/plans", &unknown).await;
    assert!(code == 400 && refused["message"].as_str().unwrap().contains("freeze"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_caches_and_plans_act_on_an_unchanged_client() {
    for clock in ["real", "manual"] {
        let dir = tempfile::tempdir().unwrap();
        let flags = ["--lab", "--lab-clock", clock, "--lab-programs", "--components", "apiserver"];
        let (server, https) = start(dir.path(), &flags);
        rules_refuse_and_are_counted(&server, &https).await;
        a_frozen_cache_holds_events_until_it_thaws(&server, &https).await;
        plans_act_at_events_and_writes(&server, &https).await;
        assert_eq!(https.call("GET", &format!("{LAB}/routes"), "").await.json(), json!([]), "{clock}");
    }
}
