//! [`KubeApi`]: the service of kstore's gRPC API before an API server that has only Kubernetes' REST API, such as a
//! kube-apiserver. Components that know kstore's API thus work with both.
//!
//! `requests` maps messages to requests and `answers` maps responses to messages, both without I/O. `lists` and `watches` are the calls
//! that stream.
//!
//! What the REST API does not have is refused with a reason: transactions of several writes or with checks, watches of several kinds,
//! reads of one object in the past, and the tunnel of nodes. Causes and fences of writes are ignored, because the server stores neither.

mod answers;
mod lists;
mod requests;
mod watches;

use crate::client::{ServiceError, Transport};
use crate::error::to_grpc;
use crate::limits::{CALL_TIMEOUT, KUBE_CALLS, KUBE_EACH, MAX_MESSAGE};
use crate::{ApiError, Client};
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http_body_util::{BodyExt as _, Full, Limited};
use kstore_api::status::{Reason, Status};
use kstore_proto::kstore::v1 as pb;
use kstore_proto::kstore::v1::kstore_server::{Kstore, KstoreServer};
use pb::each_operation::Kind as EachKind;
use pb::each_result::Result as Done;
use pb::operation::Kind as Operation;
use requests::RestRequest;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status as GrpcStatus};
use tower::{Service, ServiceExt as _};
use watches::WatchConnections;

/// The stream of the messages of a response.
type Streamed<T> = Pin<Box<dyn futures::Stream<Item = Result<T, GrpcStatus>> + Send>>;

/// The metadata key of the field manager of a write.
const FIELD_MANAGER: &str = "kstore-field-manager";

/// The content type of gRPC calls; all other requests are for the API server itself.
const GRPC: &[u8] = b"application/grpc";

/// The cause of a refused transaction, which names the operation.
const OPERATION_REFUSED: &str = "OperationRefused";

/// kstore's gRPC API, answered by the REST API of another server. Cheap to clone; clones share connections and bounds.
#[derive(Clone)]
pub(crate) struct KubeApi {
    transport: Transport,
    watches: Arc<WatchConnections>,
    /// Permits of requests that are not watches.
    calls: Arc<Semaphore>,
}

/// Who calls: the headers that every request of a call carries.
#[derive(Clone, Default)]
struct Caller {
    agent: Option<HeaderValue>,
    authorization: Option<HeaderValue>,
    /// The field manager that the call names, or else that of the agent.
    field_manager: String,
    /// Whether the call names the field manager.
    names_manager: bool,
}

impl Caller {
    fn of<T>(request: &Request<T>) -> Self {
        let headers: &http::HeaderMap = request.metadata().as_ref();
        let agent = headers.get(USER_AGENT).cloned();
        let text = |value: Option<&HeaderValue>| {
            value.and_then(|value| value.to_str().ok()).unwrap_or("").to_owned()
        };
        let named = text(headers.get(FIELD_MANAGER));
        let names_manager = !named.is_empty();
        let of_agent = || text(agent.as_ref()).split('/').next().unwrap_or_default().to_owned();
        let field_manager = if names_manager { named } else { of_agent() };
        Self { authorization: headers.get(AUTHORIZATION).cloned(), field_manager, names_manager, agent }
    }

    /// The manager to name in the query of a write.
    fn manager(&self) -> Option<&str> {
        self.names_manager.then_some(&*self.field_manager)
    }

    fn add_to(&self, headers: &mut http::HeaderMap) {
        for (name, value) in [(USER_AGENT, &self.agent), (AUTHORIZATION, &self.authorization)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    }
}

/// The body of a successful response, with its warnings.
struct RestResponse {
    body: Bytes,
    warnings: Vec<String>,
}

impl KubeApi {
    /// The API before the server that `transport` reaches. `connect` makes a connection for watches.
    pub(crate) fn new(transport: Transport, connect: impl Fn() -> Transport + Send + Sync + 'static) -> Self {
        let watches = Arc::new(WatchConnections::new(connect));
        Self { transport, watches, calls: Arc::new(Semaphore::new(KUBE_CALLS)) }
    }

