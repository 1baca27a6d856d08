//! The concurrent write behind an injected conflict: before an update or patch that carries a `resourceVersion` is performed, another
//! writer changes an annotation of the object. The server's own 409 follows, and the client finds a newer object, as with a real one.

use super::injector::OWN_AGENT;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{Method, Version, request};
use kstore_access::peer::Peer;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::user::UserInfo;
use prost::Message as _;
use serde_json::{Value, json};
use std::sync::Arc;

/// Annotation that is changed; the lab has the same.
const ANNOTATION: &str = "lab.kstore.io/touch";

/// Bytes of the largest body that is read, above what the API server accepts.
const BODY: usize = 4 * 1024 * 1024;

/// Path prefix of kstore's gRPC methods.
const GRPC: &str = "/kstore.v1.Kstore/";

/// Bytes before a gRPC message: a flag and its length.
const GRPC_PREFIX: usize = 5;

/// The object of a write, as its API names it: the other writer uses the same API, since a middleware has one of them behind it.
#[derive(Debug, PartialEq)]
enum WrittenObject {
    /// REST path.
    Path(String),
    /// Reference in gRPC.
    Reference(pb::Ref),
}

/// Changes the object of a write that carries a `resourceVersion`. `value` is the annotation's new value. Returns the request, and whether
/// the object was changed.
pub(super) async fn touch(request: Request, next: Next, value: u64) -> (Request, bool) {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = to_bytes(body, BODY).await else {
        return (Request::from_parts(parts, Body::empty()), false);
    };
    let touched = match versioned_object(&parts, &bytes) {
        Some(object) => change(next, object, value).await,
        None => false,
    };
    (Request::from_parts(parts, Body::from(bytes)), touched)
}

async fn change(next: Next, object: WrittenObject, value: u64) -> bool {
    let patch = json!({"metadata": {"annotations": {ANNOTATION: value.to_string()}}}).to_string();
    let (request, body) = match object {
        WrittenObject::Path(path) => {
            let request = Request::builder().method(Method::PATCH).uri(path);
            (request.header(CONTENT_TYPE, "application/merge-patch+json"), Body::from(patch))
        }
        WrittenObject::Reference(of) => {
            let message = pb::PatchRequest { r#ref: Some(of), patch: patch.into(), ..Default::default() };
            let request = Request::builder().method(Method::POST).uri(format!("{GRPC}Patch"));
            let request = request.version(Version::HTTP_2).header(TE, "trailers");
            (request.header(CONTENT_TYPE, "application/grpc"), Body::from(framed(&message)))
        }
    };
    let user = UserInfo::new("kubernetes-admin", ["system:masters"]);
    let request = request.header(USER_AGENT, OWN_AGENT).extension(Peer::InProcess(Arc::new(user)));
    match request.body(body) {
        Ok(request) => {
            let answer = next.run(request).await;
            // A failed call has its status in the head of the answer.
            let is_refused = answer.headers().get("grpc-status").is_some_and(|status| status != "0");
            answer.status().is_success() && !is_refused
        }
        Err(_) => false,
    }
}

/// A message with gRPC's prefix: not compressed, and its length.
fn framed(message: &pb::PatchRequest) -> Vec<u8> {
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).expect("the message is small");
    [&[0][..], &length.to_be_bytes(), &encoded].concat()
}

/// The object of a write, if the write carries a `resourceVersion`.
fn versioned_object(parts: &request::Parts, body: &[u8]) -> Option<WrittenObject> {
    let path = parts.uri.path();
    let Some(call) = path.strip_prefix(GRPC) else {
        return object_path(path).filter(|_| carries_version(body)).map(WrittenObject::Path);
    };
    let message = body.get(GRPC_PREFIX..)?;
    let (of, json) = match call {
        "Update" | "UpdateStatus" => {
            let update = pb::UpdateRequest::decode(message).ok()?;
            (update.r#ref?, update.json)
        }
        "Patch" => {
            let patch = pb::PatchRequest::decode(message).ok()?;
            (patch.r#ref?, patch.patch)
        }
        _ => return None,
    };
    let of = pb::Ref { subresource: String::new(), ..of };
    Some(WrittenObject::Reference(of)).filter(|_| carries_version(&json))
}

/// Whether an object or a merge patch in JSON has a `resourceVersion`. Bodies in other formats are those of typed clients, whose updates
/// have one.
fn carries_version(body: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(body) {
        Ok(object) => {
            object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
        }
        Err(_) => true,
    }
}

/// The path of an object without its subresource.
fn object_path(path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let root = match *segments.first()? {
        "api" => 2,
        "apis" => 3,
        _ => return None,
    };
    let length = match segments.get(root..)? {
        ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => 2,
        ["namespaces", _, _, _, ..] => 4,
        ["namespaces", ..] => return None,
        [_, _, ..] => 2,
        _ => return None,
    };
    Some(format!("/{}", segments[..root + length].join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_subresource_is_that_of_its_object() {
        let rows = [
            ("/api/v1/namespaces/a/pods/p/status", Some("/api/v1/namespaces/a/pods/p")),
            ("/apis/apps/v1/namespaces/a/deployments/d", Some("/apis/apps/v1/namespaces/a/deployments/d")),
            ("/api/v1/nodes/n/status", Some("/api/v1/nodes/n")),
            ("/api/v1/namespaces/a/finalize", Some("/api/v1/namespaces/a")),
            ("/api/v1/namespaces/a/pods", None),
            ("/healthz", None),
        ];
        for (path, expected) in rows {
            assert_eq!(object_path(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn only_writes_with_a_version_conflict() {
        assert!(carries_version(br#"{"metadata": {"resourceVersion": "5"}}"#));
        assert!(!carries_version(br#"{"metadata": {"resourceVersion": ""}}"#) && !carries_version(b"{}"));
        assert!(carries_version(b"k8s\0..."));
    }
}
