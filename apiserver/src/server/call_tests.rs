//! Tests of requests to a whole API server: what a caller may send, for how long it is answered, and what it may learn.

use super::connection::{ListenerState, serve_http};
use super::*;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use kstore_access::peer::{ClientCertificate, Peer};
use kstore_nondet::Nondet;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Store};
use pb::kstore_client::KstoreClient;
use pb::tunnel_up::Message as Up;
use serde_json::json;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceExt as _;

async fn start() -> ApiServer {
    let nondet = Nondet::simulated(1);
    let store = Store::open(Config::memory(), nondet.clone()).await.unwrap();
    let config = ServerConfig { nondet, ..ServerConfig::default() };
    ApiServer::start(Arc::new(Embedded::new(store)), config, |task| drop(tokio::spawn(task))).await.unwrap()
}

/// A connection of `peer` to the server, as a listener serves it.
async fn connect(server: &ApiServer, peer: Peer) -> Channel {
    let slot = Connections::new(1).slot([127, 0, 0, 1].into()).await;
    let shared = ListenerState {
        router: server.router.clone(),
        embedder: None,
        grpc: Some(server.grpc_calls.clone()),
        unsent: server.unsent.clone(),
        stop: server.stop.clone(),
        front_proxies: None,
        clock: kstore_nondet::Clock::real(),
        edge: None,
        answers_half_closed: false,
    };
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { serve_http(shared, peer, far, slot).await.map_err(|error| error.to_string()) });
    let mut near = Some(near);
    let connect = tower::service_fn(move |_: http::Uri| {
        let near = near.take().ok_or(std::io::ErrorKind::ConnectionRefused);
        async move { near.map(TokioIo::new).map_err(std::io::Error::from) }
    });
    Endpoint::from_static("http://server").connect_with_connector(connect).await.unwrap()
}

fn anonymous() -> Peer {
    Peer::tls(None, "127.0.0.1:1".parse().unwrap())
}

fn user(name: &str, group: &str) -> Peer {
    Peer::InProcess(Arc::new(UserInfo::new(name, [group])))
}