    /// The service of a client: gRPC calls are answered here, and all other requests by the server.
    fn into_service(
        self,
    ) -> impl Service<
        http::Request<tonic::body::Body>,
        Response = http::Response<tonic::body::Body>,
        Error = ServiceError,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static {
        let transport = self.transport.clone();
        let calls = KstoreServer::new(self).max_decoding_message_size(MAX_MESSAGE);
        tower::service_fn(move |request: http::Request<tonic::body::Body>| {
            let (transport, calls) = (transport.clone(), calls.clone());
            async move {
                let content_type = request.headers().get(CONTENT_TYPE);
                match content_type.is_some_and(|value| value.as_bytes().starts_with(GRPC)) {
                    true => Ok(calls.oneshot(request).await.unwrap_or_else(|never| match never {})),
                    false => transport.oneshot(request).await,
                }
            }
        })
    }

    /// A client of this API.
    pub(crate) fn into_client(self, agent: &str) -> Client {
        let mut client = Client::over(self.into_service(), agent);
        client.has_rare_progress = true;
        client
    }

    /// Sends a request and reads its response. Waits while too many requests of the process are open.
    async fn send(&self, caller: &Caller, request: RestRequest) -> Result<RestResponse, GrpcStatus> {
        let _permit = self.calls.acquire().await.expect("the semaphore is never closed");
        let RestRequest { method, uri, content_type, body } = request;
        let request = http::Request::builder().method(method).uri(uri);
        let request = request.body(tonic::body::Body::new(Full::new(body)));
        let mut request = request.map_err(|error| to_grpc(&Status::bad_request(error.to_string())))?;
        if let Some(content_type) = content_type {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        caller.add_to(request.headers_mut());
        let exchange = async {
            let response =
                self.transport.clone().oneshot(request).await.map_err(|error| unanswered(&error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, answers::MAX_BODY).collect().await;
            let body = body.map_err(|error| unanswered(&*error))?.to_bytes();
            answers::success(&head, body)
        };
        match tokio::time::timeout(CALL_TIMEOUT, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(GrpcStatus::unavailable("the API server did not answer in time")),
        }
    }

    /// Sends a request whose answer is one object.
    async fn object(
        &self,
        caller: &Caller,
        request: RestRequest,
    ) -> Result<Response<pb::Object>, GrpcStatus> {
        let RestResponse { body, warnings } = self.send(caller, request).await?;
        let mut response = Response::new(answers::object(body)?);
        answers::warn(response.metadata_mut(), &warnings);
        Ok(response)
    }

    /// Executes one operation of a transaction or of `Each`.
    async fn operation(
        &self,
        caller: &Caller,
        operation: EachKind,
    ) -> Result<Response<pb::Object>, GrpcStatus> {
        let request = match operation {
            EachKind::Create(message) => requests::create(message, caller.manager()),
            EachKind::Update(message) => requests::update(message, None, caller.manager()),
            EachKind::Patch(message) => requests::patch(message, &caller.field_manager, caller.names_manager),
            EachKind::Delete(message) => requests::delete(message),
            EachKind::Bind(message) => requests::bind(&message),
        };
        self.object(caller, request?).await
    }
}

impl Client {
    /// A client of an API server that has only Kubernetes' REST API, over a service that sends HTTP requests to it. All calls of the client
    /// work but those that Kubernetes does not have: transactions of several writes or with checks, [`MultiSource`](crate::MultiSource),
    /// reads of one object in the past, and tunnels. They are refused. Causes and fences are ignored.
    ///
    /// Watches and at most 64 other requests at a time are sent through clones of `service`.
    pub fn over_kubernetes<S, B>(service: S, agent: &str) -> Self
    where
        S: Service<http::Request<tonic::body::Body>, Response = http::Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let transport = Self::over(service, agent).transport;
        let shared = transport.clone();
        KubeApi::new(transport, move || shared.clone()).into_client(agent)
    }
}

/// The error of a request without a response: a write may or may not have happened.
fn unanswered(error: &dyn std::fmt::Display) -> GrpcStatus {
    GrpcStatus::unavailable(error.to_string())
}

/// The refusal of something that Kubernetes' API does not have.
fn unsupported(message: &str) -> Status {
    Status::foreign(405, Reason::MethodNotAllowed.as_str().to_owned(), message)
}

/// The refusal of a transaction because of one of its operations.
fn of_operation(status: Status, index: usize, why: &str) -> Status {
    let mut status = status.cause(OPERATION_REFUSED, why);
    if let Some(cause) = status.details.as_mut().and_then(|details| details.causes.last_mut()) {
        cause.field = format!("operations[{index}]");
    }
    status
}

/// The error of a transaction whose only write got this error. Without an answer it is not known whether that was executed.
fn of_only_write(error: GrpcStatus) -> GrpcStatus {
    match ApiError::from(error.clone()) {
        ApiError::Status(status) => {
            to_grpc(&of_operation(*status, 0, "nothing of the transaction was written"))
        }
        ApiError::Transport(_) | ApiError::Json(_) => error,
    }
}

/// The only write of a transaction.
///
/// # Errors
///
/// The transaction has several operations, or a check. The cause names the first that cannot be executed.
fn only_write(operations: Vec<pb::Operation>) -> Result<Operation, Status> {
    let refuse = |index: usize, why: &str| of_operation(unsupported(why), index, why);
    let checks = |operation: &pb::Operation| matches!(operation.kind, Some(Operation::Check(_)));
    if let Some(index) = operations.iter().position(checks) {
        return Err(refuse(
            index,
            "this API server has no transactions, so it checks no other object at a write",
        ));
    }
    let mut operations = operations.into_iter().map(|operation| operation.kind);
    match (operations.next().flatten(), operations.next()) {
        (Some(operation), None) => Ok(operation),
        (None, _) => Err(Status::bad_request("operations[0] of the transaction is missing")),
        (Some(_), Some(_)) => Err(refuse(
            1,
            "this API server has no transactions: send the writes one by one, each of which may fail alone",
        )),
    }
}

/// The operation of a transaction as one of `Each`, as a dry run if the transaction is one.
fn single(operation: Operation, is_dry: bool) -> Result<EachKind, Status> {
    Ok(match operation {
        Operation::Create(mut message) => {
            message.dry_run |= is_dry;
            EachKind::Create(message)
        }
        Operation::Update(mut message) => {
            message.dry_run |= is_dry;
            EachKind::Update(message)
        }
        Operation::Patch(mut message) => {
            message.dry_run |= is_dry;
            EachKind::Patch(message)
        }
        Operation::Delete(_) if is_dry => {
            return Err(unsupported("a dry run of a deletion is one of its options"));
        }
        Operation::Delete(message) => EachKind::Delete(message),
        Operation::Check(_) => return Err(unsupported("a check is no write")),
    })
}

fn each_result(outcome: Result<Response<pb::Object>, GrpcStatus>) -> pb::EachResult {
    match outcome {
        Ok(response) => {
            let warnings = answers::warnings(response.metadata());
            pb::EachResult { result: Some(Done::Object(response.into_inner())), warnings }
        }
        Err(status) => {
            let refusal = crate::error::status_of(&status).to_json().into();
            pb::EachResult { result: Some(Done::RefusalJson(refusal)), warnings: Vec::new() }
        }
    }
}

#[tonic::async_trait]
impl Kstore for KubeApi {
    type ListStream = Streamed<pb::ListChunk>;
    type DeleteCollectionStream = Streamed<pb::ListChunk>;
    type WatchStream = Streamed<pb::WatchBatch>;
    type TunnelStream = Streamed<pb::TunnelDown>;

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.object(&caller, requests::get(request.into_inner())?).await
    }

