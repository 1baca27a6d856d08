//! A fake API server for the tests of `run`: objects in a map, watches, binds, status patches, evictions and events.

use futures::Stream;
use futures::stream::unfold;
use kstore_proto::kstore::v1 as pb;
use kstore_proto::kstore::v1::kstore_server::Kstore;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self};
use tonic::{Code, Request, Response, Status};

type Batches<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The size of a watcher's queue. A test that makes more changes at once is wrong.
const WATCH_BATCHES: usize = 1_000;

/// A handle of the fake server. Clones share the server.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    revision: i64,
    /// Objects by resource and `namespace/name`.
    objects: BTreeMap<(String, String), Value>,
    /// Watches with the resources of their selectors.
    watches: Vec<(Vec<String>, mpsc::Sender<pb::WatchBatch>)>,
    /// Whether watch requests get no response.
    is_unresponsive: bool,
    /// The number of binds to refuse before the server accepts one.
    refuse_binds: usize,
    /// The pods whose next bind the server refuses.
    refused_binds: BTreeSet<String>,
    /// The numbers of binds in calls of several.
    calls_of_binds: Vec<usize>,
    /// The number of binds that succeed but return a transport error.
    lose_responses: usize,
    binds: Vec<String>,
    causes: Vec<String>,
    /// The pods that were evicted, in order.
    evicted: Vec<String>,
    /// The number of evictions in flight, now and at most.
    evicting: (usize, usize),
    /// The pod whose next eviction the server refuses.
    refuse_eviction: Option<String>,
}

impl Fake {
    pub(super) fn put(&self, resource: &str, object: Value) -> i64 {
        self.0.lock().unwrap().put(resource, object)
    }

    pub(super) fn remove(&self, resource: &str, key: &str) {
        self.0.lock().unwrap().remove(resource, key);
    }

    pub(super) fn get(&self, resource: &str, key: &str) -> Value {
        let state = self.0.lock().unwrap();
        state.objects.get(&(resource.to_owned(), key.to_owned())).cloned().unwrap_or_default()
    }

    /// Type, reason, message and count of every event, sorted by name.
    pub(super) fn events(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let events = state.objects.iter().filter(|((resource, _), _)| resource == "events");
        let text = |e: &Value| {
            let field = |name: &str| e[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {} ×{}", field("type"), field("reason"), field("message"), e["count"])
        };
        events.map(|(_, event)| text(event)).collect()
    }

    pub(super) fn binds(&self) -> Vec<String> {
        self.0.lock().unwrap().binds.clone()
    }

    /// The causes that the bind requests carried.
    pub(super) fn causes(&self) -> Vec<String> {
        self.0.lock().unwrap().causes.clone()
    }

    /// The pods that were evicted, in order, and the largest number of evictions in flight.
    pub(super) fn evictions(&self) -> (Vec<String>, usize) {
        let state = self.0.lock().unwrap();
        (state.evicted.clone(), state.evicting.1)
    }

    /// Refuses the next eviction of this pod.
    pub(super) fn refuse_eviction(&self, key: &str) {
        self.0.lock().unwrap().refuse_eviction = Some(key.to_owned());
    }

    /// Stops responding to watch requests.
    pub(super) fn stop_responding(&self) {
        self.0.lock().unwrap().is_unresponsive = true;
    }

    fn is_silent(&self) -> bool {
        self.0.lock().unwrap().is_unresponsive
    }

    pub(super) fn refuse_binds(&self, count: usize) {
        self.0.lock().unwrap().refuse_binds = count;
    }

    /// Refuses the next bind of each of these pods.
    pub(super) fn refuse_binds_of(&self, keys: impl IntoIterator<Item = String>) {
        self.0.lock().unwrap().refused_binds = keys.into_iter().collect();
    }

    /// The numbers of binds in calls of several.
    pub(super) fn calls_of_binds(&self) -> Vec<usize> {
        self.0.lock().unwrap().calls_of_binds.clone()
    }

    pub(super) fn lose_responses(&self, count: usize) {
        self.0.lock().unwrap().lose_responses = count;
    }

    pub(super) fn watchers(&self) -> usize {
        self.0.lock().unwrap().watches.iter().filter(|(_, sender)| !sender.is_closed()).count()
    }
}

impl FakeState {
    fn put(&mut self, resource: &str, mut object: Value) -> i64 {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.objects.insert((resource.to_owned(), key(&object)), object.clone());
        self.notify(resource, object, pb::watch_event::Type::Put);
        self.revision
    }

