//! Create.

use super::{Grpc, target, within_limit};
use crate::request::{Action, Body};
use kstore_proto::kstore::v1 as pb;

pub(super) async fn serve(
    door: &Grpc,
    request: tonic::Request<pb::CreateRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = door.caller(&request).await?;
    let message = request.into_inner();
    let options = caller.options(message.dry_run, false);
    let body = Body::json(within_limit(message.json)?);
    door.object(caller, target(message.r#ref)?, Action::Create(body, options)).await
}
