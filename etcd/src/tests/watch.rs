//! Tests of the Watch service.

use super::*;
use futures::stream;
use kstore_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use kstore_proto::etcd::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use kstore_store::Revision;
use tokio::sync::mpsc;
use tonic::Streaming;

/// Sender for the requests of a stream.
pub(super) type Requests = mpsc::Sender<WatchRequest>;

/// Opens a watch stream.
pub(super) async fn open(server: &Server) -> (Streaming<WatchResponse>, Requests) {
    let (sender, mut receiver) = mpsc::channel(16);
    let requests = stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (server.watch().watch(requests).await.unwrap().into_inner(), sender)
}

async fn send(requests: &Requests, union: RequestUnion) {
    requests.send(WatchRequest { request_union: Some(union) }).await.unwrap();
}

pub(super) fn request(create: WatchCreateRequest) -> WatchRequest {
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

pub(super) async fn create(requests: &Requests, create: WatchCreateRequest) {
    send(requests, RequestUnion::CreateRequest(create)).await;
}

async fn ask_progress(requests: &Requests) {
    send(requests, RequestUnion::ProgressRequest(WatchProgressRequest {})).await;
}

pub(super) fn on(key: &'static str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.into(), ..Default::default() }
}

fn from(key: &'static str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest { start_revision, ..on(key) }
}

async fn next(stream: &mut Streaming<WatchResponse>) -> WatchResponse {
    stream.message().await.unwrap().unwrap()
}

/// Formats events as `type key=value@revision`, with the previous version.
fn shown(response: &WatchResponse) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let show = |event: &kstore_proto::etcd::mvccpb::Event| {
        let kv = event.kv.as_ref().unwrap();
        let prev = event.prev_kv.as_ref().map_or(String::new(), |prev| format!(" was {}", text(&prev.value)));
        format!("{:?} {}={}@{}{prev}", event.r#type(), text(&kv.key), text(&kv.value), kv.mod_revision)
    };
    response.events.iter().map(show).collect()
}

#[tokio::test]
async fn events_follow_the_creation_with_previous_versions_if_requested() {
    let server = Server::start().await;
    server.put("k", "1").await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, WatchCreateRequest { prev_kv: true, ..on("k") }).await;
    create(&requests, on("k")).await;
    for id in [0, 1] {
        let created = next(&mut stream).await;
        assert_eq!((created.watch_id, created.created, created.header.unwrap().revision), (id, true, 2));
    }
    server.put("other", "x").await;
    server.put("k", "2").await;
    let mut both = [next(&mut stream).await, next(&mut stream).await];
    both.sort_by_key(|response| response.watch_id);
    assert_eq!(shown(&both[0]), ["Put k=2@4 was 1"]);
    assert_eq!(shown(&both[1]), ["Put k=2@4"]);
    assert!(both.iter().all(|response| response.header.unwrap().revision == 4));

    server.kv().delete_range(delete("k", "")).await.unwrap();
    let mut both = [next(&mut stream).await, next(&mut stream).await];
    both.sort_by_key(|response| response.watch_id);
    assert_eq!(shown(&both[0]), ["Delete k=@5 was 2"]);
}

#[tokio::test]
async fn a_watch_resumes_in_history_and_continues_live() {
    let server = Server::start().await;
    for value in ["1", "2", "3"] {
        server.put("k", value).await;
    }
    let (mut stream, requests) = open(&server).await;
    create(&requests, from("k", 3)).await;
    assert!(next(&mut stream).await.created);
    let history = next(&mut stream).await;
    assert_eq!(shown(&history), ["Put k=2@3", "Put k=3@4"]);
    assert_eq!(history.header.unwrap().revision, 4);
    server.put("k", "4").await;
    assert_eq!(shown(&next(&mut stream).await), ["Put k=4@5"]);
}

#[tokio::test]
async fn long_history_arrives_a_thousand_revisions_at_a_time() {
    let server = Server::start().await;
    for _ in 0..2_300 {
        server.store.txn(kstore_store::Txn::of(vec![kstore_store::Op::put("k", "v")])).await.unwrap();
    }
    let (mut stream, requests) = open(&server).await;
    create(&requests, from("k", 2)).await;
    assert!(next(&mut stream).await.created);
    for expected in [1_000, 1_000, 300] {
        let response = next(&mut stream).await;
        assert_eq!((response.events.len(), response.header.unwrap().revision), (expected, 2_301));
    }
}

#[tokio::test]
async fn filters_drop_events_and_whole_responses() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, WatchCreateRequest { filters: vec![0], range_end: "\0".into(), ..on("a") }).await;
    assert!(next(&mut stream).await.created);
    server.put("b", "1").await;
    server.kv().delete_range(delete("b", "")).await.unwrap();
    assert_eq!(shown(&next(&mut stream).await), ["Delete b=@3"]);
}

#[tokio::test]
async fn a_compacted_start_is_created_and_then_cancelled_with_the_revision() {
    let server = Server::start().await;
    for value in ["1", "2", "3"] {
        server.put("k", value).await;
    }
    server.kv().compact(pb::CompactionRequest { revision: 3, physical: false }).await.unwrap();
    let (mut stream, requests) = open(&server).await;
    create(&requests, from("k", 2)).await;
    assert!(next(&mut stream).await.created);
    let cancelled = next(&mut stream).await;
    assert_eq!((cancelled.watch_id, cancelled.canceled, cancelled.compact_revision), (0, true, 3));
    assert_eq!((cancelled.cancel_reason.as_str(), cancelled.header.unwrap().revision), ("", 0));
    create(&requests, from("k", 3)).await;
    assert_eq!(next(&mut stream).await.watch_id, 1);
    assert_eq!(shown(&next(&mut stream).await), ["Put k=2@3", "Put k=3@4"]);
}

