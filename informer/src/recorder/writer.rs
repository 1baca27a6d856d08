//! [`Writer`]: the task that passes recorded events to `series` and `outbox`, and due events to the sink. It
//! makes no decisions.

use super::outbox::{Outbox, WriteOutcome};
use super::series::Series;
use super::stats::{Counters, RecorderStats, count};
use super::{Event, EventSink, RecorderMessage, SinkError};
use crate::limits::{RECORDER_FLUSH, RECORDER_IN_FLIGHT, RECORDER_REPORT, RECORDER_WRITE};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kstore_nondet::Rng;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

type Write = BoxFuture<'static, (String, Result<(), SinkError>)>;

pub(super) struct Writer<S> {
    sink: Arc<S>,
    inbox: mpsc::Receiver<RecorderMessage>,
    series: Series,
    outbox: Outbox,
    under_way: FuturesUnordered<Write>,
    /// Callers of [`super::Recorder::flush`] that wait for the outbox to be empty.
    flushes: Vec<oneshot::Sender<()>>,
    /// Whether the recorder is stopping, so that pacing stays off.
    ending: bool,
    counters: Arc<Counters>,
    /// Counts at the time of the last log line.
    logged: RecorderStats,
    /// When the next log line about dropped events is due.
    report: Option<Instant>,
    rng: Rng,
}

impl<S: EventSink> Writer<S> {
    pub(super) fn new(
        sink: S,
        component: &str,
        inbox: mpsc::Receiver<RecorderMessage>,
        outbox: Outbox,
        counters: Arc<Counters>,
        rng: Rng,
    ) -> Self {
        let salt = u32::try_from(rng.below(1 << 32)).unwrap_or_default();
        let series = Series::new(component, salt);
        let (under_way, flushes) = (FuturesUnordered::new(), Vec::new());
        Self {
            sink: Arc::new(sink),
            inbox,
            series,
            outbox,
            under_way,
            flushes,
            ending: false,
            counters,
            logged: RecorderStats::default(),
            report: None,
            rng,
        }
    }

    /// Writes events until every recorder is dropped, or after `stop` for at most [`RECORDER_FLUSH`].
    pub(super) async fn run(mut self, stop: CancellationToken) {
        if stop.run_until_cancelled(self.serve()).await.is_none() {
            self.end();
            // Unwritten events are counted below.
            let _ = timeout(RECORDER_FLUSH, self.serve()).await;
        }
        self.inbox.close();
        while let Some(message) = self.inbox.recv().await {
            if let RecorderMessage::RecordedEvent(_) = message {
                count(&self.counters.stopped);
            }
        }
        self.counters.stopped.fetch_add(self.outbox.len() as u64, Ordering::Relaxed);
        self.log_dropped();
    }

    /// Returns once every recorder is dropped and all events are written. The future may be dropped and
    /// called again.
    async fn serve(&mut self) {
        let mut open = true;
        while open || self.outbox.len() > 0 {
            self.begin_writes();
            let due = self.outbox.next().filter(|_| self.under_way.len() < RECORDER_IN_FLIGHT);
            tokio::select! {
                biased;
                Some((name, outcome)) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.record_outcome(&name, outcome);
                }
                () = sleep_until(self.report.unwrap_or_else(Instant::now)), if self.report.is_some() => {
                    self.log_dropped();
                }
                message = self.inbox.recv(), if open => match message {
                    Some(message) => self.take_in(message),
                    None => {
                        open = false;
                        self.end();
                    }
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
            self.answer_flushes();
            self.notice_dropped();
        }
    }

    /// Schedules a log line at the first dropped event; the line covers all drops until then.
    fn notice_dropped(&mut self) {
        if self.report.is_none() && self.counters.stats().has_dropped_since(&self.logged) {
            self.report = Some(Instant::now() + RECORDER_REPORT);
        }
    }

    fn log_dropped(&mut self) {
        let now = self.counters.stats();
        if now.has_dropped_since(&self.logged) {
            now.log_dropped(&self.logged, self.counters.component());
        }
        (self.logged, self.report) = (now, None);
    }

    fn end(&mut self) {
        self.ending = true;
        self.outbox.stop_pacing(Instant::now());
    }

    fn take_in(&mut self, message: RecorderMessage) {
        let now = Instant::now();
        match message {
            RecorderMessage::RecordedEvent(recorded) => match self.series.merge(*recorded) {
                None => count(&self.counters.spam),
                Some(event) => {
                    if !self.outbox.put(event, now) {
                        count(&self.counters.overflowed);
                    }
                }
            },
            RecorderMessage::Flush(done) => {
                self.outbox.stop_pacing(now);
                self.flushes.push(done);
            }
        }
    }

    fn begin_writes(&mut self) {
        while self.under_way.len() < RECORDER_IN_FLIGHT
            && let Some(event) = self.outbox.take(Instant::now())
        {
            self.under_way.push(write(self.sink.clone(), event).boxed());
        }
    }

    fn record_outcome(&mut self, name: &str, outcome: Result<(), SinkError>) {
        if let Err(error) = &outcome {
            tracing::debug!(event = name, %error, "event not written");
        }
        match self.outbox.settled(name, outcome, Instant::now(), self.rng.unit()) {
            WriteOutcome::Written => count(&self.counters.written),
            WriteOutcome::Retried => {}
            WriteOutcome::Refused => count(&self.counters.refused),
            WriteOutcome::GivenUp => count(&self.counters.failed),
        }
    }

    fn answer_flushes(&mut self) {
        if self.outbox.len() == 0 && !self.flushes.is_empty() {
            if !self.ending {
                self.outbox.resume_pacing();
            }
            for done in self.flushes.drain(..) {
                // The caller may have timed out.
                let _ = done.send(());
            }
        }
    }
}

async fn write<S: EventSink>(sink: Arc<S>, event: Event) -> (String, Result<(), SinkError>) {
    let late = |_| SinkError::Retry("request timed out".into());
    let outcome =
        timeout(RECORDER_WRITE, sink.write(&event)).await.unwrap_or_else(|elapsed| Err(late(elapsed)));
    (event.name, outcome)
}
