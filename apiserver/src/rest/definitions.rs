//! Definitions of custom resources: there are none, and whoever lists them hears that. kubectl lists them before it creates what
//! cannot be patched (reviews, bindings), to learn whether that is custom. Discovery does not name them, and everything else about
//! them is answered as for any group that is not there.

use super::content;
use super::query::Query;
use super::respond::{encode, refusal, response};
use axum::body::Body;
use http::request::Parts;
use http::{Method, Response, StatusCode};
use kstore_api::status::Status;
use serde_json::json;

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Whether a request asks for the list. A watch would wait for what cannot come.
pub(super) fn are_listed(parts: &Parts) -> bool {
    let watches = Query::parse(parts.uri.query()).flag("watch");
    parts.method == Method::GET && parts.uri.path() == PATH && !watches
}

/// The list, as of this revision.
pub(super) fn list(parts: &Parts, revision: i64) -> Response<Body> {
    let list = json!({"kind": "CustomResourceDefinitionList", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"resourceVersion": revision.to_string()}, "items": []});
    let offer = content::Offer { tables: false, protobuf: false, stream: false };
    let made = content::accepted(&parts.headers, None, offer).and_then(|accepted| {
        let body = encode(&list, accepted.encoding).map_err(Status::internal)?;
        Ok(response(StatusCode::OK, accepted.encoding.content_type(), Body::from(body)))
    });
    made.unwrap_or_else(|status| refusal(&status))
}
