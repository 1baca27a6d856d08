//! Audit backends: a bounded queue of events to the writer of a log or to the sender to a webhook. The mode
//! says whether requests wait for the queue.

use super::metrics::{AuditMetrics, Plugin};
use kstore_registry::outbound::while_clock_stands;
use kstore_storage::limits;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Whether requests wait until their events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Requests do not wait; events are dropped and counted while the queue is full.
    Batch,
    /// Requests wait until their events are written, or writing has failed.
    #[default]
    Blocking,
    /// Requests wait as with `Blocking`, and fail if their arrival cannot be recorded.
    BlockingStrict,
}

impl Mode {
    /// Names of all modes, as flags spell them.
    pub const NAMES: [&str; 3] = ["batch", "blocking", "blocking-strict"];

    /// The mode of a name; `None` if there is no such mode.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Batch, Self::Blocking, Self::BlockingStrict]
            .into_iter()
            .zip(Self::NAMES)
            .find_map(|(mode, known)| (known == name).then_some(mode))
    }
}

/// An audit event in the queue of a backend.
pub(super) struct QueuedEvent {
    /// The event as a line of JSON; empty if the sender only waits for the events before it.
    pub(super) line: Vec<u8>,
    /// Receives whether the line was written. The receiver may be gone.
    pub(super) written: Option<oneshot::Sender<bool>>,
    /// The share of this event in the bytes of the queue.
    _share: Option<OwnedSemaphorePermit>,
}

/// Bounds of a backend's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBounds {
    /// Events in the queue.
    pub(super) queue: usize,
    /// Bytes of the largest event.
    pub(super) event: usize,
}

/// The sending end of a backend's queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct Backend {
    queue: mpsc::Sender<QueuedEvent>,
    bytes: Arc<Semaphore>,
    plugin: Plugin,
    mode: Mode,
    max_event: usize,
    metrics: Arc<AuditMetrics>,
}

impl Backend {
    /// Creates a queue and returns both of its ends.
    pub(super) fn new(
        plugin: Plugin,
        mode: Mode,
        bounds: QueueBounds,
        metrics: Arc<AuditMetrics>,
    ) -> (Self, mpsc::Receiver<QueuedEvent>) {
        let (queue, receiver) = mpsc::channel(bounds.queue);
        let bytes = Arc::new(Semaphore::new(limits::AUDIT_QUEUE_BYTES));
        (Self { queue, bytes, plugin, mode, max_event: bounds.event, metrics }, receiver)
    }

    /// Bytes of the largest event that the backend accepts.
    pub(super) fn max_event(&self) -> usize {
        self.max_event
    }

    /// Whether requests continue when their events are lost.
    pub(super) fn allows_loss(&self) -> bool {
        self.mode != Mode::BlockingStrict
    }

    /// Queues an event and waits as the mode says. Returns false if the event was not recorded and the
    /// request must therefore fail.
    pub(super) async fn record(&self, line: Vec<u8>) -> bool {
        if self.mode == Mode::Batch {
            self.offer(line);
            return true;
        }
        let (bytes, queue) = (self.bytes.clone(), self.queue.clone());
        // The writer's thread has no part in a virtual clock.
        let writing = while_clock_stands(Box::pin(async move {
            let (written, outcome) = oneshot::channel();
            let share = bytes.acquire_many_owned(share(&line)).await.ok();
            let queued = QueuedEvent { line, written: Some(written), _share: share };
            queue.send(queued).await.is_ok() && outcome.await.unwrap_or(false)
        }));
        let is_written = writing.await;
        if !is_written {
            self.metrics.failed(self.plugin);
        }
        is_written || self.allows_loss()
    }

    /// Queues an event if the queue has capacity for it; otherwise drops and counts it.
    fn offer(&self, line: Vec<u8>) {
        let share = self.bytes.clone().try_acquire_many_owned(share(&line));
        let is_queued = share.is_ok_and(|share| {
            self.queue.try_send(QueuedEvent { line, written: None, _share: Some(share) }).is_ok()
        });
        if !is_queued {
            self.metrics.failed(Plugin::Buffered);
        }
    }

    /// Records the last event of a stream without waiting: a spawned task waits for space in the queue, so
    /// there are at most as many such tasks as streams. When the process ends and no runtime is left, the
    /// event is only offered to the queue.
    pub(super) fn record_detached(&self, line: Vec<u8>) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if self.mode != Mode::Batch => {
                let backend = self.clone();
                runtime.spawn(async move { backend.record(line).await });
            }
            _ => self.offer(line),
        }
    }

    /// Waits until everything that was queued before is written.
    pub(super) async fn drain(&self) {
        let (written, outcome) = oneshot::channel();
        let queued = QueuedEvent { line: Vec::new(), written: Some(written), _share: None };
        if self.queue.send(queued).await.is_ok() {
            // The writer may end without an answer; then no event is left to wait for.
            let _ = outcome.await;
        }
    }
}

