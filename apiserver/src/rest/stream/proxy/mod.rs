//! The `proxy` subresources of pods, services and nodes: forwards an HTTP request to a backend through the
//! tunnel of its node. This file authorizes requests and streams bodies; `headers`, `links` and `page`
//! rewrite requests and responses.

pub(in crate::rest) mod headers;
mod links;
mod page;
mod tls;
mod wire;

use super::{Expiry, Streams};
use crate::rest::header;
use crate::rest::query::Query;
use crate::rest::respond::refusal;
use crate::rest::router::ResourcePath;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, HOST, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kstore_access::peer::Peer;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::connect::backend::unreachable;
use kstore_registry::error::of_read;
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use kstore_storage::limits::PROXY_PAGE;
use kstore_storage::metrics;
use links::Links;
pub(in crate::rest) use links::escape;
use serde_json::{Value, json};
use std::net::IpAddr;

/// Whether the path is a `proxy` subresource.
pub(in crate::rest) fn is_proxy(path: &ResourcePath) -> bool {
    below(path).is_some()
}

/// The part of a path after `proxy`, without the slash before it; `None` for other subresources.
fn below(path: &ResourcePath) -> Option<&str> {
    let known = matches!(path.resource.plural, "nodes" | "pods" | "services");
    let rest = path.subresource.strip_prefix("proxy").filter(|_| known && path.resource.group.is_empty())?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// The verb of a method on a `proxy` subresource. OPTIONS has an empty verb, which only rules for all verbs
/// allow.
fn verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD => Some("get"),
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        Method::OPTIONS => Some(""),
        _ => None,
    }
}

impl Streams {
    /// Serves one request. It does not count as a request in flight, and ends when its caller's credentials
    /// expire.
    pub(in crate::rest) async fn proxy(
        &self,
        parts: Parts,
        body: Body,
        user: &UserInfo,
        path: ResourcePath,
    ) -> Response<Body> {
        let below = below(&path).unwrap_or_default().to_owned();
        let ResourcePath { resource, namespace, name, .. } = path;
        let target = Target { resource, custom: None, subresource: "proxy", namespace, name };
        let kind = metrics::Kind::of("CONNECT", resource, "proxy", "", &target.name);
        let measured = self.pipeline.metrics().begin(kind, false);
        let response = self.forward(parts, body, user, &target, &below).await;
        let response = response.unwrap_or_else(|status| refusal(&status));
        measured.end(response.status().as_u16());
        response
    }

