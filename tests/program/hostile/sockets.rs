//! Connections that send nothing, partial messages or too much, against the program over TLS.

use crate::SERVER;
use kstore_client::Kubeconfig;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Https, Launch, Server};
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Limit of open files in the test of silent connections.
const FILES: u32 = 256;

/// Number of silent connections: more than the limit of open files.
const SILENT: usize = 400;

pub(super) fn https(server: &Server) -> Https {
    Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap())
}

/// A script in `dir` that runs a program with a low limit of open files.
pub(super) fn few_files(dir: &std::path::Path, program: &str, files: u32) -> String {
    let script = dir.join("few-files.sh");
    std::fs::write(&script, format!("#!/bin/sh\nulimit -Hn {files}\nexec {program} \"$@\"\n")).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    script.to_str().unwrap().to_owned()
}

/// Starts the program with a low limit of open files.
fn with_few_files(dir: &std::path::Path) -> Server {
    Launch::on_disk(&few_files(dir, SERVER, FILES), dir).start().unwrap()
}

#[tokio::test]
async fn silent_connections_beyond_the_file_limit_do_not_block_other_clients() {
    let dir = tempfile::tempdir().unwrap();
    let server = with_few_files(dir.path());
    let address = server.address().strip_prefix("https://").unwrap().to_owned();
    let https = https(&server);
    let mut silent = Vec::new();
    for n in 0..SILENT {
        // Every second connection finishes its handshake and sends half of an HTTP/2 preface.
        if n % 2 == 0 {
            silent.push(Box::new(TcpStream::connect(&address).await.unwrap()) as Box<dyn std::any::Any>);
        } else if let Ok(Ok(mut tls)) = timeout(Duration::from_secs(5), https.try_connect()).await {
            let _ = tls.write_all(b"PRI * HT").await;
            silent.push(Box::new(tls));
        }
    }
    for n in 0..20 {
        let body = format!(r#"{{"metadata":{{"name":"m-{n}"}}}}"#);
        let path = "/api/v1/namespaces/default/configmaps";
        let reply = timeout(PATIENCE, https.call("POST", path, &body)).await.unwrap();
        assert_eq!(reply.code, 201, "{}", reply.text("/message"));
    }
    drop(silent);
}

#[tokio::test]
async fn a_silent_connection_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = https(&server);
    // After the handshake: nothing, half a preface, half a head.
    let mut waiting = tokio::task::JoinSet::new();
    for said in [&b""[..], b"PRI * HTTP/2.0\r\n", b"GET /version HTTP/1.1\r\nHost: a\r\n"] {
        let mut tls = https.try_connect().await.unwrap();
        tls.write_all(said).await.unwrap();
        waiting.spawn(async move {
            let began = Instant::now();
            let mut rest = Vec::new();
            let _ = tls.read_to_end(&mut rest).await;
            began.elapsed()
        });
    }
    let all = timeout(PATIENCE, waiting.join_all()).await.expect("all of them are closed");
    assert!(all.iter().all(|took| *took >= Duration::from_secs(5)), "{all:?}");
}

#[tokio::test]
async fn bodies_of_unauthorized_requests_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let mut tls = https(&server).without_certificate().try_connect().await.unwrap();
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\n\
                Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{";
    tls.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    timeout(PATIENCE, tls.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
}

#[tokio::test]
async fn nothing_is_served_without_credentials_if_anonymous_access_is_off() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--nodes", "0", "--anonymous-auth=false"];
    let server = Launch::in_memory(SERVER, dir.path()).args(&flags).start().unwrap();
    let https = https(&server);
    for path in ["/version", "/healthz", "/api/v1/pods"] {
        assert_eq!(https.without_certificate().call("GET", path, "").await.code, 401, "{path}");
        assert_eq!(https.call("GET", path, "").await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn requests_without_credentials_are_served_only_at_the_configured_paths() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("authentication.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
        anonymous: {enabled: true, conditions: [{path: /livez}]}\n";
    std::fs::write(&file, text).unwrap();
    let flags = ["--nodes", "0", "--authentication-config", file.to_str().unwrap()];
    let server = Launch::in_memory(SERVER, dir.path()).args(&flags).start().unwrap();
    let https = https(&server);
    for (path, expected) in [
        ("/livez", 200),
        ("/livez?verbose", 200),
        ("/livez/ping", 401),
        ("/readyz", 401),
        ("/version", 401),
        ("/api", 401),
    ] {
        assert_eq!(https.without_certificate().call("GET", path, "").await.code, expected, "{path}");
        assert_eq!(https.call("GET", path, "").await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn a_flood_of_http2_pings_does_not_flood_the_log() {
    /// Number of acknowledgements of pings that the server never sent. HTTP/2 allows them, and each one is
    /// odd.
    const PINGS: usize = 20_000;
    /// Largest growth of the log that they may cause.
    const LOG_BYTES: u64 = 16 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--nodes", "0"]).start().unwrap();
    let https = https(&server);
    let log = dir.path().join("server.log");
    let before = std::fs::metadata(&log).unwrap().len();
    let mut tls = https.try_connect().await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let acknowledgement = [[0, 0, 8, 6, 1, 0, 0, 0, 0].as_slice(), b"unasked!"].concat();
    let ping = [[0, 0, 8, 6, 0, 0, 0, 0, 0].as_slice(), b"the last"].concat();
    let flood =
        [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &settings, &acknowledgement.repeat(PINGS), &ping];
    tls.write_all(&flood.concat()).await.unwrap();
    // The server answers the last ping when it has read all frames.
    let mut answer = Vec::new();
    let answered = async {
        while !answer.windows(8).any(|window| window == b"the last") {
            assert!(tls.read_buf(&mut answer).await.unwrap() > 0, "the server has ended the connection");
        }
    };
    timeout(PATIENCE, answered).await.unwrap();
    let written = std::fs::metadata(&log).unwrap().len() - before;
    assert!(written <= LOG_BYTES, "{PINGS} frames wrote {written} bytes into the log");
}