    async fn list(
        &self,
        request: Request<pb::ListRequest>,
    ) -> Result<Response<Self::ListStream>, GrpcStatus> {
        let caller = Caller::of(&request);
        lists::serve(self, caller, request.into_inner()).await
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, GrpcStatus> {
        let caller = Caller::of(&request);
        watches::serve(self, caller, request.into_inner()).await
    }

    async fn create(&self, request: Request<pb::CreateRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.operation(&caller, EachKind::Create(request.into_inner())).await
    }

    async fn update(&self, request: Request<pb::UpdateRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.operation(&caller, EachKind::Update(request.into_inner())).await
    }

    async fn update_status(
        &self,
        request: Request<pb::UpdateRequest>,
    ) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        let update = requests::update(request.into_inner(), Some("status"), caller.manager())?;
        self.object(&caller, update).await
    }

    async fn patch(&self, request: Request<pb::PatchRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.operation(&caller, EachKind::Patch(request.into_inner())).await
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.operation(&caller, EachKind::Delete(request.into_inner())).await
    }

    async fn bind(&self, request: Request<pb::BindRequest>) -> Result<Response<pb::Object>, GrpcStatus> {
        let caller = Caller::of(&request);
        self.operation(&caller, EachKind::Bind(request.into_inner())).await
    }

