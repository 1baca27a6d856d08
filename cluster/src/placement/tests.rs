//! [`explain_pending`] against a server that answers from a map of paths. The program's `explain` has the tests of single pods.

use super::*;
use bytes::Bytes;
use http_body_util::Full;
use serde_json::json;

/// A node with four cores, and pods of the given requests that wait for one.
fn server(requests: &'static [&'static str]) -> Client {
    let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| async move {
        let list = |items: Vec<Value>| json!({ "metadata": { "resourceVersion": "402" }, "items": items });
        let pod = |at: usize| {
            json!({ "metadata": { "name": format!("p-{at}"), "namespace": "default", "uid": format!("u-{at}") },
                "spec": { "schedulerName": "default-scheduler",
                    "containers": [{ "name": "a", "resources": { "requests": { "cpu": requests[at] } } }] },
                "status": {} })
        };
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let body = match path {
            "/api/v1/nodes" => list(vec![json!({ "metadata": { "name": "n", "uid": "n" }, "spec": {},
                "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } } })]),
            "/api/v1/pods" => list((0..requests.len()).map(pod).collect()),
            "/api/v1/namespaces/default/pods" => {
                assert!(query.contains("resourceVersion=402"), "{query}");
                let own = (0..requests.len()).filter(|at| query.contains(&format!("%3Dp-{at}&")));
                list(own.map(pod).collect())
            }
            _ if DecisionKind::ALL.iter().any(|kind| kind.path() == path) => list(Vec::new()),
            _ => json!({ "records": [] }),
        };
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(Bytes::from(body.to_string()))))
    });
    Client::over(service, "test")
}

#[tokio::test]
async fn each_waiting_pod_is_judged_by_one_state_and_those_that_are_gone_are_left_out() {
    let client = server(&["9", "1"]);
    let name = |name: &'static str| PodName { namespace: "default", name };
    let pods = [name("p-0"), name("none"), name("p-1")];
    let found = explain_pending(&client, &pods, 402, 1).await.unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|answer| {
            (answer["pod"].as_str().unwrap(), answer["computed"]["nodes"][0]["fits"].as_bool().unwrap())
        })
        .collect();
    assert_eq!(shown, [("default/p-0", false), ("default/p-1", true)]);
    assert_eq!(found[0]["computed"]["revision"], 402);
}
