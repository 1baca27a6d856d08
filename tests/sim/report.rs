//! Report files: what is in them is what the server answers, for the user who asks.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::ZlibDecoder;
use kstore_cluster::{ReportRequest, report};
use kstore_registry::user::UserInfo;
use kstore_tests::{Rest, Setup, manifests, simulate};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;

/// The lines of the chunks of a report.
struct Report(BTreeMap<String, Vec<Value>>);

impl Report {
    /// Reads a file.
    fn read(file: &[u8]) -> Self {
        let text = std::str::from_utf8(file).unwrap();
        let data = text.split_once("id=\"kstore-report\">").unwrap().1.split_once('<').unwrap().0;
        let data = BASE64_STANDARD.decode(data).unwrap();
        let mut rest = data.strip_prefix(b"KSTORE-REPORT 1\n").unwrap();
        let mut chunks = BTreeMap::new();
        while !rest.is_empty() {
            let kind = std::str::from_utf8(&rest[..8]).unwrap().trim_end().to_owned();
            let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
            let mut lines = String::new();
            ZlibDecoder::new(&rest[12..12 + length]).read_to_string(&mut lines).unwrap();
            chunks.insert(kind, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect());
            rest = &rest[12 + length..];
        }
        Self(chunks)
    }

    /// All states by key and revision. Those at the first revision have that one.
    fn states(&self) -> BTreeMap<(Vec<String>, i64), Value> {
        let key = |parts: &Value| (0..3).map(|at| parts[at].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        let first = self.0["meta"][0]["from"].as_i64().unwrap();
        let mut last: BTreeMap<Vec<String>, Value> =
            self.0["base"].iter().map(|line| (key(line), line[3].clone())).collect();
        let mut states: BTreeMap<_, _> =
            last.iter().map(|(key, state)| ((key.clone(), first), state.clone())).collect();
        for line in &self.0["changes"] {
            for parts in line["o"].as_array().unwrap() {
                let key = key(parts);
                let state = match &parts[5] {
                    Value::Null => continue,
                    Value::Array(edits) => edited(last[&key].clone(), edits),
                    whole => whole.clone(),
                };
                last.insert(key.clone(), state.clone());
                states.insert((key, line["r"].as_i64().unwrap()), state);
            }
        }
        states
    }
}

/// A value with the edits of a report.
fn edited(mut value: Value, edits: &[Value]) -> Value {
    for edit in edits {
        let path = edit[0].as_array().unwrap();
        let pointer = |parts: &[Value]| {
            let escaped = parts.iter().map(|part| match part {
                Value::String(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                at => format!("/{at}"),
            });
            escaped.collect::<String>()
        };
        let (last, way) = path.split_last().unwrap();
        let place = value.pointer_mut(&pointer(way)).unwrap();
        match (last, edit.get(1)) {
            (Value::String(name), Some(set)) => {
                place.as_object_mut().unwrap().insert(name.clone(), set.clone());
            }
            (Value::String(name), None) => {
                place.as_object_mut().unwrap().remove(name);
            }
            (at, set) => place[usize::try_from(at.as_u64().unwrap()).unwrap()] = set.unwrap().clone(),
        }
    }
    value
}

/// The object as the server has it at a revision.
async fn at(rest: &Rest, kinds: &Value, key: &[String], revision: i64) -> Value {
    let kinds = kinds.as_array().unwrap();
    let kind = kinds.iter().find(|kind| kind["resource"] == key[0].as_str()).unwrap();
    let [group, version, plural] = ["group", "version", "plural"].map(|name| kind[name].as_str().unwrap());
    let group = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let namespace = if key[1].is_empty() { String::new() } else { format!("/namespaces/{}", key[1]) };
    let path = format!("{group}/{version}{namespace}/{plural}/{}", key[2]);
    let query = format!("resourceVersion={revision}&resourceVersionMatch=Exact");
    let reply = rest.call("GET", &format!("{path}?{query}"), "").await;
    assert_eq!(reply.code, 200, "{path} {revision}");
    reply.json()
}

#[test]
fn a_report_has_each_state_of_its_window_as_the_server_has_it() {
    simulate(Setup::seed(1), async |cluster| {
        cluster.create(manifests::deployment("web", 2)).await;
        cluster.wait_rolled_out("web").await;
        let rest = cluster.rest();
        let secret = json!({"metadata": {"name": "hidden"}, "data": {"password": "aHVudGVyMg=="}});
        assert_eq!(
            rest.call("POST", "/api/v1/namespaces/default/secrets", secret.to_string()).await.code,
            201
        );
        let pods = "/api/v1/namespaces/default/pods";
        assert_eq!(rest.call("DELETE", &format!("{pods}?labelSelector=app=web"), "").await.code, 200);
        cluster.wait_rolled_out("web").await;
        let request = ReportRequest { title: "a <b>".to_owned(), ..ReportRequest::default() };
        let file = report(cluster.client(), &request).await.unwrap();
        let report = Report::read(&file);
        let meta = &report.0["meta"][0];
        assert_eq!(
            (&meta["clock"], &meta["leftOut"], &meta["title"]),
            (&json!("virtual"), &json!([]), &json!("a <b>"))
        );
        let states = report.states();
        assert!(states.len() > 100, "{}", states.len());
        let mut compared = 0;
        for (number, ((key, revision), state)) in states.iter().enumerate() {
            assert!(!state.to_string().contains("aHVudGVyMg"));
            // Values that are hidden differ; of the others, a part is enough.
            if number % 5 == 0 && !state.to_string().contains("•••") {
                assert_eq!(
                    *state,
                    at(&rest, &report.0["rows"][0]["kinds"], key, *revision).await,
                    "{key:?} {revision}"
                );
                compared += 1;
            }
        }
        assert!(compared > 20, "{compared}");
        let own = states.iter().find(|((key, _), _)| key[0] == "secrets" && key[2] == "hidden").unwrap().1;
        assert_eq!(own["data"]["password"], "••• (7 bytes)");
    });
}

#[test]
fn a_report_has_what_its_user_may_list_and_of_a_namespace_only_that() {
    simulate(Setup::api_alone(), async |cluster| {
        let admin = cluster.rest();
        let post = async |path: &str, object: Value| {
            assert_eq!(admin.call("POST", path, object.to_string()).await.code, 201, "{path}");
        };
        post("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
        let rules = json!([{"nonResourceURLs": ["/kstore/v1/*"], "verbs": ["get"]}]);
        let reference = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let jane = cluster.client_as(UserInfo::new("jane", [""; 0]));
        assert!(
            report(&jane, &ReportRequest::default()).await.unwrap_err().to_string().contains("forbidden")
        );
        post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "see"}, "rules": rules})).await;
        post(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": "see"}, "roleRef": reference("ClusterRole", "see"), "subjects": subjects}),
        )
        .await;
        let rules =
            json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
        let roles = format!("{rbac}/namespaces/shop/roles");
        post(&roles, json!({"metadata": {"name": "maps"}, "rules": rules})).await;
        post(
            &format!("{rbac}/namespaces/shop/rolebindings"),
            json!({"metadata": {"name": "maps"}, "roleRef": reference("Role", "maps"), "subjects": subjects}),
        )
        .await;
        for namespace in ["shop", "default"] {
            let map = json!({"metadata": {"name": format!("in-{namespace}")}, "data": {"k": "v"}});
            post(&format!("/api/v1/namespaces/{namespace}/configmaps"), map).await;
        }
        let names = |file: &[u8]| {
            let states = Report::read(file).states().into_keys();
            states.map(|(key, _)| key[1..].join("/")).collect::<Vec<_>>()
        };
        let hers = report(&jane, &ReportRequest::default()).await.unwrap();
        assert_eq!(names(&hers), ["shop/in-shop"]);
        assert_eq!(Report::read(&hers).0["meta"][0]["leftOut"], json!([]));
        let request = ReportRequest { namespace: "default".to_owned(), ..ReportRequest::default() };
        let of_default = names(&report(cluster.client(), &request).await.unwrap());
        assert!(of_default.contains(&"default/in-default".to_owned()), "{of_default:?}");
        assert!(
            of_default.iter().all(|name| name.starts_with("default/") || name.starts_with('/')),
            "{of_default:?}"
        );
    });
}

