//! `kstore-server history` and `kstore-server diff` against a running server.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::{Https, Launch, Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A server without controllers, and an administrator's connection.
pub(crate) fn start(dir: &Path) -> (Server, Https) {
    let server = Launch::in_memory(SERVER, dir).args(&["--components", "apiserver"]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    (server, https)
}

pub(crate) fn command(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(SERVER);
    command.args(arguments).arg("--kubeconfig").arg(server.kubeconfig()).output().unwrap()
}

pub(crate) fn text(output: &Output) -> String {
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
    assert_eq!(far.status.code(), Some(3), "refused, and not different");
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

/// The annotation in which `kubectl apply` keeps the manifest showed the values of a Secret in several outputs.
#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_secret_in_its_annotations_are_in_no_output() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let path = "/api/v1/namespaces/default/secrets";
    let secret = |value: &str, copies: &[&str]| {
        let copy = |name: &&str| ((*name).to_owned(), json!(format!("{{\"data\":{{\"k\":\"{value}\"}}}}")));
        let annotations: serde_json::Map<_, _> = copies.iter().map(copy).collect();
        json!({"kind": "Secret", "metadata": {"name": "s", "annotations": annotations}, "data": {"k": value}})
            .to_string()
    };
    let copies = ["kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original"];
    let mut written = Vec::new();
    for (method, path, value, copies) in [
        ("POST", path.to_owned(), "MXNlY3JldA==", &copies[..0]),
        ("PUT", format!("{path}/s"), "MnNlY3JldA==", &copies[..1]),
        ("PUT", format!("{path}/s"), "M3NlY3JldA==", &copies[..]),
    ] {
        let reply = https.call(method, &path, &secret(value, copies)).await;
        assert!(reply.code < 300, "{:?}", reply.json());
        written.push(reply.json()["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap());
    }
    let before = (written[0] - 1).to_string();
    let (absent, first) = (format!("secret/s@{before}"), format!("secret/s@{}", written[0]));
    let second = written[1].to_string();
    let commands: [&[&str]; 9] = [
        &["history", "secret/s", "--all-fields"],
        &["history", "secret/s", "-p", "paths", "--all-fields"],
        &["diff", &absent, "--all-fields"],
        &["diff", &first, "--all-fields"],
        &["diff", &first, &second, "--all-fields"],
        &["diff", &before, "--kind", "secrets", "-v", "--all-fields"],
        &["diff", &second, "now", "--kind", "secrets", "-v", "--all-fields"],
        &["undo", "secret/s"],
        &["undo", "--since", &second],
    ];
    for arguments in commands {
        for output in ["text", "json", "yaml"] {
            let shown = text(&command(&server, &[arguments, &["-o", output]].concat()));
            assert!(!shown.contains("NlY3JldA"), "{arguments:?} {output}: {shown}");
            assert!(shown.contains("•••") || arguments[0] == "diff", "{arguments:?} {output}: {shown}");
        }
    }
    let asked = text(&command(&server, &["diff", &first, "--all-fields", "--show-secrets"]));
    assert!(asked.contains("M3NlY3JldA=="), "{asked}");
}

/// Writes to ConfigMaps by their path below the collection, and the revision of each.
pub(crate) async fn write(https: &Https, method: &str, path: &str, body: Value) -> i64 {
    let path = format!("/api/v1/namespaces/default/configmaps{path}");
    let reply = https.call(method, &path, &body.to_string()).await;
    assert!(reply.code < 300, "{} {:?}", reply.code, reply.json());
    reply.json()["metadata"]["resourceVersion"].as_str().unwrap_or_default().parse().unwrap_or(0)
}

pub(crate) fn map(name: &str, data: Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// The value `k` of a ConfigMap; `None`: there is no such object.
pub(crate) async fn value(https: &Https, name: &str) -> Option<String> {
    let path = format!("/api/v1/namespaces/default/configmaps/{name}");
    https.call("GET", &path, "").await.json()["data"]["k"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_compared_and_seen_as_of_a_revision() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let run = |arguments: &[&str]| command(&server, arguments);
    let first = write(&https, "POST", "", map("a", json!({"k": "one"}))).await.to_string();
    let second = write(&https, "PUT", "/a", map("a", json!({"k": "two", "l": "new"}))).await.to_string();
    write(&https, "POST", "", map("b", json!({"k": "three"}))).await;

    let differs = run(&["diff", &first]);
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs));
    let differs = text(&differs);
    for part in [
        &*format!("cluster #{first} (2"),
        "revisions by",
        "1 added, 1 changed",
        "default/a",
        "one → two",
        "default/b",
    ] {
        assert!(differs.contains(part), "{part}: {differs}");
    }
    let numbers = run(&["diff", &format!("{first}.."), "--kind", "cm", "-n", "default", "-o", "json"]);
    let numbers: Value = serde_json::from_slice(&numbers.stdout).unwrap();
    let kind = &numbers["kinds"][0];
    assert_eq!((&kind["added"], &kind["changed"]), (&json!(1), &json!(1)), "{numbers}");
    let equal = run(&["diff", &second, &second]);
    let is_equal = text(&equal).contains("nothing differs");
    assert_eq!((equal.status.code(), is_equal), (Some(0), true), "{}", text(&equal));
    let ago = text(&run(&["diff", "cm/a@oldest"]));
    assert!(ago.contains("object"), "it was not there: {ago}");
    let bad = run(&["history", "cm/a", "--from", "now~x"]);
    assert_eq!((bad.status.code(), text(&bad).contains("is no revision")), (Some(2), true), "{}", text(&bad));

    let seen = text(&run(&["at", &first, "--print-kubeconfig"]));
    assert!(seen.contains(&format!("/kstore/v1/at/{first}")), "{seen}");
    let inside = |arguments: &[&str]| {
        let mut command = Command::new(SERVER);
        command.args(["at", &first, "--kubeconfig"]).arg(server.kubeconfig()).arg("--").args(arguments);
        command.output().unwrap()
    };
    let seen = inside(&["sh", "-c", "test -d \"$KUBECACHEDIR\" && cat \"$KUBECONFIG\"; exit 7"]);
    let has_view = text(&seen).contains("/kstore/v1/at/");
    assert_eq!((seen.status.code(), has_view), (Some(7), true), "{}", text(&seen));
    if let Some(kubectl) = server.kubectl(&[]) {
        let kubectl = kubectl.get_program().to_str().unwrap().to_owned();
        let seen = text(&inside(&[&kubectl, "get", "configmaps"]));
        assert!(seen.contains("\na ") && !seen.contains("\nb "), "{seen}");
        assert!(seen.contains("the cluster as of revision"), "{seen}");
        let refused = text(&inside(&[&kubectl, "delete", "configmap", "a"]));
        assert!(refused.contains("which cannot be changed"), "{refused}");
    }
    let future = text(&run(&["at", "99999999", "--print-kubeconfig"]));
    assert!(future.contains("does not exist yet"), "{future}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_taken_back_unless_they_changed_since() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let run = |arguments: &[&str]| command(&server, arguments);
    let first = write(&https, "POST", "", map("a", json!({"k": "one"}))).await.to_string();
    let second = write(&https, "PUT", "/a", map("a", json!({"k": "two", "l": "new"}))).await.to_string();
    write(&https, "POST", "", map("b", json!({"k": "three"}))).await;

    let plan = text(&run(&["undo", &second]));
    assert!(plan.contains("two → one") && plan.contains("would be written"), "{plan}");
    assert_eq!(value(&https, "a").await.as_deref(), Some("two"), "a plan writes nothing");
    let done = run(&["undo", &second, "--yes"]);
    let is_one = value(&https, "a").await.as_deref() == Some("one");
    assert_eq!((done.status.code(), is_one), (Some(0), true), "{}", text(&done));
    let again = text(&run(&["undo", &second]));
    assert!(again.contains("undone already"), "{again}");
    let history = text(&run(&["history", "cm/a"]));
    assert!(
        history.contains("kstore-undo") && history.contains(&format!("because of #{second}")),
        "{history}"
    );

    let plan: Value = serde_json::from_slice(&run(&["undo", "configmap/b", "-o", "json"]).stdout).unwrap();
    assert_eq!(plan["plan"][0]["operation"], "delete", "{plan}");
    let planned = plan["plannedAt"].to_string();
    let third = write(&https, "PUT", "/b", map("b", json!({"k": "four"}))).await.to_string();
    let stale = run(&["undo", "configmap/b", "--to", &first, "--as-planned-at", &planned, "--yes"]);
    assert!(text(&stale).contains("changed since"), "{}", text(&stale));
    assert_eq!(value(&https, "b").await.as_deref(), Some("four"));
    write(&https, "PUT", "/b", map("b", json!({"k": "five"}))).await;
    let conflict = run(&["undo", &third, "--yes"]);
    let said = "conflict data.k: three before, the write left four, and now it is five";
    assert_eq!(
        (conflict.status.code(), text(&conflict).contains(said)),
        (Some(1), true),
        "{}",
        text(&conflict)
    );
    let forced = text(&run(&["undo", &third, "--conflicts", "overwrite", "--yes"]));
    assert_eq!(value(&https, "b").await.as_deref(), Some("three"), "{forced}");
    write(&https, "DELETE", "/b", json!({})).await;
    let again = text(&run(&["undo", "configmap/b", "--yes"]));
    assert_eq!(value(&https, "b").await.as_deref(), Some("three"), "{again}");

    let since = write(&https, "POST", "", map("c", json!({"k": "six"}))).await.to_string();
    write(&https, "PUT", "/c", map("c", json!({"k": "seven"}))).await;
    write(&https, "POST", "", map("d", json!({"k": "eight"}))).await;
    write(&https, "PUT", "/c", map("c", json!({"k": "nine"}))).await;
    let other = text(&run(&["undo", "--since", &since, "--by", "nobody", "--yes"]));
    assert!(other.contains("0 writes") && other.contains("nothing to do"), "{other}");
    let done = text(&run(&["undo", "--since", &since, "-n", "default", "--kind", "cm", "--yes"]));
    let values = (value(&https, "c").await, value(&https, "d").await);
    assert_eq!(values, (Some("six".to_owned()), None), "{done}");
    assert!(done.contains("3 writes to 2 objects since"), "{done}");
}

/// A reply that must be a success.
pub(crate) async fn succeed(https: &Https, method: &str, path: &str, body: Value) -> Value {
    let body = if method == "GET" { String::new() } else { body.to_string() };
    let reply = https.call(method, path, &body).await;
    assert!(reply.code < 300, "{method} {path}: {} {:?}", reply.code, reply.json());
    reply.json()
}

pub(crate) fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// `undo` of `kubectl delete` found nothing to do for objects that wait for finalizers or a grace period.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_two_steps_are_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let run = |arguments: &[&str]| text(&command(&server, arguments));
    let space = "/api/v1/namespaces/default";
    let code = async |path: &str| https.call("GET", path, "").await.code;
    if code(&format!("{space}/serviceaccounts/default")).await == 404 {
        succeed(
            &https,
            "POST",
            &format!("{space}/serviceaccounts"),
            json!({"metadata": {"name": "default"}}),
        )
        .await;
    }

    // A pod on a node: its grace period, then the end that a kubelet writes.
    let pod = json!({"kind": "Pod", "metadata": {"name": "debug", "labels": {"a": "b"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    succeed(&https, "POST", &format!("{space}/pods"), pod).await;
    let path = format!("{space}/pods/debug");
    let marked = succeed(&https, "DELETE", &path, json!({})).await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string(), "{marked}");
    let early = run(&["undo", &revision(&marked)]);
    assert!(early.contains("being deleted"), "{early}");
    succeed(&https, "DELETE", &path, json!({"gracePeriodSeconds": 0})).await;
    for arguments in [&["undo", &*revision(&marked)], &["undo", "pod/debug"]] {
        let plan = run(arguments);
        assert!(plan.contains("create pods default/debug") && plan.contains("would be written"), "{plan}");
    }
    let done = run(&["undo", "pod/debug", "--yes"]);
    let again = succeed(&https, "GET", &path, json!({})).await;
    assert_eq!(
        (&again["metadata"]["labels"]["a"], &again["spec"]["nodeName"]),
        (&json!("b"), &Value::Null),
        "{done}"
    );
    assert!(again["metadata"]["deletionTimestamp"].is_null(), "{again}");

    // A claim with the finalizer of its protection, and one of a user.
    let claims = format!("{space}/persistentvolumeclaims");
    let claim = json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "finalizers": ["example.com/backup"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    succeed(&https, "POST", &claims, claim).await;
    let path = format!("{claims}/data");
    let mut marked = succeed(&https, "DELETE", &path, json!({})).await;
    marked = match marked["kind"] == "PersistentVolumeClaim" {
        true => marked,
        false => succeed(&https, "GET", &path, json!({})).await,
    };
    let first = revision(&marked);
    marked["metadata"]["finalizers"] = json!([]);
    succeed(&https, "PUT", &path, marked).await;
    assert_eq!(code(&path).await, 404);
    let plan = run(&["undo", &first]);
    assert!(plan.contains("create persistentvolumeclaims default/data"), "{plan}");
    let done = run(&["undo", "pvc/data", "--yes"]);
    let again = succeed(&https, "GET", &path, json!({})).await;
    let finalizers = again["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("example.com/backup"), "{done} {again}");
}

/// A namespace comes back alone, or with what a user deleted in it before.
#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_namespace_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let run = |arguments: &[&str]| text(&command(&server, arguments));
    succeed(&https, "POST", "/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    let maps = "/api/v1/namespaces/shop/configmaps";
    let since = revision(&succeed(&https, "POST", maps, map("till", json!({"k": "v"}))).await);
    succeed(&https, "DELETE", &format!("{maps}/till"), json!({})).await;
    let path = "/api/v1/namespaces/shop";
    succeed(&https, "DELETE", path, json!({})).await;
    let mut marked = succeed(&https, "GET", path, json!({})).await;
    marked["spec"]["finalizers"] = json!([]);
    succeed(&https, "PUT", &format!("{path}/finalize"), marked).await;
    assert_eq!(https.call("GET", path, "").await.code, 404);
    let plan = run(&["undo", "namespace/shop"]);
    assert!(plan.contains("create namespaces shop") && plan.contains("only the namespace"), "{plan}");
    let plan = run(&["undo", "--since", &since]);
    let at = |part: &str| plan.find(part).unwrap_or_else(|| panic!("{part} in {plan}"));
    assert!(at("create namespaces shop") < at("create configmaps shop/till"), "{plan}");
    let done = run(&["undo", "namespace/shop", "--yes"]);
    let again = succeed(&https, "GET", path, json!({})).await;
    assert_eq!(again["spec"]["finalizers"], json!(["kubernetes"]), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_whose_address_was_taken_comes_back_with_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let services = "/api/v1/namespaces/default/services";
    let service = |name: &str, address: &str, port: u16| {
        json!({"kind": "Service", "metadata": {"name": name}, "spec": {"type": "NodePort", "clusterIP": address,
            "ports": [{"port": 80, "nodePort": port}]}})
    };
    succeed(&https, "POST", services, service("s1", "10.96.0.77", 30_077)).await;
    succeed(&https, "DELETE", &format!("{services}/s1"), json!({})).await;
    let plan = text(&command(&server, &["undo", "service/s1"]));
    assert!(plan.contains("would be written") && !plan.contains("taken"), "{plan}");
    succeed(&https, "POST", services, service("s2", "10.96.0.77", 30_077)).await;
    let plan = text(&command(&server, &["undo", "service/s1"]));
    for part in ["create services default/s1", "10.96.0.77 is taken", "30077 is taken", "would be written"] {
        assert!(plan.contains(part), "{part}: {plan}");
    }
    let done = text(&command(&server, &["undo", "service/s1", "--yes"]));
    let again = succeed(&https, "GET", &format!("{services}/s1"), json!({})).await;
    assert!(
        again["spec"]["clusterIP"].is_string() && again["spec"]["clusterIP"] != "10.96.0.77",
        "{done} {again}"
    );
    let port = &again["spec"]["ports"][0]["nodePort"];
    assert!(port.is_number() && *port != 30_077, "{again}");
}

/// The kubeconfig of a service account that has the role `edit` in the namespace `default`, and no other right.
pub(crate) async fn editor(server: &Server, https: &Https, dir: &Path) -> PathBuf {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    succeed(https, "POST", accounts, json!({"metadata": {"name": "editor"}})).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "editor"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "editor", "namespace": "default"}]});
    let bindings = format!("/apis/{group}/v1/namespaces/default/rolebindings");
    succeed(https, "POST", &bindings, binding).await;
    let token = succeed(https, "POST", &format!("{accounts}/editor/token"), json!({"spec": {}})).await;
    let admin = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_yaml_ng::from_str(&admin).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token["status"]["token"]});
    let file = dir.join("editor.kubeconfig");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    file
}

/// Without the ClusterRole `kstore:see` all commands were refused, since they asked the server which revision is the newest.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_role_edit_has_history_diff_at_and_undo() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let file = editor(&server, &https, dir.path()).await;
    let run = |arguments: &[&str]| {
        Command::new(SERVER).args(arguments).arg("--kubeconfig").arg(&file).output().unwrap()
    };

    let first = write(&https, "POST", "", map("a", json!({"k": "one"}))).await.to_string();
    write(&https, "PUT", "/a", map("a", json!({"k": "two"}))).await;
    let history = run(&["history", "cm/a"]);
    assert_eq!(history.status.code(), Some(0), "{}", text(&history));
    let history = text(&history);
    for part in ["2 revisions", "one → two", "created", "kstore:see"] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let differs = run(&["diff", &first, "-n", "default", "--kind", "configmaps"]);
    assert!(differs.status.code() == Some(1) && text(&differs).contains("one → two"), "{}", text(&differs));
    let object = run(&["diff", &format!("cm/a@{first}")]);
    assert!(text(&object).contains("one → two"), "{}", text(&object));
    let mut inside = Command::new(SERVER);
    inside.args(["at", "now", "--kubeconfig"]).arg(&file).args(["--", "sh", "-c", "cat \"$KUBECONFIG\""]);
    let inside = inside.output().unwrap();
    assert!(text(&inside).contains("/kstore/v1/at/"), "{}", text(&inside));
    let done = run(&["undo", "cm/a", "--yes"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    assert_eq!(value(&https, "a").await.as_deref(), Some("one"), "{}", text(&done));
    write(&https, "DELETE", "/a", json!({})).await;
    let gone = run(&["history", "cm/a"]);
    assert!(
        gone.status.code() == Some(3) && text(&gone).contains("history of deleted objects"),
        "{}",
        text(&gone)
    );
    let back = run(&["undo", "cm/a", "--to", &first, "--yes"]);
    assert_eq!(value(&https, "a").await.as_deref(), Some("one"), "{}", text(&back));
}

/// Changes beyond the server's tree of causes were left out without a word, and so were kinds that are not in it.
#[tokio::test(flavor = "multi_thread")]
async fn every_revision_of_an_object_is_printed_and_what_is_left_out_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (server, https) = start(dir.path());
    let mut last = write(&https, "POST", "", map("a", json!({"k": "0"}))).await;
    for step in 1..=120 {
        let body = map("a", json!({"k": step.to_string()})).to_string();
        let cause = format!("kstore-cause: {last}\r\n");
        let path = "/api/v1/namespaces/default/configmaps/a";
        let reply = https.call_with("PUT", path, &cause, &body).await;
        assert_eq!(reply.code, 200, "{:?}", reply.json());
        last = revision(&reply.json()).parse().unwrap();
    }
    let all = text(&command(&server, &["history", "cm/a", "--limit", "0"]));
    assert!(all.contains("· 121 revisions, "), "{all}");
    assert!((1..=120).all(|step| all.contains(&format!("{} → {step}\n", step - 1))), "{all}");
    let some = text(&command(&server, &["history", "cm/a"]));
    assert!(some.contains("· 50 revisions, ") && some.contains("71 older revisions are not shown"), "{some}");
    let lease = |holder: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": holder}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let mut held = succeed(&https, "POST", leases, lease("a")).await;
    held["spec"]["holderIdentity"] = json!("b");
    succeed(&https, "PUT", &format!("{leases}/l"), held).await;
    let lease = text(&command(&server, &["history", "lease/l"]));
    assert!(lease.contains("· 2 revisions, ") && lease.contains("a → b"), "{lease}");
}
