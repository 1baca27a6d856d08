//! A watch stream: a task that decodes the client's requests and passes on the session's responses.

use super::bridge::{Bridge, RequestBody, ResponseSender};
use super::call::{self, PREFIX};
use super::stream::{ResponseEnd, ResponsePart};
use crate::budget::StreamBudget;
use crate::limits::ANSWER_BYTES;
use crate::node::Node;
use crate::watch::{Requests, Session};
use bytes::{Buf, Bytes, BytesMut};
use futures::stream;
use kstore_proto::etcd::etcdserverpb::WatchRequest;
use prost::Message;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tonic::Status;

/// The path of the Watch method.
pub(super) const PATH: &str = "/etcdserverpb.Watch/Watch";

/// Starts a watch stream.
pub(super) fn open(node: Node, complete: bool, response: ResponseSender, budget: StreamBudget) -> Bridge {
    Bridge::begin(complete, |body| serve(Session::new(node, requests(body)), response, budget))
}

async fn serve(mut session: Session, response: ResponseSender, budget: StreamBudget) {
    let room = Arc::new(Semaphore::new(ANSWER_BYTES));
    let mut part = ResponsePart::Accepted;
    while response.send(part).await {
        part = match session.next().await {
            Ok(bytes) => data(bytes, &room, &budget).await,
            Err(status) => {
                response.send(ResponsePart::ResponseEnd(ResponseEnd::Failed(status))).await;
                return;
            }
        };
    }
}

/// Waits until the client has taken enough of the earlier responses.
async fn data(bytes: Bytes, room: &Arc<Semaphore>, budget: &StreamBudget) -> ResponsePart {
    let mut permits = budget.acquire(bytes.len()).await;
    let cost = bytes.len().min(ANSWER_BYTES) as u32;
    permits.extend(room.clone().acquire_many_owned(cost).await.ok());
    ResponsePart::Data(bytes, permits)
}

/// Decodes the messages of a body.
fn requests(body: RequestBody) -> Requests {
    let state = Some((body, BytesMut::new()));
    Box::pin(stream::unfold(state, |state| async {
        let (mut body, mut buffer) = state?;
        loop {
            match message(&mut buffer) {
                Ok(Some(request)) => return Some((Ok(request), Some((body, buffer)))),
                Ok(None) => buffer.extend_from_slice(&body.next().await?),
                Err(status) => return Some((Err(status), None)),
            }
        }
    }))
}

/// Splits a message off the front, if it is complete.
fn message(buffer: &mut BytesMut) -> Result<Option<WatchRequest>, Status> {
    let Some(len) = call::announced(buffer)? else { return Ok(None) };
    if buffer.len() < PREFIX + len {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    let request = WatchRequest::decode(buffer.split_to(len).freeze());
    let request =
        request.map_err(|error| Status::internal(format!("grpc: error unmarshalling request: {error}")));
    request.map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_proto::etcd::etcdserverpb::WatchCancelRequest;
    use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;

    #[test]
    fn requests_decode_however_they_are_split() {
        let request = |watch_id| WatchRequest {
            request_union: Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })),
        };
        let mut whole = Vec::new();
        for id in [1, 300] {
            let bytes = request(id).encode_to_vec();
            whole.extend_from_slice(&[0, 0, 0, 0, bytes.len() as u8]);
            whole.extend_from_slice(&bytes);
        }
        for cut in 1..whole.len() {
            let (mut buffer, mut seen) = (BytesMut::new(), Vec::new());
            for piece in whole.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(request) = message(&mut buffer).unwrap() {
                    seen.push(request);
                }
            }
            assert_eq!(seen, [request(1), request(300)]);
        }
        assert!(message(&mut BytesMut::from(&[1, 0, 0, 0, 0][..])).is_err());
        assert!(message(&mut BytesMut::from(&[0, 255, 0, 0, 0][..])).is_err());
    }

    /// The fuzz target of this name without a fuzzer.
    #[test]
    fn the_kept_corpus_of_watch_requests_decodes_as_it_encodes() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/watch_request");
        let mut decoded = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            if let Ok(request) = WatchRequest::decode(&bytes[..]) {
                assert_eq!(WatchRequest::decode(&request.encode_to_vec()[..]), Ok(request));
                decoded += 1;
            }
        }
        assert!(decoded > 4, "the corpus was found: {decoded} requests");
    }
}