/// A pod that asks for a number of processors.
fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "nginx",
        "resources": {"requests": {"cpu": cpu}}}]}})
}

#[test]
fn a_report_has_attempts_verdicts_on_nodes_metrics_and_marks() {
    simulate(Setup::seed(3), async |cluster| {
        let rest = cluster.rest();
        let pods = "/api/v1/namespaces/default/pods";
        for (name, cpu) in [("small", "1"), ("big", "9000")] {
            assert_eq!(rest.call("POST", pods, pod(name, cpu).to_string()).await.code, 201);
        }
        let tags = json!({"metadata": {"name": "kstore-tags"}, "data": {"begin": "5"}});
        let path = "/api/v1/namespaces/kube-system/configmaps";
        assert_eq!(rest.call("POST", path, tags.to_string()).await.code, 201);
        cluster
            .wait_until("both pods are decided on", async || {
                let list = rest.call("GET", pods, "").await.json();
                let decided = |pod: &Value| {
                    pod["spec"]["nodeName"].is_string()
                        || pod["status"]["conditions"][0]["reason"] == "Unschedulable"
                };
                list["items"].as_array().unwrap().iter().all(decided)
            })
            .await;
        let request = ReportRequest {
            faults: vec![(7, "kill".to_owned())],
            steps: vec![(6, "begin".to_owned())],
            ..ReportRequest::default()
        };
        let report = Report::read(&report(cluster.client(), &request).await.unwrap());
        let said = |name: &str| {
            let pod = format!("default/{name}");
            report.0["attempts"].iter().find(|line| line["pod"] == pod.as_str()).unwrap().clone()
        };
        assert_eq!(said("small")["records"][0]["result"], "placed");
        let big = said("big");
        assert_eq!((&big["state"], &big["records"][0]["result"]), (&json!("pending"), &json!("refused")));
        let verdict = &big["computed"]["nodes"][0];
        assert_eq!(
            (&verdict["fits"], &verdict["refusals"][0]["plugin"]),
            (&json!(false), &json!("NodeResourcesFit"))
        );
        let newest = report.0["changes"].last().unwrap()["r"].clone();
        assert_eq!(big["computed"]["revision"], newest);
        let marks: Vec<_> = report.0["marks"]
            .iter()
            .map(|mark| (mark["kind"].as_str().unwrap(), mark["r"].as_i64().unwrap()))
            .collect();
        assert_eq!(marks, [("tag", 5), ("test", 6), ("fault", 7)]);
        let reading = &report.0["server"][0];
        let metrics = reading["metrics"].as_str().unwrap();
        for name in [
            "apiserver_request_total{",
            "etcd_requests_total{",
            "kstore_storage_live_bytes ",
            "process_start_time_seconds ",
        ] {
            assert!(metrics.contains(name), "{name}: {metrics}");
        }
        assert!(!metrics.contains("resource="), "labels that the page does not read: {metrics}");
    });
}

/// Nothing about pods, the server and names of nodes beyond what the user may read.
#[test]
fn a_report_of_a_user_without_permissions_has_no_attempts_and_no_metrics() {
    simulate(Setup::seed(4), async |cluster| {
        let admin = cluster.rest();
        let post = async |path: &str, object: Value| {
            assert_eq!(admin.call("POST", path, object.to_string()).await.code, 201, "{path}");
        };
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let rules = json!([{"nonResourceURLs": ["/kstore/v1/*"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
        post(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "see"}, "rules": rules})).await;
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "see"});
        post(
            &format!("{rbac}/clusterrolebindings"),
            json!({"metadata": {"name": "see"}, "roleRef": role, "subjects": subjects}),
        )
        .await;
        post("/api/v1/namespaces/default/pods", pod("secret-pod", "9000")).await;
        let jane = cluster.client_as(UserInfo::new("jane", [""; 0]));
        let hers = Report::read(&report(&jane, &ReportRequest::default()).await.unwrap());
        assert!(!hers.0.contains_key("attempts") && !hers.0.contains_key("server"), "{:?}", hers.0.keys());
        assert!(!format!("{:?}", hers.0).contains("secret-pod"));
    });
}
