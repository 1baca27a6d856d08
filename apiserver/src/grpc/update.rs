//! The gRPC calls Update and UpdateStatus.

use super::{Caller, Grpc, target, within_limit};
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::error::to_grpc;
use kstore_registry::request::{Action, Body, Target};

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::UpdateRequest>,
    subresource: Option<&'static str>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let (mut target, action) = action(&caller, request.into_inner())?;
    if let Some(name) = subresource {
        target.resource.subresource(name).ok_or_else(|| to_grpc(&Status::no_such_route()))?;
        target.subresource = name;
    }
    grpc.object(caller, target, action).await
}

pub(super) fn action(caller: &Caller, message: pb::UpdateRequest) -> Result<(Target, Action), tonic::Status> {
    let options = caller.options(message.dry_run, message.field_validation());
    let body = Body::json(within_limit(message.json)?);
    Ok((target(&caller.kinds, message.r#ref)?, Action::Update(body, options)))
}
