//! The flags, with their types and what they do.

use crate::dropin::{BOOL, Flag, honour};

/// Headings of `--help`, and the flags under each.
pub(crate) const TABLES: &[(&str, &[Flag])] = &[("Audit webhook", AUDIT_WEBHOOK)];

/// A server that audit events are posted to.
pub(crate) const AUDIT_WEBHOOK: &[Flag] = &[
    honour(
        "audit-webhook-config-file",
        "FILE",
        "Post audit events to the server of this kubeconfig; needs --audit-policy-file",
    ),
    honour(
        "audit-webhook-mode",
        "MODE",
        "Whether requests wait until their events are posted: batch, blocking or blocking-strict [default: batch]",
    ),
    honour(
        "audit-webhook-batch-buffer-size",
        "N",
        "Events that wait to be posted; in the mode batch further ones are dropped and counted [default: 10000]",
    ),
    honour("audit-webhook-batch-max-size", "N", "The most events in one post [default: 400]"),
    honour(
        "audit-webhook-batch-max-wait",
        "TIME",
        "How long an event waits for others, in the mode batch [default: 30s]",
    ),
    honour(
        "audit-webhook-batch-throttle-enable",
        BOOL,
        "Bound how often events are posted, in the mode batch [default: true]",
    ),
    honour("audit-webhook-batch-throttle-qps", "N", "Posts in a second, on average [default: 10]"),
    honour("audit-webhook-batch-throttle-burst", "N", "Posts at once [default: 15]"),
    honour(
        "audit-webhook-initial-backoff",
        "TIME",
        "The first pause after a post that failed [default: 10s]",
    ),
    honour("audit-webhook-truncate-enabled", BOOL, "Cut large events and posts [default: false]"),
    honour(
        "audit-webhook-truncate-max-event-size",
        "BYTES",
        "A larger event loses its objects, and is dropped if it is still larger [default: 102400]",
    ),
    honour(
        "audit-webhook-truncate-max-batch-size",
        "BYTES",
        "Events of a larger post are posted in several ones [default: 10485760]",
    ),
    honour("audit-webhook-version", "VERSION", "audit.k8s.io/v1; no other"),
];
