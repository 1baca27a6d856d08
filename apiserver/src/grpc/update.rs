//! Update and UpdateStatus.

use super::{Grpc, target, within_limit};
use crate::error::to_grpc;
use crate::request::{Action, Body, Target};
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;

pub(super) async fn serve(
    door: &Grpc,
    request: tonic::Request<pb::UpdateRequest>,
    subresource: Option<&'static str>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = door.caller(&request).await?;
    let message = request.into_inner();
    let mut target: Target = target(message.r#ref)?;
    if let Some(name) = subresource {
        target.resource.subresource(name).ok_or_else(|| to_grpc(&Status::no_such_route()))?;
        target.subresource = name;
    }
    let options = caller.options(message.dry_run, false);
    let body = Body::json(within_limit(message.json)?);
    door.object(caller, target, Action::Update(body, options)).await
}
