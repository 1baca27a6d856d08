//! The gRPC calls Delete and DeleteCollection.

use super::list::{chunked, filter};
use super::{Caller, Grpc, Streamed, target, within_limit};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::decode::delete_options;
use kstore_registry::error::to_grpc;
use kstore_registry::request::{Action, DeleteOptions, ListAt, ListOptions, Target, WriteOptions};
use kstore_registry::selectors::SelectorBudget;

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::DeleteRequest>,
) -> Result<tonic::Response<pb::Object>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let (target, action) = action(&caller, request.into_inner())?;
    grpc.object(caller, target, action).await
}

pub(super) fn action(caller: &Caller, message: pb::DeleteRequest) -> Result<(Target, Action), tonic::Status> {
    let (delete, options) = options(caller, message.options_json)?;
    Ok((target(&caller.kinds, message.r#ref)?, Action::Delete(delete, options)))
}

pub(super) async fn collection(
    grpc: &Grpc,
    request: tonic::Request<pb::DeleteCollectionRequest>,
) -> Result<tonic::Response<Streamed<pb::ListChunk>>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let message = request.into_inner();
    let target = target(&caller.kinds, message.r#ref)?;
    let (delete, options) = options(&caller, message.options_json)?;
    let filter =
        filter(&mut SelectorBudget::default(), &target, &message.label_selector, &message.field_selector)?;
    let list =
        ListOptions { filter, limit: message.limit, continue_token: message.r#continue, at: ListAt::Newest };
    chunked(grpc, caller, target, Action::DeleteCollection(list, delete, options)).await
}

fn options(caller: &Caller, json: Bytes) -> Result<(DeleteOptions, WriteOptions), tonic::Status> {
    let read = read(&within_limit(json)?);
    let (delete, dry_run) = read.map_err(|status| to_grpc(&status))?;
    Ok((delete, caller.options(dry_run, pb::FieldValidation::Ignore)))
}

fn read(json: &[u8]) -> Result<(DeleteOptions, bool), Status> {
    if json.is_empty() {
        return Ok((DeleteOptions::default(), false));
    }
    let tree = serde_json::from_slice(json)
        .map_err(|e| Status::bad_request(format!("options_json is not JSON: {e}")))?;
    Ok((delete_options::parse(&tree)?, delete_options::is_dry_run(&tree)?))
}