/// Bytes of the queue that an event takes: its length, and at most the whole queue.
fn share(line: &[u8]) -> u32 {
    u32::try_from(line.len().clamp(1, limits::AUDIT_QUEUE_BYTES)).expect("the bound of the queue fits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::BoxFuture;
    use kstore_registry::outbound::{CallRuntime, make_calls_of_this_thread_on};
    use std::time::Duration;

    fn failures(metrics: &AuditMetrics) -> u64 {
        let mut page = String::new();
        metrics.render(&mut kstore_metrics_text::Page::new(&mut page));
        let lines = page.lines().filter(|line| line.starts_with("apiserver_audit_error_total{"));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    fn new(mode: Mode, metrics: &Arc<AuditMetrics>) -> (Backend, mpsc::Receiver<QueuedEvent>) {
        let bounds = QueueBounds { queue: limits::AUDIT_QUEUE, event: limits::AUDIT_EVENT_BYTES };
        Backend::new(Plugin::Log, mode, bounds, metrics.clone())
    }

    #[tokio::test]
    async fn batch_mode_drops_and_counts_events_when_the_queue_is_full() {
        let metrics = Arc::new(AuditMetrics::default());
        let (backend, mut receiver) = new(Mode::Batch, &metrics);
        for _ in 0..limits::AUDIT_QUEUE + 3 {
            assert!(backend.record(vec![1]).await);
        }
        assert_eq!(failures(&metrics), 3);
        receiver.recv().await.unwrap();
        assert!(backend.record(vec![1]).await);
        assert_eq!(failures(&metrics), 3, "the queue had capacity again");
        let (backend, _receiver) = new(Mode::Batch, &metrics);
        for _ in 0..3 {
            backend.record(vec![0; limits::AUDIT_QUEUE_BYTES / 2]).await;
        }
        assert_eq!(failures(&metrics), 4, "bytes are bounded, too");
    }

    #[tokio::test]
    async fn blocking_modes_wait_for_the_writer_and_only_the_strict_one_fails_requests() {
        for (mode, strict) in [(Mode::Blocking, false), (Mode::BlockingStrict, true)] {
            let metrics = Arc::new(AuditMetrics::default());
            let (backend, mut receiver) = new(mode, &metrics);
            let recording = tokio::spawn({
                let backend = backend.clone();
                async move { backend.record(vec![1]).await }
            });
            let queued = receiver.recv().await.unwrap();
            assert!(!recording.is_finished(), "it waits");
            queued.written.unwrap().send(true).unwrap();
            assert!(recording.await.unwrap());
            let failing = async {
                receiver.recv().await.unwrap().written.unwrap().send(false).unwrap();
            };
            let (recorded, ()) = tokio::join!(backend.record(vec![1]), failing);
            assert_eq!((recorded, failures(&metrics)), (!strict, 1));
            drop(receiver);
            assert_eq!(backend.record(vec![1]).await, !strict, "the writer is gone");
        }
    }

    /// A runtime for calls to other servers. The test makes no calls.
    struct NoCalls;

    impl CallRuntime for NoCalls {
        fn spawn(&self, _: BoxFuture<'static, ()>) {}
    }

    #[test]
    fn a_virtual_clock_stands_while_a_request_waits_for_the_writer() {
        make_calls_of_this_thread_on(Arc::new(NoCalls));
        let (backend, mut receiver) = new(Mode::Blocking, &Arc::new(AuditMetrics::default()));
        let writer = std::thread::spawn(move || {
            while let Some(queued) = receiver.blocking_recv() {
                std::thread::park_timeout(Duration::from_millis(30));
                queued.written.unwrap().send(true).unwrap();
            }
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            // A timer to which the clock would move if nothing kept it.
            let timer = tokio::spawn(tokio::time::sleep(Duration::from_secs(60)));
            let begin = tokio::time::Instant::now();
            assert!(backend.record(vec![1]).await);
            assert_eq!(begin.elapsed(), Duration::ZERO);
            timer.abort();
        });
        drop(backend);
        writer.join().unwrap();
    }

    #[test]
    fn modes_have_kubernetes_names() {
        let modes = Mode::NAMES.map(Mode::parse);
        assert_eq!(modes, [Some(Mode::Batch), Some(Mode::Blocking), Some(Mode::BlockingStrict)]);
        assert_eq!(Mode::parse("Batch"), None);
    }
}