    fn remove(&mut self, resource: &str, key: &str) {
        let object = self.objects.remove(&(resource.to_owned(), key.to_owned())).unwrap();
        self.notify(resource, object, pb::watch_event::Type::Gone);
    }

    fn notify(&mut self, resource: &str, object: Value, kind: pb::watch_event::Type) {
        if kind == pb::watch_event::Type::Gone {
            self.revision += 1;
        }
        let revision = self.revision;
        for (watched, sender) in &self.watches {
            let selectors = (0..).zip(watched).filter(|(_, watched)| *watched == resource);
            let event = |(selector, _)| pb::WatchEvent {
                json: bytes(&object),
                revision,
                r#type: kind.into(),
                selector,
            };
            let events: Vec<_> = selectors.map(event).collect();
            if !events.is_empty() {
                let sent = sender.try_send(pb::WatchBatch { events, revision, initial_done: false });
                assert!(!matches!(sent, Err(TrySendError::Full(_))), "too many changes at once");
            }
        }
    }

    fn bind(&mut self, request: pb::BindRequest, cause: String) -> Result<pb::Object, Status> {
        let key = format!("{}/{}", request.namespace, request.pod);
        let mut pod = self.object("pods", &key)?;
        if self.refuse_binds > 0 || self.refused_binds.remove(&key) {
            self.refuse_binds = self.refuse_binds.saturating_sub(1);
            return Err(Status::aborted("try later"));
        }
        assert!(pod["spec"]["nodeName"].is_null(), "{key} is bound once");
        assert_eq!(pod["metadata"]["uid"], request.uid.as_str());
        pod["spec"]["nodeName"] = request.node.clone().into();
        let revision = self.put("pods", pod.clone());
        self.binds.push(format!("{key} {}", request.node));
        self.causes.push(cause);
        if self.lose_responses > 0 {
            self.lose_responses -= 1;
            return Err(Status::unavailable("broken pipe"));
        }
        Ok(pb::Object { json: bytes(&pod), revision })
    }

    fn object(&self, resource: &str, key: &str) -> Result<Value, Status> {
        let found = self.objects.get(&(resource.to_owned(), key.to_owned()));
        found.cloned().ok_or_else(|| Status::not_found(key.to_owned()))
    }

