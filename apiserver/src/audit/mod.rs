//! The audit log: who asked for what, and what became of it, one event for each stage of a request, as a policy says. Every request of
//! the REST and gRPC front ends is seen, also those that are refused before the pipeline sees them.
//!
//! Pure are `policy` (parsing and validation), `decide` (which rule applies) and `event` (the line that is written). `trail` is the state
//! of one request, `backend` the bounded queue, `log` the file. Without a policy there is no [`Audit`], and a request pays for one check
//! of an `Option`, and for one look at an empty task-local variable where it is authenticated.

mod backend;
mod decide;
mod event;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod log;
mod metrics;
mod policy;
mod trail;

pub use backend::Mode;
pub use log::{AuditLog, Rotation};
pub use policy::{Policy, PolicyError};
pub(crate) use trail::{
    Operation, StreamEnd, Trail, acts_as, authenticated, current, is_recording, scope, stream_end,
};

use crate::metrics::Page;
use backend::{Backend, Queued};
use metrics::AuditMetrics;
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A policy and the log to which its events go.
pub struct Audit {
    policy: Policy,
    backend: Backend,
    metrics: Arc<AuditMetrics>,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").finish_non_exhaustive()
    }
}

impl Audit {
    /// Records by a policy, and the writer of what is recorded: run it on a thread of its own.
    pub fn new(policy: Policy, mode: Mode, log: AuditLog) -> (Arc<Self>, AuditWriter) {
        let metrics = Arc::new(AuditMetrics::default());
        let (backend, queue) = Backend::new(mode, metrics.clone());
        (Arc::new(Self { policy, backend, metrics }), AuditWriter { log, queue })
    }

    /// Waits until all events so far are written.
    pub async fn drain(&self) {
        self.backend.drain().await;
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
