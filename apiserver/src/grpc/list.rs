//! The gRPC call List, streamed in chunks that share the cache's bytes.

use super::{Caller, Grpc, Streamed, refusal, target};
use bytes::Bytes;
use kstore_api::resource::Resource;
use kstore_pipeline::pipeline::Answer;
use kstore_proto::kstore::v1 as pb;
use kstore_registry::cache::Filter;
use kstore_registry::conversion::in_version;
use kstore_registry::entry::Entry;
use kstore_registry::error::to_grpc;
use kstore_registry::registry::Listed;
use kstore_registry::request::{Action, ListAt, ListOptions, Target};
use kstore_registry::selectors::SelectorBudget;
use kstore_storage::limits;

pub(super) async fn serve(
    grpc: &Grpc,
    request: tonic::Request<pb::ListRequest>,
) -> Result<tonic::Response<Streamed<pb::ListChunk>>, tonic::Status> {
    let caller = grpc.caller(&request).await?;
    let message = request.into_inner();
    let target = target(&caller.kinds, message.r#ref)?;
    let filter =
        filter(&mut SelectorBudget::default(), &target, &message.label_selector, &message.field_selector)?;
    let filter = grpc.pipeline.shown(filter, message.include_uninitialized);
    let at = if message.revision > 0 { ListAt::Exact(message.revision) } else { ListAt::Newest };
    let options = ListOptions { filter, limit: message.limit, continue_token: message.r#continue, at };
    chunked(grpc, caller, target, Action::List(options)).await
}

/// Runs a request whose answer is a list.
pub(super) async fn chunked(
    grpc: &Grpc,
    caller: Caller,
    target: Target,
    action: Action,
) -> Result<tonic::Response<Streamed<pb::ListChunk>>, tonic::Status> {
    let resource = target.resource;
    let has_seat = caller.has_seat;
    let served = grpc.pipeline.serve_with(caller.request(target, action), has_seat).await;
    match served.map_err(|refused| refusal(&refused))?.answer {
        Answer::List(listed) => {
            let chunks = chunks(resource, listed);
            Ok(tonic::Response::new(Box::pin(futures::stream::iter(chunks.map(Ok)))))
        }
        _ => Err(tonic::Status::unimplemented("this list has no stored objects: use the REST API")),
    }
}

/// The filter of a message's selectors, which count against the bounds of the call.
pub(super) fn filter(
    budget: &mut SelectorBudget,
    target: &Target,
    labels: &str,
    fields: &str,
) -> Result<Filter, tonic::Status> {
    let parsed = budget.parse(target.resource, labels, fields);
    let (labels, fields) = parsed.map_err(|status| to_grpc(&status))?;
    Ok(Filter {
        resource: target.resource,
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        labels,
        fields,
        declared: None,
        includes_uninitialized: true,
    })
}

/// The object's JSON in the caller's version: the cached bytes if that is the stored version.
pub(super) fn bytes_of(resource: &'static Resource, entry: &Entry) -> Bytes {
    if entry.resource.is_same_version(resource) {
        entry.json()
    } else {
        in_version(resource, entry.parse()).to_string().into()
    }
}

/// Splits a list into chunks. Each is made when the stream reaches it, since objects of another version than the stored one are copies.
/// There is at least one chunk, since a chunk has the list's revision.
fn chunks(resource: &'static Resource, listed: Listed) -> impl Iterator<Item = pb::ListChunk> + Send {
    let number = listed.items.len().div_ceil(limits::LIST_CHUNK_ITEMS).max(1);
    (1..=number).map(move |chunk| {
        let entries = listed.items.iter().skip((chunk - 1) * limits::LIST_CHUNK_ITEMS);
        let items = entries.take(limits::LIST_CHUNK_ITEMS).map(|entry| bytes_of(resource, entry)).collect();
        let r#continue = if chunk == number { listed.continue_token.clone() } else { String::new() };
        pb::ListChunk { items, revision: listed.revision, r#continue }
    })
}
