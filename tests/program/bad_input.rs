//! Oversized and refused requests over a real connection, and impossible starts of the program, which end with an
//! explanation. Neither loses data nor is executed in part.

use crate::SERVER;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kstore_client::{Gvr, Kubeconfig, ListParams};
use kstore_tests::{Https, Launch, Server, manifests};
use serde_json::{Value, json};
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs `test` on a runtime with I/O.
fn connected<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

#[test]
fn a_body_beyond_the_limit_is_refused_over_a_real_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    connected(async {
        // The client of this test, as many, reads no answer before it has sent its whole body over HTTP/1.1.
        for bytes in [3 * 1024 * 1024 + 1, 3_400_000, 9_000_000] {
            let reply = https.call("POST", CONFIG_MAPS, &"x".repeat(bytes)).await;
            assert_eq!(
                (reply.code, reply.text("/reason").as_str()),
                (413, "RequestEntityTooLarge"),
                "{bytes}"
            );
        }
        let mut fits = manifests::config_map("fits", "1");
        fits["metadata"]["annotations"] = json!({ "a": "x".repeat(200_000) });
        assert_eq!(https.call("POST", CONFIG_MAPS, &fits.to_string()).await.code, 201);
    });
}

/// A kube-apiserver keeps the connection: Go's HTTP/2 server does not limit answers that precede the body.
#[test]
fn a_watch_survives_thousands_of_refused_requests_with_bodies_on_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Launch::in_memory(SERVER, dir.path()).args(&["--components", "apiserver"]).start().unwrap();
    let https = Https::new(&Kubeconfig::read(server.kubeconfig()).unwrap());
    connected(async {
        let connection = https.http2().await;
        let send = |method: &'static str, path: &'static str, body: String| {
            let request = http::Request::builder().method(method).uri(format!("https://server{path}"));
            let request = request
                .header("content-type", "application/json")
                .body(tonic::body::Body::new(body))
                .unwrap();
            connection.clone().oneshot(request)
        };
        let mut watch =
            send("GET", "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0", String::new())
                .await
                .unwrap()
                .into_body()
                .into_data_stream();
        for _ in 0..44 {
            let posts = (0..50).map(|_| send("POST", "/apis/none.io/v1/things", "x".repeat(20_000)));
            for answer in futures::future::join_all(posts).await {
                let answer = answer.expect("the connection lives");
                assert_eq!(answer.status(), 404);
                answer.into_body().collect().await.unwrap();
            }
        }
        let made = send("POST", CONFIG_MAPS, manifests::config_map("seen", "1").to_string()).await.unwrap();
        assert_eq!(made.status(), 201);
        let event = watch.next().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&event).contains("seen"), "{event:?}");
    });
}

#[test]
fn a_data_directory_serves_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]);
    let first = launch.start().unwrap();
    let said = launch.start().err().expect("the second is refused");
    assert!(said.contains("data") && said.contains("in use"), "{said}");
    first.kill();
    launch.start().expect("a killed process holds nothing");
}

#[test]
fn a_port_in_use_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = Launch::new(SERVER, dir.path())
        .args(&["--in-memory", "--listen", &address.to_string()])
        .start()
        .err()
        .unwrap();
    assert!(said.contains(&address.port().to_string()) && said.contains("in use"), "{said}");
}

#[test]
fn contradictory_flags_are_refused_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["--nodes", "many"][..], "many"),
        (&["--history", "ever"], "ever"),
        (&["--listen", "here"], "HOST:PORT"),
        (&["--components", "scheduler"], "--kubeconfig"),
        (&["--components", "cook"], "cook"),
        (&["--durability", "hope"], "hope"),
    ] {
        let said = Launch::new(SERVER, dir.path()).args(args).start().err().unwrap();
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

/// The segment of the write-ahead log that was written last, and the offset at which its last group of
/// records ends.
fn tail(dir: &Path) -> (PathBuf, u64) {
    let entries = fs::read_dir(dir.join("data/wal")).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "wal")).collect();
    segments.sort();
    let newest = segments.pop().expect("a log has a segment");
    // Segments are preallocated with zeros. A group ends at a multiple of eight with a checksum, which may
    // itself end with zeros.
    let bytes = fs::read(&newest).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("a segment has a header");
    (newest, (last as u64 + 4).next_multiple_of(8))
}

fn overwrite(file: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(file).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Creates a ConfigMap and returns the answer.
async fn create(server: &Server, name: &str) -> Value {
    let api = server.client("test").await.dynamic(Gvr::new("", "v1", "configmaps"));
    api.create("default", &manifests::config_map(name, "1")).await.unwrap()
}

async fn list(server: &Server) -> Vec<Value> {
    let api = server.client("test").await.dynamic(Gvr::new("", "v1", "configmaps"));
    api.list("default", &ListParams::default()).await.unwrap().0
}

#[test]
fn a_torn_log_tail_loses_no_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]);
    let mut answered = Vec::new();
    let half_a_header = [b"kGRP".as_slice(), &[7; 30]].concat();
    for (round, torn) in
        [&b"\x01\x02\x03"[..], &half_a_header, &[0xff; 300], b"nothing that ever was a record"]
            .iter()
            .enumerate()
    {
        let server = launch.start().unwrap();
        connected(async {
            assert_eq!(list(&server).await, answered, "round {round}");
            answered.push(create(&server, &format!("round-{round}")).await);
        });
        server.kill();
        let (segment, end) = tail(dir.path());
        overwrite(&segment, end, torn);
    }
    let server = launch.start().unwrap();
    connected(async { assert_eq!(list(&server).await, answered) });
}

#[test]
fn a_log_damaged_in_the_middle_is_refused_and_not_modified() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::on_disk(SERVER, dir.path()).args(&["--components", "apiserver"]);
    let server = launch.start().unwrap();
    let first = connected(create(&server, "first"));
    let (segment, damaged) = tail(dir.path());
    let mut answered = vec![first];
    for n in 0..5 {
        answered.push(connected(create(&server, &format!("more-{n}"))));
    }
    server.kill();
    let at = damaged - 64;
    let byte = fs::read(&segment).unwrap()[usize::try_from(at).unwrap()];
    overwrite(&segment, at, &[byte ^ 0x55]);
    let before = fs::read(&segment).unwrap();
    let said = launch.start().err().expect("a server that would lose data does not start");
    assert!(said.contains("damaged") && said.contains(".wal"), "{said}");
    assert_eq!(fs::read(&segment).unwrap(), before, "nothing was cut off");
    overwrite(&segment, at, &[byte]);
    let server = launch.start().unwrap();
    answered.sort_by_key(|object| object["metadata"]["name"].to_string());
    connected(async { assert_eq!(list(&server).await, answered) });
}
