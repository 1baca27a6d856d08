//! API Priority and Fairness as clients on the network observe it: headers, rejections and waits, dumps,
//! metrics, and the upkeep of the built-in objects.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use kstore_access::peer::{ClientCertificate, Peer};
use kstore_apiserver::InProcess;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Rest, Setup, simulate};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SCHEMA_UID: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL_UID: &str = "x-kubernetes-pf-prioritylevel-uid";

/// The API as a user with a client certificate, as if it came over the network.
fn remote(cluster: &Cluster, name: &str, groups: &[&str]) -> InProcess {
    let user = UserInfo::new(name, groups.iter().copied());
    let expires = cluster.nondet().clock.now() + jiff::SignedDuration::from_hours(24);
    let certificate = Some(ClientCertificate { user: Arc::new(user), expires });
    cluster.apiserver().for_peer(Peer::Tls { certificate, proxy: None, address: ([127, 0, 0, 1], 1).into() })
}

/// A response whose body has not been read: it keeps the seats of a list.
async fn open(api: &InProcess, path: &str) -> Response<axum::body::Body> {
    let request = http::Request::builder().uri(path).body(Full::new(Bytes::new())).unwrap();
    api.clone().oneshot(request).await.unwrap()
}

async fn get(cluster: &Cluster, path: &str) -> Value {
    let reply = cluster.rest().call("GET", path, "").await;
    assert_eq!(reply.code, 200, "{path}");
    reply.json()
}

async fn text(cluster: &Cluster, path: &str) -> String {
    let reply = cluster.rest().call("GET", path, "").await;
    assert_eq!(reply.code, 200, "{path}");
    String::from_utf8(reply.body.to_vec()).unwrap()
}

/// The line of a dump that begins with `level`, as cells by column.
async fn dumped(cluster: &Cluster, what: &str, level: &str) -> Vec<Vec<(String, String)>> {
    let text = text(cluster, &format!("/debug/api_priority_and_fairness/{what}")).await;
    let cells = |line: &str| line.split(',').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let columns = cells(text.lines().next().unwrap());
    let rows = text.lines().skip(1).map(cells).filter(|row| row[0] == level);
    rows.map(|row| columns.iter().cloned().zip(row).collect()).collect()
}

fn cell<'a>(row: &'a [(String, String)], column: &str) -> &'a str {
    row.iter().find(|(name, _)| name == column).map_or("no such column", |(_, cell)| cell)
}

