//! Clients that send little and hold much, against the program: answers that nobody takes, bodies that are only announced,
//! names without end. The server's memory stays bounded, and health checks and writes of others are answered meanwhile.

use super::sockets::https;
use crate::SERVER;
use futures::future::join_all;
use kstore_proto::kstore::v1 as pb;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Https, Launch, Server, manifests};
use pb::kstore_client::KstoreClient;
use pb::tunnel_up::Message as Up;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use tower::ServiceExt as _;

/// Bytes by which the server may grow under an attack.
const GROWTH: usize = 192 << 20;

fn start(dir: &std::path::Path) -> Server {
    Launch::in_memory(SERVER, dir).args(&["--nodes", "0"]).start().unwrap()
}

/// Checks that others are served and that memory is bounded.
async fn check(server: &Server, https: &Https, (name, before): (&str, usize)) {
    let live = timeout(PATIENCE, https.call("GET", "/livez", "")).await.expect("the server lives");
    assert_eq!(live.code, 200);
    let map = manifests::config_map(name, "1").to_string();
    let written = https.call("POST", "/api/v1/namespaces/default/configmaps", &map);
    assert_eq!(timeout(PATIENCE, written).await.expect("others write").code, 201);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH, "{name}: the server has grown by {grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_that_nobody_takes_hold_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let https = https(&server);
    // The first document is built.
    assert_eq!(https.call("GET", "/openapi/v2", "").await.code, 200);
    let before = server.resident_bytes();
    let mut held = Vec::new();
    for _ in 0..4 {
        let channel = https.http2().await;
        let get = |_| {
            let request = http::Request::get("https://kstore/openapi/v2").body(tonic::body::Body::empty());
            channel.clone().oneshot(request.unwrap())
        };
        let answers = timeout(PATIENCE, join_all((0..200).map(get))).await.expect("answers begin");
        held.push(answers);
    }
    check(&server, &https, ("documents", before)).await;
    drop(held);
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announced_bodies_do_not_keep_others_from_writing() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let https = https(&server);
    let before = server.resident_bytes();
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: kstore\r\nContent-Type: application/json\r\nContent-Length: 3145728\r\n\r\n"
    );
    let mut held = Vec::new();
    for _ in 0..60 {
        let mut socket = https.try_connect().await.unwrap();
        socket.write_all(head.as_bytes()).await.unwrap();
        held.push(socket);
    }
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let asked = tokio::time::Instant::now();
    check(&server, &https, ("bodies", before)).await;
    // Those that wait for the announced bytes wait for half a minute.
    assert!(asked.elapsed() < std::time::Duration::from_secs(20), "{:?}", asked.elapsed());
    drop(held);
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_names_of_a_tunnel_without_credentials_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let https = https(&server);
    let before = server.resident_bytes();
    let stranger = https.without_certificate().http2().await;
    let attack = (0..8).map(|_| {
        let names = vec![String::new(); 1_400_000];
        let hello = pb::TunnelUp { message: Some(Up::Nodes(pb::TunnelNodes { names })) };
        let mut client = KstoreClient::new(stranger.clone());
        async move { client.tunnel(futures::stream::iter([hello])).await.is_err() }
    });
    let (refused, ()) = tokio::join!(join_all(attack), check(&server, &https, ("names", before)));
    assert!(refused.iter().all(|refused| *refused));
    check(&server, &https, ("names-after", before)).await;
    server.terminate();
}
