//! The messages of kstore's gRPC API for the responses of the REST API. Pure.

use super::RestResponse;
use crate::error::to_grpc;
use crate::limits::MAX_MESSAGE;
use bytes::Bytes;
use http::header::{RETRY_AFTER, WARNING};
use http::response::Parts;
use kstore_api::status::{Outcome, Status};
use kstore_proto::kstore::v1 as pb;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use tonic::Status as GrpcStatus;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The largest body of a response. Less than a message, because the objects of a list get their types in it.
pub(super) const MAX_BODY: usize = MAX_MESSAGE - (1 << 20);

/// The metadata key of warnings.
const WARNINGS: &str = "kstore-warning-bin";

/// The body of a successful response.
///
/// # Errors
///
/// The refusal of the server.
pub(super) fn success(head: &Parts, body: Bytes) -> Result<RestResponse, GrpcStatus> {
    let warnings = head.headers.get_all(WARNING).iter().filter_map(|value| warning(value.to_str().ok()?));
    match head.status.is_success() {
        true => Ok(RestResponse { body, warnings: warnings.collect() }),
        false => Err(to_grpc(&refusal(head, &body))),
    }
}

/// The Status of a response that is no success. Proxies and overloaded servers answer in other formats.
fn refusal(head: &Parts, body: &[u8]) -> Status {
    let code = head.status.as_u16();
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
        Status::foreign(
            code,
            head.status.canonical_reason().unwrap_or_default().replace(' ', ""),
            text.trim(),
        )
    });
    status.status = Outcome::Failure;
    if status.code == 0 {
        status.code = code;
    }
    let wait = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match (status.retry_after_seconds(), wait) {
        (None, Some(wait)) => status.retry_after(wait),
        (Some(_), _) | (None, None) => status,
    }
}

/// The text of a warning: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once('"')?.1.rsplit_once('"')?.0;
    Some(quoted.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// Adds warnings to the metadata of a response.
pub(super) fn warn(metadata: &mut MetadataMap, warnings: &[String]) {
    for warning in warnings {
        metadata.append_bin(WARNINGS, MetadataValue::from_bytes(warning.as_bytes()));
    }
}

/// The warnings in the metadata of a response.
pub(super) fn warnings(metadata: &MetadataMap) -> Vec<String> {
    let bytes = metadata.get_all_bin(WARNINGS).iter().filter_map(|value| value.to_bytes().ok());
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[derive(Deserialize)]
struct Versioned<'a> {
    #[serde(default, borrow)]
    metadata: Option<Version<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Version<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

/// The object, or the Status, of a response.
///
/// # Errors
///
/// The body is no JSON object.
pub(super) fn object(json: Bytes) -> Result<pb::Object, GrpcStatus> {
    let Versioned { metadata } = serde_json::from_slice(&json).map_err(|error| garbled(&error))?;
    let revision = metadata.and_then(|metadata| number(metadata.resource_version.as_deref()));
    Ok(pb::Object { revision: revision.unwrap_or(0), json })
}

fn number(version: Option<&str>) -> Option<i64> {
    version?.parse().ok()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    #[serde(default, borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    api_version: Cow<'a, str>,
    #[serde(default, borrow)]
    metadata: ListMeta<'a>,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(rename = "continue", borrow)]
    next: Option<Cow<'a, str>>,
}

/// Whether an object names its type.
#[derive(Deserialize)]
struct Typed {
    #[serde(default)]
    kind: Option<serde::de::IgnoredAny>,
}

/// The chunk for the body of a list. Its objects get the type that they have alone: in a list of Kubernetes it is said once.
///
/// # Errors
///
/// The body is no list, or the server numbers its revisions in a way of its own.
pub(super) fn list(body: &[u8]) -> Result<pb::ListChunk, GrpcStatus> {
    let List { kind, api_version, metadata, items } =
        serde_json::from_slice(body).map_err(|error| garbled(&error))?;
    let version = metadata.resource_version.unwrap_or_default();
    let revision = number(Some(&*version)).ok_or_else(|| {
        GrpcStatus::unimplemented(format!("the resource version {version:?} of the list is no number"))
    })?;
    let type_of_items = format!(
        "{{\"kind\":{},\"apiVersion\":{}",
        serde_json::Value::from(kind.strip_suffix("List").unwrap_or(&kind)),
        serde_json::Value::from(&*api_version)
    );
    let items = items.unwrap_or_default().into_iter().map(|item| typed(item.get(), &type_of_items));
    Ok(pb::ListChunk {
        items: items.collect::<Result<_, _>>()?,
        revision,
        r#continue: metadata.next.unwrap_or_default().into_owned(),
    })
}

/// The object with a type; `start` is the beginning of its JSON with the type.
fn typed(json: &str, start: &str) -> Result<Bytes, GrpcStatus> {
    let Typed { kind } = serde_json::from_str(json).map_err(|error| garbled(&error))?;
    if kind.is_some() {
        return Ok(Bytes::copy_from_slice(json.as_bytes()));
    }
    let rest = json.trim_start().strip_prefix('{').map(str::trim_start).unwrap_or_default();
    let separator = if rest.starts_with('}') { "" } else { "," };
    Ok([start, separator, rest].concat().into())
}

fn garbled(error: &serde_json::Error) -> GrpcStatus {
    GrpcStatus::unavailable(format!("the response of the API server is no object: {error}"))
}
