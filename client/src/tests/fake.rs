//! A fake gRPC server over a map: it implements none of Kubernetes' rules, only what the tests of the client
//! need.

use crate::Client;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use kstore_proto::kstore::v1::kstore_server::{Kstore, KstoreServer};
use kstore_proto::kstore::v1::{self as pb};
use parking_lot::Mutex;
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::{Code, Request, Response, Status};

/// A call that reached the server.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub verb: &'static str,
    pub agent: String,
    pub causes: String,
    pub authorization: String,
}

#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<FakeState>,
    changed: Notify,
}

#[derive(Default)]
struct FakeState {
    revision: i64,
    compacted: i64,
    objects: BTreeMap<(String, String, String), Value>,
    history: Vec<(String, pb::WatchEvent)>,
    calls: Vec<Call>,
    cuts: u64,
}

type Answer = Result<Response<pb::Object>, Status>;

impl Fake {
    pub(super) fn client(&self) -> Client {
        Client::over(self.service(), "test")
    }

    pub(super) fn service(&self) -> KstoreServer<Self> {
        KstoreServer::new(self.clone())
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.0.state.lock().calls.clone()
    }

    /// Ends every open stream.
    pub(super) fn cut(&self) {
        self.0.state.lock().cuts += 1;
        self.0.changed.notify_waiters();
    }

    pub(super) fn compact(&self) {
        let mut state = self.0.state.lock();
        state.compacted = state.revision;
        state.history.clear();
    }

    fn called<M>(&self, verb: &'static str, request: Request<M>) -> M {
        let text = |name: &str| match request.metadata().get(name) {
            Some(value) => value.to_str().unwrap().to_owned(),
            None => String::new(),
        };
        let call = Call {
            verb,
            agent: text("user-agent"),
            causes: text("kstore-cause"),
            authorization: text("authorization"),
        };
        self.0.state.lock().calls.push(call);
        request.into_inner()
    }

