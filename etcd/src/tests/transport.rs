//! Tests of the transport: what etcd's clients expect of a connection, and the HTTP pages.

use super::*;
use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn one_connection_serves_thousands_of_streams_and_survives_their_end() {
    let server = Server::start().await;
    let open = (0..3_000).map(|_| async {
        let mut client = server.watch();
        let create = super::watch::request(super::watch::on("k"));
        let requests = stream::iter([create]).chain(stream::pending());
        let mut stream = client.watch(requests).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().unwrap().created);
        stream
    });
    let streams = join_all(open).await;
    assert_eq!(server.put("k", "1").await, 2);
    // Drops all streams at once, as a client does that ends.
    drop(streams);
    assert_eq!(server.put("k", "2").await, 3);
}

#[tokio::test]
async fn a_burst_of_cancelled_calls_does_not_end_the_connection() {
    let server = Server::start().await;
    for _ in 0..2_000 {
        let mut client = server.kv();
        let mut call = std::pin::pin!(client.range(range("k", "")));
        // Started and dropped.
        assert!(futures::poll!(call.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.put("k", "1").await, 2);
}

/// The response to a plain HTTP/1.1 request.
pub(super) async fn page(server: &Server, request: &str) -> String {
    let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn etcds_pages_are_on_the_same_port() {
    let server = Server::start().await;
    server.put("k", "1").await;
    for (request, status, body) in [
        ("GET /version", "200", r#"{"etcdserver":"3.6.0","#),
        ("GET /health", "200", r#"{"health":"true","reason":""}"#),
        ("GET /livez", "200", "\r\n\r\nok\n"),
        ("GET /readyz?verbose", "200", "[+]data_corruption ok\n"),
        ("GET /readyz/linearizable_read", "200", "ok\n"),
        ("GET /metrics", "200", "etcd_debugging_mvcc_current_revision 2\n"),
        ("GET /metrics", "200", r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Put","#),
        ("GET /nothing", "404", "404 page not found"),
        ("POST /health", "405", "Method Not Allowed"),
        // Calls need HTTP/2, whose connections have budgets.
        ("POST /etcdserverpb.KV/Range", "404", "404 page not found"),
    ] {
        let answer = page(&server, request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(body),
            "{request}: {answer}"
        );
    }
}

#[tokio::test]
async fn an_alarm_fails_the_health_pages_unless_excluded() {
    let server = Server::start().await;
    server.store.alarm_raise(kstore_store::Alarm::Corrupt).await.unwrap();
    for (request, expected) in [
        ("GET /health", r#"{"health":"false","reason":"ALARM CORRUPT"}"#),
        ("GET /health?exclude=CORRUPT", r#"{"health":"true","reason":""}"#),
        ("GET /livez", "ok\n"),
        ("GET /readyz", "[-]data_corruption failed: alarm activated: CORRUPT\n"),
        ("GET /readyz?exclude=data_corruption", "\r\n\r\nok\n"),
    ] {
        let answer = page(&server, request).await;
        assert!(answer.contains(expected), "{request}: {answer}");
    }
}

#[tokio::test]
async fn health_is_also_served_over_grpc() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let server = Server::start().await;
    let mut client = HealthClient::new(server.channel.clone());
    let answer = client.check(HealthCheckRequest { service: String::new() }).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
}

#[tokio::test]
async fn a_timed_out_write_is_done_completely_or_not_at_all() {
    let server = Server::start().await;
    let mut late = 0;
    for round in 0..200 {
        let value: bytes::Bytes = format!("{round}").into();
        let both = ["a", "b"].map(|key| pb::PutRequest { value: value.clone(), ..put(key, "") });
        let success = both.map(|put| op(Request::RequestPut(put))).to_vec();
        let mut request = tonic::Request::new(pb::TxnRequest { success, ..Default::default() });
        request.set_timeout(std::time::Duration::from_micros(round * 5));
        late += u32::from(server.kv().txn(request).await.is_err());
        let kvs = server.kv().range(range("a", "c")).await.unwrap().into_inner().kvs;
        assert!(kvs.is_empty() || kvs.len() == 2 && kvs[0].value == kvs[1].value, "{kvs:?}");
    }
    assert!(late > 0, "some were late");
}