    async fn delete_collection(
        &self,
        request: Request<pb::DeleteCollectionRequest>,
    ) -> Result<Response<Self::DeleteCollectionStream>, GrpcStatus> {
        let caller = Caller::of(&request);
        lists::delete_collection(self, &caller, request.into_inner()).await
    }

    async fn transact(
        &self,
        request: Request<pb::TransactRequest>,
    ) -> Result<Response<pb::TransactResponse>, GrpcStatus> {
        let caller = Caller::of(&request);
        let pb::TransactRequest { operations, dry_run } = request.into_inner();
        let write = only_write(operations).and_then(|write| single(write, dry_run));
        let write = write.map_err(|status| to_grpc(&status))?;
        let response = self.operation(&caller, write).await.map_err(of_only_write)?;
        let warnings = answers::warnings(response.metadata());
        let object = response.into_inner();
        let revision = if dry_run { 0 } else { object.revision };
        Ok(Response::new(pb::TransactResponse { revision, objects: vec![object], warnings }))
    }

    async fn each(
        &self,
        request: Request<pb::EachRequest>,
    ) -> Result<Response<pb::EachResponse>, GrpcStatus> {
        let caller = Caller::of(&request);
        let operations = request.into_inner().operations;
        if operations.len() > KUBE_EACH {
            let text = format!("a call has at most {KUBE_EACH} operations");
            return Err(to_grpc(&Status::bad_request(text)));
        }
        let run = |operation: pb::EachOperation| {
            let (api, caller) = (self.clone(), caller.clone());
            async move {
                let missing = || to_grpc(&Status::bad_request("an operation is missing"));
                match operation.kind {
                    Some(kind) => api.operation(&caller, kind).await,
                    None => Err(missing()),
                }
            }
        };
        // All at once: the permits of requests bound how many are sent.
        let outcomes: Vec<_> = operations.into_iter().map(run).collect();
        let results: Vec<_> =
            futures::stream::iter(outcomes).buffered(KUBE_EACH).map(each_result).collect().await;
        Ok(Response::new(pb::EachResponse { results }))
    }

    async fn tunnel(
        &self,
        _request: Request<tonic::Streaming<pb::TunnelUp>>,
    ) -> Result<Response<Self::TunnelStream>, GrpcStatus> {
        let text = "this API server opens no streams to nodes through tunnels: it dials their kubelets";
        Err(to_grpc(&unsupported(text)))
    }
}
