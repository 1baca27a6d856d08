//! REST requests in the audit log: the operation of a request, before it is handled, and its outcome.

use super::query::Query;
use super::respond::Reply;
use super::{HttpBody, Rest, path_verb};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kstore_access::audit::{self, Audit, Operation, Trail};
use kstore_access::authz::resource_verb;
use kstore_access::{percent_encoding, resource_location};
use kstore_api::patch::PatchType;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::{Answered, Refused};
use kstore_registry::decode;
use kstore_registry::decode::delete_options::UNSAFE;
use kstore_registry::request::{Action, Body, DeleteOptions, Format, Propagation, Request};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use kstore_storage::observed_body::{ObservedBody, ignore};
use serde_json::{Value, json};
use std::sync::Arc;

impl Rest {
    /// Handles a request and records its audit events.
    pub(super) async fn serve_recorded(
        &self,
        audit: &Arc<Audit>,
        audit_id: HeaderValue,
        request: http::Request<HttpBody>,
    ) -> Response<HttpBody> {
        let id = audit_id.to_str().unwrap_or_default();
        let uri = request.uri().path_and_query().map_or("/", |uri| uri.as_str()).to_owned();
        let clock = self.pipeline.nondet().clock;
        let trail = Trail::begin(audit, clock, id, uri, request.headers(), request.extensions());
        // A request whose client leaves before the response is recorded as well.
        let end = trail.stream_end();
        let response = audit::scope(trail.clone(), Box::pin(self.handle(request))).await;
        if !trail.is_recorded() {
            return response;
        }
        let (response, refused) = with_refusal(response).await;
        let code = response.status().as_u16();
        match trail.answered(self.pipeline.authorizer(), code, refused.as_ref()).await {
            true => response.map(|inner| HttpBody::new(ObservedBody::new(inner, end, ignore))),
            false => response,
        }
    }

    /// The audit trail of the request that is being handled, if there is an audit log.
    pub(super) fn trail(&self) -> Option<Arc<Trail>> {
        self.audit.as_ref().and_then(|_| audit::current())
    }

    /// Adds the object of the request to the audit trail.
    pub(super) fn record_request(&self, request: &Request) {
        if let Some(trail) = self.trail() {
            trail.request_object(0, || object_of(&request.action));
        }
    }

    /// Adds the object of the response to the audit trail.
    pub(super) fn record_answer(&self, reply: &Reply, answered: &Result<Answered, Refused>) {
        if let (Some(trail), Ok(answered)) = (self.trail(), answered) {
            trail.response_object(0, || reply.plain(&answered.answer));
        }
    }
}

/// Records the arrival of a request once authentication has finished, and returns the authenticated user.
///
/// # Errors
/// The error of authentication; or 500, if the event cannot be recorded and the mode requires that the
/// request fails.
pub(super) async fn record_arrival(
    trail: Arc<Trail>,
    parts: &Parts,
    identified: Result<Arc<UserInfo>, Status>,
) -> Result<Arc<UserInfo>, Status> {
    let operations = vec![operation(parts)];
    match &identified {
        Err(status) if !trail.has_caller() => trail.unauthenticated(operations, status).await,
        _ => trail.received(operations).await?,
    }
    identified
}

/// The operation of a request for the audit log, also for resources that do not exist.
fn operation(parts: &Parts) -> Operation {
    let path = parts.uri.path().to_owned();
    let Some(location) = resource_location::location(&path) else {
        return Operation { verb: path_verb(&parts.method), version: String::new(), location: None, path };
    };
    let watch = location.watch || Query::parse(parts.uri.query()).flag("watch");
    // `/api/VERSION/…` or `/apis/GROUP/VERSION/…`
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let version = if segments.next() == Some("api") { segments.next() } else { segments.nth(1) };
    let version = percent_encoding::decode(version.unwrap_or_default());
    let verb = resource_verb(&parts.method, !location.name.is_empty(), watch);
    Operation { verb, version, location: Some(location), path }
}