/// Creates a level of three seats, to which the requests of the group `crowd` belong. The group may do everything.
async fn small_level(cluster: &Cluster, response: Value) {
    let limited = json!({
        "nominalConcurrencyShares": 1,
        "borrowingLimitPercent": 0,
        "limitResponse": response,
    });
    let level = json!({ "metadata": { "name": "small" }, "spec": { "type": "Limited", "limited": limited } });
    create(cluster, &format!("{GROUP}/prioritylevelconfigurations"), level).await;
    let rule = json!({
        "subjects": [{ "kind": "Group", "group": { "name": "crowd" } }],
        "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true }],
    });
    let spec = json!({
        "matchingPrecedence": 50,
        "priorityLevelConfiguration": { "name": "small" },
        "distinguisherMethod": { "type": "ByUser" },
        "rules": [rule],
    });
    let schema = json!({ "metadata": { "name": "crowd" }, "spec": spec });
    create(cluster, &format!("{GROUP}/flowschemas"), schema).await;
    let binding = json!({
        "metadata": { "name": "crowd" },
        "subjects": [{ "kind": "Group", "name": "crowd", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io" },
    });
    create(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
}

async fn create(cluster: &Cluster, path: &str, object: Value) {
    let reply = cluster.rest().call("POST", path, object.to_string()).await;
    assert_eq!(reply.code, 201, "{path}: {:?}", reply.body);
    assert!(!reply.headers.contains_key("warning"), "{path}: {:?}", reply.headers);
}

fn queues() -> Value {
    json!({ "type": "Queue", "queuing": { "queues": 4, "handSize": 1, "queueLengthLimit": 2 } })
}

/// Creates the level, and occupies its seats by lists whose bodies are not read.
async fn full_level(cluster: &Cluster, response: Value) -> (InProcess, Vec<Response<axum::body::Body>>) {
    small_level(cluster, response).await;
    let crowd = remote(cluster, "flood", &["crowd"]);
    let mut lists = Vec::new();
    for _ in 0..3 {
        lists.push(open(&crowd, CONFIG_MAPS).await);
    }
    (crowd, lists)
}

#[test]
fn responses_name_the_schema_and_the_level_of_their_request() {
    simulate(Setup::api_alone(), async |cluster| {
        let uid = async |kind: &str, name: &str| {
            get(cluster, &format!("{GROUP}/{kind}/{name}")).await["metadata"]["uid"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let account = "system:serviceaccount:kube-system:builder";
        let table = [
            ("kubernetes-admin", &["system:masters"][..], "/api/v1/namespaces/default", "exempt", "exempt"),
            ("ann", &[], "/api/v1/namespaces/default", "global-default", "global-default"),
            ("ann", &[], "/healthz", "probes", "exempt"),
            ("ann", &[], "/apis/no.such.group/v1/things", "global-default", "global-default"),
            (
                account,
                &["system:serviceaccounts"],
                "/api/v1/pods",
                "kube-system-service-accounts",
                "workload-high",
            ),
            ("system:node:n", &["system:nodes"], "/api/v1/nodes/n", "system-node-high", "node-high"),
        ];
        for (user, groups, path, schema, level) in table {
            let response = open(&remote(cluster, user, groups), path).await;
            let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(header(SCHEMA_UID), uid("flowschemas", schema).await, "{user} {path}");
            assert_eq!(header(LEVEL_UID), uid("prioritylevelconfigurations", level).await, "{user} {path}");
        }
        let own = cluster.rest().call("GET", "/api/v1/namespaces/default", "").await;
        assert!(!own.headers.contains_key(SCHEMA_UID), "components of the process need no seats");
    });
}

#[test]
fn a_level_that_rejects_answers_429_while_its_seats_are_taken() {
    simulate(Setup::api_alone(), async |cluster| {
        small_level(cluster, json!({ "type": "Reject" })).await;
        let crowd = remote(cluster, "flood", &["crowd"]);
        let mut lists = Vec::new();
        for _ in 0..3 {
            lists.push(open(&crowd, CONFIG_MAPS).await);
        }
        assert!(lists.iter().all(|list| list.status() == StatusCode::OK));
        let refused = open(&crowd, CONFIG_MAPS).await;
        assert_eq!(
            (refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()),
            (429, "1")
        );
        assert!(refused.headers().contains_key(SCHEMA_UID) && refused.headers().contains_key(LEVEL_UID));
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "Too many requests, please try again later.\n");
        let other = open(&remote(cluster, "ann", &[]), "/api").await;
        assert_eq!(other.status(), StatusCode::OK, "other levels have seats");
        drop(lists.pop());
        assert_eq!(
            open(&crowd, CONFIG_MAPS).await.status(),
            StatusCode::OK,
            "a list that was sent frees its seat"
        );
        let level = &dumped(cluster, "dump_priority_levels", "small").await[0];
        let shown = ["ExecutingRequests", "DispatchedRequests", "RejectedRequests", "IsIdle"]
            .map(|name| cell(level, name));
        assert_eq!(shown, ["2", "4", "1", "false"]);
        let page = text(cluster, "/metrics").await;
        let labels = "priority_level=\"small\",flow_schema=\"crowd\"";
        for line in [
            format!(
                "apiserver_flowcontrol_rejected_requests_total{{{labels},reason=\"concurrency-limit\"}} 1\n"
            ),
            format!("apiserver_flowcontrol_dispatched_requests_total{{{labels}}} 4\n"),
            format!("apiserver_flowcontrol_current_executing_requests{{{labels}}} 2\n"),
            "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"small\"} 3\n".to_owned(),
            "apiserver_flowcontrol_current_limit_seats{priority_level=\"small\"} 3\n".to_owned(),
        ] {
            assert!(page.contains(&line), "{line}");
        }
    });
}

#[test]
fn requests_wait_in_queues_until_seats_are_free() {
    simulate(Setup::api_alone(), async |cluster| {
        let (crowd, lists) = full_level(cluster, queues()).await;
        let waiting = tokio::spawn({
            let crowd = crowd.clone();
            async move { open(&crowd, "/api/v1/namespaces/default/pods").await.status() }
        });
        sleep(Duration::from_secs(1)).await;
        let details = "dump_requests?includeRequestDetails=1";
        let requests = dumped(cluster, details, "small").await;
        let shown: Vec<_> = requests
            .iter()
            .map(|row| ["RequestIndexInQueue", "UserName", "Verb", "Resource"].map(|name| cell(row, name)))
            .collect();
        let lists_run = ["-1", "flood", "list", "configmaps"];
        assert_eq!(shown, [lists_run, lists_run, lists_run, ["0", "flood", "list", "pods"]]);
        assert_eq!(cell(&requests[3], "FlowDistingsher"), "flood");
        assert_eq!(cell(&requests[3], "StartTime"), "0001-01-01T00:00:00Z");
        let queued = dumped(cluster, "dump_queues", "small").await;
        let pending = queued.iter().filter(|row| cell(row, "PendingRequests") == "1");
        assert_eq!((queued.len(), pending.count()), (4, 1));
        drop(lists);
        assert_eq!(waiting.await.unwrap(), StatusCode::OK);
    });
}

#[test]
fn a_request_waits_for_a_quarter_of_its_timeout() {
    simulate(Setup::api_alone(), async |cluster| {
        let (crowd, lists) = full_level(cluster, queues()).await;
        for (path, seconds) in [(CONFIG_MAPS.to_owned(), 15), (format!("{CONFIG_MAPS}?timeout=8s"), 2)] {
            let began = Instant::now();
            assert_eq!(open(&crowd, &path).await.status().as_u16(), 429, "{path}");
            assert_eq!(began.elapsed().as_secs(), seconds, "{path}");
        }
        // A client that leaves gives up its place.
        let gone = tokio::time::timeout(Duration::from_secs(1), open(&crowd, CONFIG_MAPS)).await;
        assert!(gone.is_err());
        let level = &dumped(cluster, "dump_priority_levels", "small").await[0];
        let shown =
            ["WaitingRequests", "TimedoutRequests", "CancelledRequests"].map(|name| cell(level, name));
        assert_eq!(shown, ["0", "2", "1"]);
        // Clients that do not read their answers do not keep seats forever.
        sleep(Duration::from_secs(75)).await;
        assert_eq!(open(&crowd, CONFIG_MAPS).await.status(), StatusCode::OK);
        drop(lists);
    });
}

#[test]
fn watches_need_seats_only_until_they_have_begun() {
    simulate(Setup::api_alone(), async |cluster| {
        small_level(cluster, json!({ "type": "Reject" })).await;
        create(cluster, CONFIG_MAPS, json!({ "metadata": { "name": "a" } })).await;
        let crowd = remote(cluster, "flood", &["crowd"]);
        let mut watches = Vec::new();
        for _ in 0..5 {
            let mut watch = open(&crowd, &format!("{CONFIG_MAPS}?watch=true")).await;
            assert_eq!(watch.status(), StatusCode::OK);
            let first = watch.body_mut().frame().await.unwrap().unwrap();
            assert!(first.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
            let silent = tokio::time::timeout(Duration::from_secs(1), watch.body_mut().frame()).await;
            assert!(silent.is_err(), "the watch waits for changes");
            watches.push(watch);
        }
        let level = &dumped(cluster, "dump_priority_levels", "small").await[0];
        assert_eq!(cell(level, "ExecutingRequests"), "0");
    });
}

#[test]
fn requests_finish_in_a_level_that_was_deleted() {
    simulate(Setup::api_alone(), async |cluster| {
        let (crowd, lists) = full_level(cluster, queues()).await;
        let waiting = tokio::spawn({
            let crowd = crowd.clone();
            async move { open(&crowd, CONFIG_MAPS).await.status() }
        });
        sleep(Duration::from_secs(1)).await;
        let level = format!("{GROUP}/prioritylevelconfigurations/small");
        assert_eq!(cluster.rest().call("DELETE", &level, "").await.code, 200);
        let quiescing = &dumped(cluster, "dump_priority_levels", "small").await[0];
        assert_eq!(["IsQuiescing", "WaitingRequests"].map(|name| cell(quiescing, name)), ["true", "1"]);
        let dangles = get(cluster, &format!("{GROUP}/flowschemas/crowd")).await;
        assert_eq!(dangles["status"]["conditions"][0]["status"], "True");
        let next = open(&crowd, CONFIG_MAPS).await;
        let default = get(cluster, &format!("{GROUP}/flowschemas/global-default")).await;
        assert_eq!(
            next.headers()[SCHEMA_UID].to_str().unwrap(),
            default["metadata"]["uid"].as_str().unwrap()
        );
        drop(lists);
        assert_eq!(waiting.await.unwrap(), StatusCode::OK);
        sleep(Duration::from_secs(11)).await;
        assert!(dumped(cluster, "dump_priority_levels", "small").await.is_empty());
    });
}

#[test]
fn built_in_objects_are_restored_unless_a_user_has_taken_them_over() {
    simulate(Setup::api_alone(), async |cluster| {
        let level = |name: &str| format!("{GROUP}/prioritylevelconfigurations/{name}");
        let rest: Rest = cluster.rest();
        let patch = async |name: &str, patch: Value| {
            let patched =
                rest.call_as("PATCH", &level(name), "application/merge-patch+json", patch.to_string()).await;
            assert_eq!(patched.code, 200, "{:?}", patched.body);
        };
        let shares = async |name: &str| {
            get(cluster, &level(name)).await["spec"]["limited"]["nominalConcurrencyShares"].clone()
        };
        let seven = json!({ "spec": { "limited": { "nominalConcurrencyShares": 7 } } });
        patch("system", seven.clone()).await;
        let mut own = seven;
        own["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] = json!("false");
        patch("workload-low", own).await;
        for name in ["exempt", "global-default"] {
            assert_eq!(rest.call("DELETE", &level(name), "").await.code, 200);
        }
        let served = open(&remote(cluster, "root", &["system:masters"]), "/api").await;
        assert_eq!(served.status(), StatusCode::OK, "mandatory levels exist without their objects");
        sleep(Duration::from_secs(30)).await;
        assert_eq!([shares("system").await, shares("workload-low").await], [30, 7]);
        assert_eq!(get(cluster, &level("exempt")).await["spec"]["type"], "Exempt");
        assert_eq!(shares("global-default").await, 20);
        let revision = cluster.store().revision();
        sleep(Duration::from_secs(60)).await;
        assert_eq!(cluster.store().revision(), revision, "nothing is written without a difference");
    });
}

#[test]
fn idle_levels_lend_seats_to_a_busy_one() {
    simulate(Setup::api_alone(), async |cluster| {
        let current = async || {
            let page = text(cluster, "/metrics").await;
            let line = "apiserver_flowcontrol_current_limit_seats{priority_level=\"global-default\"} ";
            let found = page.lines().find_map(|found| found.strip_prefix(line)).unwrap();
            found.parse::<u32>().unwrap()
        };
        let before = current().await;
        let binding = json!({
            "metadata": { "name": "ann" },
            "subjects": [{ "kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io" }],
            "roleRef": { "kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io" },
        });
        create(cluster, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
        let ann = remote(cluster, "ann", &[]);
        let requests: Vec<_> = (0..before + 30)
            .map(|_| {
                let ann = ann.clone();
                tokio::spawn(async move { open(&ann, &format!("{CONFIG_MAPS}?timeout=60s")).await })
            })
            .collect();
        sleep(Duration::from_secs(14)).await;
        let now = current().await;
        assert!(now > before, "{now} seats after {before}");
        let mut served = 0;
        for request in requests {
            served += u32::from(request.await.unwrap().status() == StatusCode::OK);
        }
        assert!(served > before, "{served} requests had seats of {before}");
    });
}
