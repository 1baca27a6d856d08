//! [`Recorder`]: writes Kubernetes events about objects. It never blocks its caller. It counts repetitions in
//! one event, writes the count at growing intervals, and drops floods. An [`EventSink`] stores the events.

mod event;
mod names;
mod outbox;
mod recent;
mod series;
mod stats;
#[cfg(test)]
mod tests;
mod writer;

use crate::limits::RECORDER_QUEUE;
use crate::metrics::Registry;
use crate::{Causes, Environment};
pub use event::{Event, EventSink, EventType, Occurrence, Reference, SinkError};
use jiff::Timestamp;
use kstore_nondet::Nondet;
use outbox::Outbox;
pub use stats::RecorderStats;
use stats::{Counters, count};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use writer::Writer;

/// Handle for recording events. Clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<RecorderMessage>,
    nondet: Nondet,
    counters: Arc<Counters>,
    causes: Causes,
    host: Arc<str>,
    /// Time of the recorded events, if not now.
    at: Option<Timestamp>,
}

/// A recorded event before merging.
struct RecordedEvent {
    occurrence: Occurrence,
    host: Arc<str>,
    at: Timestamp,
    causes: Causes,
}

enum RecorderMessage {
    RecordedEvent(Box<RecordedEvent>),
    /// Writes everything now and signals the completion.
    Flush(oneshot::Sender<()>),
}

impl Recorder {
    /// A recorder for `component`, and the future that writes its events. The future ends when every clone is
    /// dropped and all events are written. After `stop` is cancelled it ends at most
    /// [`RECORDER_FLUSH`](crate::limits::RECORDER_FLUSH) later. Events that are unwritten by then, or are
    /// recorded afterwards, count as dropped.
    pub fn build<S: EventSink>(
        sink: S,
        component: &str,
        environment: impl Into<Environment>,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::bounded(sink, component, environment.into(), stop, RECORDER_QUEUE)
    }

    /// [`Recorder::build`] with another queue bound, for tests.
    fn bounded<S: EventSink>(
        sink: S,
        component: &str,
        environment: Environment,
        stop: &CancellationToken,
        queue: usize,
    ) -> (Self, impl Future<Output = ()> + Send + use<S>) {
        let nondet = environment.into_nondet();
        let (sender, inbox) = mpsc::channel(queue);
        let counters = Arc::new(Counters::new(component));
        let outbox = Outbox::new(queue);
        let writer =
            Writer::new(sink, component, inbox, outbox, counters.clone(), nondet.rng.fork(component));
        let driver = writer.run(stop.clone());
        let (causes, host) = (Causes::none(), Arc::from(""));
        (Self { sender, nondet, counters, causes, host, at: None }, driver)
    }

    /// Like [`Recorder::build`], with the driver spawned on the current runtime.
    pub fn spawn<S: EventSink>(
        sink: S,
        component: &str,
        environment: impl Into<Environment>,
        stop: &CancellationToken,
    ) -> Self {
        let (recorder, driver) = Self::build(sink, component, environment, stop);
        tokio::spawn(driver);
        recorder
    }

    /// A clone that records events with these causes.
    #[must_use]
    pub fn causes(&self, causes: &Causes) -> Self {
        Self { causes: causes.clone(), ..self.clone() }
    }

    /// A clone that records events of this host.
    #[must_use]
    pub fn host(&self, host: &str) -> Self {
        Self { host: host.into(), ..self.clone() }
    }

    /// A clone that records events with this time instead of now. A component that is notified late of its
    /// successful write uses it to keep the event before those of later writes.
    #[must_use]
    pub fn at(&self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self.clone() }
    }

    /// Records an event. Returns at once; a full queue drops and counts it.
    pub fn record(&self, occurrence: Occurrence) {
        let at = self.at.unwrap_or_else(|| self.nondet.clock.now());
        let (host, causes) = (self.host.clone(), self.causes.clone());
        let recorded =
            RecorderMessage::RecordedEvent(Box::new(RecordedEvent { occurrence, host, at, causes }));
        match self.sender.try_send(recorded) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => count(&self.counters.overflowed),
            Err(TrySendError::Closed(_)) => count(&self.counters.stopped),
        }
    }

    /// Records an event about `about`.
    pub fn event(&self, about: &Reference, event_type: EventType, reason: &str, message: impl Into<String>) {
        self.record(Occurrence::new(about, event_type, reason, message));
    }

    /// Records an event of type `Normal`.
    pub fn normal(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Normal, reason, message);
    }

    /// Records an event of type `Warning`.
    pub fn warning(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Warning, reason, message);
    }

    /// Writes all recorded events, delayed counts included, and waits for it. Returns false if that takes
    /// longer than `deadline`; the writes then continue in the background.
    pub async fn flush(&self, deadline: Duration) -> bool {
        let flushed = async {
            let (done, flushed) = oneshot::channel();
            self.sender.send(RecorderMessage::Flush(done)).await.is_ok() && flushed.await.is_ok()
        };
        timeout(deadline, flushed).await.unwrap_or(false)
    }

    /// Counts of written and dropped events.
    pub fn stats(&self) -> RecorderStats {
        self.counters.stats()
    }

    /// Exposes the counts in `registry` as long as a recorder exists.
    pub fn metrics(&self, registry: &Registry) {
        let counters: Arc<Counters> = self.counters.clone();
        registry.add(Arc::downgrade(&counters) as _);
    }
}
