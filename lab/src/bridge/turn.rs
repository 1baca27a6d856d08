//! A request's turn in the serial order of the cluster: it waits here, before plans observe it and before it is in the request log.

use super::{Bridge, Stage};
use crate::client::ActiveRequest;
use crate::host::Placement;
use crate::limits;
use crate::order::choose::{OrderKey, WaitingKind, digest};
use axum::body::Body;
use http::Request;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kstore_api::status::Status;
use serde_json::Value;

/// What the body of a write says of its place in the order.
#[derive(Debug, Default)]
struct BodyFacts {
    /// Name of the object, or the beginning of a generated one.
    name: String,
    digest: u64,
}

impl Bridge {
    /// Whether a request waits for its turn: those of counted clients while a serial order is in force.
    pub(super) fn is_ordered(&self, active: &ActiveRequest) -> bool {
        self.running.placement == Placement::Thread && active.is_counted() && self.clients.order().is_on()
    }
}

impl Stage {
    /// Waits for the turn of a request, and notes it in the log then.
    pub(super) async fn admitted(&mut self, request: Request<Body>) -> Result<Request<Body>, Status> {
        let Some(mut entry) = self.unlogged.take() else { return Ok(request) };
        let read = self.read_body(request).await;
        if let Ok((request, facts)) = &read {
            let key = self.key(request, facts);
            let _waits = self.active.wait();
            self.bridge.clients.order().request(key).await;
        }
        entry.time = self.bridge.running.plane.nondet().clock.now();
        self.number = self.bridge.log.append(*entry);
        let (parts, body) = read?.0.into_parts();
        let revision = self.bridge.running.store().revision().0;
        self.bridge.shown.began(self.number, &parts, self.target.as_deref(), revision);
        Ok(Request::from_parts(parts, body))
    }

    /// Reads the body of a write: creates have their name there, and requests that differ in nothing else are told apart by it.
    async fn read_body(&self, request: Request<Body>) -> Result<(Request<Body>, BodyFacts), Status> {
        let is_write = self.target.as_ref().is_some_and(|target| target.verb.is_write());
        let is_call = self.target.as_ref().is_some_and(|target| target.resource.is_empty());
        if !is_write || is_call {
            return Ok((request, BodyFacts::default()));
        }
        let (parts, body) = request.into_parts();
        let read = Limited::new(body, limits::PLAN_BODY_BYTES).collect().await;
        let read = read.map_err(|error| match error.is::<LengthLimitError>() {
            true => Status::too_large(&format!("limit is {}", limits::PLAN_BODY_BYTES)),
            false => Status::bad_request(format!("the body cannot be read: {error}")),
        });
        let bytes = read?.to_bytes();
        let named = serde_json::from_slice::<Value>(&bytes).unwrap_or(Value::Null);
        let metadata = &named["metadata"];
        let name = metadata["name"].as_str().or(metadata["generateName"].as_str()).unwrap_or_default();
        let facts = BodyFacts { name: name.to_owned(), digest: digest(&bytes) };
        Ok((Request::from_parts(parts, Body::from(bytes)), facts))
    }

    fn key(&self, request: &Request<Body>, facts: &BodyFacts) -> OrderKey {
        let client = self.active.client().to_owned();
        let key = |verb, resource: &str, object: String| OrderKey {
            kind: WaitingKind::Request,
            client,
            verb,
            resource: resource.to_owned(),
            object,
            digest: facts.digest,
            n: 0,
        };
        let Some(target) = &self.target else { return key("", request.uri().path(), String::new()) };
        let name = if target.name.is_empty() { &facts.name } else { &target.name };
        let query = request.uri().query().unwrap_or_default();
        let object = format!("{}/{name}/{}?{query}", target.namespace, target.subresource);
        key(target.verb.as_str(), &target.resource, object)
    }
}
