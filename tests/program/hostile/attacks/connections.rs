//! Connections and streams that are held: answers that are never taken, windows that are never opened, watches without an end.

use super::target::{Target, User, Writer};
use super::{Attack, Scale};
use crate::hostile::frames::{self, END_STREAM};
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use kstore_tests::Https;
use kstore_tests::wait::PATIENCE;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

/// A connection that has sent GETs of a path and takes nothing of their answers.
async fn stalled(
    https: &Https,
    (path, authorization): (&str, Option<&str>),
    streams: u32,
) -> std::io::Result<(TlsStream<TcpStream>, usize)> {
    let mut tls = https.try_connect().await?;
    let mut bytes = [frames::PREFACE, &frames::initial_window(0)].concat();
    let mut fields =
        vec![(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "kstore")];
    fields.extend(authorization.map(|value| ("authorization", value)));
    for number in 0..streams {
        bytes.extend(frames::head(2 * number + 1, END_STREAM, &fields));
    }
    tls.write_all(&bytes).await?;
    Ok((tls, bytes.len()))
}

/// Holds stalled GETs of a path for the time of the attack.
async fn hold_stalled(target: &Target, scale: Scale, eve: &User, path: &str, connections: usize) -> usize {
    target.begin(Writer::Tenant).await;
    let mut held = Vec::new();
    for _ in 0..connections {
        held.push(stalled(&eve.https, (path, Some(&eve.authorization)), 200).await.unwrap());
    }
    sleep(scale.time()).await;
    held.iter().map(|(_, sent)| sent).sum()
}

/// Documents of megabytes that are never taken.
pub(super) const STALLED_DOCUMENTS: Attack = Attack::new("stalled documents", 192, stalled_documents);

fn stalled_documents(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "view").await;
        // The first document is built.
        assert_eq!(target.admin.call("GET", "/openapi/v2", "").await.code, 200);
        hold_stalled(target, scale, &eve, "/openapi/v2", 4).await
    }
    .boxed_local()
}

/// Objects of a megabyte that are never taken.
pub(super) const STALLED_OBJECTS: Attack = Attack::new("stalled objects", 192, stalled_objects);

fn stalled_objects(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "view").await;
        let map = json!({"metadata": {"name": "large"}, "data": {"x": "x".repeat(1_000_000)}});
        target.create(&eve.path("configmaps"), &map).await;
        hold_stalled(target, scale, &eve, &eve.path("configmaps/large"), 3).await
    }
    .boxed_local()
}

/// Limit of open files in attacks on connections, and connections beyond those that it allows.
const FILES: u32 = 512;
const CONNECTIONS: usize = 430;

/// Connections without credentials whose answers have no window.
pub(super) const WINDOW_ZERO: Attack =
    Attack::new("connections without a window", 192, window_zero).with_files(FILES);

fn window_zero(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let stranger = target.admin.without_certificate();
        target.begin(Writer::Tenant).await;
        let held = hold(scale, CONNECTIONS, |_| {
            let stranger = stranger.clone();
            async move { stalled(&stranger, ("/version", None), 1).await.ok() }
        });
        held.await
    }
    .boxed_local()
}

/// Opens connections, some at a time, and holds them for the time of the attack. Returns the bytes that they sent.
async fn hold<F>(scale: Scale, connections: usize, open: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = Option<(TlsStream<TcpStream>, usize)>> + Send + 'static,
{
    let mut opening = JoinSet::new();
    let mut held = Vec::new();
    for number in 0..connections {
        opening.spawn(timeout(PATIENCE, open(number)));
        if opening.len() >= 16 {
            held.extend(opening.join_next().await.and_then(|opened| opened.unwrap().ok().flatten()));
        }
    }
    held.extend(opening.join_all().await.into_iter().filter_map(|opened| opened.ok().flatten()));
    sleep(scale.time()).await;
    held.iter().map(|(_, sent)| sent).sum()
}

/// Live watches of several users that take all connections: their clients take everything, so that none may be closed.
pub(super) const HELD_BY_USERS: Attack =
    Attack::new("connections of ten users", 256, held_by_users).with_files(FILES);

fn held_by_users(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const USERS: usize = 10;
    async move {
        let mut users = Vec::new();
        for number in 0..USERS {
            users.push(target.user(&format!("eve-{number}"), "view").await);
        }
        target.begin(Writer::Administrator).await;
        let held = hold(scale, CONNECTIONS, |number| {
            let eve = users[number % USERS].clone();
            async move {
                let watch = eve.request(("GET", &eve.path("configmaps?watch=true")), "application/json", "");
                let mut tls = eve.https.try_connect().await.ok()?;
                tls.write_all(watch.replace("Connection: close\r\n", "").as_bytes()).await.ok()?;
                Some((tls, watch.len()))
            }
        });
        held.await
    }
    .boxed_local()
}

/// Endless health watches without credentials.
///
/// All streams of a connection but a few are refused, after they arrived at once: a program that is not optimised holds some tens of KiB
/// for each of them meanwhile.
pub(super) const HEALTH_WATCHES: Attack = Attack::new("health watches", 320, health_watches);

fn health_watches(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const STREAMS: u32 = 250;
    async move {
        let stranger = target.admin.without_certificate();
        target.begin(Writer::Tenant).await;
        let held = hold(scale, scale.number(20, 120), |_| {
            let stranger = stranger.clone();
            async move {
                let mut tls = stranger.try_connect().await.ok()?;
                let mut bytes = [frames::PREFACE, &frames::initial_window(65_535)].concat();
                let fields = [
                    (":method", "POST"),
                    (":scheme", "https"),
                    (":path", "/grpc.health.v1.Health/Watch"),
                    (":authority", "kstore"),
                    ("content-type", "application/grpc"),
                    ("te", "trailers"),
                ];
                for number in 0..STREAMS {
                    bytes.extend(frames::head(2 * number + 1, 0, &fields));
                    bytes.extend(frames::frame(frames::DATA, END_STREAM, 2 * number + 1, &[0; 5]));
                }
                tls.write_all(&bytes).await.ok()?;
                Some((tls, bytes.len()))
            }
        });
        held.await
    }
    .boxed_local()
}
