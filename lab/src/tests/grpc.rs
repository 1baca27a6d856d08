//! Tests of the gRPC service: each call is made over gRPC in one lab, and over HTTP in an equal one.

use super::client::TestAnswer;
use super::{CONFIG_MAPS, TestClient, config_map, lab, lab_with};
use crate::clock::Mode;
use crate::cluster::GRPC_PREFIX;
use crate::front::grpc::calls::{CALLS, LabRpc};
use crate::front::grpc::convert::{descriptors, of_json, to_json};
use crate::host::ComponentChoice;
use crate::log::tests::sent;
use crate::log::{LogFilter, LogRecord};
use crate::registry::{Lab, LabConfig};
use crate::request::Verb;
use bytes::{Buf as _, Bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kstore_nondet::Clock;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Members whose values depend on real time, ports, processes or keys.
const VARYING: [&str; 16] = [
    "kubeconfig",
    "url",
    "skew",
    "waited",
    "took",
    "real",
    "connection",
    "stops",
    "barriers",
    "process",
    "output",
    "tail",
    "state",
    "why",
    "uid",
    "signal",
];

fn method(name: &str) -> MethodDescriptor {
    let service = descriptors().get_service_by_name("kstore.lab.v1.Lab").unwrap();
    service.methods().find(|method| method.name() == name).unwrap()
}

/// Sends messages, and returns those of the answer with its status.
async fn send(
    client: &TestClient,
    path: &str,
    messages: &[Vec<u8>],
    key: Option<&str>,
) -> (Vec<Bytes>, tonic::Status) {
    let connection = http2::handshake(TokioExecutor::new(), TokioIo::new(client.connect().await)).await;
    let (mut sender, connection) = connection.unwrap();
    tokio::spawn(connection);
    let frame = |message: &Vec<u8>| {
        [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
    };
    let body = Full::new(Bytes::from(messages.iter().map(frame).collect::<Vec<_>>().concat()));
    let mut request = Request::post(format!("https://{}{path}", client.host));
    request = request.header(CONTENT_TYPE, "application/grpc").header("te", "trailers");
    request = request.header(USER_AGENT, "test");
    if let Some(token) = &client.token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let (head, body) = sender.send_request(request.body(body).unwrap()).await.unwrap().into_parts();
    assert_eq!(
        (head.status.as_u16(), &head.headers[CONTENT_TYPE]),
        (200, &"application/grpc".parse().unwrap())
    );
    let body = body.collect().await.unwrap();
    let status = body.trailers().and_then(tonic::Status::from_header_map);
    let status = status.or_else(|| tonic::Status::from_header_map(&head.headers)).unwrap();
    let (mut bytes, mut answers) = (body.to_bytes(), Vec::new());
    while bytes.has_remaining() {
        assert_eq!(bytes.get_u8(), 0, "no compression");
        let length = usize::try_from(bytes.get_u32()).unwrap();
        answers.push(bytes.split_to(length));
    }
    (answers, status)
}

/// Makes a call, and returns the JSON of its messages.
async fn call_with(
    client: &TestClient,
    name: &str,
    request: Value,
    key: Option<&str>,
) -> Result<Vec<Value>, (Code, String)> {
    let method = method(name);
    let message = of_json(&method.input(), &request).unwrap();
    assert_eq!(to_json(&message), Ok(request), "{name}: the message has every member");
    let (answers, status) =
        send(client, &format!("{GRPC_PREFIX}/{name}"), &[message.encode_to_vec()], key).await;
    match status.code() {
        Code::Ok => {
            let json =
                |answer: Bytes| to_json(&DynamicMessage::decode(method.output(), answer).unwrap()).unwrap();
            Ok(answers.into_iter().map(json).collect())
        }
        code => Err((code, status.message().to_owned())),
    }
}

async fn call(client: &TestClient, name: &str, request: Value) -> Result<Vec<Value>, (Code, String)> {
    call_with(client, name, request, None).await
}

/// Makes the HTTP call of a request.
async fn http(client: &TestClient, name: &str, request: Value) -> TestAnswer {
    let rpc = LabRpc::named(name).unwrap();
    let Value::Object(mut members) = request else { panic!("{request}") };
    let cluster = members.remove("cluster").map_or("main".to_owned(), |id| id.as_str().unwrap().to_owned());
    let form = rpc.http(members, &cluster).unwrap();
    let query: Vec<String> = form.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut path = form.path.iter().map(|segment| format!("/{segment}")).collect::<String>();
    if !rpc.path.starts_with("clusters/") && cluster != "main" {
        path = format!("/clusters/{cluster}{path}");
    }
    let body = (!form.body.is_null()).then_some(form.body);
    client.lab(rpc.method, &format!("{path}?{}", query.join("&")), body).await
}

/// JSON without members that vary, and without empty members, which messages do not tell from missing ones.
fn comparable(json: &Value) -> Value {
    match json {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| !VARYING.contains(&name.as_str()));
            let members = members.map(|(name, value)| (name.clone(), comparable(value)));
            let is_empty = |value: &Value| match value {
                Value::Null => true,
                Value::Bool(value) => !value,
                Value::Number(number) => number.as_f64() == Some(0.0),
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
            };
            Value::Object(members.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

/// Two equal labs: the test calls the first over gRPC and the second over HTTP.
struct Twins {
    labs: [Arc<Lab>; 2],
    clients: [TestClient; 2],
    called: BTreeSet<String>,
}

impl Twins {
    async fn start() -> Self {
        let config = || LabConfig {
            programs: true,
            components: ComponentChoice::NONE,
            mode: Mode::Manual,
            start: Some("2026-03-01T00:00:00Z".parse().unwrap()),
            seed: Some(7),
            ..LabConfig::default()
        };
        let ((first, one), (second, other)) = (lab_with(config()).await, lab_with(config()).await);
        Self { labs: [first, second], clients: [one, other], called: BTreeSet::new() }
    }

    /// Makes a call in both labs, and returns the answer over gRPC, which has the JSON of the other.
    async fn both(&mut self, name: &str, request: Value) -> Vec<Value> {
        let messages = call(&self.clients[0], name, request.clone()).await;
        let answer = http(&self.clients[1], name, request.clone()).await;
        self.called.insert(name.to_owned());
        if answer.code >= 400 {
            let (code, message) = messages.unwrap_err();
            let status: kstore_api::status::Status = serde_json::from_value(answer.body).unwrap();
            let expected = kstore_registry::error::to_grpc(&status);
            assert_eq!((code, message.as_str()), (expected.code(), expected.message()), "{name} {request}");
            return Vec::new();
        }
        let messages = messages.unwrap_or_else(|refused| panic!("{name} {request}: {refused:?}, {answer:?}"));
        let expected = LabRpc::named(name).unwrap().messages(answer.body);
        let of_progress = |json: &&Value| json.get("progress").is_none();
        let compared: Vec<Value> = messages.iter().filter(of_progress).map(comparable).collect();
        assert_eq!(compared, expected.iter().map(comparable).collect::<Vec<_>>(), "{name} {request}");
        messages
    }

    async fn end(self) {
        for lab in self.labs {
            lab.end().await;
        }
    }
}

/// Calls about time and objects.
async fn compare_clock(twins: &mut Twins) {
    for client in &twins.clients {
        let made = client.api(Method::POST, CONFIG_MAPS, Some(config_map("a"))).await;
        assert_eq!(made.code, 201, "{made:?}");
    }
    let info = twins.both("GetInfo", json!({})).await;
    assert!(info[0]["features"].as_array().unwrap().contains(&json!("grpc")), "{info:?}");
    twins.both("GetClock", json!({})).await;
    twins.both("SetClock", json!({"mode": "auto", "upTo": "1m0s", "factor": 2.0})).await;
    twins.both("SetClock", json!({"mode": "scaled"})).await;
    twins.both("SetClock", json!({"mode": "manual"})).await;
    twins.both("Settle", json!({"limit": "30m0s", "patience": "10m0s"})).await;
    twins.both("Quiet", json!({"patience": "10m0s"})).await;
    twins.both("Leap", json!({"by": "1h0m0.5s"})).await;
    twins.both("Leap", json!({"by": "-1h1m0s"})).await;
    let events = twins.both("Advance", json!({"by": "2h0m0s", "patience": "10m0s"})).await;
    assert!(events.len() > 1 && events[0]["progress"]["mode"] == "manual", "{events:?}");
    assert_eq!(events.last().unwrap()["result"]["ended"], "there");
    let condition = json!({"object": "configmaps/default/a", "matches": {"data": {"a": "a"}}});
    twins.both("Advance", json!({"condition": condition, "patience": "10m0s"})).await;
    twins.both("Advance", json!({"by": "1h0m0s", "next": true})).await;
    twins.both("WaitForTime", json!({"for": "0s"})).await;
    twins.both("WaitForTime", json!({"until": "2026-03-01T01:00:00.25Z"})).await;
    let patience = "10m0s";
    let found =
        json!({"object": "configmaps/default/a", "cel": "object.data.a == 'a'", "patience": patience});
    let found = twins.both("WaitForObject", found).await;
    assert_eq!(found[0]["json"]["metadata"]["name"], "a");
    let gone = json!({"object": "configmaps/default/b", "deleted": true, "patience": patience});
    twins.both("WaitForObject", gone).await;
    twins.both("WaitForObject", json!({"object": "a"})).await;
}

/// Calls about clusters, images and nodes.
async fn compare_clusters(twins: &mut Twins) {
    twins.both("ListClusters", json!({})).await;
    let clock = json!({"mode": "scaled", "factor": 0.01});
    twins.both("StartClusters", json!({"name": "slow", "clock": clock, "count": 2})).await;
    let from = json!({"from": {"cluster": "main"}, "name": "fork", "seed": 9, "components": ["apiserver"]});
    let fork = twins.both("StartClusters", from).await;
    let id = fork[0]["clusters"][0]["id"].clone();
    twins.both("StartClusters", json!({"count": 2, "clock": {"mode": "manual"}})).await;
    twins.both("GetCluster", json!({"cluster": id})).await;
    twins.both("GetClock", json!({"cluster": id})).await;
    twins.both("GetClock", json!({"cluster": "none"})).await;
    twins.both("ResetCluster", json!({"cluster": id})).await;
    twins.both("EndCluster", json!({"cluster": id})).await;
    twins.both("TakeImage", json!({"name": "prepared", "settled": true})).await;
    twins.both("TakeImage", json!({"name": "prepared"})).await;
    twins.both("ListImages", json!({})).await;
    compare_files(twins).await;
    twins.both("DeleteImage", json!({"name": "again"})).await;
    twins.both("MakeKubeconfig", json!({"user": "ann", "groups": ["dev"]})).await;
    twins.both("MakeKubeconfig", json!({"serviceAccount": "default/none", "lifetime": "1h0m0s"})).await;
    twins.both("SetNode", json!({"name": "none", "action": "stop"})).await;
    let noded = json!({"components": ["kubelet-sim"], "nodes": 1, "name": "noded"});
    for client in &twins.clients {
        assert_eq!(http(client, "StartClusters", noded.clone()).await.code, 201);
    }
    for action in ["stop", "start"] {
        let node = json!({"cluster": "noded", "name": "node-0", "action": action});
        assert_eq!(twins.both("SetNode", node).await.len(), 1, "{action}");
    }
    let fault = json!({"cluster": "noded", "name": "node-0", "fault": "slow", "value": "3", "after": "1m0s",
        "duration": "2m0s", "every": "1h0m0s"});
    let faults = twins.both("AddNodeFault", fault).await;
    assert_eq!(faults[0]["faults"][0]["item"], "slow=3@60+120/3600");
    twins.both("GetNodeFaults", json!({"cluster": "noded", "name": "node-0"})).await;
    twins.both("AddNodeFault", json!({"cluster": "noded", "name": "node-0", "fault": "slwo"})).await;
    twins.both("DeleteNodeFaults", json!({"cluster": "noded", "name": "node-0", "fault": "slow"})).await;
    twins.both("DeleteNodeFaults", json!({"cluster": "noded", "name": "node-0"})).await;
    twins.both("GetNodeFaults", json!({"name": "none"})).await;
}

/// Snapshot files: one that was saved over gRPC is that of HTTP, and both ways load it.
async fn compare_files(twins: &mut Twins) {
    let [one, other] = &twins.clients;
    let message = of_json(&method("SaveImage").input(), &json!({"name": "prepared"})).unwrap();
    let path = |name: &str| format!("{GRPC_PREFIX}/{name}");
    let (pieces, status) = send(one, &path("SaveImage"), &[message.encode_to_vec()], None).await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    let data = |piece: &Bytes| {
        let message = DynamicMessage::decode(method("SaveImage").output(), piece.clone()).unwrap();
        message.get_field_by_name("data").unwrap().as_bytes().unwrap().clone()
    };
    let file: Vec<u8> = pieces.iter().flat_map(data).collect();
    let expected = one.lab_bytes(Method::GET, "/images/prepared/file", Bytes::new()).await;
    assert_eq!((200, Bytes::from(file.clone())), expected);
    let half = file.len() / 2;
    let piece = |name: &str, data: &[u8], identity: &str| {
        let mut message = DynamicMessage::new(method("LoadImage").input());
        message.set_field_by_name("name", prost_reflect::Value::String(name.to_owned()));
        message.set_field_by_name("data", prost_reflect::Value::Bytes(Bytes::copy_from_slice(data)));
        message.set_field_by_name("identity", prost_reflect::Value::String(identity.to_owned()));
        message.encode_to_vec()
    };
    let pieces = [piece("again", &file[..half], ""), piece("", &file[half..], "")];
    let (answers, status) = send(one, &path("LoadImage"), &pieces, None).await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    let loaded = to_json(&DynamicMessage::decode(method("LoadImage").output(), answers[0].clone()).unwrap());
    let (code, expected) =
        other.lab_bytes(Method::PUT, "/images/again/file", Bytes::from(file.clone())).await;
    let expected = serde_json::from_slice(&expected).unwrap();
    assert_eq!((code, comparable(&loaded.unwrap())), (201, comparable(&expected)));
    let (_, refused) = send(one, &path("LoadImage"), &[piece("new", &file, "old")], None).await;
    assert!(refused.message().contains("none of kept, new"), "{refused:?}");
    let (_, refused) = send(one, &path("LoadImage"), &pieces[..1], None).await;
    assert_eq!(refused.code(), Code::InvalidArgument, "half a file: {refused:?}");
    twins.called.extend(["SaveImage".to_owned(), "LoadImage".to_owned()]);
}

/// Calls about what the lab has seen.
async fn compare_observed(twins: &mut Twins) {
    twins.both("ListClients", json!({})).await;
    let client = json!({"name": "backup", "match": {"agent": "backup"}, "counted": false, "window": "200ms"});
    twins.both("PutClient", client).await;
    twins.both("GetView", json!({"name": "test"})).await;
    twins.both("GetView", json!({"name": "none"})).await;
    twins.both("DeleteClient", json!({"name": "backup"})).await;
    let log = twins.both("Requests", json!({"resource": "configmaps", "verb": "create"})).await;
    assert_eq!(log[0]["requests"][0]["name"], Value::Null, "{log:?}");
    assert_eq!(log[0]["requests"][0]["agent"], "test", "{log:?}");
    twins.both("Requests", json!({"since": 0, "limit": 1})).await;
    let writes = twins.both("Writes", json!({"resource": "configmaps", "namespace": "default"})).await;
    let revision = writes[0]["writes"][0]["revision"].clone();
    let write = twins.both("GetWrite", json!({"revision": revision})).await;
    assert_eq!(write[0]["objects"][0]["after"]["data"], json!({"a": "a"}), "{write:?}");
    twins.both("ClearRequests", json!({})).await;
}

/// Calls about faults, caches and plans.
async fn compare_perturbations(twins: &mut Twins) {
    let rule = json!({"fault": "too-many", "probability": 0.5, "client": {"agent": "backup"}});
    twins.both("SetFaults", json!({"seed": 7, "rules": [rule]})).await;
    twins.both("GetFaults", json!({})).await;
    let counts = twins.both("GetFaultCounts", json!({})).await;
    assert_eq!(counts[0]["rules"][0]["fault"], "too-many", "{counts:?}");
    twins.both("SetFaults", json!({"rules": [{"fault": "unknown"}]})).await;
    let started = json!({"name": "faulty", "faults": {"seed": 9, "rules": [rule]}});
    assert_eq!(twins.both("StartClusters", started).await.len(), 1);
    twins.both("GetFaults", json!({"cluster": "faulty"})).await;
    twins.both("DeleteFaults", json!({})).await;
    twins.both("PutCache", json!({"name": "behind", "window": 100})).await;
    twins.both("FreezeCache", json!({"name": "behind", "resources": ["configmaps"]})).await;
    let routes = json!({"routes": [{"client": {"agent": "backup"}, "cache": "behind"}]});
    twins.both("SetRoutes", routes).await;
    twins.both("SetRoutes", json!({"routes": [{"cache": "none"}]})).await;
    let routes = twins.both("GetRoutes", json!({})).await;
    assert_eq!(routes[0]["routes"][0]["cache"], "behind", "{routes:?}");
    twins.both("ThawCache", json!({"name": "behind"})).await;
    twins.both("ThawCache", json!({"name": "behind", "step": 0})).await;
    twins.both("GetCache", json!({"name": "behind"})).await;
    twins.both("ListCaches", json!({})).await;
    twins.both("SetRoutes", json!({})).await;
    twins.both("DeleteCache", json!({"name": "behind"})).await;
    compare_plans(twins).await;
}

/// A plan whose only action waits for a step of the test.
async fn compare_plans(twins: &mut Twins) {
    let action = json!({"action": "leap", "by": "1s", "trigger": {"step": {"name": "begin"}}});
    let plan = json!({"name": "late", "actions": [action]});
    let (client, request) = (twins.clients[0].clone(), plan.clone());
    let stream = tokio::spawn(async move { call(&client, "RunPlan", request).await });
    let started = http(&twins.clients[1], "RunPlan", plan).await;
    assert_eq!(started.code, 201, "{started:?}");
    let id = json!({"id": "late"});
    while !stream.is_finished() && call(&twins.clients[0], "GetPlan", id.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    twins.both("GetPlan", id.clone()).await;
    twins.both("ListPlans", json!({})).await;
    twins.both("ResumePlan", id.clone()).await;
    twins.both("PlanEvents", id.clone()).await;
    twins.both("StepPlan", json!({"id": "late", "name": "begin"})).await;
    let messages = stream.await.unwrap().unwrap();
    assert_eq!(comparable(&messages[0]["plan"]), comparable(&started.body));
    let last = messages.last().unwrap();
    assert_eq!(
        (&last["running"], &last["events"][0]["action"]),
        (&Value::Null, &Value::Null),
        "{messages:?}"
    );
    twins.called.insert("RunPlan".to_owned());
    twins.both("DeletePlan", id.clone()).await;
    twins.both("GetPlan", id).await;
}

/// Calls about programs.
async fn compare_programs(twins: &mut Twins) {
    let name = json!({"name": "sleeper"});
    let start = json!({"name": "sleeper", "command": ["sleep", "1000"], "env": {"A": "b"}, "counted": false});
    let (client, request) = (twins.clients[0].clone(), start.clone());
    let stream = tokio::spawn(async move { call(&client, "StartProgram", request).await.unwrap() });
    let started = http(&twins.clients[1], "StartProgram", start).await.body;
    while call(&twins.clients[0], "GetProgram", name.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    twins.both("GetProgram", name.clone()).await;
    twins.both("ListPrograms", json!({})).await;
    twins.both("SignalProgram", json!({"name": "sleeper", "signal": "NONE"})).await;
    twins.both("SignalProgram", json!({"name": "sleeper", "signal": "KILL"})).await;
    let messages = stream.await.unwrap();
    let states: Vec<_> = messages.iter().map(|program| (&program["state"], &program["signal"])).collect();
    assert_eq!(states, [(&json!("running"), &Value::Null), (&json!("ended"), &json!(9))]);
    assert_eq!(comparable(&messages[0]), comparable(&started));
    twins.called.insert("StartProgram".to_owned());
    while http(&twins.clients[1], "GetProgram", name.clone()).await.body["state"] != "ended" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    twins.both("RestartProgram", name.clone()).await;
    twins.both("EndProgram", json!({"name": "sleeper", "grace": "10ms"})).await;
    twins.both("GetProgram", name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_over_grpc_has_the_answer_of_its_http_call() {
    let mut twins = Twins::start().await;
    compare_clock(&mut twins).await;
    compare_observed(&mut twins).await;
    compare_clusters(&mut twins).await;
    compare_perturbations(&mut twins).await;
    compare_programs(&mut twins).await;
    let missing: Vec<&str> =
        CALLS.iter().map(|rpc| rpc.name).filter(|name| !twins.called.contains(*name)).collect();
    assert_eq!(missing, [""; 0], "every call is compared");
    twins.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_grpc_are_for_administrators_and_happen_once_by_their_key() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let refused = async |client: &TestClient, name: &str| call(client, name, json!({})).await.unwrap_err();
    let user = call(&admin, "MakeKubeconfig", json!({"user": "ann"})).await.unwrap();
    let ann = TestClient::of(user[0]["kubeconfig"].as_str().unwrap(), "ann");
    let unknown = admin.with_token("wrong");
    for name in ["GetInfo", "Advance", "Requests", "LoadImage"] {
        assert_eq!(refused(&ann, name).await.0, Code::PermissionDenied, "{name}");
        assert_eq!(refused(&admin.anonymous(), name).await.0, Code::PermissionDenied, "{name}");
        assert_eq!(refused(&unknown, name).await.0, Code::Unauthenticated, "{name}");
    }
    for path in ["/kstore.lab.v1.Lab/Unknown", "/kstore.lab.v1.Lab/", "/kstore.lab.v2.Lab/GetInfo"] {
        assert_eq!(send(&admin, path, &[Vec::new()], None).await.1.code(), Code::Unimplemented, "{path}");
    }
    let large =
        send(&admin, "/kstore.lab.v1.Lab/Leap", &[vec![0; crate::limits::BODY_BYTES + 1]], None).await;
    assert!(large.0.is_empty() && large.1.code() != Code::Ok, "{:?}", large.1);
    let begin = call(&admin, "GetClock", json!({})).await.unwrap();
    for _ in 0..2 {
        let leapt = call_with(&admin, "Leap", json!({"by": "1h0m0s"}), Some("once")).await.unwrap();
        assert_eq!(
            (&leapt[0]["from"], &leapt[0]["time"]),
            (&begin[0]["time"], &json!("2026-03-01T01:00:00Z"))
        );
    }
    let other = call_with(&admin, "Leap", json!({"by": "2h0m0s"}), Some("once")).await.unwrap_err();
    assert_eq!(other.0, Code::InvalidArgument, "{other:?}");
    assert_eq!(call(&admin, "GetClock", json!({})).await.unwrap()[0]["time"], "2026-03-01T01:00:00Z");
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_falls_behind_the_log_hears_where_to_go_on() {
    let config = LabConfig { log_bytes: 4096, components: ComponentChoice::NONE, ..LabConfig::default() };
    let (lab, admin) = lab_with(config).await;
    admin.api(Method::GET, CONFIG_MAPS, None).await;
    let log = lab.cluster("main").unwrap().current().unwrap().bridge.log;
    let (_, next) = log.read(&LogFilter::default(), None, 1).unwrap();
    let followed = call(&admin, "Requests", json!({"since": next - 1, "limit": 1, "follow": true})).await;
    let followed = followed.unwrap();
    assert_eq!((followed.len(), &followed[0]["next"]), (1, &json!(next)), "{followed:?}");
    let reader = admin.clone();
    let reading =
        tokio::spawn(async move { call(&reader, "Requests", json!({"since": next, "follow": true})).await });
    while log.followers.available_permits() == crate::limits::FOLLOWERS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // A request without an answer holds the reader back, and is dropped for those after it.
    let request = LogRecord { real: Clock::real().now(), ..sent("op", Verb::Get, "a", 0) };
    log.append(request.clone());
    for _ in 0..100 {
        log.append(request.clone());
    }
    let (code, message) = reading.await.unwrap().unwrap_err();
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    assert!(message.contains("go on with since "), "{message}");
    assert_eq!(call(&admin, "Requests", json!({"since": next})).await.unwrap_err().0, Code::OutOfRange);
    lab.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_reflection_lists_the_labs_service_on_the_port_of_each_cluster() {
    let (lab, admin) = lab(Mode::Manual, ComponentChoice::NONE).await;
    let fork = admin.lab(Method::POST, "/clusters", Some(json!({}))).await.body;
    for client in [admin.clone(), admin.at(fork["url"].as_str().unwrap(), "test")] {
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        // A request with the member `list_services`, number 7, as an empty text.
        let (answers, status) = send(&client, path, &[vec![7 << 3 | 2, 0]], None).await;
        assert_eq!((status.code(), answers.len()), (Code::Ok, 1), "{status:?}");
        let text = String::from_utf8_lossy(&answers[0]);
        assert!(text.contains("kstore.lab.v1.Lab") && text.contains("kstore.v1.Kstore"), "{text}");
    }
    lab.end().await;
}
