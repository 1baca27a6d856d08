//! The lab's API over gRPC, service `kstore.lab.v1.Lab` on the port of every cluster: each call is the HTTP call with the same handler.
//! `calls` is the table of calls, `convert` reads and writes messages as JSON, `codec` their frames, `answer` makes the streams.

mod answer;
pub(crate) mod calls;
mod codec;
pub(crate) mod convert;

use super::{Call, Lab, authorize, key};
use crate::cluster::{GRPC_PREFIX, LabCluster};
use crate::limits;
use axum::body::Body;
use bytes::Bytes;
use calls::{AnswerForm, HttpForm, LabRpc};
use codec::RawCodec;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};
use kstore_api::status::Status;
use kstore_registry::error::to_grpc;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::{Map, Value};
use std::sync::Arc;
use tonic::Streaming;
use tonic::server::StreamingService;

/// The messages of an answer.
type Messages = BoxStream<'static, Result<Bytes, tonic::Status>>;

/// The gRPC form of a refusal.
fn refused(status: &Status) -> tonic::Status {
    to_grpc(status)
}

/// Serves a call.
pub(super) async fn serve(lab: Arc<Lab>, cluster: Arc<LabCluster>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let parts = match authorize(&cluster, parts).await {
        Ok(parts) => parts,
        Err(status) => return refused(&status).into_http(),
    };
    let path = parts.uri.path().to_owned();
    let name = path.strip_prefix(GRPC_PREFIX).unwrap_or_default().trim_start_matches('/');
    let service = convert::descriptors().get_service_by_name("kstore.lab.v1.Lab");
    let method = service.and_then(|service| service.methods().find(|method| method.name() == name));
    let (Some(method), Some(rpc)) = (method, LabRpc::named(name)) else {
        return tonic::Status::unimplemented(format!("the lab has no gRPC method {path}")).into_http();
    };
    let key = key(&parts.headers).filter(|_| rpc.may_have_key());
    let call = GrpcCall { lab, cluster, rpc, method, key };
    let mut grpc = tonic::server::Grpc::new(RawCodec).max_decoding_message_size(limits::BODY_BYTES);
    grpc.streaming(call, Request::from_parts(parts, body)).await.map(Body::new)
}

/// A call from an administrator.
#[derive(Clone)]
struct GrpcCall {
    lab: Arc<Lab>,
    /// The cluster of the port.
    cluster: Arc<LabCluster>,
    rpc: LabRpc,
    method: MethodDescriptor,
    /// Idempotency key.
    key: Option<String>,
}

impl StreamingService<Bytes> for GrpcCall {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = BoxFuture<'static, Result<tonic::Response<Messages>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let call = self.clone();
        async move {
            let answered = match call.rpc.form {
                AnswerForm::Upload => call.upload(request.into_inner()).await,
                _ => call.answer(request.into_inner()).await,
            };
            answered.map(tonic::Response::new)
        }
        .boxed()
    }
}

impl GrpcCall {
    /// The members of the request.
    async fn members(&self, mut messages: Streaming<Bytes>) -> Result<Map<String, Value>, tonic::Status> {
        let Some(bytes) = messages.message().await? else {
            return Err(tonic::Status::invalid_argument("the call has no message"));
        };
        let message = DynamicMessage::decode(self.method.input(), bytes);
        let message = message.map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
        match convert::to_json(&message).map_err(|status| refused(&status))? {
            Value::Object(members) => Ok(members),
            _ => Ok(Map::new()),
        }
    }

    /// The HTTP call of a request, and the path for its idempotency key.
    fn http(&self, mut members: Map<String, Value>) -> Result<(Call, String), Status> {
        let named = match members.remove("cluster") {
            Some(Value::String(named)) => named,
            _ => self.cluster.config.id.clone(),
        };
        // Calls about a cluster have it in their path. One that has ended is unknown to others, and may be ended again.
        let cluster = match self.rpc.path.starts_with("clusters/") {
            true => self.cluster.clone(),
            false => self.lab.cluster(&named)?,
        };
        let HttpForm { path, query, body } = self.rpc.http(members, &named)?;
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let (lab, method) = (self.lab.clone(), self.rpc.method.clone());
        let key_path = format!("{GRPC_PREFIX}/{}/{named}/{}", self.rpc.name, path.join("/"));
        Ok((Call { lab, cluster, method, path, query, body, upload: None }, key_path))
    }

    /// The message of the answer with this JSON.
    fn message(&self, json: &Value) -> Result<Bytes, tonic::Status> {
        use prost::Message as _;
        let message = convert::of_json(&self.method.output(), json).map_err(|status| refused(&status))?;
        Ok(message.encode_to_vec().into())
    }
}
