//! `kstore-server record`: a server records another one.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::wait::until;
use kstore_tests::{Https, Launch, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn https(server: &Server) -> Https {
    Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap())
}

/// Starts a recorder, and waits until its watches are open.
fn start_recorder(server: &Server, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(SERVER);
    let command = command.args(["record", "--qps", "10000", "--kubeconfig"]).arg(server.kubeconfig());
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("recording https://"), "{line}");
    (child, output)
}

/// Ends a recorder by SIGINT, and returns what it says then.
fn end_recorder((mut child, mut output): (Child, BufReader<std::process::ChildStdout>)) -> String {
    kill_process(Pid::from_raw(child.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    let mut said = String::new();
    output.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    said
}

fn run(server: &Server, arguments: &[&str]) -> String {
    let output = Command::new(SERVER).args(arguments).arg("--kubeconfig").arg(server.kubeconfig()).output();
    let output = output.unwrap();
    [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part)).concat()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Creates an APIService whose Service does not exist.
async fn create_api_service(to: &Https) {
    let service = json!({"metadata": {"name": "v1.example.com"}, "spec": {"group": "example.com", "version": "v1",
        "groupPriorityMinimum": 1000, "versionPriority": 15, "service": {"namespace": "default", "name": "away"}}});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(to.call("POST", path, &service.to_string()).await.code, 201);
}

/// A server that shows recorded data writes no condition of an APIService, and so warns of none.
fn tries_no_write(log: &Path) {
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("an APIService cannot be written"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_has_the_history_of_its_source_at_the_same_revisions() {
    let (dir, recorded) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (data, file) = (recorded.path().join("rec"), recorded.path().join("rec.db"));
    let source = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let from = https(&source);
    let call = async |method: &str, path: &str, body: Value| {
        let reply = from.call(method, &format!("/api/v1/namespaces/default/{path}"), &body.to_string()).await;
        assert!(reply.code < 300, "{} {:?}", reply.code, reply.json());
        reply.json()["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse::<i64>().unwrap_or(0)
    };
    let map = |name: &str, value: &str| json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
    call("POST", "configmaps", map("a", "one")).await;
    create_api_service(&from).await;

    let recorder = start_recorder(&source, &["--data-dir", &text(&data), "--out", &text(&file)]);
    let second = call("PUT", "configmaps/a", map("a", "two")).await;
    let secret =
        json!({"kind": "Secret", "metadata": {"name": "login"}, "stringData": {"p": "correct-horse"}});
    call("POST", "secrets", secret).await;
    let third = call("POST", "configmaps", map("b", "new")).await;
    call("DELETE", "configmaps/a", json!({})).await;
    let said = end_recorder(recorder);
    assert!(said.contains(" changes of ") && !said.contains("gap"), "{said}");
    assert!(file.metadata().unwrap().len() > 0);

    let launch =
        Launch::new(SERVER, recorded.path()).args(&["--listen", "127.0.0.1:0", "--data-dir", &text(&data)]);
    let server = launch.args(&["--read-only"]).start().unwrap();
    let to = https(&server);
    for revision in [second, third] {
        let path = format!("/kstore/v1/at/{revision}/api/v1/namespaces/default/configmaps");
        let (expected, found) = (from.call("GET", &path, "").await, to.call("GET", &path, "").await);
        assert_eq!((found.code, found.json()), (200, expected.json()), "#{revision}");
        assert!(found.json()["items"].as_array().is_some_and(|items| !items.is_empty()));
    }
    let secret = format!("/kstore/v1/at/{third}/api/v1/namespaces/default/secrets/login");
    let secret = to.call("GET", &secret, "").await.json();
    assert!(secret["data"]["p"].as_str().is_some_and(|value| !value.starts_with("Y29y")), "{secret}");

    let history = run(&server, &["history", "cm/a"]);
    for part in [&format!("#{second}"), "one → two", "deleted"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let listed = to.call("GET", "/api/v1/namespaces/default/configmaps", "").await.json();
    let names: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert!(names.contains(&&json!("b")) && !names.contains(&&json!("a")), "{names:?}");
    drop(server);

    let replay = ["replay", &text(&file), "--speed", "max"];
    let replayed = Launch::new(SERVER, recorded.path()).args(&replay).start().unwrap();
    let to = https(&replayed);
    let path = "/api/v1/namespaces/default/configmaps";
    until("the last recorded change has happened again", async || {
        let listed = to.call("GET", path, "").await.json();
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let has = |name: &str| items.iter().any(|item| item["metadata"]["name"] == name);
        (has("b") && !has("a")).then_some(())
    })
    .await;
    let found = to.call("GET", &format!("{path}/b"), "").await.json();
    assert_eq!(found["metadata"]["resourceVersion"], third.to_string(), "{found}");
    let past = format!("/kstore/v1/at/{second}{path}");
    assert_eq!(to.call("GET", &past, "").await.json(), from.call("GET", &past, "").await.json());
    let refused = to.call("POST", path, &map("new", "x").to_string()).await;
    assert_eq!(refused.code, 405, "{:?}", refused.json());
    drop(replayed);
    tries_no_write(&recorded.path().join("server.log"));
    let mut command = Command::new(SERVER);
    let command = command.args(replay).args(["--", "sh", "-c", "test -e \"$KUBECONFIG\" && exit 7"]);
    assert_eq!(
        command.output().unwrap().status.code(),
        Some(7),
        "the command has a kubeconfig and its exit code counts"
    );
}
