//! The gRPC call Bind: POST pods/NAME/binding, without the Binding object around it.

use super::{Caller, Grpc, target};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::request::{Action, Body, Target};
use serde_json::{Value, json};

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::BindRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let (target, action) = action(&caller, request.get_ref())?;
    grpc.object(caller, target, action).await
}

pub(super) fn action(caller: &Caller, message: &pb::BindRequest) -> Result<(Target, Action), tonic::Status> {
    let options = caller.options(false, pb::FieldValidation::Ignore);
    let body = Body::json(binding(message).to_string().into());
    Ok((target(&caller.kinds, Some(reference(message)))?, Action::Create(body, options)))
}

/// The subresource that a binding is posted to.
pub(super) fn reference(message: &pb::BindRequest) -> pb::Ref {
    pb::Ref {
        version: "v1".into(),
        resource: "pods".into(),
        namespace: message.namespace.clone(),
        name: message.pod.clone(),
        subresource: "binding".into(),
        ..pb::Ref::default()
    }
}

/// The Binding object of a message.
pub(super) fn binding(message: &pb::BindRequest) -> Value {
    let mut metadata = json!({"namespace": message.namespace, "name": message.pod});
    if !message.uid.is_empty() {
        metadata["uid"] = json!(message.uid);
    }
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": message.node});
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})
}
