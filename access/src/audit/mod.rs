//! The audit log: the caller, the operation and the outcome of requests, one event for each stage of a
//! request, as a policy says. It covers every request of the REST and gRPC front ends, also requests that are
//! refused before the pipeline.
//!
//! Pure are `policy` (parsing and validation), `decide` (the rule that applies), `event` (the line of an
//! event) and `batch` (batches for webhooks). `trail` is the state of one request, `backend` the bounded
//! queue, `log` the file and `webhook` the client of a webhook. Without a policy there is no [`Audit`]: a
//! request then costs the check of an `Option`, and the check of an empty task-local variable when it is
//! authenticated.

mod backend;
mod batch;
mod decide;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod log;
mod metrics;
mod policy;
mod trail;
mod webhook;

pub use backend::Mode;
use backend::{Backend, QueueBounds, QueuedEvent};
pub use batch::{Batching, Throttle, Truncation};
use event::Event;
use kstore_metrics_text::Page;
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_storage::limits;
pub use log::{AuditLog, Rotation};
use metrics::{AuditMetrics, Plugin};
pub use policy::{Policy, PolicyError};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
pub use trail::{
    Operation, Trail, authenticated, current, impersonation_allowed, is_recording, record_impersonation,
    scope, stream_end,
};
pub use webhook::{AuditSender, WebhookOptions};

/// An audit policy, and the backends that its events are written to.
pub struct Audit {
    policy: Policy,
    backends: Vec<Backend>,
    metrics: Arc<AuditMetrics>,
    /// Cancelled when the process ends: then backends stop waiting and retrying.
    ending: CancellationToken,
}

/// One event, encoded for each backend; `None` where it is too large.
pub(super) type Encoded = Vec<Option<Vec<u8>>>;

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Creates an audit log with one backend. Run the returned writer on a thread of its own.
    pub fn new(policy: Policy, mode: Mode, log: AuditLog) -> (Arc<Self>, AuditWriter) {
        let mut audit = Self::by(policy);
        let writer = audit.log_to(mode, log);
        (Arc::new(audit), writer)
    }

    /// Creates an audit log without backends: see [`Audit::log_to`] and [`Audit::send_to`].
    pub fn by(policy: Policy) -> Self {
        let (metrics, ending) = (Arc::default(), CancellationToken::new());
        Self { policy, backends: Vec::new(), metrics, ending }
    }

    /// Adds a log as a backend. Run the returned writer on a thread of its own.
    pub fn log_to(&mut self, mode: Mode, log: AuditLog) -> AuditWriter {
        let bounds = QueueBounds { queue: limits::AUDIT_QUEUE, event: limits::AUDIT_EVENT_BYTES };
        let (backend, queue) = Backend::new(Plugin::Log, mode, bounds, self.metrics.clone());
        self.backends.push(backend);
        AuditWriter { log, queue }
    }

    /// Adds a webhook as a backend. Run the returned sender as a task.
    pub fn send_to(&mut self, remote: Remote, options: WebhookOptions, rng: Rng) -> AuditSender {
        let event = options.truncation.map_or(limits::AUDIT_EVENT_BYTES, |cut| cut.event_bytes);
        let bounds = QueueBounds { queue: options.batching.buffer.clamp(1, limits::AUDIT_QUEUE_MAX), event };
        let (backend, queue) = Backend::new(Plugin::Webhook, options.mode, bounds, self.metrics.clone());
        self.backends.push(backend);
        AuditSender::new(remote, options, queue, rng, self.ending.clone())
    }

    /// Waits until all events so far are written, or writing them has failed.
    pub async fn drain(&self) {
        futures::future::join_all(self.backends.iter().map(Backend::drain)).await;
    }

    /// Waits like [`Audit::drain`], at the end of a process. Events that a webhook does not accept at once
    /// are dropped.
    pub async fn end(&self) {
        self.ending.cancel();
        self.drain().await;
    }

    /// Encodes an event for each backend.
    fn encode(&self, event: &Event<'_>) -> Encoded {
        let whole = event.line(limits::AUDIT_EVENT_BYTES);
        let fit = |backend: &Backend| {
            if whole.len() <= backend.max_event() || backend.max_event() >= limits::AUDIT_EVENT_BYTES {
                return Some(whole.clone());
            }
            let cut = event.line(backend.max_event());
            let fits = cut.len() <= backend.max_event();
            if !fits {
                self.metrics.failed(Plugin::Truncate);
            }
            fits.then_some(cut)
        };
        self.backends.iter().map(fit).collect()
    }

    /// Queues an event in all backends and waits as their modes say. Returns false if a backend requires that
    /// the request fails.
    async fn record(&self, event: Encoded) -> bool {
        let recorded = self.backends.iter().zip(event).map(async |(backend, line)| match line {
            Some(line) => backend.record(line).await,
            None => backend.allows_loss(),
        });
        futures::future::join_all(recorded).await.into_iter().all(|is_recorded| is_recorded)
    }

    /// Queues an event in all backends without waiting.
    fn record_detached(&self, event: Encoded) {
        for (backend, line) in self.backends.iter().zip(event) {
            if let Some(line) = line {
                backend.record_detached(line);
            }
        }
    }

    /// Writes the counters of events and errors in the Prometheus text format.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        self.metrics.render(page);
    }
}

/// The writer of queued events to the log.
pub struct AuditWriter {
    log: AuditLog,
    queue: mpsc::Receiver<QueuedEvent>,
}

impl AuditWriter {
    /// Writes until the [`Audit`] is dropped. Blocks its thread.
    pub fn run(self) {
        self.log.run(self.queue);
    }
}
