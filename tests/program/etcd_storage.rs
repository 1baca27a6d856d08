//! Apiservers on a real etcd, if one is installed: consistency between two servers, an etcd that dies, and
//! authentication by certificate or password. Real time; `etcd_adapter` of the binary `sim` tests precise faults.

use crate::SERVER;
use futures::StreamExt as _;
use futures::future::join_all;
use kstore_client::{Gvr, Patch, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, Revision, Start};
use kstore_nondet::Nondet;
use kstore_proto::etcd::etcdserverpb::auth_client::AuthClient;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_storage::storage::etcd::{Config, Network, User};
use kstore_storage::storage::{Commit, CommitError, Storage as _, Write};
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Etcd, Launch, OnEtcd, etcd_config};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};

pub(super) async fn server(config: &Config) -> OnEtcd {
    OnEtcd::start(config, Arc::new(Network::plain()), &Nondet::real()).await.unwrap()
}

/// A channel as etcd's own clients open it.
async fn channel(url: &str) -> Channel {
    Endpoint::new(url.to_owned()).unwrap().connect().await.unwrap()
}

/// Two apiservers that are started concurrently.
pub(super) async fn two(etcd: &Etcd) -> (OnEtcd, OnEtcd) {
    let config = etcd_config(&[etcd.url()]);
    tokio::join!(server(&config), server(&config))
}

pub(super) fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

pub(super) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_apiservers_start_on_an_empty_etcd_and_see_each_others_writes_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let (a, b) = two(&etcd).await;
    let seen = b.api.pipeline().cache().fresh().await.unwrap();
    let start = Start::After(Revision(u64::try_from(seen).unwrap()));
    let source = b.client().dynamic(maps()).source(WatchParams::default());
    let mut watch = source.watch(start).await.unwrap();
    for round in 0..20 {
        let (one, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let name = format!("m{round}");
        one.client().dynamic(maps()).create("default", &map(&name)).await.unwrap();
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(other.rest().call("GET", &format!("{path}/{name}"), "").await.code, 200, "{name}");
        let list = other.rest().call("GET", path, "").await.json();
        assert_eq!(list["items"].as_array().unwrap().len(), round + 1);
        one.rest().call("DELETE", &format!("{path}/m{round}"), "").await;
        assert_eq!(other.rest().call("GET", &format!("{path}/{name}"), "").await.code, 404, "{name}");
        other.client().dynamic(maps()).create("default", &map(&name)).await.unwrap();
    }
    let delivered = timeout(PATIENCE, async {
        let mut delivered = 0;
        while delivered < 60 {
            let frames = watch.next().await.unwrap().unwrap();
            delivered += frames.iter().filter(|frame| !matches!(frame, Frame::Progress { .. })).count();
        }
        delivered
    });
    assert_eq!(delivered.await.unwrap(), 60, "create, delete, create: twenty times");
    tokio::join!(a.stop(), b.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_between_two_apiservers_and_no_address_is_given_twice() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let (a, b) = two(&etcd).await;
    a.client().dynamic(maps()).create("default", &map("m")).await.unwrap();
    let writers = (0..8).map(|writer| {
        let client = if writer % 2 == 0 { a.client() } else { b.client() };
        async move {
            for n in 0..10 {
                // Every patch adds a different key: none may be missing in the end.
                let patch = Patch::Merge(json!({"data": {format!("{writer}-{n}"): "x"}}));
                client.dynamic(maps()).patch("default", "m", "", &patch).await.unwrap();
            }
        }
    });
    join_all(writers).await;
    let end = b.client().dynamic(maps()).get("default", "m").await.unwrap();
    assert_eq!(end["data"].as_object().unwrap().len(), 80);

    // Each server sees only its own cache when it looks for a free address; the commit decides.
    for round in 0..5 {
        let service = |name: &str| {
            let (address, port) = (format!("10.96.0.{}", 10 + round), 30_100 + round);
            let metadata = json!({"name": format!("{name}{round}")});
            let ports = json!([{"port": 80, "nodePort": port}]);
            let spec = json!({"type": "NodePort", "clusterIP": address, "ports": ports});
            json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}).to_string()
        };
        let (one, other) = (a.rest(), b.rest());
        let path = "/api/v1/namespaces/default/services";
        let (one, other) =
            tokio::join!(one.call("POST", path, service("a")), other.call("POST", path, service("b")));
        let mut codes = [one.code, other.code];
        codes.sort_unstable();
        assert_eq!(codes, [201, 422], "{:?} {:?}", one.json(), other.json());
    }
    tokio::join!(a.stop(), b.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_continue_without_a_gap_after_etcd_is_killed_and_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut etcd) = Etcd::start(dir.path()) else { return };
    let api = server(&etcd_config(&["http://127.0.0.1:1", etcd.url()])).await;
    let seen = api.api.pipeline().cache().fresh().await.unwrap();
    let start = Start::After(Revision(u64::try_from(seen).unwrap()));
    let mut watch = api.client().dynamic(maps()).source(WatchParams::default()).watch(start).await.unwrap();
    let writing = {
        let client = api.client();
        tokio::spawn(async move {
            let mut answered = Vec::new();
            for n in 0..200 {
                let name = format!("m{n}");
                match client.dynamic(maps()).create("default", &map(&name)).await {
                    Ok(_) => answered.push(name),
                    // 504: the object may exist. 503: it does not.
                    Err(error) => assert!(format!("{error:?}").contains("50"), "{error:?}"),
                }
            }
            answered
        })
    };
    for _ in 0..2 {
        sleep(Duration::from_millis(300)).await;
        etcd.kill();
        sleep(Duration::from_millis(1500)).await;
        until_code(&api, "/readyz/etcd", 500).await;
        etcd.restart();
    }
    let answered = timeout(PATIENCE, writing).await.unwrap().unwrap();
    let (stored, _) = api.client().dynamic(maps()).list("default", &Default::default()).await.unwrap();
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let mut missing: Vec<String> = stored.iter().map(name).collect();
    assert!(answered.iter().all(|name| missing.contains(name)), "acknowledged objects exist");
    timeout(PATIENCE, async {
        while !missing.is_empty() {
            for frame in watch.next().await.unwrap().unwrap() {
                if let Frame::Put(object) = frame {
                    let delivered = name(object.value());
                    assert!(missing.contains(&delivered), "{delivered} is delivered twice, or is missing");
                    missing.retain(|name| *name != delivered);
                }
            }
        }
    })
    .await
    .expect("every object is delivered once");
    until_code(&api, "/readyz", 200).await;
    api.stop().await;
}

