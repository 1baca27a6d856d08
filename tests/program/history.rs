//! `kstore-server history` and `kstore-server diff` against a running server.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// A server without controllers, and an administrator's connection.
fn start(dir: &Path) -> (Server, Https) {
    let server = Launch::in_memory(SERVER, dir).args(&["--components", "apiserver"]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    (server, https)
}

fn command(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(SERVER);
    command.args(arguments).arg("--kubeconfig").arg(server.kubeconfig()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_an_object_has_its_writers_and_what_each_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let run = |arguments: &[&str]| command(&server, arguments);
    let call = async |method: &str, path: &str, body: Value| {
        let reply =
            https.call(method, &format!("/api/v1/namespaces/default/{path}"), &body.to_string()).await;
        assert!(reply.code < 300, "{} {:?}", reply.code, reply.json());
        reply.json()["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse::<i64>().unwrap_or(0)
    };
    let object = |kind: &str, data: Value| json!({"kind": kind, "metadata": {"name": "a"}, "data": data});
    let first = call("POST", "configmaps", object("ConfigMap", json!({"k": "one"}))).await;
    let second = call("PUT", "configmaps/a", object("ConfigMap", json!({"k": "two", "l": "new"}))).await;
    call("DELETE", "configmaps/a", json!({})).await;
    let again = call("POST", "configmaps", object("ConfigMap", json!({"k": "three"}))).await;

    let shown = run(&["history", "cm/a"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown));
    let shown = text(&shown);
    assert!(
        shown.starts_with(&format!(
            "configmaps default/a · 4 revisions, #{first} to #{again} · exists · uid "
        )),
        "{shown}"
    );
    let at = |part: &str| shown.find(part).unwrap_or_else(|| panic!("{part} in {shown}"));
    assert!(
        at(&format!("#{again}  ")) < at("deleted") && at("deleted") < at("one → two"),
        "the newest first: {shown}"
    );
    assert!(at("data.l") > at("data.k") && shown.contains("– → new"), "{shown}");

    let json = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let only = json(&run(&["history", "configmap/a", "--field", "data.l", "-o", "json"]));
    assert_eq!(only["entries"].as_array().unwrap().len(), 1, "{only:#}");
    assert_eq!(
        (&only["entries"][0]["revision"], &only["exists"]),
        (&json!(second), &json!(true)),
        "{only:#}"
    );
    let newest = run(&["history", "cm/a", "--limit", "1"]);
    assert!(text(&newest).contains("3 older revisions are not shown"), "{}", text(&newest));
    let none = run(&["history", "cm/a", "--from", &(again + 1).to_string()]);
    assert_eq!(
        (none.status.code(), text(&none).contains("no revision matches")),
        (Some(1), true),
        "{}",
        text(&none)
    );

    let differs = run(&["diff", &format!("cm/a@{first}"), &second.to_string()]);
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs));
    assert!(text(&differs).contains("one → two") && !text(&differs).contains("uid"), "{}", text(&differs));
    let equal = run(&["diff", &format!("cm/a@{again}")]);
    assert_eq!((equal.status.code(), text(&equal)), (Some(0), String::new()));
    let far = run(&["diff", "cm/a@999999"]);
    assert_ne!(far.status.code(), Some(0));
    assert!(text(&far).contains("999999"), "{}", text(&far));
    assert!(text(&run(&["diff", "cm/a"])).contains("say which revisions"), "both would be now");
    assert!(text(&run(&["history", "cm/b"])).contains("not found"), "{}", text(&run(&["history", "cm/b"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_shown_only_when_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let secret =
        |value: &str| json!({"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": value}}).to_string();
    let path = "/api/v1/namespaces/default/secrets";
    assert_eq!(https.call("POST", path, &secret("Zmlyc3Q=")).await.code, 201);
    assert_eq!(https.call("PUT", &format!("{path}/s"), &secret("c2Vjb25k")).await.code, 200);
    let hidden = text(&command(&server, &["history", "secret/s", "-p", "paths", "--all-fields"]));
    assert!(
        hidden.contains("data.k") && hidden.contains("••• → •••") && !hidden.contains("c2Vjb25k"),
        "{hidden}"
    );
    let shown = text(&command(&server, &["history", "secret/s", "--show-secrets"]));
    assert!(shown.contains("Zmlyc3Q= → c2Vjb25k"), "{shown}");
}