/// The object of a request, and whether it is a whole object.
fn object_of(action: &Action) -> Option<(Value, bool)> {
    match action {
        Action::Create(body, _) | Action::Update(body, _) => Some((decode::tree(body).ok()?, true)),
        Action::Patch(kind, bytes, _) => {
            let format = if *kind == PatchType::Apply { Format::Yaml } else { Format::Json };
            Some((decode::tree(&Body { format, bytes: bytes.clone() }).ok()?, false))
        }
        Action::Delete(options, _) | Action::DeleteCollection(_, options, _) => {
            Some((delete_options(options)?, false))
        }
        Action::Get(_) | Action::List(_) | Action::Watch(_) => None,
    }
}

/// The delete options as `metav1.DeleteOptions`; `None` if none are set.
fn delete_options(options: &DeleteOptions) -> Option<Value> {
    let propagation = options.propagation.map(|propagation| match propagation {
        Propagation::Orphan => "Orphan",
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    });
    let mut object = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    let version = options.resource_version.map(|version| version.to_string());
    let preconditions = [("uid", options.uid.clone()), ("resourceVersion", version)];
    for (name, value) in preconditions.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        object["preconditions"][name] = value.into();
    }
    if let Some(seconds) = options.grace_period_seconds {
        object["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = propagation {
        object["propagationPolicy"] = policy.into();
    }
    if options.unsafe_deletion.is_some() {
        object[UNSAFE] = true.into();
    }
    (object.as_object()?.len() > 2).then_some(object)
}

/// Extracts the Status of a refusal; returns the response unchanged.
async fn with_refusal(response: Response<HttpBody>) -> (Response<HttpBody>, Option<Status>) {
    let is_refusal = response.status().is_client_error() || response.status().is_server_error();
    let is_short =
        response.body().size_hint().exact().is_some_and(|size| size <= limits::AUDIT_REFUSAL_BYTES);
    if !is_refusal || !is_short {
        return (response, None);
    }
    let (parts, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        // A body of known size is in memory; if reading it fails, it cannot be sent either.
        return (Response::from_parts(parts, HttpBody::empty()), None);
    };
    let bytes = body.to_bytes();
    let status = decode::tree(&Body { format: format_of(&parts.headers), bytes: bytes.clone() }).ok();
    let status = status.filter(|value| value["kind"] == "Status");
    let status = status.and_then(|value| serde_json::from_value(value).ok());
    (Response::from_parts(parts, HttpBody::from(bytes)), status)
}

fn format_of(headers: &HeaderMap) -> Format {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if content_type.contains("protobuf") {
        Format::Protobuf
    } else if content_type.contains("yaml") {
        Format::Yaml
    } else {
        Format::Json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(method: &str, uri: &str) -> String {
        let request = http::Request::builder().method(method).uri(uri).body(()).unwrap();
        let Operation { verb, version, location, path } = operation(&request.into_parts().0);
        match location {
            Some(location) => {
                format!("{verb} {} {version} {} {}", location.group, location.resource, location.subresource)
            }
            None => format!("{verb} {path}"),
        }
    }

    #[test]
    fn requests_for_unknown_resources_are_recorded_too() {
        for (method, uri, want) in [
            ("GET", "/version?timeout=1s", "get /version"),
            ("HEAD", "/", "head /"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/api/v1/pods", "list  v1 pods "),
            ("GET", "/api/v1/pods?watch=1", "watch  v1 pods "),
            ("GET", "/api/v1/watch/pods", "watch  v1 pods "),
            ("POST", "/api/v1/namespaces/a/pods/b/exec?command=c", "create  v1 pods exec"),
            ("DELETE", "/apis/none.io/v7/dogs", "deletecollection none.io v7 dogs "),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", "patch apps v1 deployments scale"),
        ] {
            assert_eq!(describe(method, uri), want, "{method} {uri}");
        }
    }

    #[test]
    fn delete_options_are_recorded_if_set() {
        assert_eq!(delete_options(&DeleteOptions::default()), None);
        let options = DeleteOptions {
            uid: Some("u".into()),
            grace_period_seconds: Some(0),
            propagation: Some(Propagation::Orphan),
            ..DeleteOptions::default()
        };
        let want = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "preconditions": {"uid": "u"},
            "gracePeriodSeconds": 0, "propagationPolicy": "Orphan"});
        assert_eq!(delete_options(&options), Some(want));
    }
}
