//! Patch.

use super::{Grpc, target, within_limit};
use crate::request::Action;
use kstore_api::patch::PatchType;
use kstore_proto::kstore::v1 as pb;
use pb::patch_request::Type;

pub(super) async fn serve(
    door: &Grpc,
    request: tonic::Request<pb::PatchRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = door.caller(&request).await?;
    let message = request.into_inner();
    let kind = match message.r#type() {
        Type::Merge => PatchType::Merge,
        Type::Json => PatchType::Json,
        Type::Strategic => PatchType::Strategic,
        Type::Apply => PatchType::Apply,
    };
    let options = caller.options(message.dry_run, message.force);
    let patch = within_limit(message.patch)?;
    door.object(caller, target(message.r#ref)?, Action::Patch(kind, patch, options)).await
}
