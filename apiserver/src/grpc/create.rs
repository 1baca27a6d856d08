//! The gRPC call Create, also on a subresource.

use super::{Caller, Grpc, target, within_limit};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::request::{Action, Body, Target};

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::CreateRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let (target, action) = action(&caller, request.into_inner())?;
    grpc.object(caller, target, action).await
}

pub(super) fn action(caller: &Caller, message: pb::CreateRequest) -> Result<(Target, Action), tonic::Status> {
    let options = caller.options(message.dry_run, message.field_validation());
    let body = Body::json(within_limit(message.json)?);
    Ok((target(&caller.kinds, message.r#ref)?, Action::Create(body, options)))
}
