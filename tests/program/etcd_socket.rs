//! The etcd API on a Unix socket: access control, and the lifetime of the socket file.

use crate::SERVER;
use hyper_util::rt::TokioIo;
use kstore_proto::etcd::etcdserverpb::RangeRequest;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_tests::Launch;
use kstore_tests::wait::PATIENCE;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::transport::Endpoint;

/// An apiserver alone, in memory, with umask 0 and its etcd API at `listen`.
fn apiserver(dir: &Path, listen: &str) -> Launch {
    let open = "umask 0; exec \"$0\" \"$@\"";
    let args = ["-c", open, SERVER, "--listen", "127.0.0.1:0", "--in-memory", "--components", "apiserver"];
    Launch::new("sh", dir).args(&args).args(&["--etcd-listen", listen])
}

/// The number of keys, read over the socket.
async fn keys(socket: &Path) -> Result<i64, String> {
    let path = PathBuf::from(socket);
    let connect = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connect).await.map_err(|error| error.to_string())?;
    let all = RangeRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        count_only: true,
        ..Default::default()
    };
    let answer = KvClient::new(channel).range(all).await.map_err(|status| status.to_string())?;
    Ok(answer.into_inner().count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_etcd_socket_is_private_to_its_owner_and_removed_with_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("etcd.sock");
    let url = format!("unix://{}", socket.display());
    let server = apiserver(dir.path(), &url).start().unwrap();
    let metadata = std::fs::metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o7777, 0o600, "whatever the umask");
    assert!(keys(&socket).await.unwrap() > 0, "the objects of a fresh cluster are keys");

    let refusal = apiserver(dir.path(), &url).start().err().unwrap();
    assert!(refusal.contains("another process listens on") && refusal.contains("etcd.sock"), "{refusal}");
    assert!(keys(&socket).await.is_ok(), "the first server still serves");

    // A leftover socket file is replaced.
    server.kill();
    assert!(socket.exists() && keys(&socket).await.is_err());
    let server = apiserver(dir.path(), &url).start().unwrap();
    assert!(keys(&socket).await.unwrap() > 0);
    assert!(server.terminate().success());
    assert!(!socket.exists(), "removed at the end");
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(!log.contains("Secrets included"), "{log}");
}

/// The page `/metrics`, read over the socket.
async fn metrics(socket: &Path) -> std::io::Result<String> {
    let mut connection = UnixStream::connect(socket).await?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut page = String::new();
    connection.read_to_string(&mut page).await?;
    Ok(page)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_on_a_socket_exports_component_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("etcd.sock");
    let url = format!("unix://{}", socket.display());
    let alone = ["--components", "store", "--in-memory", "--history", "5m", "--etcd-listen", &url];
    let _server = Launch::new(SERVER, dir.path()).args(&alone).start_silent();
    let ready = async {
        loop {
            match metrics(&socket).await {
                Ok(page) => return page,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let page = tokio::time::timeout(PATIENCE, ready).await.unwrap();
    for component in ["etcd", "retention"] {
        let line = format!("kstore_component_restarts_total{{component=\"{component}\"}} 0\n");
        assert!(page.contains(&line), "{line}{page}");
    }
}

#[test]
fn an_etcd_port_open_to_local_users_beside_an_apiserver_causes_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let server = apiserver(dir.path(), "127.0.0.1:0").start().unwrap();
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("Secrets included") && log.contains("unix:///path/to.sock"), "{log}");
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_calls_are_logged_at_the_access_log_level() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("etcd.sock");
    let url = format!("unix://{}", socket.display());
    let args =
        ["RUST_LOG=info", SERVER, "--listen", "127.0.0.1:0", "--in-memory", "--components", "apiserver"];
    let server = Launch::new("env", dir.path()).args(&args).args(&["--etcd-listen", &url]).start().unwrap();
    assert!(keys(&socket).await.unwrap() > 0);
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(dir.path().join("server.log")).unwrap();
    let line = log.lines().find(|line| line.contains("/etcdserverpb.KV/Range"));
    assert!(line.is_some_and(|line| line.contains("grpc_code=0") && line.contains("ms=")), "{log}");
}