    async fn forward(
        &self,
        mut parts: Parts,
        body: Body,
        user: &UserInfo,
        target: &Target,
        below: &str,
    ) -> Result<Response<Body>, Status> {
        let verb = verb(&parts.method).ok_or_else(|| {
            Status::method_not_allowed(target.resource, &parts.method.as_str().to_lowercase())
        })?;
        self.pipeline.cache().fresh().await.map_err(of_read)?;
        self.pipeline.check(user, verb, target, &target.name).await?;
        if !Query::parse(parts.uri.query()).get("dryRun").is_empty() {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        self.pipeline.admit_stream(user, target, || options(target, below)).await?;
        let expiry = self.expiry(&parts);
        let backend = self.pipeline.proxy_backend(target)?;
        let upgrade =
            headers::upgrade(&parts.headers).filter(|_| parts.extensions.get::<OnUpgrade>().is_some());
        let backend_path = links::backend_path(parts.uri.path(), below);
        if backend_path.is_empty() && upgrade.is_none() && matches!(parts.method, Method::GET | Method::HEAD)
        {
            return Ok(redirect_to_slash(&parts.uri));
        }
        let client = parts.extensions.remove::<OnUpgrade>().filter(|_| upgrade.is_some());
        let links = Links::new(parts.uri.path(), &backend_path, &host(&parts), &backend.host);
        let request = request(parts, body, upgrade, &backend_path, &links)?;
        // Boxed, because few requests need it: otherwise the future of every request would be larger.
        let answered = Box::pin(self.exchange(&user.username, &backend, request, expiry)).await?;
        match (answered.status(), client) {
            (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
                Ok(self.join_connections(answered, client, expiry))
            }
            (StatusCode::SWITCHING_PROTOCOLS, None) => Err(Status::service_unavailable(
                "error trying to reach service: it switched protocols without a request",
            )),
            (_, _) => response(answered, &links).await,
        }
    }

    /// Joins the client's connection and the backend's after both switched protocols.
    pub(in crate::rest) fn join_connections<B>(
        &self,
        mut answered: Response<B>,
        client: OnUpgrade,
        expiry: Expiry,
    ) -> Response<Body> {
        let backend = hyper::upgrade::on(&mut answered);
        self.spawn_stream(expiry, async move {
            if let (Ok(client), Ok(backend)) = (client.await, backend.await) {
                // The first side that ends its connection ends both.
                let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
                let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
            }
        });
        answered.map(|_| Body::empty())
    }
}

/// The options of the connection for admission.
fn options(target: &Target, below: &str) -> Value {
    let mut options = json!({ "kind": format!("{}ProxyOptions", target.resource.kind), "apiVersion": "v1" });
    if !below.is_empty() {
        options["path"] = json!(below);
    }
    options
}

/// The host that the client connected to.
fn host(parts: &Parts) -> String {
    match parts.uri.authority() {
        Some(authority) => authority.to_string(),
        None => header(&parts.headers, HOST.as_str()).to_owned(),
    }
}

/// The client's address, if it came over a network.
pub(in crate::rest) fn peer(parts: &Parts) -> Option<IpAddr> {
    match parts.extensions.get() {
        Some(Peer::Tls { address, .. }) => Some(address.ip()),
        Some(Peer::InProcess(_)) | None => None,
    }
}

/// 301 to the same path with a slash at its end, since relative links of pages depend on it.
fn redirect_to_slash(uri: &Uri) -> Response<Body> {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::try_from(format!("{}/{query}", uri.path())) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

/// Builds the request to the backend.
fn request(
    mut parts: Parts,
    body: Body,
    upgrade: Option<HeaderValue>,
    backend_path: &str,
    links: &Links,
) -> Result<Request<Body>, Status> {
    let unreadable = |_| Status::bad_request("the path cannot be forwarded");
    let query = parts.uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let uri = Uri::try_from(format!("{}{query}", links::escape(backend_path))).map_err(unreadable)?;
    let host =
        HeaderValue::try_from(host(&parts)).map_err(|_| Status::bad_request("the Host header is invalid"))?;
    let peer = peer(&parts);
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = uri;
    headers::to_backend(&mut parts.headers, upgrade, peer, Some(&links.forwarded(backend_path)));
    parts.headers.insert(HOST, host);
    *request.headers_mut() = parts.headers;
    Ok(request)
}

/// Builds the response to the client.
async fn response(answered: Response<Incoming>, links: &Links) -> Result<Response<Body>, Status> {
    let (mut parts, body) = answered.into_parts();
    headers::to_client(&mut parts.headers);
    parts.headers.append(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    let body = match header(&parts.headers, LOCATION.as_str()) {
        "" if headers::is_page(&parts.headers) => page(&mut parts, body, links).await?,
        "" => Body::new(body),
        to => {
            if let Ok(to) = HeaderValue::try_from(links.rewrite(to)) {
                parts.headers.insert(LOCATION, to);
            }
            Body::new(body)
        }
    };
    Ok(Response::from_parts(parts, body))
}

/// Rewrites the links of a page. A page that exceeds the limit is forwarded unchanged.
async fn page(parts: &mut http::response::Parts, body: Incoming, links: &Links) -> Result<Body, Status> {
    let mut read = BytesMut::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        read.extend_from_slice(&piece.map_err(|error| unreachable(&error))?);
        if read.len() > PROXY_PAGE {
            let first = futures::stream::once(async { Ok::<Bytes, hyper::Error>(read.freeze()) });
            return Ok(Body::from_stream(first.chain(pieces)));
        }
    }
    let Ok(text) = std::str::from_utf8(&read) else { return Ok(Body::from(read.freeze())) };
    let text = page::rewrite(text, |link| links.rewrite(link));
    if parts.headers.contains_key(CONTENT_LENGTH) && !text.is_empty() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    }
    Ok(Body::from(text))
}

#[cfg(test)]
mod tests;
