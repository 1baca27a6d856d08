//! Attacks on identity, against the program: expired certificates, insufficient permissions, tunnels of
//! foreign nodes, and long or unprintable names.

use super::sockets::https;
use crate::SERVER;
use kstore_client::{Client, Identity, Kubeconfig};
use kstore_nondet::Clock;
use kstore_proto::kstore::v1 as pb;
use kstore_tests::wait::PATIENCE;
use kstore_tests::{Https, Launch, Server, manifests};
use pb::kstore_client::KstoreClient;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, date_time_ymd};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;
use tower::ServiceExt as _;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start(dir: &Path, nodes: &str) -> Server {
    Launch::on_disk(SERVER, dir).args(&["--nodes", nodes]).start().unwrap()
}

/// Access as this user, by a certificate that the server's authority signs for this lifetime.
fn access(dir: &Path, server: &Server, (user, group): (&str, &str), lifetime: Duration) -> Kubeconfig {
    let read = |name: &str| std::fs::read_to_string(dir.join("data/pki").join(name)).unwrap();
    let authority = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), authority).unwrap();
    let now = Duration::from_secs(Clock::real().now().as_second().try_into().unwrap());
    let mut params = CertificateParams::default();
    params.not_before = date_time_ymd(1970, 1, 1) + now.saturating_sub(Duration::from_secs(60));
    params.not_after = date_time_ymd(1970, 1, 1) + (now + lifetime);
    params.distinguished_name.push(DnType::CommonName, user);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem().into();
    let admin = Kubeconfig::read(server.kubeconfig()).unwrap();
    Kubeconfig { identity: Some(Identity { certificate, key: key.serialize_pem().into() }), ..admin }
}

/// Access as a user without groups, with a long-lived certificate.
fn access_of(dir: &Path, server: &Server, user: &str) -> Kubeconfig {
    access(dir, server, (user, ""), Duration::from_secs(3_600))
}

/// Grants a user these verbs on a core resource, in all namespaces.
async fn allow(https: &Https, user: &str, verbs: &[&str], resource: &str) {
    let (api, name) = ("rbac.authorization.k8s.io/v1", user.replace(':', "-"));
    let role = json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}]});
    let binding = json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let made = https.call("POST", &format!("{RBAC}/{plural}"), &object.to_string()).await;
        assert_eq!(made.code, 201, "{}", made.json());
    }
}

