//! The audit log: who asked for what, and what became of it, one event for each stage of a request, as a policy says. Every request of
//! the REST and gRPC front ends is seen, also those that are refused before the pipeline sees them.
//!
//! Pure are `policy` (parsing and validation), `decide` (which rule applies), `event` (the line that is written) and `batch` (what is posted
//! together, and when). `trail` is the state of one request, `backend` the bounded queue, `log` the file and `webhook` the server behind
//! it. Without a policy there is no [`Audit`], and a request pays for one check of an `Option`, and for one look at an empty task-local
//! variable where it is authenticated.

mod backend;
mod batch;
mod decide;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod log;
mod metrics;
mod policy;
mod trail;
mod webhook;

pub use backend::Mode;
pub use batch::{Batching, Throttle, Truncation};
pub use log::{AuditLog, Rotation};
pub use policy::{Policy, PolicyError};
pub(crate) use trail::{
    Operation, StreamEnd, Trail, acts_as, authenticated, current, is_recording, scope, stream_end,
};
pub use webhook::{AuditSender, WebhookOptions};

use crate::limits;
use crate::metrics::Page;
use crate::outbound::Remote;
use backend::{Backend, Bounds, Queued};
use event::Event;
use kstore_nondet::Rng;
use metrics::{AuditMetrics, Plugin};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A policy, and where its events go.
pub struct Audit {
    policy: Policy,
    backends: Vec<Backend>,
    metrics: Arc<AuditMetrics>,
    /// Cancelled when the process ends: nothing waits for a better time any more.
    ending: CancellationToken,
}

/// One event as each of the backends wants it; `None` where it is too large.
pub(super) type Encoded = Vec<Option<Vec<u8>>>;

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Records by a policy, and the writer of what is recorded: run it on a thread of its own.
    pub fn new(policy: Policy, mode: Mode, log: AuditLog) -> (Arc<Self>, AuditWriter) {
        let mut audit = Self::by(policy);
        let writer = audit.log_to(mode, log);
        (Arc::new(audit), writer)
    }

    /// Records by a policy, nowhere yet: see [`Audit::log_to`] and [`Audit::send_to`].
    pub fn by(policy: Policy) -> Self {
        let (metrics, ending) = (Arc::default(), CancellationToken::new());
        Self { policy, backends: Vec::new(), metrics, ending }
    }

    /// Records in a log as well. The writer is to be run on a thread of its own.
    pub fn log_to(&mut self, mode: Mode, log: AuditLog) -> AuditWriter {
        let bounds = Bounds { queue: limits::AUDIT_QUEUE, event: limits::AUDIT_EVENT_BYTES };
        let (backend, queue) = Backend::new(Plugin::Log, mode, bounds, self.metrics.clone());
        self.backends.push(backend);
        AuditWriter { log, queue }
    }

    /// Posts events to a server as well. The sender is to be run as a task.
    pub fn send_to(&mut self, remote: Remote, options: WebhookOptions, rng: Rng) -> AuditSender {
        let event = options.truncation.map_or(limits::AUDIT_EVENT_BYTES, |cut| cut.event_bytes);
        let bounds = Bounds { queue: options.batching.buffer.clamp(1, limits::AUDIT_QUEUE_MAX), event };
        let (backend, queue) = Backend::new(Plugin::Webhook, options.mode, bounds, self.metrics.clone());
        self.backends.push(backend);
        AuditSender::new(remote, options, queue, rng, self.ending.clone())
    }

    /// Waits until all events so far are written, or could not be.
    pub async fn drain(&self) {
        futures::future::join_all(self.backends.iter().map(Backend::drain)).await;
    }

    /// Waits like [`Audit::drain`], at the end of a process: what a server does not take at once is given up.
    pub async fn end(&self) {
        self.ending.cancel();
        self.drain().await;
    }

    /// An event as each backend wants it.
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

    /// Hands an event to the backends and waits as their modes say. False if the request must fail because of one of them.
    async fn record(&self, event: Encoded) -> bool {
        let recorded = self.backends.iter().zip(event).map(async |(backend, line)| match line {
            Some(line) => backend.record(line).await,
            None => backend.allows_loss(),
        });
        futures::future::join_all(recorded).await.into_iter().all(|is_recorded| is_recorded)
    }

    /// Hands an event to the backends without waiting.
    fn record_detached(&self, event: Encoded) {
        for (backend, line) in self.backends.iter().zip(event) {
            if let Some(line) = line {
                backend.record_detached(line);
            }
        }
    }

    /// Writes the counters.
    pub(crate) fn render_metrics(&self, page: &mut Page<'_>) {
        self.metrics.render(page);
    }
}

/// Writes queued events to the log.
pub struct AuditWriter {
    log: AuditLog,
    queue: mpsc::Receiver<Queued>,
}

impl AuditWriter {
    /// Writes until the [`Audit`] is gone. Blocks its thread.
    pub fn run(self) {
        self.log.run(self.queue);
    }
}
