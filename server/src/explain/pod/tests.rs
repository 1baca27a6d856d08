//! Tests of explanations of pods against a server that answers from a map of paths.

use super::*;
use bytes::Bytes;
use http_body_util::Full;
use kstore_scheduler::reconstruct::DecisionKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NAMED: PodName<'_> = PodName { namespace: "default", name: "db-1" };

/// A server that answers GET by path, without the query, from a map; `Err` is the code and reason of a refusal.
fn server(answers: BTreeMap<&'static str, Result<Value, (u16, &'static str)>>) -> Client {
    let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| {
        let found = answers.get(request.uri().path()).cloned();
        async move {
            let (code, body) = match found.unwrap_or(Err((404, "NotFound"))) {
                Ok(body) => (200, body),
                Err((code, reason)) => (
                    code,
                    json!({ "kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": reason }),
                ),
            };
            let response =
                http::Response::builder().status(code).body(Full::new(Bytes::from(body.to_string())));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    Client::over(service, "test")
}

fn list(items: Vec<Value>) -> Result<Value, (u16, &'static str)> {
    Ok(json!({ "metadata": { "resourceVersion": "402" }, "items": items }))
}

fn node(name: &str, spec: Value) -> Value {
    let size = json!({ "cpu": "4", "memory": "8Gi", "pods": "110" });
    json!({ "metadata": { "name": name, "uid": name, "labels": { "kubernetes.io/hostname": name } }, "spec": spec,
        "status": { "allocatable": size } })
}

fn pod(name: &str, cpu: &str, node: Option<&str>) -> Value {
    let mut spec = json!({ "schedulerName": "default-scheduler",
        "containers": [{ "name": "db", "resources": { "requests": { "cpu": cpu } } }] });
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    json!({ "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": "7" }, "spec": spec,
        "status": {} })
}

/// A full node and a tainted one; the pod that is explained; what the server says of attempts.
fn answers(
    explained: Value,
    records: Result<Value, (u16, &'static str)>,
) -> BTreeMap<&'static str, Result<Value, (u16, &'static str)>> {
    let taint = json!({ "taints": [{ "key": "maintenance", "effect": "NoSchedule" }] });
    let mut answers: BTreeMap<_, _> =
        DecisionKind::ALL.into_iter().map(|kind| (kind.path(), list(Vec::new()))).collect();
    answers.insert("/api/v1/nodes", list(vec![node("node-0", json!({})), node("node-1", taint)]));
    let pods = vec![pod("big", "2400m", Some("node-0")), explained.clone()];
    answers.insert("/api/v1/pods", list(pods));
    answers.insert("/api/v1/namespaces/default/pods/db-1", Ok(explained));
    answers.insert("/kstore/v1/attempts", records);
    answers
}

async fn explained(client: &Client) -> PlacementAnswer {
    placement(client, NAMED, None, (None, None)).await.unwrap()
}

#[tokio::test]
async fn a_pending_pod_is_explained_by_its_record_the_nodes_and_the_changes_that_help() {
    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). no new claims to \
         deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
    let record = json!({ "uid": "db-1", "attempt": 1, "repeats": 2, "time": "2026-01-01T00:00:00.000000Z",
        "lastTime": "2026-01-01T00:00:09.000000Z", "seen": 400, "cause": 399, "result": "refused",
        "refused": { "message": message, "nodes": 2, "reasons": [] } });
    let client = server(answers(pod("db-1", "2", None), Ok(json!({ "records": [record] }))));
    let found = explained(&client).await;
    let expected = format!(
        "\
pod default/db-1 is pending; attempts 1 to 3, with equal results, at 2026-01-01T00:00:09.000000Z (#400 seen) found no node
{message}
(the same is computed from the state at #402)

NODE     LACKS                                  Cordon   Name   TaintTol   NodeAff   Ports   Fit
node-0   cpu 0.4 of 2                           ✓        ✓      ✓          ✓         ✓       ✗
node-1   toleration of maintenance:NoSchedule   ✓        ✓      ✗          ✓         ✓       ✓

SMALLEST CHANGES THAT HELP (each tried on a copy at #402)
  request cpu 1600m instead of 2 in container db             → node-0
  tolerate maintenance:NoSchedule                            → node-1
  a priority of 1 or more, which evicts 1 pod(s)             → node-0
  remove maintenance:NoSchedule from node node-1             → node-1
  one more node like node-0                                  → (new node)
  remove 1 pod from node-0: default/big (priority 0)         → node-0
"
    );
    let normal = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    // The filters of the table are those that do not skip the pod: a column for each.
    let text = super::text(&found, false);
    let (said, expected) = (normal(&text), normal(&expected));
    assert_eq!(said.len(), expected.len(), "{text}");
    for (said, expected) in
        said.iter().zip(&expected).filter(|(_, expected)| !expected.contains(&"LACKS".to_owned()))
    {
        let is_node = expected.first().is_some_and(|word| word.starts_with("node-"));
        let cut = |line: &[String]| {
            line.iter().filter(|word| !is_node || !"✓✗".contains(word.as_str())).cloned().collect()
        };
        let (said, expected): (Vec<String>, Vec<String>) = (cut(said), cut(expected));
        assert_eq!(said, expected, "{text}");
    }
    let data = found.data();
    assert_eq!((&data["state"], &data["computed"]["revision"]), (&json!("pending"), &json!(402)));
    let refusal = &data["computed"]["nodes"][0]["refusals"][0];
    let lack =
        json!([{ "resource": "cpu", "unit": "milli", "requested": 2000, "free": 1600, "allocatable": 4000 }]);
    assert_eq!((&refusal["plugin"], &refusal["lacks"]), (&json!("NodeResourcesFit"), &lack));
}

#[tokio::test]
async fn a_placed_pod_is_explained_by_scores_as_if_it_had_no_node() {
    let client = server(answers(pod("db-1", "1", Some("node-0")), Err((403, "Forbidden"))));
    let found = explained(&client).await;
    let text = super::text(&found, false);
    let head = "pod default/db-1 → node-0; its scheduler has left no record here\n\
         computed from the present state without the pod, #402\n\nNODE     TOTAL";
    assert!(text.starts_with(head), "{text}");
    assert!(text.contains("lacks toleration of maintenance:NoSchedule"), "{text}");
    let data = found.data();
    assert_eq!((&data["node"], &data["computed"]["nodes"][0]["fits"]), (&json!("node-0"), &json!(true)));
    assert!(data["computed"]["suggestions"].as_array().unwrap().is_empty(), "{data}");
}

#[tokio::test]
async fn a_record_is_compared_with_what_is_computed() {
    for (total, feasible, expected) in [(None, 2, true), (Some(1), 2, false), (None, 3, false)] {
        let mut answers = answers(pod("db-1", "1", Some("node-0")), Err((404, "NotFound")));
        answers.insert("/api/v1/nodes", list(vec![node("node-0", json!({})), node("node-1", json!({}))]));
        let computed = explained(&server(answers.clone())).await.data()["computed"]["nodes"].clone();
        let own =
            computed.as_array().unwrap().iter().find(|found| found["node"] == "node-0").unwrap().clone();
        let total = total.map_or(own["total"].clone(), |total: i64| json!(total));
        let placed = json!({ "node": "node-0", "evaluated": 2, "feasible": feasible, "best": 1, "total": total,
            "scores": own["scores"] });
        let record = json!({ "result": "placed", "attempt": 1, "repeats": 0, "placed": placed });
        answers.insert("/kstore/v1/attempts", Ok(json!({ "records": [record] })));
        let found = explained(&server(answers)).await;
        assert_eq!(found.equals_record, Some(expected), "{}", super::text(&found, false));
    }
}

#[tokio::test]
async fn a_caller_without_rights_on_nodes_gets_the_record_and_is_told_what_is_missing() {
    let mut answers = answers(pod("db-1", "2", None), Ok(json!({ "records": [] })));
    answers.insert("/api/v1/nodes", Err((403, "Forbidden")));
    let text = super::text(&explained(&server(answers.clone())).await, false);
    let expected = "pod default/db-1 is pending; its scheduler has left no record here\n\
         note: no verdicts on nodes: the server refuses to show the state of the cluster: Forbidden\n";
    assert_eq!(text, expected);
    answers.insert("/api/v1/nodes", list(vec![node("node-0", json!({}))]));
    answers.insert("/api/v1/persistentvolumes", Err((403, "Forbidden")));
    let text = super::text(&explained(&server(answers)).await, false);
    assert!(
        text.contains("note: computed without /api/v1/persistentvolumes, which cannot be read"),
        "{text}"
    );
}

#[tokio::test]
async fn gated_and_ended_pods_need_no_verdicts() {
    let mut gated = pod("db-1", "1", None);
    gated["spec"]["schedulingGates"] = json!([{ "name": "quota" }, { "name": "network" }]);
    let text = super::text(&explained(&server(answers(gated, list(Vec::new())))).await, false);
    assert_eq!(text, "pod default/db-1 waits for its scheduling gates: quota, network\n");
    let mut ended = pod("db-1", "1", Some("node-0"));
    ended["status"]["phase"] = "Succeeded".into();
    let text = super::text(&explained(&server(answers(ended, list(Vec::new())))).await, false);
    assert_eq!(text, "pod default/db-1 has ended; it needs no node\n");
}

#[tokio::test]
async fn a_pod_of_the_past_is_explained_by_its_bind_only_if_it_had_a_node_then() {
    let bind = json!({ "revision": 9, "time": "2026-01-01T00:00:00Z", "object": "pods/default/db-1", "effect": "updated",
        "verb": "create/binding", "user": "system:kube-scheduler", "agent": "kube-scheduler", "causes": [],
        "children": [] });
    let trace: Trace = serde_json::from_value(json!({ "writes": [bind] })).unwrap();
    for (node, at, bound) in [(None, 8, None), (Some("node-0"), 9, Some(9)), (None, 9, None)] {
        let pod = pod("db-1", "1", node);
        let mut answers = answers(pod.clone(), Err((404, "NotFound")));
        answers.insert("/api/v1/namespaces/default/pods", list(vec![pod]));
        let found = placement(&server(answers), NAMED, None, (Some(at), Some(&trace))).await.unwrap();
        assert_eq!(found.bound.map(|(revision, _)| revision), bound, "{node:?} at {at}");
    }
}

#[test]
fn the_newest_bind_of_the_name_is_found_in_the_tree() {
    let node = |revision: i64, verb: &str, children: Value| {
        json!({ "revision": revision, "time": "2026-01-01T00:00:00Z", "object": "pods/default/db-1",
            "effect": "updated", "verb": verb, "user": "system:kube-scheduler", "agent": "kube-scheduler",
            "causes": [], "children": children })
    };
    let writes = json!([
        node(2, "create", json!([node(3, "create/binding", json!([]))])),
        node(8, "create", json!([node(9, "create/binding", json!([node(10, "patch/status", json!([]))]))]))
    ]);
    let trace: Trace = serde_json::from_value(json!({ "writes": writes })).unwrap();
    let found = |until| binding(&trace.writes, NAMED, until).map(|node| node.revision);
    assert_eq!([found(i64::MAX), found(9), found(8), found(2)], [Some(9), Some(9), Some(3), None]);
    let other = PodName { namespace: "other", name: "db-1" };
    assert!(binding(&trace.writes, other, i64::MAX).is_none());
}
