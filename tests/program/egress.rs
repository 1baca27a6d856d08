//! Programs of this machine and what is outside of the cluster: `--egress` and `--egress-host`. On a machine without network namespaces, or
//! without Python, a test says so, and passes.

use crate::host_network::start_with;
use crate::host_programs::{Mapped, PODS, pod};
use kstore_tests::wait::until;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};

const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";

/// Serves a line at a port of this machine's loopback, over TCP and UDP, until the process ends; returns the port.
fn serve() -> u16 {
    let (listener, socket) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // The same port of the other transport may be another program's.
        if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break (listener, socket);
        }
    };
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = String::new();
            if stream.read_to_string(&mut asked).is_ok() {
                let _ = stream.write_all(format!("heard {asked}").as_bytes());
            }
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&[b"heard ", &buffer[..length]].concat(), client);
        }
    });
    port
}

/// The address of this machine from which it reaches others; `None` if it reaches none.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip().to_string())
}

impl Mapped {
    /// The log of a pod once its program has printed its last line.
    async fn end(&self, pod: &str) -> String {
        until(&format!("{pod} ends"), async || {
            let log = self.log(pod).await;
            log.contains("the end").then_some(log)
        })
        .await
    }

    /// The messages of a pod's events with this reason.
    async fn messages(&self, pod: &str, reason: &str) -> Vec<String> {
        let events = self.https.call("GET", "/api/v1/namespaces/default/events", "").await.json();
        let all = events["items"].as_array().cloned().unwrap_or_default();
        let own = all.iter().filter(|one| one["involvedObject"]["name"] == pod && one["reason"] == reason);
        own.map(|one| one["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Tries connections and datagrams to the port, and prints what comes of them.
const TRIES: &str = r#"
import errno, os, socket
port, own = int(os.environ["PORT"]), os.environ["OWN"]
def tries(what, to):
    try:
        s = socket.create_connection(to, timeout=float(os.environ["WAIT"]))
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        print(what, s.recv(99).decode())
    except TimeoutError: print(what, "silence")
    except socket.gaierror: print(what, "no name")
    except OSError as error: print(what, errno.errorcode[error.errno])
name = "echo.host.kstore.internal"
tries("service", (name, port))
tries("other-port", (name, port + 1))
tries("other-name", ("no." + name, port))
tries("refused", ("192.0.2.1", 80))
tries("loopback", ("127.0.0.1", port))
tries("metadata", ("169.254.169.254", port))
if own: tries("own", (own, port))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(float(os.environ["WAIT"]))
u.connect((name, port))
try:
    for text in (b"one", b"two"):
        u.send(text)
        print("datagram", u.recv(99).decode())
except TimeoutError: print("datagram silence")
print("the end")"#;

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_what_the_flags_open_and_hear_and_tell_what_they_do_not() {
    let dir = tempfile::tempdir().unwrap();
    let (port, own) = (serve(), own_address().unwrap_or_default());
    let (rule, host) = (format!("0.0.0.0/0:{port}"), format!("echo=127.0.0.1:{port}"));
    let Some(cluster) = start_with(dir.path(), TRIES, &["--egress", &rule, "--egress-host", &host]) else {
        return;
    };
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "closed"},
        "spec": {"podSelector": {"matchLabels": {"app": "closed"}}, "policyTypes": ["Egress"]}});
    cluster.create(POLICIES, &policy).await;
    for (name, wait) in [("open", "30"), ("closed", "1")] {
        let env = json!([{"name": "PORT", "value": port.to_string()}, {"name": "OWN", "value": own}, {"name": "WAIT", "value": wait}]);
        let container = json!({"name": "op", "image": "ops/op:v1", "env": env});
        cluster.create(PODS, &pod(name, &json!({"containers": [container]}))).await;
    }
    let log = cluster.end("open").await;
    for line in [
        "service heard hello",
        "other-port EHOSTUNREACH",
        "other-name no name",
        "refused EHOSTUNREACH",
        "loopback ECONNREFUSED",
        "metadata EHOSTUNREACH",
        "datagram heard one",
        "datagram heard two",
    ] {
        assert!(log.lines().any(|own| own == line), "{line}: {log}");
    }
    let told = until("the refusals are told", async || {
        let all = cluster.messages("open", "EgressRefused").await;
        all.iter().any(|one| one.contains("192.0.2.1:80 over TCP")).then_some(all)
    })
    .await;
    assert!(told.iter().any(|one| one.contains("no --egress of the server opens it")), "{told:?}");
    if !own.is_empty() {
        assert!(log.lines().any(|line| line == "own EHOSTUNREACH"), "{log}");
        assert!(told.iter().any(|one| one.contains("an address of this machine")), "{told:?}");
    }
    // Its question about the name is answered, and nothing else is let through.
    let log = cluster.end("closed").await;
    for line in ["service silence", "refused silence", "datagram silence"] {
        assert!(log.lines().any(|own| own == line), "{line}: {log}");
    }
    assert!(cluster.messages("closed", "EgressRefused").await.is_empty(), "the policy comes first");
    cluster.server.terminate();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_flag_nothing_outside_of_the_cluster_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"
import errno, socket
for to in (("192.0.2.1", 80), ("db.example.com", 80)):
    try: socket.create_connection(to, timeout=30)
    except socket.gaierror: print("no name")
    except OSError as error: print(errno.errorcode[error.errno])
print("the end")"#;
    let Some(cluster) = start_with(dir.path(), code, &[]) else { return };
    cluster.create(PODS, &pod("op", &json!({"containers": [{"name": "op", "image": "ops/op:v1"}]}))).await;
    let log = cluster.end("op").await;
    assert!(log.contains("EHOSTUNREACH\nno name\n"), "{log}");
    until("the refusals are told", async || {
        let all = cluster.messages("op", "EgressRefused").await;
        let has = |text: &str| all.iter().any(|one| one.contains(text));
        (has("192.0.2.1:80") && has("the name db.example.com")).then_some(())
    })
    .await;
    cluster.server.terminate();
}