    fn change(
        &self,
        reference: Option<pb::Ref>,
        edit: impl FnOnce(Option<&Value>) -> Result<Option<Value>, Status>,
    ) -> Answer {
        let reference = reference.unwrap();
        let mut state = self.0.state.lock();
        let place = (reference.resource.clone(), reference.namespace, reference.name);
        let edited = edit(state.objects.get(&place))?;
        state.revision += 1;
        let revision = state.revision;
        let gone = edited.is_none();
        let mut object = edited.or_else(|| state.objects.get(&place).cloned()).unwrap();
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        match gone {
            true => state.objects.remove(&place),
            false => state.objects.insert(place, object.clone()),
        };
        let json = bytes::Bytes::from(object.to_string());
        let kind = if gone { pb::watch_event::Type::Gone } else { pb::watch_event::Type::Put };
        let event = pb::WatchEvent { r#type: kind.into(), selector: 0, json: json.clone(), revision };
        state.history.push((reference.resource, event));
        drop(state);
        self.0.changed.notify_waiters();
        Ok(Response::new(pb::Object { json, revision }))
    }

    fn all(&self, resource: &str) -> (Vec<Value>, i64) {
        let state = self.0.state.lock();
        let ours = state.objects.iter().filter(|((kind, _, _), _)| kind == resource);
        (ours.map(|(_, object)| object.clone()).collect(), state.revision)
    }
}

/// A failure with the details of the real server.
pub(crate) fn failure(code: Code, http: u16, reason: &str) -> Status {
    #[derive(Clone, PartialEq, Message)]
    struct Rpc {
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Any {
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    let value =
        json!({"kind": "Status", "code": http, "reason": reason, "message": reason}).to_string().into();
    Status::with_details(code, reason, Rpc { details: vec![Any { value }] }.encode_to_vec().into())
}

fn found(old: Option<&Value>) -> Result<Value, Status> {
    old.cloned().ok_or_else(|| failure(Code::NotFound, 404, "NotFound"))
}

fn merge(target: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => *target = patch.clone(),
        Some(fields) => fields.iter().for_each(|(name, value)| merge(&mut target[name], value)),
    }
}

#[tonic::async_trait]
impl Kstore for Fake {
    type ListStream = BoxStream<'static, Result<pb::ListChunk, Status>>;
    type WatchStream = BoxStream<'static, Result<pb::WatchBatch, Status>>;
    type DeleteCollectionStream = BoxStream<'static, Result<pb::ListChunk, Status>>;
    type TunnelStream = BoxStream<'static, Result<pb::TunnelDown, Status>>;

    async fn get(&self, request: Request<pb::GetRequest>) -> Answer {
        let reference = self.called("get", request).r#ref.unwrap();
        let place = (reference.resource, reference.namespace, reference.name);
        let object = found(self.0.state.lock().objects.get(&place))?;
        Ok(Response::new(pb::Object { json: object.to_string().into(), revision: 0 }))
    }

    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        let (objects, revision) = self.all(&self.called("list", request).r#ref.unwrap().resource);
        let chunks = objects.into_iter().map(move |object| {
            let items = vec![object.to_string().into()];
            Ok(pb::ListChunk { items, revision, r#continue: String::new() })
        });
        Ok(Response::new(stream::iter(chunks.collect::<Vec<_>>()).boxed()))
    }

    async fn watch(&self, request: Request<pb::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = self.called("watch", request);
        let resource = request.selectors[0].r#ref.clone().unwrap().resource;
        let mut first = Vec::new();
        let mut after = request.after_revision;
        if after == 0 {
            let (objects, revision) = self.all(&resource);
            let events = objects.into_iter().map(|object| pb::WatchEvent {
                json: object.to_string().into(),
                revision: object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap(),
                ..Default::default()
            });
            first.push(Ok(pb::WatchBatch { events: events.collect(), revision, initial_done: true }));
            after = revision;
        }
        if after < self.0.state.lock().compacted {
            return Err(failure(Code::OutOfRange, 410, "Expired"));
        }
        let cuts = self.0.state.lock().cuts;
        let changes = stream::unfold((self.clone(), after), move |(fake, after)| {
            let resource = resource.clone();
            async move {
                loop {
                    let changed = fake.0.changed.notified();
                    tokio::pin!(changed);
                    changed.as_mut().enable();
                    let batch = fake.0.state.lock().batch(&resource, after, cuts)?;
                    match batch.revision > after {
                        true => return Some((Ok(batch.clone()), (fake.clone(), batch.revision))),
                        false => changed.await,
                    }
                }
            }
        });
        Ok(Response::new(stream::iter(first).chain(changes).boxed()))
    }

    async fn create(&self, request: Request<pb::CreateRequest>) -> Answer {
        let request = self.called("create", request);
        let object: Value = serde_json::from_slice(&request.json).unwrap();
        self.change(request.r#ref, |old| match old {
            None => Ok(Some(object)),
            Some(_) => Err(failure(Code::AlreadyExists, 409, "AlreadyExists")),
        })
    }

    async fn update(&self, request: Request<pb::UpdateRequest>) -> Answer {
        let request = self.called("update", request);
        let object: Value = serde_json::from_slice(&request.json).unwrap();
        self.change(request.r#ref, |old| {
            let version = |o: &Value| o["metadata"]["resourceVersion"].clone();
            match version(&found(old)?) == version(&object) {
                true => Ok(Some(object)),
                false => Err(failure(Code::Aborted, 409, "Conflict")),
            }
        })
    }

    async fn update_status(&self, request: Request<pb::UpdateRequest>) -> Answer {
        let request = self.called("update-status", request);
        let object: Value = serde_json::from_slice(&request.json).unwrap();
        self.change(request.r#ref, |old| {
            let mut new = found(old)?;
            new["status"] = object["status"].clone();
            Ok(Some(new))
        })
    }

    async fn patch(&self, request: Request<pb::PatchRequest>) -> Answer {
        let request = self.called("patch", request);
        let patch: Value = serde_json::from_slice(&request.patch).unwrap();
        self.change(request.r#ref, |old| {
            let mut new = found(old)?;
            merge(&mut new, &patch);
            Ok(Some(new))
        })
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Answer {
        let request = self.called("delete", request);
        self.change(request.r#ref, |old| found(old).map(|_| None))
    }

    async fn bind(&self, request: Request<pb::BindRequest>) -> Answer {
        let request = self.called("bind", request);
        let (resource, namespace, name) = ("pods".into(), request.namespace, request.pod);
        let reference = pb::Ref { resource, namespace, name, ..Default::default() };
        self.change(Some(reference), |old| {
            let mut new = found(old)?;
            new["spec"] = json!({"nodeName": request.node, "containers": []});
            Ok(Some(new))
        })
    }

    async fn delete_collection(
        &self,
        _: Request<pb::DeleteCollectionRequest>,
    ) -> Result<Response<Self::DeleteCollectionStream>, Status> {
        Err(Status::unimplemented("not by this fake"))
    }

    async fn transact(
        &self,
        _: Request<pb::TransactRequest>,
    ) -> Result<Response<pb::TransactResponse>, Status> {
        Err(Status::unimplemented("not by this fake"))
    }

    async fn each(&self, _: Request<pb::EachRequest>) -> Result<Response<pb::EachResponse>, Status> {
        Err(Status::unimplemented("not by this fake"))
    }

    async fn tunnel(
        &self,
        _: Request<tonic::Streaming<pb::TunnelUp>>,
    ) -> Result<Response<Self::TunnelStream>, Status> {
        Err(Status::unimplemented("there are no nodes here"))
    }
}

impl FakeState {
    /// The next batch for a stream at `after`; `None` if the stream was cut.
    fn batch(&self, resource: &str, after: i64, cuts: u64) -> Option<pb::WatchBatch> {
        if self.cuts > cuts {
            return None;
        }
        let events = self.history.iter().filter(|(kind, event)| kind == resource && event.revision > after);
        let events = events.map(|(_, event)| event.clone()).collect();
        Some(pb::WatchBatch { events, revision: self.revision, initial_done: false })
    }
}
