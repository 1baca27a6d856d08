//! [`Recorder`]: tells people what happened to an object, as events. Never blocks its caller; repeated events become one
//! with a count, which is written at growing distances; a flood is cut. Where events are written is an [`EventSink`].

mod event;
mod names;
mod outbox;
mod recent;
mod series;
mod sink;
mod stats;
#[cfg(test)]
mod tests;
mod writer;

use std::{future::Future, sync::Arc, time::Duration};

use jiff::Timestamp;
use kstore_nondet::Nondet;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{Causes, Environment, limits::RECORDER_QUEUE, metrics::Registry};
pub use event::{Event, EventType, Occurrence, Reference};
use outbox::Outbox;
pub use sink::{EventSink, SinkError};
pub use stats::RecorderStats;
use stats::{Counters, count};
use writer::Writer;

/// A handle with which a component records events. Clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Message>,
    nondet: Nondet,
    counters: Arc<Counters>,
    causes: Causes,
    host: Arc<str>,
    /// When what is recorded happened, if not now.
    at: Option<Timestamp>,
}

/// Something that happened, before it is merged with others.
struct Recorded {
    occurrence: Occurrence,
    host: Arc<str>,
    at: Timestamp,
    causes: Causes,
}

enum Message {
    Recorded(Box<Recorded>),
    /// Write everything now, and say when it is done.
    Flush(oneshot::Sender<()>),
}

impl Recorder {
    /// A recorder for `component`, and the future that writes its events. It ends when every clone is dropped and all is
    /// written; once `stop` is cancelled, at the latest [`RECORDER_FLUSH`](crate::limits::RECORDER_FLUSH) later. What is not
    /// written by then is counted as dropped, as is what is recorded after.
    pub fn build<S: EventSink>(
        sink: S,
        component: &str,
        environment: impl Into<Environment>,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        Self::bounded(sink, component, environment.into(), stop, RECORDER_QUEUE)
    }

    /// [`Recorder::build`] with another bound of the events that wait, for tests.
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

    /// Like [`Recorder::build`], driven by a task of its own.
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

    /// The same recorder for events with these causes.
    #[must_use]
    pub fn causes(&self, causes: &Causes) -> Self {
        Self { causes: causes.clone(), ..self.clone() }
    }

    /// The same recorder for events that happened on this machine.
    #[must_use]
    pub fn host(&self, host: &str) -> Self {
        Self { host: host.into(), ..self.clone() }
    }

    /// The same recorder for events that happened at this time, not when they are recorded: a component that hears late that its
    /// write succeeded tells of it before what others did after it.
    #[must_use]
    pub fn at(&self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self.clone() }
    }

    /// Records what happened. Returns at once; a full queue drops it and counts it.
    pub fn record(&self, occurrence: Occurrence) {
        let at = self.at.unwrap_or_else(|| self.nondet.clock.now());
        let (host, causes) = (self.host.clone(), self.causes.clone());
        let recorded = Message::Recorded(Box::new(Recorded { occurrence, host, at, causes }));
        match self.sender.try_send(recorded) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => count(&self.counters.overflowed),
            Err(TrySendError::Closed(_)) => count(&self.counters.stopped),
        }
    }

    /// Records that something happened to `about`.
    pub fn event(&self, about: &Reference, event_type: EventType, reason: &str, message: impl Into<String>) {
        self.record(Occurrence::new(about, event_type, reason, message));
    }

    /// Records something that is as it should be.
    pub fn normal(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Normal, reason, message);
    }

    /// Records something that is wrong.
    pub fn warning(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Warning, reason, message);
    }

    /// Writes what was recorded before, counts that rest included, and waits for it. False if that is not done within
    /// `deadline`; it then goes on by itself.
    pub async fn flush(&self, deadline: Duration) -> bool {
        let flushed = async {
            let (done, flushed) = oneshot::channel();
            self.sender.send(Message::Flush(done)).await.is_ok() && flushed.await.is_ok()
        };
        timeout(deadline, flushed).await.unwrap_or(false)
    }

    /// What became of the events so far.
    pub fn stats(&self) -> RecorderStats {
        self.counters.stats()
    }

    /// Puts what became of the events on the page of `registry`, as long as there is a recorder.
    pub fn metrics(&self, registry: &Registry) {
        let counters: Arc<Counters> = self.counters.clone();
        registry.add(Arc::downgrade(&counters) as _);
    }
}