#[tokio::test]
async fn refused_watches_are_created_and_cancelled_at_once_under_no_id() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, WatchCreateRequest { watch_id: 5, ..on("k") }).await;
    assert_eq!(next(&mut stream).await.watch_id, 5);
    for (request, reason) in [
        (
            WatchCreateRequest { watch_id: 5, ..on("k") },
            "mvcc: duplicate watch ID provided on the WatchStream",
        ),
        (WatchCreateRequest { range_end: "a".into(), ..on("k") }, "mvcc: watcher range is empty"),
        (from("k", -1), "etcdserver: mvcc: required revision has been compacted"),
    ] {
        create(&requests, request).await;
        let refused = next(&mut stream).await;
        assert!(refused.created && refused.canceled && refused.watch_id == -1);
        assert_eq!(refused.cancel_reason, reason);
    }
}

#[tokio::test]
async fn a_cancelled_watch_gets_no_events_and_an_unknown_one_no_response() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, on("k")).await;
    assert!(next(&mut stream).await.created);
    let cancel = |watch_id| RequestUnion::CancelRequest(WatchCancelRequest { watch_id });
    send(&requests, cancel(77)).await;
    send(&requests, cancel(0)).await;
    let cancelled = next(&mut stream).await;
    assert!(cancelled.canceled && cancelled.watch_id == 0 && cancelled.compact_revision == 0);
    server.put("k", "1").await;
    // No id is given twice.
    create(&requests, from("k", 2)).await;
    assert_eq!(next(&mut stream).await.watch_id, 1);
    assert_eq!(next(&mut stream).await.watch_id, 1);
}

#[tokio::test]
async fn progress_covers_all_watches_of_the_stream_and_follows_their_events() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    // Without watches there is no response to a progress request, as the next response shows.
    ask_progress(&requests).await;
    create(&requests, on("k")).await;
    create(&requests, on("other")).await;
    assert_eq!((next(&mut stream).await.watch_id, next(&mut stream).await.watch_id), (0, 1));
    server.put("k", "1").await;
    server.put("x", "1").await;
    ask_progress(&requests).await;
    assert_eq!(shown(&next(&mut stream).await), ["Put k=1@2"]);
    let progress = next(&mut stream).await;
    assert_eq!((progress.watch_id, progress.header.unwrap().revision), (-1, 3));
    assert!(progress.events.is_empty() && !progress.created && !progress.canceled);

    // A watch that starts in the future has no progress, so the stream has none either.
    create(&requests, from("k", 6)).await;
    ask_progress(&requests).await;
    assert!(next(&mut stream).await.created);
    server.put("k", "2").await;
    assert_eq!(shown(&next(&mut stream).await), ["Put k=2@4"]);
    server.put("x", "2").await;
    // At 5 the watch from 6 has not started; etcd does not respond either.
    ask_progress(&requests).await;
    server.put("x", "3").await;
    ask_progress(&requests).await;
    // A response to the earlier request may arrive first. It must not be below what was sent.
    let mut reported = Revision(4);
    while reported < Revision(6) {
        let progress = next(&mut stream).await;
        let revision = Revision(progress.header.unwrap().revision);
        assert!(
            progress.watch_id == -1 && progress.events.is_empty() && revision >= reported,
            "{progress:?}"
        );
        reported = revision;
    }
    assert_eq!(reported, Revision(6));
}

#[tokio::test]
async fn watches_continue_after_the_client_closed_its_side() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, on("k")).await;
    drop(requests);
    assert!(next(&mut stream).await.created);
    server.put("k", "1").await;
    assert_eq!(shown(&next(&mut stream).await), ["Put k=1@2"]);
}

/// Advances the time. It is paused only meanwhile, because the connection needs running time.
async fn leap() {
    tokio::time::pause();
    tokio::time::advance(crate::limits::PROGRESS_EVERY).await;
    tokio::time::resume();
}

#[tokio::test]
async fn an_idle_watch_gets_progress_notifications_if_requested() {
    let server = Server::start().await;
    let (mut stream, requests) = open(&server).await;
    create(&requests, WatchCreateRequest { progress_notify: true, ..on("k") }).await;
    create(&requests, on("k")).await;
    assert!(next(&mut stream).await.created && next(&mut stream).await.created);
    leap().await;
    let quiet = next(&mut stream).await;
    assert_eq!((quiet.watch_id, quiet.events.len(), quiet.header.unwrap().revision), (0, 0, 1));
    server.put("k", "1").await;
    for _ in 0..2 {
        assert_eq!(shown(&next(&mut stream).await), ["Put k=1@2"]);
    }
    // The event counts as this interval's notification.
    leap().await;
    server.put("other", "1").await;
    leap().await;
    let quiet = next(&mut stream).await;
    assert_eq!((quiet.watch_id, quiet.events.len(), quiet.header.unwrap().revision), (0, 0, 3));
}
