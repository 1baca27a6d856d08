//! The gRPC call Patch, also of a subresource.

use super::{Caller, Grpc, target, within_limit};
use kstore_api::patch::PatchType;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::request::{Action, Target, WriteOptions};
use pb::patch_request::Type;

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::PatchRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let (target, action) = action(&caller, request.into_inner())?;
    grpc.object(caller, target, action).await
}

pub(super) fn action(caller: &Caller, message: pb::PatchRequest) -> Result<(Target, Action), tonic::Status> {
    let kind = match message.r#type() {
        Type::Merge => PatchType::Merge,
        Type::Json => PatchType::Json,
        Type::Strategic => PatchType::Strategic,
        Type::Apply => PatchType::Apply,
    };
    let options = caller.options(message.dry_run, message.field_validation());
    let options = WriteOptions { force: message.force, ..options };
    let patch = within_limit(message.patch)?;
    Ok((target(&caller.kinds, message.r#ref)?, Action::Patch(kind, patch, options)))
}