    fn answer(&self, object: &Value) -> Response<pb::Object> {
        Response::new(pb::Object { json: bytes(object), revision: self.revision })
    }
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    match text("namespace").as_str() {
        "" => text("name"),
        ns => format!("{ns}/{}", text("name")),
    }
}

fn bytes(object: &Value) -> bytes::Bytes {
    object.to_string().into()
}

fn parse(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap()
}

fn object_key(reference: Option<pb::Ref>) -> (String, String) {
    let r = reference.unwrap();
    let key = if r.namespace.is_empty() { r.name } else { format!("{}/{}", r.namespace, r.name) };
    (r.resource, key)
}

#[tonic::async_trait]
impl Kstore for Fake {
    type ListStream = Batches<pb::ListChunk>;
    type WatchStream = Batches<pb::WatchBatch>;
    type DeleteCollectionStream = Batches<pb::ListChunk>;
    type TunnelStream = Batches<pb::TunnelDown>;

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<pb::Object>, Status> {
        let (resource, key) = object_key(request.into_inner().r#ref);
        let state = self.0.lock().unwrap();
        Ok(state.answer(&state.object(&resource, &key)?))
    }

    async fn list(&self, _: Request<pb::ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        Err(Status::not_found("only kinds that not every server has are listed"))
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        if self.is_silent() {
            std::future::pending::<()>().await;
        }
        let request = request.into_inner();
        assert_eq!(request.after_revision, 0, "no test breaks a watch");
        let resources: Vec<_> = request.selectors.into_iter().map(|s| object_key(s.r#ref).0).collect();
        let (sender, receiver) = mpsc::channel(WATCH_BATCHES);
        let mut state = self.0.lock().unwrap();
        let mut events = Vec::new();
        for (selector, resource) in (0..).zip(&resources) {
            for (_, object) in state.objects.iter().filter(|((r, _), _)| r == resource) {
                let revision = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                events.push(pb::WatchEvent { json: bytes(object), revision, r#type: 0, selector });
            }
        }
        let first = pb::WatchBatch { events, revision: state.revision, initial_done: true };
        sender.try_send(first).expect("the channel is new");
        state.watches.push((resources, sender));
        let stream = unfold(receiver, |mut r| async move { r.recv().await.map(|batch| (Ok(batch), r)) });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn delete_collection(
        &self,
        _: Request<pb::DeleteCollectionRequest>,
    ) -> Result<Response<Self::DeleteCollectionStream>, Status> {
        Err(Status::unimplemented("not by this fake"))
    }

    /// An eviction: the condition of the victim and its deletion, which takes effect after ten milliseconds.
    async fn transact(
        &self,
        request: Request<pb::TransactRequest>,
    ) -> Result<Response<pb::TransactResponse>, Status> {
        use pb::operation::Kind::{Delete, Patch};
        let operations = request.into_inner().operations.into_iter().map(|operation| operation.kind.unwrap());
        let operations: Vec<_> = operations.collect();
        let [Patch(patch), Delete(delete)] = &operations[..] else { panic!("it is an eviction") };
        assert_eq!(parse(&patch.patch)["status"]["conditions"][0]["type"], "DisruptionTarget");
        let (resource, key) = object_key(delete.r#ref.clone());
        {
            let (now, most) = &mut self.0.lock().unwrap().evicting;
            *now += 1;
            *most = (*most).max(*now);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut state = self.0.lock().unwrap();
        state.evicting.0 -= 1;
        if state.refuse_eviction.take_if(|refused| *refused == key).is_some() {
            return Err(Status::aborted("try later"));
        }
        state.remove(&resource, &key);
        state.evicted.push(key);
        Ok(Response::new(pb::TransactResponse { revision: state.revision, ..Default::default() }))
    }

    async fn tunnel(
        &self,
        _: Request<tonic::Streaming<pb::TunnelUp>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        Err(Status::unimplemented("there are no nodes here"))
    }

    async fn create(&self, request: Request<pb::CreateRequest>) -> Result<Response<pb::Object>, Status> {
        let request = request.into_inner();
        let (resource, _) = object_key(request.r#ref);
        let mut state = self.0.lock().unwrap();
        let object = parse(&request.json);
        state.put(&resource, object.clone());
        Ok(state.answer(&object))
    }

    async fn patch(&self, request: Request<pb::PatchRequest>) -> Result<Response<pb::Object>, Status> {
        let request = request.into_inner();
        let (resource, key) = object_key(request.r#ref);
        let mut state = self.0.lock().unwrap();
        let mut object = state.object(&resource, &key)?;
        let patch = parse(&request.patch);
        if resource == "events" {
            object["count"] = patch["count"].clone();
        } else {
            let old = object["status"]["conditions"][0].clone();
            let mut condition = patch["status"]["conditions"][0].clone();
            if condition["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            object["status"]["conditions"] = json!([condition]);
        }
        state.put(&resource, object.clone());
        Ok(state.answer(&object))
    }

    async fn bind(&self, request: Request<pb::BindRequest>) -> Result<Response<pb::Object>, Status> {
        let cause = request.metadata().get("kstore-cause").map_or("", |v| v.to_str().unwrap()).to_owned();
        self.0.lock().unwrap().bind(request.into_inner(), cause).map(Response::new)
    }

    /// Binds only. A lost response is that of the whole call.
    async fn each(&self, request: Request<pb::EachRequest>) -> Result<Response<pb::EachResponse>, Status> {
        use pb::each_result::Result::{Object, RefusalJson};
        let operations = request.into_inner().operations;
        let mut state = self.0.lock().unwrap();
        state.calls_of_binds.push(operations.len());
        let mut results = Vec::new();
        let mut lost = None;
        for pb::EachOperation { kind, causes } in operations {
            let Some(pb::each_operation::Kind::Bind(bind)) = kind else { panic!("only binds are sent") };
            let result = match state.bind(bind, causes) {
                Ok(object) => Object(object),
                Err(status) if status.code() == Code::Unavailable => {
                    lost = Some(status);
                    continue;
                }
                Err(status) => RefusalJson(
                    json!({ "status": "Failure", "code": 409, "reason": "Conflict", "message": status.message() })
                        .to_string()
                        .into(),
                ),
            };
            results.push(pb::EachResult { result: Some(result), warnings: Vec::new() });
        }
        match lost {
            Some(status) => Err(status),
            None => Ok(Response::new(pb::EachResponse { results })),
        }
    }

    async fn update(&self, _: Request<pb::UpdateRequest>) -> Result<Response<pb::Object>, Status> {
        Err(Status::unimplemented("the scheduler updates nothing"))
    }

    async fn update_status(&self, _: Request<pb::UpdateRequest>) -> Result<Response<pb::Object>, Status> {
        Err(Status::unimplemented("the scheduler patches"))
    }

    async fn delete(&self, _: Request<pb::DeleteRequest>) -> Result<Response<pb::Object>, Status> {
        Err(Status::unimplemented("the scheduler deletes nothing"))
    }
}
