//! [`ClientSink`]: writes recorded events as Events of the core group.

use k8s_openapi::{
    api::core::v1::{Event as CoreEvent, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kstore_informer::{Event, EventSink, Recorder, Reference, SinkError};
use kstore_nondet::Nondet;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{ApiError, Client, Patch, typed::Kind};

/// Where a [`Recorder`] of a component leaves its events.
#[derive(Clone)]
pub struct ClientSink(Client);

impl ClientSink {
    /// A sink that writes through `client`.
    pub fn new(client: &Client) -> Self {
        Self(client.clone())
    }
}

impl Client {
    /// A recorder whose events are written through this client until `stop` is cancelled.
    pub fn recorder(&self, component: &str, nondet: &Nondet, stop: &CancellationToken) -> Recorder {
        Recorder::spawn(ClientSink::new(self), component, nondet, stop)
    }
}

/// How events refer to an object.
pub fn reference<K: Kind>(object: &K) -> Reference {
    let meta = object.metadata();
    Reference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}

impl EventSink for ClientSink {
    async fn write(&self, event: &Event) -> Result<(), SinkError> {
        let api = self.0.causes(&event.causes).api::<CoreEvent>();
        let ns = match event.about.namespace.as_str() {
            "" => "default",
            ns => ns,
        };
        if event.count > 1 {
            let patch = json!({
                "count": event.count, "message": event.message, "lastTimestamp": Time(event.last),
            });
            match api.patch(ns, &event.name, &Patch::Merge(patch)).await {
                Err(error) if error.is_not_found() => {}
                outcome => return finish(outcome),
            }
        }
        finish(api.create(ns, &core_event(ns, event)).await)
    }
}

/// A server that answered will answer the same again, except when it was busy.
fn finish<T>(outcome: Result<T, ApiError>) -> Result<(), SinkError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(error) => match error.code() {
            None | Some(429 | 500..) => Err(SinkError::Retry(error.to_string())),
            Some(_) => Err(SinkError::Refused(error.to_string())),
        },
    }
}

fn core_event(ns: &str, event: &Event) -> CoreEvent {
    let about = &event.about;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    CoreEvent {
        metadata: ObjectMeta {
            name: Some(event.name.clone()),
            namespace: Some(ns.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: some(&about.api_version),
            kind: some(&about.kind),
            namespace: some(&about.namespace),
            name: some(&about.name),
            uid: some(&about.uid),
            ..ObjectReference::default()
        },
        reason: some(&event.reason),
        message: some(&event.message),
        type_: some(event.event_type.as_str()),
        source: Some(EventSource { component: some(&event.component), host: None }),
        reporting_component: some(&event.component),
        count: i32::try_from(event.count).ok(),
        first_timestamp: Some(Time(event.first)),
        last_timestamp: Some(Time(event.last)),
        ..CoreEvent::default()
    }
}
