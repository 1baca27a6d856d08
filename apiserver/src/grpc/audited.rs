//! Audit events of gRPC calls: one for each operation of a call, with the verb and object of the equivalent
//! REST call.

use super::authenticate::CallTrail;
use super::{Grpc, Streamed, seats};
use bytes::Bytes;
use futures::StreamExt as _;
use kstore_access::audit::{self, Audit, Operation, Trail};
use kstore_access::resource_location::ResourceLocation;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::{of_grpc, to_grpc};
use kstore_registry::selectors;
use serde_json::Value;
use std::sync::Arc;

/// The metadata key of responses that contains the audit ID.
const AUDIT_ID: &str = "audit-id";

/// The path of a call.
pub(super) fn uri_of(call: &str) -> String {
    format!("/kstore.v1.Kstore/{call}")
}

/// Handles a call on the seats of its priority level, and records it if there is an audit log.
pub(super) async fn serve<M, R, F>(
    grpc: &Grpc,
    call: &'static str,
    request: tonic::Request<M>,
    handle: impl FnOnce(tonic::Request<M>) -> F + Send,
) -> Result<tonic::Response<R>, tonic::Status>
where
    M: AuditedMessage,
    R: AuditedResponse,
    F: Future<Output = Result<tonic::Response<R>, tonic::Status>> + Send,
{
    let (request, seat_request) = seats::ask(grpc, call, request);
    let handle = |mut request: tonic::Request<M>| async move {
        let Some(seat_request) = seat_request else { return handle(request).await };
        // Boxed because it is rare: otherwise the future of every call would be larger.
        let seat = Box::pin(seats::granted(seat_request)).await?;
        request.extensions_mut().insert(seats::HasSeat);
        let answered = handle(request).await;
        match call {
            // The initial state of a watch was read; its changes need no seats.
            "Watch" => answered,
            _ => answered.map(|response| response.map(|inner| inner.until_end(seat))),
        }
    };
    match &grpc.audit {
        None => handle(request).await,
        Some(audit) => Box::pin(serve_recorded(grpc, audit, call, request, handle)).await,
    }
}

async fn serve_recorded<M, R, F>(
    grpc: &Grpc,
    audit: &Arc<Audit>,
    call: &'static str,
    request: tonic::Request<M>,
    handle: impl FnOnce(tonic::Request<M>) -> F + Send,
) -> Result<tonic::Response<R>, tonic::Status>
where
    M: AuditedMessage,
    R: AuditedResponse,
    F: Future<Output = Result<tonic::Response<R>, tonic::Status>> + Send,
{
    let trail = trail_of(grpc, audit, call, &request);
    let (metadata, extensions, message) = request.into_parts();
    // A call whose client leaves before the response is recorded as well.
    let end = trail.stream_end();
    let parts = message.parts();
    let operations = parts.iter().map(|part| part.operation(call)).collect();
    trail.received(operations).await.map_err(|status| to_grpc(&status))?;
    for (index, part) in parts.into_iter().enumerate() {
        trail.request_object(index, || part.parsed());
    }
    let request = tonic::Request::from_parts(metadata, extensions, message);
    let mut answered = audit::scope(trail.clone(), handle(request)).await;
    let refused = answered.as_ref().err().map(of_grpc);
    let code =
        refused.as_ref().map_or(if call == "Create" || call == "Bind" { 201 } else { 200 }, |s| s.code);
    if let Ok(response) = &answered {
        trail.response_object(0, || response.get_ref().object());
    }
    let goes_on = trail.answered(grpc.pipeline.authorizer(), code, refused.as_ref()).await;
    let metadata = match &mut answered {
        Ok(response) => response.metadata_mut(),
        Err(status) => status.metadata_mut(),
    };
    if let Ok(id) = trail.id().parse() {
        metadata.insert(AUDIT_ID, id);
    }
    match goes_on {
        true => answered.map(|response| response.map(|inner| inner.until_end(end))),
        false => answered,
    }
}

/// The trail of a call: that of its authentication, or a new one.
pub(super) fn trail_of<M>(
    grpc: &Grpc,
    audit: &Arc<Audit>,
    call: &str,
    request: &tonic::Request<M>,
) -> Arc<Trail> {
    if let Some(CallTrail(trail)) = request.extensions().get() {
        return trail.clone();
    }
    let nondet = grpc.pipeline.nondet();
    let id = nondet.rng.uuid();
    let headers = request.metadata().as_ref();
    Trail::begin(audit, nondet.clock, &id, uri_of(call), headers, request.extensions())
}

/// One operation of a call.
pub(super) struct CallPart {
    verb: &'static str,
    reference: Option<pb::Ref>,
    /// The JSON of the operation, and whether it is a whole object.
    object: Option<(Bytes, bool)>,
    /// Values with which selectors compare each object.
    requirements: u64,
}

impl CallPart {
    fn new(verb: &'static str, reference: Option<&pb::Ref>) -> Self {
        Self { verb, reference: reference.cloned(), object: None, requirements: 0 }
    }

    fn with(self, json: &Bytes, is_whole: bool) -> Self {
        Self { object: (!json.is_empty()).then(|| (json.clone(), is_whole)), ..self }
    }

    fn selecting(self, labels: &str, fields: &str) -> Self {
        Self { requirements: selectors::estimate([labels, fields]), ..self }
    }

    /// Values with which selectors of the operation compare each object.
    pub(super) fn requirements(&self) -> u64 {
        self.requirements
    }