/// Waits until a GET is answered with this code.
async fn until_code(server: &OnEtcd, path: &str, code: u16) {
    let has_code = async || (server.rest().call("GET", path, "").await.code == code).then_some(());
    until(&format!("{path} is answered with {code}"), has_code).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_survive_compactions_by_two_apiservers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let config = Config { compaction: Duration::from_millis(300), ..etcd_config(&[etcd.url()]) };
    let began = Instant::now();
    let (a, b) = tokio::join!(server(&config), server(&config));
    let old = a.api.pipeline().cache().fresh().await.unwrap();
    for n in 0..10 {
        a.client().dynamic(maps()).create("default", &map(&format!("m{n}"))).await.unwrap();
        assert!(b.client().dynamic(maps()).get("default", &format!("m{n}")).await.is_ok());
        sleep(Duration::from_millis(150)).await;
    }
    let mut kv = KvClient::new(channel(etcd.url()).await);
    let range =
        |key: &'static str, revision| pb::RangeRequest { key: key.into(), revision, ..Default::default() };
    let past =
        until("the old revision is compacted", async || kv.range(range("/registry/x", old)).await.err());
    assert_eq!(past.await.message(), "etcdserver: mvcc: required revision has been compacted");
    let rounds = until("there was a second round", async || {
        let kvs = kv.range(range("compact_rev_key", 0)).await.unwrap().into_inner().kvs;
        kvs.first().map(|kv| u128::try_from(kv.version).unwrap()).filter(|rounds| *rounds >= 2)
    })
    .await;
    let most = began.elapsed().as_millis() / 300 + 1;
    assert!(rounds <= most, "two share the rounds of one: {rounds}");
    let path = format!("/api/v1/configmaps?resourceVersion={old}&resourceVersionMatch=Exact");
    assert_eq!(b.rest().call("GET", &path, "").await.code, 410);
    tokio::join!(a.stop(), b.stop());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_share_an_etcd_under_separate_prefixes_and_users() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let config = etcd_config(&[etcd.url()]);
    let open = server(&config).await;
    restrict(etcd.url(), "kube", "secret", "/other").await;
    let user = |password: &str| User { name: "kube".into(), password: password.into() };
    let other = |password| Config { prefix: "/other".into(), user: Some(user(password)), ..config.clone() };
    let theirs = server(&other("secret")).await;
    let created = theirs.client().dynamic(maps()).create("default", &map("m")).await;
    assert!(created.is_ok(), "{created:?}");
    let start = OnEtcd::start(&other("wrong"), Arc::new(Network::plain()), &Nondet::real()).await;
    let refusal = start.err().unwrap().to_string();
    assert!(refusal.contains("authentication failed"), "{refusal}");
    let denied = open.rest().call("GET", "/api/v1/namespaces/default", "").await;
    assert!(denied.code >= 500, "without a user there is nothing to see any more: {}", denied.code);
    theirs.stop().await;
    open.stop().await;
}