/// The code of a request on an open connection.
async fn code(channel: &Channel, path: &str) -> u16 {
    let request =
        http::Request::get(format!("https://kstore{path}")).body(tonic::body::Body::empty()).unwrap();
    let answer = timeout(PATIENCE, channel.clone().oneshot(request)).await.expect("an answer comes");
    answer.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_certificate_is_refused_on_an_open_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "0");
    // On a busy machine a handshake and a request may take longer than the first lifetime.
    let mut valid = None;
    for seconds in [8, 30, 120] {
        let lifetime = Duration::from_secs(seconds);
        let short = Https::new(&access(dir.path(), &server, ("eve", "system:masters"), lifetime));
        if short.try_connect().await.is_err() {
            continue;
        }
        let channel = short.http2().await;
        if code(&channel, CONFIG_MAPS).await == 200 {
            valid = Some((short, channel, lifetime));
            break;
        }
    }
    let (short, channel, lifetime) = valid.expect("a valid certificate is accepted");
    sleep(lifetime + Duration::from_secs(2)).await;
    assert_eq!(code(&channel, CONFIG_MAPS).await, 401, "on the connection that was opened before");
    let mut anew = String::new();
    if let Ok(mut tls) = short.try_connect().await {
        // With TLS 1.3 the client learns of a refusal after its side of the handshake.
        let _ = tls.write_all(format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await;
        let _ = timeout(PATIENCE, tls.read_to_string(&mut anew)).await;
    }
    assert!(!anew.starts_with("HTTP/1.1 200"), "{anew}");
    assert_eq!(https(&server).call("GET", CONFIG_MAPS, "").await.code, 200, "others are served");
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_calls_are_limited_to_permissions_and_printable_names() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "0");
    let admin = https(&server);
    allow(&admin, "eve", &["watch", "get", "list"], "pods/log").await;
    let eve = Https::new(&access_of(dir.path(), &server, "eve")).http2().await;
    let reference = |resource: &str, subresource: &str| pb::Ref {
        version: "v1".into(),
        resource: resource.into(),
        namespace: "default".into(),
        subresource: subresource.into(),
        ..pb::Ref::default()
    };
    for (subresource, wanted) in [("log", Code::Unimplemented), ("", Code::PermissionDenied)] {
        let selector =
            pb::WatchSelector { r#ref: Some(reference("pods", subresource)), ..Default::default() };
        let request = pb::WatchRequest { selectors: vec![selector], ..Default::default() };
        // The refusal is the answer, or the first item of its stream.
        let refused = timeout(PATIENCE, async {
            let mut stream = KstoreClient::new(eve.clone()).watch(request).await?.into_inner();
            stream.message().await
        });
        let refused = refused.await.expect("an answer comes").unwrap_err();
        assert_eq!(refused.code(), wanted, "pods/{subresource}: {refused}");
    }

    let channel = admin.http2().await;
    let create = async |manager: &[u8], name: &str| {
        let json = manifests::config_map(name, "1").to_string().into();
        let message = pb::CreateRequest {
            r#ref: Some(reference("configmaps", "")),
            json,
            ..pb::CreateRequest::default()
        };
        let mut request = tonic::Request::new(message);
        let manager = http::HeaderValue::from_bytes(manager).unwrap();
        let mut headers = std::mem::take(request.metadata_mut()).into_headers();
        headers.insert("kstore-field-manager", manager);
        *request.metadata_mut() = tonic::metadata::MetadataMap::from_headers(headers);
        timeout(PATIENCE, KstoreClient::new(channel.clone()).create(request)).await.unwrap().map(drop)
    };
    create(&[b'm'; 128], "good").await.unwrap();
    for (manager, name) in [(&[b'm'; 129][..], "long"), (b"be\tll", "odd")] {
        let refused = create(manager, name).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert_eq!(admin.call("GET", &format!("{CONFIG_MAPS}/{name}"), "").await.code, 404);
    }
    server.terminate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_users_tunnel_cannot_serve_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "1");
    let admin = https(&server);
    allow(&admin, "eve", &["create"], "nodes/tunnel").await;
    allow(&admin, "system:node:other", &["create"], "nodes/tunnel").await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = admin.call("POST", "/api/v1/namespaces/default/pods", &pod.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.json());
    let log = "/api/v1/namespaces/default/pods/web/log";
    // The node's own tunnel is open once the log can be read.
    let channel = admin.http2().await;
    let served = async {
        while code(&channel, log).await != 200 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, served).await.unwrap();
    let tunnel = async |user: &str| {
        let access = access_of(dir.path(), &server, user);
        let client = Client::connect(&access, "hostile").await.unwrap();
        timeout(PATIENCE, client.tunnel(vec!["node-0".to_owned()])).await.unwrap().err()
    };
    for user in ["eve", "system:node:other", "mallory"] {
        let refused = tunnel(user).await.unwrap_or_else(|| panic!("{user} serves node-0"));
        assert_eq!(
            (refused.is_already_exists(), refused.is_forbidden()),
            (user == "eve", user != "eve"),
            "{refused}"
        );
    }
    assert_eq!(code(&channel, log).await, 200);
    server.terminate();
}

/// Files below a folder.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_user_agents_are_truncated_in_storage() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), "0");
    let body = manifests::config_map("one", "1").to_string();
    let agent = "z".repeat(60_000);
    let request = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\nUser-Agent: {agent}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut tls = https(&server).try_connect().await.unwrap();
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, tls.read_to_end(&mut answer)).await.unwrap();
    let made = kstore_tests::parse_reply(&answer);
    assert_eq!(made.code, 201, "{}", made.text("/message"));
    assert_eq!(made.text("/metadata/managedFields/0/manager"), agent[..128]);
    assert!(server.terminate().success());
    let longest = |file: &Path| {
        let bytes = std::fs::read(file).unwrap();
        bytes.split(|byte| *byte != b'z').map(<[u8]>::len).max().unwrap_or_default()
    };
    let stored = files(&dir.path().join("data")).iter().map(|file| longest(file)).max().unwrap();
    assert!((128..=256).contains(&stored), "{stored} bytes of the user agent are stored");
}
