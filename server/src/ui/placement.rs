//! [`Placements`]: answers the page's question why a pod is on its node, or on none. The page cannot compute it: the answer comes from the
//! scheduler's own filters and scores, which `explain` runs in this process over lists that the server gives to the session's user.

use super::response::{plain, typed};
use crate::explain::placement_data;
use axum::body::Body;
use http::{Response, StatusCode};
use kstore_access::percent_encoding::decode_query;
use kstore_client::Client;
use kstore_cluster::PlacementError;
use tokio::sync::Semaphore;

/// Answers that are computed at a time: each lists all nodes and pods of the cluster. Further questions are refused with 429.
const AT_A_TIME: usize = 2;
/// Nodes of one answer, the best or the nearest ones: what a person reads, and a bound of the answer's size. The answer has the number of
/// the others.
const NODES: usize = 500;

/// The path, below which there is nothing.
pub(super) const PATH: &str = "/ui/placement";

/// Answers questions about places of pods, [`AT_A_TIME`].
pub(super) struct Placements {
    permits: Semaphore,
}

/// A pod, and the revision at which its place is explained; without one it is the present one.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    namespace: String,
    name: String,
    at: Option<i64>,
}

impl Placements {
    pub(super) fn new() -> Self {
        Self { permits: Semaphore::new(AT_A_TIME) }
    }

    /// The answer of `explain pod/NAME -o json` with the permissions of `client`. The query has `pod=NAMESPACE/NAME` and may have
    /// `at=REVISION`.
    pub(super) async fn answer(&self, client: &Client, query: &str) -> Response<Body> {
        let question = match Question::parse(query) {
            Ok(question) => question,
            Err(text) => return plain(StatusCode::BAD_REQUEST, &text),
        };
        let Ok(_permit) = self.permits.try_acquire() else {
            return plain(
                StatusCode::TOO_MANY_REQUESTS,
                "other places of pods are being computed: ask again in a moment",
            );
        };
        let Question { namespace, name, at } = &question;
        match placement_data(client, (namespace, name), *at, NODES).await {
            Ok(data) => typed(StatusCode::OK, "application/json", Body::from(data.to_string())),
            Err(error) => plain(code(&error), &error.to_string()),
        }
    }
}

/// The code of the server's refusal; 502 if the server gave no answer that can be used.
fn code(error: &PlacementError) -> StatusCode {
    let refusal = match error {
        PlacementError::Api(refusal) => refusal.code().and_then(|code| StatusCode::from_u16(code).ok()),
        PlacementError::NoPodThen { .. } => Some(StatusCode::NOT_FOUND),
        PlacementError::Answer(_) => None,
    };
    refusal.unwrap_or(StatusCode::BAD_GATEWAY)
}

impl Question {
    /// Reads the query of a question.
    ///
    /// # Errors
    /// The text says which parameter is missing, malformed, or not known.
    fn parse(query: &str) -> Result<Self, String> {
        let (mut pod, mut at) = (String::new(), None);
        for (parameter, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decode_query(value);
            match parameter {
                "pod" => pod = value,
                "at" => {
                    let revision = value.parse().ok().filter(|revision| *revision > 0);
                    at = Some(revision.ok_or_else(|| format!("at={value} is no revision"))?);
                }
                other => return Err(format!("unknown parameter {other:?}: known are pod, at")),
            }
        }
        match pod.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), at })
            }
            _ => Err("the pod is missing: set pod=NAMESPACE/NAME, for example pod=default/web-1".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};
    use kstore_scheduler::reconstruct::DecisionKind;
    use serde_json::{Value, json};

    #[test]
    fn a_question_names_a_pod_and_perhaps_a_revision() {
        let question = |namespace: &str, name: &str, at| {
            Ok(Question { namespace: namespace.to_owned(), name: name.to_owned(), at })
        };
        assert_eq!(Question::parse("pod=default%2Fdb-1"), question("default", "db-1", None));
        assert_eq!(Question::parse("at=412&pod=a/b"), question("a", "b", Some(412)));
        for wrong in [
            "",
            "pod=",
            "pod=a",
            "pod=a/",
            "pod=/b",
            "pod=a/b/c",
            "at=1",
            "pod=a/b&at=0",
            "pod=a/b&at=x",
            "pod=a/b&x=y",
        ] {
            assert!(Question::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// A server with one pod that is pending and more nodes than an answer has. `refused` is the path that it refuses.
    fn server(refused: &'static str) -> Client {
        let service = tower::service_fn(move |request: http::Request<tonic::body::Body>| async move {
            let path = request.uri().path();
            let (code, body) = match answer(path) {
                _ if path == refused => {
                    (403, json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "no" }))
                }
                Some(body) => (200, body),
                None => (
                    404,
                    json!({ "kind": "Status", "code": 404, "reason": "NotFound", "message": "not found" }),
                ),
            };
            let response =
                http::Response::builder().status(code).body(Full::new(Bytes::from(body.to_string())));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        });
        Client::over(service, "test")
    }

    fn answer(path: &str) -> Option<Value> {
        let list = |items: Vec<Value>| json!({ "metadata": { "resourceVersion": "402" }, "items": items });
        let pod = json!({ "metadata": { "name": "db-1", "namespace": "default", "uid": "u", "resourceVersion": "7" },
            "spec": { "schedulerName": "default-scheduler",
                "containers": [{ "name": "db", "resources": { "requests": { "cpu": "9" } } }] },
            "status": {} });
        let node = |number: usize| {
            let name = format!("node-{number}");
            json!({ "metadata": { "name": name, "uid": name }, "spec": {},
                "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } } })
        };
        match path {
            "/api/v1/nodes" => Some(list((0..NODES + 3).map(node).collect())),
            "/api/v1/pods" => Some(list(vec![pod])),
            "/api/v1/namespaces/default/pods/db-1" => Some(pod),
            _ => DecisionKind::ALL.iter().any(|kind| kind.path() == path).then(|| list(Vec::new())),
        }
    }

    async fn ask(placements: &Placements, client: &Client, query: &str) -> (u16, String) {
        let response = placements.answer(client, query).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn an_answer_has_the_nearest_nodes_and_the_number_of_the_others() {
        let (code, body) = ask(&Placements::new(), &server(""), "pod=default/db-1").await;
        assert_eq!(code, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let computed = &answer["computed"];
        assert_eq!(computed["nodes"].as_array().map(Vec::len), Some(NODES));
        assert_eq!((&computed["moreNodes"], &answer["state"]), (&json!(3), &json!("pending")));
    }

    #[tokio::test]
    async fn refusals_of_the_server_keep_their_code_and_questions_beyond_the_bound_are_refused() {
        let placements = Placements::new();
        assert_eq!(ask(&placements, &server(""), "pod=default/none").await.0, 404);
        assert_eq!(ask(&placements, &server(""), "pod=default").await.0, 400);
        let pod = "/api/v1/namespaces/default/pods/db-1";
        assert_eq!(ask(&placements, &server(pod), "pod=default/db-1").await.0, 403);
        let (code, body) = ask(&placements, &server("/api/v1/nodes"), "pod=default/db-1").await;
        assert!(code == 200 && body.contains("no verdicts on nodes"), "{code} {body}");
        let all = placements.permits.try_acquire_many(AT_A_TIME.try_into().unwrap()).unwrap();
        assert_eq!(ask(&placements, &server(""), "pod=default/db-1").await.0, 429);
        drop(all);
        assert_eq!(ask(&placements, &server(""), "pod=default/db-1").await.0, 200);
    }
}
