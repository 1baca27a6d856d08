//! The lab's API over HTTP and JSON at [`crate::cluster::PREFIX`], on the port of every cluster, and over gRPC. `parse` reads bodies,
//! `route` finds the call, `grpc` makes calls of messages, the other modules carry calls out. Only members of `system:masters` may call.

mod caches;
mod clock;
mod clusters;
mod faults;
mod files;
pub(crate) mod grpc;
mod nodes;
mod observed;
mod parse;
mod perturb;
mod plans;
mod programs;
mod route;

use crate::cluster::{Front, GRPC_PREFIX, LabCluster, PREFIX};
use crate::error;
use crate::idempotency::Answer;
use crate::limits;
use crate::registry::{Lab, LabConfig, LabError};
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use kstore_api::status::Status;
use kstore_apiserver::rest::respond::refusal;
use kstore_nondet::Clock;
use kstore_registry::user::MASTERS;
use serde::Serialize;
use std::sync::{Arc, Weak};

/// The header of a POST that may be sent twice.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl Lab {
    /// Starts a lab with its first cluster. Listeners, TLS and waits for clients run on the current runtime, each cluster on a thread of
    /// its own.
    ///
    /// # Errors
    /// See [`LabError`].
    /// Boxed here, so that no crate above generates the code again.
    pub fn start(config: LabConfig) -> BoxFuture<'static, Result<Arc<Self>, LabError>> {
        Box::pin(async move { Self::start_behind(config, of).await })
    }
}

/// The front end of a lab's clusters.
fn of(lab: &Arc<Lab>) -> Front {
    let lab: Weak<Lab> = Arc::downgrade(lab);
    Arc::new(move |request, cluster| {
        let lab = lab.clone();
        async move {
            let Some(lab) = lab.upgrade() else { return refusal(&error::ended()) };
            match request.uri().path().starts_with(GRPC_PREFIX) {
                true => grpc::serve(lab, cluster, request).await,
                false => serve(lab, cluster, request).await.unwrap_or_else(|status| refusal(&status)),
            }
        }
        .boxed()
    })
}

/// A call: its parts in a form that handlers use.
struct Call {
    lab: Arc<Lab>,
    /// The cluster of the port, or the one that the path names.
    cluster: Arc<LabCluster>,
    method: Method,
    /// Segments of the path after the prefix and the name of a cluster.
    path: Vec<String>,
    /// Parameters of the query, decoded.
    query: Vec<(String, String)>,
    body: Bytes,
    /// The body of an upload.
    upload: Option<files::Upload>,
}

/// The body of a call that takes none.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NoBody {}

/// The answer of a handler.
enum Reply {
    /// JSON with a status code.
    Json(u16, Bytes),
    /// A body that is made while it is sent.
    Stream(Response<Body>),
}

impl Reply {
    /// 200 with this value.
    fn ok(value: &impl Serialize) -> Result<Self, Status> {
        Self::with(200, value)
    }

    fn with(code: u16, value: &impl Serialize) -> Result<Self, Status> {
        let mut json = serde_json::to_vec(value).map_err(Status::internal)?;
        json.push(b'\n');
        Ok(Self::Json(code, json.into()))
    }

    /// A body of this type.
    fn stream(kind: &'static str, length: Option<u64>, body: Body) -> Result<Self, Status> {
        let mut response = Response::builder().status(200).header(CONTENT_TYPE, kind);
        if let Some(length) = length {
            response = response.header(CONTENT_LENGTH, length);
        }
        Ok(Self::Stream(response.body(body).map_err(Status::internal)?))
    }
}

fn json(code: u16, body: Bytes) -> Response<Body> {
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    response.body(Body::from(body)).unwrap_or_else(|error| refusal(&Status::internal(error)))
}

/// Serves a call: authenticates, reads the body, and finds its handler.
async fn serve(
    lab: Arc<Lab>,
    cluster: Arc<LabCluster>,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let parts = authorize(&cluster, parts).await?;
    let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let path = path.split('/').filter(|segment| !segment.is_empty()).map(crate::request::decoded);
    let path: Vec<String> = path.collect();
    let (body, upload) = match files::is_upload(&parts.method, &path) {
        true => (Bytes::new(), Some(files::receive(&lab, body).await?)),
        false => (read(body).await?, None),
    };
    let call = Call { lab, cluster, method: parts.method.clone(), path, query: query(&parts), body, upload };
    let key = key(&parts.headers).filter(|_| call.method == Method::POST);
    Ok(match perform(call, key.as_deref(), parts.uri.path()).await? {
        Reply::Json(code, body) => json(code, body),
        Reply::Stream(response) => response,
    })
}

fn key(headers: &HeaderMap) -> Option<String> {
    headers.get(IDEMPOTENCY_KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned())
}

/// Performs a call, or repeats the answer of the call that was made with its key.
async fn perform(call: Call, key: Option<&str>, path: &str) -> Result<Reply, Status> {
    let Some(key) = key else { return route::dispatch(call).await };
    let slot = call.lab.keys.slot(key, path, &call.body, Clock::real().now())?;
    let mut known = slot.lock().await;
    if let Some((code, body)) = &*known {
        return Ok(Reply::Json(*code, body.clone()));
    }
    let (code, body): Answer = match route::dispatch(call).await {
        Ok(Reply::Json(code, body)) => (code, body),
        Ok(stream @ Reply::Stream(_)) => return Ok(stream),
        Err(status) => (status.code, status.to_json().into()),
    };
    if body.len() <= limits::KEY_ANSWER_BYTES {
        *known = Some((code, body.clone()));
    }
    Ok(Reply::Json(code, body))
}

/// Refuses callers that are no administrators. The cluster authenticates, with its clock.
async fn authorize(cluster: &LabCluster, parts: Parts) -> Result<Parts, Status> {
    let running = cluster.current()?.running().clone();
    let cluster = running.clone();
    let identified = running.call(async move {
        let user = cluster.api().identify(&parts).await;
        (parts, user)
    });
    let (parts, user) = identified.await.map_err(|_| error::ended())?;
    let user = user?;
    match user.is_in(MASTERS) {
        true => Ok(parts),
        false => Err(error::forbidden(&user.username)),
    }
}

async fn read(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, limits::BODY_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(error::too_large(limits::BODY_BYTES))
        }
        Err(error) => Err(Status::bad_request(format!("the body cannot be read: {error}"))),
    }
}

fn query(parts: &Parts) -> Vec<(String, String)> {
    let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let decoded = |text: &str| crate::request::decoded(&text.replace('+', " "));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