    /// The API verb of the operation.
    pub(super) fn verb(&self) -> &'static str {
        self.verb
    }

    /// The resource of the operation, if it names one.
    pub(super) fn reference(&self) -> Option<&pb::Ref> {
        self.reference.as_ref()
    }

    /// The JSON of the operation, parsed, and whether it is a whole object.
    pub(super) fn parsed(self) -> Option<(Value, bool)> {
        let (bytes, is_whole) = self.object?;
        Some((serde_json::from_slice(&bytes).ok()?, is_whole))
    }

    pub(super) fn operation(&self, call: &str) -> Operation {
        let (verb, path) = (self.verb.to_owned(), uri_of(call));
        let Some(reference) = self.reference.clone() else {
            return Operation { verb, version: String::new(), location: None, path };
        };
        let is_status = call == "UpdateStatus" && reference.subresource.is_empty();
        let location = ResourceLocation {
            group: reference.group,
            resource: reference.resource,
            subresource: if is_status { "status".to_owned() } else { reference.subresource },
            namespace: reference.namespace,
            name: reference.name,
            watch: false,
        };
        Operation { verb, version: reference.version, location: Some(location), path }
    }
}

/// The request message of a call that can be recorded.
pub(super) trait AuditedMessage: Send {
    /// The operations of the call.
    fn parts(&self) -> Vec<CallPart>;
}

impl AuditedMessage for pb::GetRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("get", self.r#ref.as_ref())]
    }
}

impl AuditedMessage for pb::ListRequest {
    fn parts(&self) -> Vec<CallPart> {
        let part = CallPart::new("list", self.r#ref.as_ref());
        vec![part.selecting(&self.label_selector, &self.field_selector)]
    }
}

impl AuditedMessage for pb::WatchRequest {
    fn parts(&self) -> Vec<CallPart> {
        let part = |selector: &pb::WatchSelector| {
            let part = CallPart::new("watch", selector.r#ref.as_ref());
            part.selecting(&selector.label_selector, &selector.field_selector)
        };
        self.selectors.iter().map(part).collect()
    }
}

impl AuditedMessage for pb::CreateRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("create", self.r#ref.as_ref()).with(&self.json, true)]
    }
}

impl AuditedMessage for pb::UpdateRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("update", self.r#ref.as_ref()).with(&self.json, true)]
    }
}

impl AuditedMessage for pb::PatchRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("patch", self.r#ref.as_ref()).with(&self.patch, false)]
    }
}

impl AuditedMessage for pb::DeleteRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("delete", self.r#ref.as_ref()).with(&self.options_json, false)]
    }
}

impl AuditedMessage for pb::DeleteCollectionRequest {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("deletecollection", self.r#ref.as_ref()).with(&self.options_json, false)]
    }
}

impl AuditedMessage for pb::BindRequest {
    fn parts(&self) -> Vec<CallPart> {
        let binding = super::bind::binding(self).to_string();
        vec![CallPart::new("create", Some(&super::bind::reference(self))).with(&binding.into(), true)]
    }
}

impl AuditedMessage for pb::TransactRequest {
    fn parts(&self) -> Vec<CallPart> {
        use pb::operation::Kind;
        let part = |operation: &pb::Operation| match operation.kind.as_ref()? {
            Kind::Create(message) => message.parts().pop(),
            Kind::Update(message) => message.parts().pop(),
            Kind::Patch(message) => message.parts().pop(),
            Kind::Delete(message) => message.parts().pop(),
            // A check requires the permission to read the object.
            Kind::Check(message) => Some(CallPart::new("get", message.r#ref.as_ref())),
        };
        self.operations.iter().filter_map(part).collect()
    }
}

impl AuditedMessage for pb::EachRequest {
    fn parts(&self) -> Vec<CallPart> {
        use pb::each_operation::Kind;
        let part = |operation: &pb::EachOperation| match &operation.kind {
            Some(Kind::Create(message)) => message.parts().pop(),
            Some(Kind::Update(message)) => message.parts().pop(),
            Some(Kind::Patch(message)) => message.parts().pop(),
            Some(Kind::Delete(message)) => message.parts().pop(),
            Some(Kind::Bind(message)) => message.parts().pop(),
            None => None,
        };
        // One for each operation: an empty one is refused and recorded, too.
        self.operations
            .iter()
            .map(|operation| part(operation).unwrap_or(CallPart::new("post", None)))
            .collect()
    }
}

impl AuditedMessage for tonic::Streaming<pb::TunnelUp> {
    fn parts(&self) -> Vec<CallPart> {
        vec![CallPart::new("post", None)]
    }
}

/// The response of a call that can be recorded.
pub(super) trait AuditedResponse: Sized + Send {
    /// The object in the response, if it has one.
    fn object(&self) -> Option<Value>;

    /// Returns the response with `end` attached: `end` is dropped with the response's stream.
    fn until_end(self, end: impl Send + 'static) -> Self;
}

impl AuditedResponse for pb::Object {
    fn object(&self) -> Option<Value> {
        serde_json::from_slice(&self.json).ok()
    }

    fn until_end(self, _: impl Send + 'static) -> Self {
        self
    }
}

impl AuditedResponse for pb::TransactResponse {
    fn object(&self) -> Option<Value> {
        None
    }

    fn until_end(self, _: impl Send + 'static) -> Self {
        self
    }
}

impl<T: Send + 'static> AuditedResponse for Streamed<T> {
    fn object(&self) -> Option<Value> {
        None
    }

    fn until_end(self, end: impl Send + 'static) -> Self {
        Box::pin(self.map(move |item| {
            // This closure owns the guard and is dropped with the stream.
            let _kept = &end;
            item
        }))
    }
}
