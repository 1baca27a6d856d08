//! [`ClientSink`]: writes recorded events as Events of the core group.

use crate::event_batches::EventBatches;
use crate::typed::Kind;
use crate::{ApiError, Client, Patch};
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kstore_api::limits::EVENT_NOTE_MAX;
use kstore_informer::{Event, EventSink, Recorder, Reference, SinkError};
use kstore_nondet::Nondet;
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The sink of a [`Recorder`]: creates and updates Events through a client.
#[derive(Clone)]
pub struct ClientSink {
    client: Client,
    batches: EventBatches,
}

impl ClientSink {
    /// A sink that writes through `client`.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), batches: EventBatches::new(client) }
    }
}

impl Client {
    /// A recorder whose task writes events through this client. To wait at the end for all writes, use
    /// [`Recorder::build`] with a [`ClientSink`] instead and await its future.
    pub fn recorder(&self, component: &str, nondet: &Nondet, stop: &CancellationToken) -> Recorder {
        Recorder::spawn(ClientSink::new(self), component, nondet, stop)
    }
}

/// The reference of events to an object.
pub fn reference<K: Kind>(object: &K) -> Reference {
    let meta = object.metadata();
    Reference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        field_path: String::new(),
    }
}

impl EventSink for ClientSink {
    async fn write(&self, event: &Event) -> Result<(), SinkError> {
        let api = self.client.causes(&event.causes).api::<CoreEvent>();
        let ns = match event.about.namespace.as_str() {
            "" => "default",
            ns => ns,
        };
        let create = async || self.batches.create(ns, core_event(ns, event)).await;
        let update = async || api.patch(ns, &event.name, &newer(event)).await.map(drop);
        let outcome = match event.known {
            // The event was deleted meanwhile: events expire after an hour.
            true => match update().await {
                Err(error) if error.is_not_found() => create().await,
                outcome => outcome,
            },
            // An earlier attempt succeeded although its response was lost.
            false => match create().await {
                Err(error) if error.is_already_exists() => update().await,
                outcome => outcome,
            },
        };
        finish(outcome)
    }
}

fn newer(event: &Event) -> Patch {
    Patch::Merge(json!({
        "count": event.count, "message": cut_message(&event.message), "lastTimestamp": Time(event.last),
    }))
}

/// The message, cut to the API's maximum length.
fn cut_message(message: &str) -> &str {
    &message[..message.floor_char_boundary(EVENT_NOTE_MAX)]
}

/// The result for the recorder. A server that refused an event refuses it again, except when it was
/// overloaded.
fn finish(outcome: Result<(), ApiError>) -> Result<(), SinkError> {
    match outcome {
        Ok(()) => Ok(()),
        Err(error) => match error.code() {
            None | Some(429 | 500..) => Err(SinkError::Retry(error.to_string())),
            Some(_) => Err(SinkError::Refused(error.to_string())),
        },
    }
}

/// The event to create. In addition to the times in whole seconds it has `eventTime` in microseconds, which
/// orders the events of one second. The API accepts that only with a reason, an action and a reporting
/// instance. An event without an action therefore has its reason as action, and one without a host has its
/// component as instance.
fn core_event(ns: &str, event: &Event) -> CoreEvent {
    let or = |text: &str, default: &str| some(if text.is_empty() { default } else { text });
    CoreEvent {
        metadata: ObjectMeta {
            name: Some(event.name.clone()),
            namespace: Some(ns.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: object_reference(&event.about),
        related: event.related.as_ref().map(object_reference),
        reason: some(&event.reason),
        action: or(&event.action, &event.reason),
        message: some(cut_message(&event.message)),
        type_: some(event.event_type.as_str()),
        source: Some(EventSource { component: some(&event.component), host: some(&event.host) }),
        reporting_component: some(&event.component),
        reporting_instance: or(&event.host, &event.component),
        count: i32::try_from(event.count).ok(),
        event_time: (!event.reason.is_empty()).then_some(MicroTime(event.first)),
        first_timestamp: Some(Time(event.first)),
        last_timestamp: Some(Time(event.last)),
        ..CoreEvent::default()
    }
}

fn object_reference(object: &Reference) -> ObjectReference {
    ObjectReference {
        api_version: some(&object.api_version),
        kind: some(&object.kind),
        namespace: some(&object.namespace),
        name: some(&object.name),
        uid: some(&object.uid),
        field_path: some(&object.field_path),
        ..ObjectReference::default()
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
