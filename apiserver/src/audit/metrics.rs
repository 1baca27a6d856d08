//! Counters of the audit log, with Kubernetes' names.

use super::policy::Level;
use crate::metrics::Page;
use std::sync::atomic::{AtomicU64, Ordering};

/// The only backend.
const PLUGIN: &str = "log";

/// What is counted about audit events.
#[derive(Debug, Default)]
pub(super) struct AuditMetrics {
    events: AtomicU64,
    errors: AtomicU64,
    rejected: AtomicU64,
    /// By level, ascending.
    levels: [AtomicU64; Level::ALL.len()],
}

impl AuditMetrics {
    /// An event was made.
    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// An event was dropped or could not be written.
    pub(super) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// A request failed because its arrival could not be recorded.
    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// The policy gave a request this level.
    pub(super) fn decided(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Writes all counters.
    pub(super) fn render(&self, page: &mut Page<'_>) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "apiserver_audit_event_total";
        page.head(name, "counter", "Counter of audit events generated and sent to the audit backend.");
        page.line(name, &[], value(&self.events));
        let name = "apiserver_audit_error_total";
        page.head(name, "counter", "Counter of audit events that failed to be audited properly.");
        page.line(name, &[("plugin", PLUGIN)], value(&self.errors));
        let name = "apiserver_audit_level_total";
        page.head(name, "counter", "Counter of policy levels for audit events (1 per request).");
        for (level, counter) in Level::ALL.iter().zip(&self.levels) {
            page.line(name, &[("level", level.name())], value(counter));
        }
        let name = "apiserver_audit_requests_rejected_total";
        page.head(
            name,
            "counter",
            "Counter of apiserver requests rejected due to an error in audit logging backend.",
        );
        page.line(name, &[], value(&self.rejected));
    }
}
