//! Counters of the audit log, with Kubernetes' names.

use super::policy::Level;
use kstore_metrics_text::Page;
use std::sync::atomic::{AtomicU64, Ordering};

/// The place at which an event was lost: the `plugin` label of the error counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// The event could not be written to the log.
    Log,
    /// The event could not be sent to the webhook.
    Webhook,
    /// The queue was full.
    Buffered,
    /// The event is too large, even without its objects.
    Truncate,
}

impl Plugin {
    const ALL: [Self; 4] = [Self::Log, Self::Webhook, Self::Buffered, Self::Truncate];

    fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Webhook => "webhook",
            Self::Buffered => "buffered",
            Self::Truncate => "truncate",
        }
    }
}

/// Counters of audit events, errors and levels.
#[derive(Debug, Default)]
pub(super) struct AuditMetrics {
    events: AtomicU64,
    /// Lost events by plugin.
    errors: [AtomicU64; Plugin::ALL.len()],
    rejected: AtomicU64,
    /// Requests by level, ascending.
    levels: [AtomicU64; Level::ALL.len()],
}

impl AuditMetrics {
    /// Counts an event that was created.
    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an event that was dropped or could not be written.
    pub(super) fn failed(&self, plugin: Plugin) {
        self.errors[plugin as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that failed because its arrival could not be recorded.
    pub(super) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request to which the policy gave this level.
    pub(super) fn decided(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn render(&self, page: &mut Page<'_>) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "apiserver_audit_event_total";
        page.head(name, "counter", "Counter of audit events generated and sent to the audit backend.");
        page.line(name, &[], value(&self.events));
        let name = "apiserver_audit_error_total";
        page.head(name, "counter", "Counter of audit events that failed to be audited properly.");
        for (plugin, counter) in Plugin::ALL.iter().zip(&self.errors) {
            page.line(name, &[("plugin", plugin.name())], value(counter));
        }
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
