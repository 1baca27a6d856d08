//! [`Recorder`]: tells people what happened to an object, as events. Never blocks its caller; repeated events become one
//! with a count; a flood is cut. Where events are written is an [`EventSink`].

mod series;
#[cfg(test)]
mod tests;

use std::{future::Future, sync::Arc, sync::atomic::AtomicU64, sync::atomic::Ordering};

use jiff::Timestamp;
use kstore_nondet::Nondet;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    Causes,
    limits::{RECORDER_QUEUE, RECORDER_RETRY, RECORDER_TRIES},
};
use series::Series;

/// The object that an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// `v1`, `apps/v1`.
    pub api_version: String,
    /// `Pod`.
    pub kind: String,
    /// Empty for objects without one.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The object's uid.
    pub uid: String,
}

/// Whether someone should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

impl EventType {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One event to write: a new one if `count` is 1, else a newer state of the one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's own name; unique in the namespace that it is written to.
    pub name: String,
    /// Who tells it.
    pub component: String,
    /// What it is about.
    pub about: Reference,
    /// How bad it is.
    pub event_type: EventType,
    /// Why, as one word in CamelCase that machines may match.
    pub reason: String,
    /// What happened, for people.
    pub message: String,
    /// How often it happened.
    pub count: u32,
    /// When it happened first.
    pub first: Timestamp,
    /// When it happened last.
    pub last: Timestamp,
    /// What led to it.
    pub causes: Causes,
}

/// Why an event was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SinkError {
    /// Worth another attempt later.
    #[error("not now: {0}")]
    Retry(String),
    /// The event will never be accepted.
    #[error("refused: {0}")]
    Refused(String),
}

/// Where events are written.
pub trait EventSink: Send + Sync + 'static {
    /// Writes one event: creates it if `count` is 1 or if there is none of its name, else brings the count and the last
    /// time of the existing one up to date.
    fn write(&self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// What became of the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStats {
    /// Dropped because too many waited.
    pub overflowed: u64,
    /// Dropped because their object had too many.
    pub spam: u64,
    /// Given up after refusals or too many attempts.
    pub failed: u64,
    /// Writes that succeeded.
    pub written: u64,
}

/// A handle with which a component records events. Clones share the queue.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Recorded>,
    nondet: Nondet,
    counters: Arc<Counters>,
    causes: Causes,
}

#[derive(Default)]
struct Counters {
    overflowed: AtomicU64,
    spam: AtomicU64,
    failed: AtomicU64,
    written: AtomicU64,
}

/// Something that happened, before it is merged with others.
struct Recorded {
    about: Reference,
    event_type: EventType,
    reason: String,
    message: String,
    at: Timestamp,
    causes: Causes,
}

impl Recorder {
    /// A recorder for `component`, and the future that writes its events until `stop` is cancelled or every clone is
    /// dropped.
    pub fn build<S: EventSink>(
        sink: S,
        component: &str,
        nondet: &Nondet,
        stop: &CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + use<S>) {
        let (sender, receiver) = mpsc::channel(RECORDER_QUEUE);
        let counters = Arc::new(Counters::default());
        let series = Series::new(component);
        let writer = Writer { sink, receiver, series, counters: counters.clone() };
        let stop = stop.clone();
        let driver = async move {
            // A cancelled writer loses what waits; events are best effort.
            stop.run_until_cancelled(writer.run()).await;
        };
        (Self { sender, nondet: nondet.clone(), counters, causes: Causes::none() }, driver)
    }

    /// Like [`Recorder::build`], driven by a task of its own.
    pub fn spawn<S: EventSink>(sink: S, component: &str, nondet: &Nondet, stop: &CancellationToken) -> Self {
        let (recorder, driver) = Self::build(sink, component, nondet, stop);
        tokio::spawn(driver);
        recorder
    }

    /// The same recorder for events with these causes.
    #[must_use]
    pub fn causes(&self, causes: &Causes) -> Self {
        Self { causes: causes.clone(), ..self.clone() }
    }

    /// Records that something happened to `about`. Returns at once; a full queue drops the event and counts it.
    pub fn event(&self, about: &Reference, event_type: EventType, reason: &str, message: impl Into<String>) {
        let recorded = Recorded {
            about: about.clone(),
            event_type,
            reason: reason.to_owned(),
            message: message.into(),
            at: self.nondet.clock.now(),
            causes: self.causes.clone(),
        };
        if self.sender.try_send(recorded).is_err() {
            self.counters.overflowed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records something that is as it should be.
    pub fn normal(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Normal, reason, message);
    }

    /// Records something that is wrong.
    pub fn warning(&self, about: &Reference, reason: &str, message: impl Into<String>) {
        self.event(about, EventType::Warning, reason, message);
    }

    /// What became of the events so far.
    pub fn stats(&self) -> RecorderStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RecorderStats {
            overflowed: get(&self.counters.overflowed),
            spam: get(&self.counters.spam),
            failed: get(&self.counters.failed),
            written: get(&self.counters.written),
        }
    }
}

struct Writer<S> {
    sink: S,
    receiver: mpsc::Receiver<Recorded>,
    series: Series,
    counters: Arc<Counters>,
}

impl<S: EventSink> Writer<S> {
    async fn run(mut self) {
        while let Some(recorded) = self.receiver.recv().await {
            match self.series.merge(recorded) {
                Some(event) => self.write(event).await,
                None => {
                    self.counters.spam.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    async fn write(&self, event: Event) {
        for attempt in 1..=RECORDER_TRIES {
            match self.sink.write(&event).await {
                Ok(()) => {
                    self.counters.written.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(SinkError::Refused(error)) => {
                    tracing::debug!(event = event.name, error, "event refused");
                    break;
                }
                Err(SinkError::Retry(error)) => {
                    tracing::debug!(event = event.name, error, attempt, "event not written");
                    sleep(RECORDER_RETRY).await;
                }
            }
        }
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }
}