/// Creates a user with permission for the keys below `prefix`, and removes all other permissions.
pub(super) async fn restrict(url: &str, name: &str, password: &str, prefix: &str) {
    let mut auth = AuthClient::new(channel(url).await);
    for (user, role) in [("root", "root"), (name, "cluster")] {
        let password = password.to_owned();
        let add = pb::AuthUserAddRequest { name: user.into(), password, ..Default::default() };
        auth.user_add(add).await.unwrap();
        auth.role_add(pb::AuthRoleAddRequest { name: role.into() }).await.unwrap();
        let grant = pb::AuthUserGrantRoleRequest { user: user.into(), role: role.into() };
        auth.user_grant_role(grant).await.unwrap();
    }
    let end = format!("{}0", &prefix);
    let perm = kstore_proto::etcd::authpb::Permission {
        perm_type: 2,
        key: prefix.to_owned().into(),
        range_end: end.into(),
    };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "cluster".into(), perm: Some(perm) };
    auth.role_grant_permission(grant).await.unwrap();
    auth.auth_enable(pb::AuthEnableRequest {}).await.unwrap();
}

/// `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`.
fn certificates(dir: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    std::fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    let issuer = Issuer::new(params, key);
    // etcd's gateway connects to etcd itself, so the certificate is for servers and clients.
    let both = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        params.extended_key_usages = both.clone();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        std::fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_apiserver_authenticates_at_etcd_by_client_certificate() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let Some(etcd) = Etcd::start_tls(&dir.path().join("data"), dir.path()) else { return };
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let (authority, certificate, key) = (read("ca.pem"), read("client.pem"), read("client.key"));
    let network = Network::tls(&authority, Some((&certificate, &key))).unwrap();
    let config = etcd_config(&[etcd.url()]);
    let api = OnEtcd::start(&config, Arc::new(network), &Nondet::real()).await.unwrap();
    assert!(api.client().dynamic(maps()).create("default", &map("m")).await.is_ok());
    api.stop().await;
    for unknown in [Network::tls(&authority, None).unwrap(), Network::plain()] {
        let start = OnEtcd::start(&config, Arc::new(unknown), &Nondet::real()).await;
        let refusal = start.err().unwrap().to_string();
        assert!(refusal.contains("does not answer"), "{refusal}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_share_a_lease_and_oversized_objects_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let api = server(&etcd_config(&[etcd.url()])).await;
    let event = |n: usize| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{n}"), "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "r"})
    };
    for n in 0..5 {
        let reply = api.rest().call("POST", "/api/v1/namespaces/default/events", event(n).to_string()).await;
        assert_eq!(reply.code, 201, "{:?}", reply.json());
    }
    let mut kv = KvClient::new(channel(etcd.url()).await);
    let all = pb::RangeRequest {
        key: "/registry/events/".into(),
        range_end: "/registry/events0".into(),
        ..Default::default()
    };
    let leases: Vec<i64> = kv.range(all).await.unwrap().into_inner().kvs.iter().map(|kv| kv.lease).collect();
    assert_eq!(leases.len(), 5);
    assert!(leases[0] != 0 && leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
    // The API's own limits are tighter; this is etcd's answer to a larger write.
    let write = Write::Put { key: "/registry/x".into(), value: vec![0; 2_000_000].into(), ttl_seconds: 0 };
    let refused = api.storage.commit(Commit { writes: vec![write], ..Commit::default() }).await;
    assert!(matches!(refused, Err(CommitError::TooLarge(_))), "{refused:?}");
    let write = |n| Write::Put { key: format!("/registry/x{n}"), value: "x".into(), ttl_seconds: 0 };
    let writes = (0..128).map(write).collect();
    let refused = api.storage.commit(Commit { writes, ..Commit::default() }).await;
    assert!(matches!(refused, Err(CommitError::TooLarge(_))), "the note is one too many: {refused:?}");
    api.stop().await;
}

#[test]
fn kubectl_rolls_a_deployment_out_on_an_etcd_and_a_second_program_serves_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(&dir.path().join("etcd")) else { return };
    let servers = ["--etcd-servers", etcd.url()];
    let first = Launch::in_memory(SERVER, dir.path()).args(&servers).start().unwrap();
    let second = dir.path().join("second");
    std::fs::create_dir(&second).unwrap();
    let alone = ["--components", "apiserver"];
    let second = Launch::in_memory(SERVER, &second).args(&servers).args(&alone).start().unwrap();
    let run = |server: &kstore_tests::Server, args: &str| {
        let args: Vec<_> = args.split(' ').collect();
        let output = server.kubectl(&args)?.output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {args:?}: {said}");
        Some(said)
    };
    let Some(created) = run(&second, "create deployment web --image=nginx --replicas=2") else { return };
    assert_eq!(created, "deployment.apps/web created\n");
    run(&first, "rollout status deployment/web --timeout=180s");
    let status = run(&second, "get deployment web -o jsonpath={.status.readyReplicas}").unwrap();
    assert_eq!(status, "2");
    run(&second, "delete deployment web --timeout=180s");
    assert!(second.terminate().success());
    assert!(first.terminate().success());
}

#[test]
fn an_unreachable_etcd_is_reported_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let unreachable = format!("http://127.0.0.1:{}", kstore_tests::free_port());
    let start = Launch::in_memory(SERVER, dir.path()).args(&["--etcd-servers", &unreachable]).start();
    let log = start.err().unwrap();
    assert!(log.contains("cannot start on the etcd at") && log.contains(&unreachable), "{log}");
}
