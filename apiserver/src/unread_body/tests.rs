//! Tests of the bodies that are discarded, and of the end of discarding.

use super::*;
use futures::channel::{mpsc, oneshot};
use http_body_util::StreamBody;
use kstore_storage::limits::{UNREAD_BODY_BYTES, UNREAD_BODY_TIME};
use std::convert::Infallible;

type Sender = mpsc::UnboundedSender<Result<Frame<Bytes>, Infallible>>;

/// A body that the test writes, in its wrapper; the receiver is notified when the body itself is dropped.
fn body(headers: &HeaderMap, stop: &CancellationToken) -> (Sender, impl Send + use<>, oneshot::Receiver<()>) {
    let (frames, received) = mpsc::unbounded();
    let (dropped, hears) = oneshot::channel::<()>();
    let body = StreamBody::new(received).map_frame(move |frame| {
        let _alive = &dropped;
        frame
    });
    (frames, DiscardingBody::new(headers, body, stop.clone()), hears)
}

fn send(frames: &Sender, bytes: usize) -> bool {
    frames.unbounded_send(Ok(Frame::data(vec![0; bytes].into()))).is_ok()
}

#[tokio::test(start_paused = true)]
async fn unread_bodies_are_discarded_to_their_end() {
    let (frames, wrapped, ended) = body(&HeaderMap::new(), &CancellationToken::new());
    drop(wrapped);
    assert!(send(&frames, 1000) && send(&frames, 1000));
    drop(frames);
    assert!(ended.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn discarding_is_bounded_in_bytes_and_time_and_ends_with_the_server() {
    let (frames, wrapped, ended) = body(&HeaderMap::new(), &CancellationToken::new());
    drop(wrapped);
    assert!(send(&frames, UNREAD_BODY_BYTES + 1));
    assert!(ended.await.is_err(), "too many bytes");

    let clock = kstore_nondet::Nondet::simulated(1).clock;
    let before = clock.now();
    let (frames, wrapped, ended) = body(&HeaderMap::new(), &CancellationToken::new());
    drop(wrapped);
    assert!(ended.await.is_err(), "too long a wait");
    assert!(clock.now().duration_since(before).unsigned_abs() >= UNREAD_BODY_TIME);
    assert!(!send(&frames, 1));

    let stop = CancellationToken::new();
    let (_frames, wrapped, ended) = body(&HeaderMap::new(), &stop);
    drop(wrapped);
    stop.cancel();
    assert!(ended.await.is_err(), "the server stops");
}

#[tokio::test(start_paused = true)]
async fn bodies_of_clients_that_expect_100_continue_are_not_discarded() {
    let headers = HeaderMap::from_iter([(EXPECT, "100-continue".parse().unwrap())]);
    let (frames, wrapped, _) = body(&headers, &CancellationToken::new());
    drop(wrapped);
    assert!(!send(&frames, 1), "the body is gone at once");
}
