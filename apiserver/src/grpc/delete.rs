//! Delete.

use super::{Grpc, target, within_limit};
use crate::error::to_grpc;
use crate::request::{Action, DeleteOptions};
use crate::rest;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;

pub(super) async fn serve(
    door: &Grpc,
    request: tonic::Request<pb::DeleteRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = door.caller(&request).await?;
    let message = request.into_inner();
    let delete = delete_options(&within_limit(message.options_json)?).map_err(|status| to_grpc(&status))?;
    let options = caller.options(false, false);
    door.object(caller, target(message.r#ref)?, Action::Delete(delete, options)).await
}

fn delete_options(json: &[u8]) -> Result<DeleteOptions, Status> {
    if json.is_empty() {
        return Ok(DeleteOptions::default());
    }
    let tree = serde_json::from_slice(json)
        .map_err(|e| Status::bad_request(format!("options_json is not JSON: {e}")))?;
    rest::delete_options_of(&tree)
}
