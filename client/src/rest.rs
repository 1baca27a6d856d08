//! [`RestApi`]: the calls of a resource over the REST API. kstore serves its own resources over gRPC, and those
//! of aggregated API servers only over REST.

use crate::{ApiError, Client, DeleteParams, Gvr, Patch};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::request::Builder;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kstore_informer::kube::{KubeSource, Raw, ResponseBody, Transport};
use kstore_informer::{Object, SourceError};
use serde_json::Value;
use tower::ServiceExt as _;

/// The objects of one resource for an informer, over the REST API. Their revisions are those of the server
/// that stores them.
pub type RestSource<T> = KubeSource<T>;

/// The calls of one resource on JSON values over the REST API. In all calls, `ns` is empty for cluster-scoped
/// resources.
///
/// The client's fence protects no write to an aggregated API server, which does not know it.
#[derive(Clone)]
pub struct RestApi {
    client: Client,
    gvr: Gvr,
}

impl RestApi {
    pub(crate) fn new(client: Client, gvr: Gvr) -> Self {
        Self { client, gvr }
    }

    /// Gets an object.
    pub async fn get(&self, ns: &str, name: &str) -> Result<Value, ApiError> {
        self.call(Request::get(self.path(ns, name)), Bytes::new()).await
    }

    /// Lists all objects of a namespace; an empty `ns` means all namespaces.
    pub async fn list(&self, ns: &str) -> Result<Vec<Value>, ApiError> {
        let mut list: Value = self.call(Request::get(self.path(ns, "")), Bytes::new()).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            _ => Err(ApiError::Json(format!("the list of {} has no items", self.gvr))),
        }
    }

    /// Patches an object.
    pub async fn patch(&self, ns: &str, name: &str, patch: &Patch) -> Result<Value, ApiError> {
        let (content_type, document, query) = match patch {
            Patch::Merge(document) => ("application/merge-patch+json", document, ""),
            Patch::Json(document) => ("application/json-patch+json", document, ""),
            Patch::Strategic(document) => ("application/strategic-merge-patch+json", document, ""),
            Patch::Apply { object, force: false } => ("application/apply-patch+yaml", object, ""),
            Patch::Apply { object, force: true } => ("application/apply-patch+yaml", object, "?force=true"),
        };
        let path = format!("{}{query}", self.path(ns, name));
        let request = Request::patch(path).header(header::CONTENT_TYPE, content_type);
        self.call(request, document.to_string().into()).await
    }

    /// Deletes an object, or starts its deletion.
    pub async fn delete(&self, ns: &str, name: &str, params: &DeleteParams) -> Result<(), ApiError> {
        let options = serde_json::to_vec(&params.options()).map_err(ApiError::json)?;
        let request = Request::builder().method(Method::DELETE).uri(self.path(ns, name));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.client.send_path(request, options.into()).await.map(drop)
    }

    /// A source of the objects of all namespaces, for an informer whose objects hold only selected data.
    pub fn project<T: Object, E: std::fmt::Display>(
        &self,
        decode: impl Fn(&Raw<'_>) -> Result<T, E> + Send + Sync + 'static,
    ) -> RestSource<T> {
        let resource = (&*self.gvr.group, &*self.gvr.version, &*self.gvr.resource);
        KubeSource::over(RestTransport(self.client.clone()), resource, decode)
    }

    async fn call(&self, request: Builder, body: Bytes) -> Result<Value, ApiError> {
        serde_json::from_slice(&self.client.send_path(request, body).await?).map_err(ApiError::json)
    }

    /// The path of an object; with an empty name, of all objects of the namespace.
    fn path(&self, ns: &str, name: &str) -> String {
        let Gvr { group, version, resource } = &self.gvr;
        let mut path = match &**group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let namespace = if ns.is_empty() { ["", ""] } else { ["namespaces", ns] };
        for segment in namespace.into_iter().chain([&**resource, name]).filter(|segment| !segment.is_empty())
        {
            path.push('/');
            path.push_str(segment);
        }
        path
    }
}

/// The client as the transport of a source.
struct RestTransport(Client);

impl Transport for RestTransport {
    fn send(&self, request: Request<()>) -> BoxFuture<'static, Result<Response<ResponseBody>, SourceError>> {
        let (client, head) = (self.0.clone(), request.into_parts().0);
        async move {
            let mut request = client.http_request(Request::get(head.uri), Bytes::new())?;
            request.headers_mut().extend(head.headers);
            let response = client.transport.oneshot(request).await;
            let response = response.map_err(|error| SourceError::Unreachable(error.to_string()))?;
            Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Arc;
    use tonic::body::Body;

    /// A client whose server answers with `answer` and records method, path, content type and body.
    fn server(status: u16, answer: &Value) -> (Client, Arc<Mutex<Vec<String>>>) {
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), answer.to_string());
        let recorded = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, answer) = (Arc::clone(&requests), answer.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let kind = head.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap());
                let agent = head.headers[header::USER_AGENT].to_str().unwrap();
                let line =
                    format!("{agent} {} {} {kind} {}", head.method, head.uri, String::from_utf8_lossy(&body));
                requests.lock().push(line);
                let response = Response::builder().status(status);
                Ok::<_, Infallible>(response.body(http_body_util::Full::new(Bytes::from(answer))).unwrap())
            }
        });
        (Client::over(service, "tester"), recorded)
    }

    fn flunders(client: &Client) -> RestApi {
        client.rest(Gvr::new("wardle.example.com", "v1", "flunders"))
    }

    #[tokio::test]
    async fn calls_are_requests_of_the_rest_api() {
        let (client, requests) = server(200, &json!({ "items": [{ "metadata": { "name": "one" } }] }));
        let flunders = flunders(&client);
        assert_eq!(flunders.list("").await.unwrap().len(), 1);
        flunders.get("default", "one").await.unwrap();
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        flunders.patch("default", "one", &patch).await.unwrap();
        flunders.delete("default", "one", &DeleteParams::default().uid("u-1")).await.unwrap();
        let all = "tester/kstore";
        let path = "/apis/wardle.example.com/v1/namespaces/default/flunders/one";
        assert_eq!(
            *requests.lock(),
            [
                format!("{all} GET /apis/wardle.example.com/v1/flunders  "),
                format!("{all} GET {path}  "),
                format!(
                    "{all} PATCH {path} application/merge-patch+json {{\"metadata\":{{\"finalizers\":null}}}}"
                ),
                format!("{all} DELETE {path} application/json {{\"preconditions\":{{\"uid\":\"u-1\"}}}}"),
            ]
        );
    }

    #[tokio::test]
    async fn refusals_are_statuses_of_the_server() {
        let status =
            json!({ "kind": "Status", "code": 404, "reason": "NotFound", "details": { "name": "one" } });
        let (client, _) = server(404, &status);
        assert!(flunders(&client).get("default", "one").await.unwrap_err().is_not_found());
        let (client, _) = server(200, &json!({ "items": 3 }));
        assert!(flunders(&client).list("").await.is_err());
        let (client, _) = server(200, &json!({ "items": null }));
        assert!(flunders(&client).list("default").await.unwrap().is_empty());
    }
}