/// The code with which a tunnel of these nodes ends, or that it begins.
async fn tunnel(channel: &Channel, names: Vec<String>) -> Code {
    let hello = pb::TunnelUp { message: Some(Up::Nodes(pb::TunnelNodes { names })) };
    let up = futures::StreamExt::chain(futures::stream::iter([hello]), futures::stream::pending());
    match KstoreClient::new(channel.clone()).tunnel(up).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_is_refused_before_its_nodes_are_judged_one_by_one() {
    let server = start().await;
    let stranger = connect(&server, anonymous()).await;
    assert_eq!(tunnel(&stranger, vec![String::new(); 1_400_000]).await, Code::PermissionDenied);
    let nobody = connect(&server, user("ann", "system:authenticated")).await;
    assert_eq!(tunnel(&nobody, vec![String::new(); 1_400_000]).await, Code::PermissionDenied);
    let admin = connect(&server, user("admin", "system:masters")).await;
    let names = |count: usize| (0..count).map(|number| format!("n-{number}")).collect::<Vec<_>>();
    assert_eq!(tunnel(&admin, names(3)).await, Code::Ok);
    assert_eq!(tunnel(&admin, names(limits::TUNNEL_NODES + 1)).await, Code::InvalidArgument);
    assert_eq!(tunnel(&admin, vec!["a".to_owned(), String::new()]).await, Code::InvalidArgument);
    assert_eq!(tunnel(&admin, vec!["a".to_owned(), "a".to_owned()]).await, Code::InvalidArgument);
    assert_eq!(tunnel(&admin, vec!["a".repeat(300)]).await, Code::InvalidArgument);
    // A node may serve itself only: judging stops after a bounded number of refusals.
    let node = connect(&server, user("system:node:n-0", "system:nodes")).await;
    assert_eq!(tunnel(&node, names(2 * limits::TUNNEL_REFUSALS)).await, Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn calls_without_the_content_type_of_grpc_are_bounded_like_others() {
    let server = start().await;
    let stranger = connect(&server, anonymous()).await;
    let length = u32::try_from(64 * 1024).unwrap().to_be_bytes();
    let message = [&[0], &length[..], &vec![b'x'; 64 * 1024]].concat();
    for call in ["Create", "Tunnel"] {
        let body =
            tonic::body::Body::new(Full::new(Bytes::from(message.clone())).map_err(|never| match never {}));
        let request = Request::builder().method(Method::POST).header("content-type", "text/plain");
        let request = request.uri(format!("http://server/kstore.v1.Kstore/{call}")).body(body).unwrap();
        let response = stranger.clone().oneshot(request).await.unwrap();
        let code = response.headers()["grpc-status"].to_str().unwrap().parse::<i32>().unwrap();
        let expected = if call == "Tunnel" { Code::PermissionDenied } else { Code::ResourceExhausted };
        assert_eq!(Code::from(code), expected, "{call}");
    }
}

/// The code of a call with this message.
async fn raw_call(channel: &Channel, path: &str, message: &[u8]) -> Code {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = Bytes::from([&[0], &length[..], message].concat());
    let body = tonic::body::Body::new(Full::new(body).map_err(|never| match never {}));
    let request = Request::builder().method(Method::POST).header("content-type", "application/grpc");
    let request = request.uri(format!("http://server{path}")).body(body).unwrap();
    let response = channel.clone().oneshot(request).await.unwrap();
    match response.headers().get("grpc-status") {
        Some(code) => Code::from_bytes(code.as_bytes()),
        None => {
            let trailers = response.into_body().collect().await.unwrap().trailers().cloned();
            Code::from_bytes(trailers.unwrap()["grpc-status"].as_bytes())
        }
    }
}

#[tokio::test(start_paused = true)]
async fn items_of_messages_are_counted_before_they_are_decoded() {
    let server = start().await;
    let nobody = connect(&server, user("ann", "system:authenticated")).await;
    // Operations of `Each` are refused one by one, in its answer.
    for (call, of_few) in
        [("Watch", Code::InvalidArgument), ("Transact", Code::InvalidArgument), ("Each", Code::Ok)]
    {
        let path = format!("/kstore.v1.Kstore/{call}");
        let empty = [0x0a, 0].repeat(1_400_000);
        assert_eq!(raw_call(&nobody, &path, &empty).await, Code::InvalidArgument, "{call}");
        let few = [0x0a, 0].repeat(128);
        assert_eq!(raw_call(&nobody, &path, &few).await, of_few, "{call}: without a resource");
    }
}

/// Every call of the protocol, found by its descriptor, bounds what callers without credentials may send.
#[tokio::test(start_paused = true)]
async fn every_call_bounds_messages_without_credentials() {
    let server = start().await;
    let stranger = connect(&server, anonymous()).await;
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/proto/kstore/v1/kstore.proto");
    let text = std::fs::read_to_string(proto).unwrap();
    let calls = text.lines().filter_map(|line| line.trim().strip_prefix("rpc ")?.split('(').next());
    let calls = calls.map(|call| format!("/kstore.v1.Kstore/{call}"));
    let others = [
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ];
    let mut count = 0;
    for path in calls.chain(others.map(str::to_owned)) {
        let code = raw_call(&stranger, &path, &vec![b'x'; 64 * 1024]).await;
        let expected = match path.rsplit('/').next() {
            // It is refused before its message is read.
            Some("Tunnel") => Code::PermissionDenied,
            // Its answers end with its messages, of which the first is not complete.
            Some("ServerReflectionInfo") => Code::Ok,
            _ => Code::ResourceExhausted,
        };
        assert_eq!(code, expected, "{path}");
        count += 1;
    }
    assert!(count >= 15, "{count} calls");
}

#[tokio::test(start_paused = true)]
async fn health_watches_without_credentials_are_bounded_in_number_and_time() {
    let server = start().await;
    let mut client = HealthClient::new(connect(&server, anonymous()).await);
    let mut watches = Vec::new();
    for _ in 0..limits::ANONYMOUS_IN_FLIGHT {
        let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        watches.push(watch);
    }
    assert!(client.watch(HealthCheckRequest::default()).await.is_err());
    tokio::time::sleep(limits::ANONYMOUS_ANSWER).await;
    assert_eq!(watches[0].message().await.unwrap_err().code(), Code::DeadlineExceeded);
    assert!(client.watch(HealthCheckRequest::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn selectors_have_the_same_bounds_over_rest_and_over_grpc() {
    let server = start().await;
    let channel = connect(&server, user("admin", "system:masters")).await;
    let pods =
        || Some(pb::Ref { version: "v1".to_owned(), resource: "pods".to_owned(), ..pb::Ref::default() });
    let list = |labels: String, fields: String| {
        let message = pb::ListRequest {
            r#ref: pods(),
            label_selector: labels,
            field_selector: fields,
            ..Default::default()
        };
        let mut client = KstoreClient::new(channel.clone());
        async move { client.list(message).await.map_or_else(|status| status.code(), |_| Code::Ok) }
    };
    let watch = |labels: String, fields: String| {
        let selector = pb::WatchSelector {
            r#ref: pods(),
            label_selector: labels,
            field_selector: fields,
            ..Default::default()
        };
        let message = pb::WatchRequest { selectors: vec![selector], ..Default::default() };
        let mut client = KstoreClient::new(channel.clone());
        async move { client.watch(message).await.map_or_else(|status| status.code(), |_| Code::Ok) }
    };
    let rest = |labels: String, fields: String| {
        let admin = server.in_process(UserInfo::new("admin", ["system:masters"]));
        let path = format!("/api/v1/pods?labelSelector={labels}&fieldSelector={fields}").replace(' ', "%20");
        async move {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            match admin.oneshot(request).await.unwrap().status() {
                StatusCode::OK => Code::Ok,
                StatusCode::BAD_REQUEST => Code::InvalidArgument,
                _ => Code::Unknown,
            }
        }
    };
    let most = limits::SELECTOR_REQUIREMENTS;
    let labels = |count: usize| vec!["a"; count].join(",");
    let values = |count: usize| {
        format!("a in ({})", (0..count).map(|n| format!("v{n}")).collect::<Vec<_>>().join(","))
    };
    let fields = |count: usize| vec!["status.phase!=x"; count].join(",");
    let cases = [
        (labels(most), String::new(), Code::Ok),
        (labels(most + 1), String::new(), Code::InvalidArgument),
        (values(most), String::new(), Code::Ok),
        (values(most + 1), String::new(), Code::InvalidArgument),
        (String::new(), fields(most), Code::Ok),
        (String::new(), fields(most + 1), Code::InvalidArgument),
        (
            String::new(),
            format!("status.phase!={}", "x".repeat(limits::SELECTOR_BYTES)),
            Code::InvalidArgument,
        ),
    ];
    for (labels, fields, code) in cases {
        let shown = format!("{} and {} bytes", labels.len(), fields.len());
        assert_eq!(list(labels.clone(), fields.clone()).await, code, "list: {shown}");
        assert_eq!(watch(labels.clone(), fields.clone()).await, code, "watch: {shown}");
        if labels.len() + fields.len() < limits::SELECTOR_BYTES - 100 {
            assert_eq!(rest(labels, fields).await, code, "REST: {shown}");
        }
    }
}

/// Sends a REST request of a user with a fence, if it is not empty. Returns the code, the warning and the message.
async fn rest(
    server: &ApiServer,
    (name, group): (&str, &str),
    (method, path, fence): (Method, &str, &str),
    body: serde_json::Value,
) -> (u16, String, String) {
    let api = server.in_process(UserInfo::new(name, [group]));
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if !fence.is_empty() {
        request = request.header("kstore-fence", fence);
    }
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let answer = api.oneshot(request.body(body).unwrap()).await.unwrap();
    let warning = answer.headers().get("warning").map_or("", |value| value.to_str().unwrap()).to_owned();
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    (code, warning, value["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_requires_the_permission_to_read_the_lease() {
    let server = start().await;
    let admin = ("admin", "system:masters");
    let make = async |path: &str, object: serde_json::Value| {
        let (code, _, message) = rest(&server, admin, (Method::POST, path, ""), object).await;
        assert_eq!(code, 201, "{message}");
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for (name, group, resource, verb) in
        [("maps", "", "configmaps", "create"), ("leases", "coordination.k8s.io", "leases", "get")]
    {
        let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": [verb]}]);
        make(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": name}, "rules": rules})).await;
        let users: &[&str] = if name == "maps" { &["eve", "ann"] } else { &["ann"] };
        let subjects: Vec<_> = users
            .iter()
            .map(|user| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}))
            .collect();
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects});
        make(&format!("{rbac}/clusterrolebindings"), binding).await;
    }
    let lease =
        json!({"metadata": {"name": "office"}, "spec": {"holderIdentity": "boss", "leaseTransitions": 7}});
    make("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await;
    let write = async |user: &str, fence: &str| {
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let map = json!({"metadata": {"name": "m"}});
        rest(&server, (user, "system:authenticated"), (Method::POST, path, fence), map).await.0
    };
    assert_eq!(write("eve", "").await, 201);
    // Right and wrong guesses have the same answer.
    assert_eq!(write("eve", "default/office/7/boss").await, 403);
    assert_eq!(write("eve", "default/office/6/boss").await, 403);
    assert_eq!(write("ann", "default/office/7/boss").await, 201);
    assert_eq!(write("ann", "default/office/6/boss").await, 409);
}

#[tokio::test(start_paused = true)]
async fn reads_of_deprecated_endpoints_warn_and_preconditions_of_deletes_name_the_kind() {
    let server = start().await;
    let admin = ("admin", "system:masters");
    let none = serde_json::Value::Null;
    for (path, code) in [
        ("/api/v1/endpoints", 200),
        ("/api/v1/namespaces/default/endpoints/none", 404),
        ("/api/v1/pods", 200),
    ] {
        let (found, warning, _) = rest(&server, admin, (Method::GET, path, ""), none.clone()).await;
        assert_eq!(
            (found, warning.contains("v1 Endpoints is deprecated")),
            (code, path.contains("endpoints"))
        );
    }
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(rest(&server, admin, (Method::POST, path, ""), map).await.0, 201);
    for uid in ["", "other"] {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        let (code, _, message) =
            rest(&server, admin, (Method::DELETE, &format!("{path}/m"), ""), options).await;
        let text = "Operation cannot be fulfilled on ConfigMap \"m\": the UID in the precondition";
        assert!(code == 409 && message.starts_with(text), "{code} {message}");
    }
}

/// The API as a user who comes over the network with a certificate.
fn remote(server: &ApiServer, name: &str) -> InProcess {
    let user = Arc::new(UserInfo::new(name, ["system:authenticated"]));
    let expires = server.pipeline.nondet().clock.now() + jiff::SignedDuration::from_hours(24);
    let certificate = Some(ClientCertificate { user, expires });
    server.for_peer(Peer::Tls { certificate, proxy: None, address: ([127, 0, 0, 1], 1).into() })
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_arrive_keep_no_seats() {
    let server = start().await;
    let post = async |user: &'static str, body: Body| {
        let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        remote(&server, user).oneshot(request).await.unwrap().status().as_u16()
    };
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
    let silent = || Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>());
    let mut claims: Vec<_> = (0..600).map(|_| Box::pin(post("eve", silent()))).collect();
    claims.retain_mut(|claim| claim.now_or_never().is_none());
    assert!(claims.len() < 600, "the seats and queues of the level are full, so that some were refused");
    let began = tokio::time::Instant::now();
    // The claims go on beside the other user's request.
    let claims = futures::future::join_all(claims);
    let own = post("ann", Body::from(review.clone()));
    tokio::select! {
        biased;
        code = own => assert_eq!(code, 201),
        _ = claims => panic!("they wait for their bodies"),
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // A body that arrives late is served all the same.
    let late = futures::stream::once(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(review)
    });
    assert_eq!(post("ann", Body::from_stream(late)).await, 201);
}

#[tokio::test(start_paused = true)]
async fn bodies_that_become_too_many_maps_are_refused_over_rest_and_over_grpc() {
    let server = start().await;
    let channel = connect(&server, user("admin", "system:masters")).await;
    let nested =
        |maps: usize| format!(r#"{{"metadata":{{"name":"m"}},"x":[{}{{}}]}}"#, r#"{"a":1},"#.repeat(maps));
    let fitting = nested(limits::BODY_MAPS / 2 - 10);
    let large = nested(limits::BODY_MAPS);
    let post = async |text: &str| {
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Ignore";
        let request = Request::post(path).header("content-type", "application/json");
        let api = server.in_process(UserInfo::new("admin", ["system:masters"]));
        api.oneshot(request.body(Body::from(text.to_owned())).unwrap()).await.unwrap().status().as_u16()
    };
    assert_eq!((post(&fitting).await, post(&large).await), (201, 413));
    let create = async |text: &str| {
        let reference = pb::Ref {
            version: "v1".into(),
            resource: "configmaps".into(),
            namespace: "default".into(),
            ..Default::default()
        };
        let json = text.to_owned().into_bytes().into();
        let request = pb::CreateRequest { r#ref: Some(reference), json, dry_run: true, ..Default::default() };
        let created = KstoreClient::new(channel.clone()).create(request).await;
        created.map_or_else(|status| status.code(), |_| Code::Ok)
    };
    assert_eq!((create(&fitting).await, create(&large).await), (Code::Ok, Code::ResourceExhausted));
    // DeleteOptions are decoded beside all other requests.
    let options = format!(r#"{{"kind":"DeleteOptions","x":"{}"}}"#, "x".repeat(limits::DELETE_OPTIONS_BYTES));
    let request = Request::delete("/api/v1/namespaces/default/configmaps/none");
    let request = request.header("content-type", "application/json").body(Body::from(options)).unwrap();
    let api = server.in_process(UserInfo::new("admin", ["system:masters"]));
    assert_eq!(api.oneshot(request).await.unwrap().status().as_u16(), 413);
}

/// An empty call of `peer`.
fn empty_call(peer: Peer, path: &str, token: Option<&str>) -> Request<Body> {
    let mut request = Request::post(path).header("content-type", "application/grpc").extension(peer);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    request.body(Body::empty()).unwrap()
}

/// HTTP status, gRPC code and content type of an answer without a message.
fn outcome(response: &Response<Body>) -> (StatusCode, Option<Code>, &str) {
    let code = response.headers().get("grpc-status").map(|code| Code::from_bytes(code.as_bytes()));
    let kind = response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap());
    (response.status(), code, kind)
}

#[tokio::test(start_paused = true)]
async fn calls_of_unknown_services_and_methods_are_unimplemented() {
    let server = start().await;
    let admin = || user("admin", "system:masters");
    let refused = |code| (StatusCode::OK, Some(code), "application/grpc");
    for path in ["/kstore.lab.v1.Lab/GetInfo", "/Greeter/Hello", "/kstore.v1.Kstore/Unknown", "/a.B"] {
        let answer = server.for_peer(admin()).oneshot(empty_call(admin(), path, None)).await.unwrap();
        assert_eq!(outcome(&answer), refused(Code::Unimplemented), "{path}");
        let remote = connect(&server, admin()).await;
        assert_eq!(raw_call(&remote, path, &[]).await, Code::Unimplemented, "{path}");
    }
    // Authentication comes first, as for the services that the server has.
    for path in ["/kstore.lab.v1.Lab/GetInfo", "/kstore.v1.Kstore/Get"] {
        let answer = server.answer(empty_call(anonymous(), path, Some("wrong"))).await;
        assert_eq!(outcome(&answer), refused(Code::Unauthenticated), "{path}");
    }
    let stranger = server.for_peer(anonymous());
    let answer = stranger.oneshot(empty_call(anonymous(), "/a.B/C", Some("wrong"))).await.unwrap();
    assert_eq!(outcome(&answer), refused(Code::Unauthenticated), "in process, too");
    // Resources may have bodies of any type.
    let proxied = empty_call(admin(), "/api/v1/namespaces/default/pods/a/proxy/a.B/C", None);
    let answer = server.for_peer(admin()).oneshot(proxied).await.unwrap();
    assert_ne!(outcome(&answer).2, "application/grpc");
}
