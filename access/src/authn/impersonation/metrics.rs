//! Metrics of impersonation, under Kubernetes' names.

use super::mode::ImpersonationMode;
use kstore_metrics_text::{AtomicHistogram, Page};
use kstore_storage::series::Family;
use std::time::Duration;

/// Upper bounds of the histograms, in seconds: each is twice the one before, as in Kubernetes.
const BOUNDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Durations by mode and decision.
type Durations = Family<(&'static str, &'static str), AtomicHistogram>;

/// Numbers and durations of impersonations and of their permission checks.
pub(super) struct ImpersonationMetrics {
    attempts: Durations,
    checks: Durations,
}

impl Default for ImpersonationMetrics {
    fn default() -> Self {
        let durations = || Family::new(|| AtomicHistogram::new(BOUNDS));
        Self { attempts: durations(), checks: durations() }
    }
}

impl ImpersonationMetrics {
    /// Counts a request that impersonates; a refused one has no mode.
    pub(super) fn attempted(&self, mode: Option<ImpersonationMode>, took: Duration) {
        let labels = mode.map_or(("", DENIED), |mode| (mode.name(), ALLOWED));
        self.attempts.get(&labels).observe(took.as_secs_f64());
    }

    /// Counts a permission check.
    pub(super) fn checked(&self, mode: ImpersonationMode, is_allowed: bool, took: Duration) {
        let decision = if is_allowed { ALLOWED } else { DENIED };
        self.checks.get(&(mode.name(), decision)).observe(took.as_secs_f64());
    }

    /// Writes the metrics.
    pub(super) fn render(&self, page: &mut Page<'_>) {
        for (family, name, help) in [
            (&self.attempts, "attempts", "Requests that impersonate, by mode and decision"),
            (
                &self.checks,
                "authorization_attempts",
                "Permission checks of impersonation, by mode and decision",
            ),
        ] {
            let series = family.sorted();
            let total = format!("apiserver_impersonation_{name}_total");
            page.head(&total, "counter", &format!("{help}."));
            for ((mode, decision), durations) in &series {
                page.line(&total, &[("decision", decision), ("mode", mode)], durations.count());
            }
            let seconds = format!("apiserver_impersonation_{name}_duration_seconds");
            page.head(&seconds, "histogram", &format!("{help}: their durations."));
            for ((mode, decision), durations) in &series {
                durations.render(page, &seconds, &[("decision", decision), ("mode", mode)]);
            }
        }
    }
}

const ALLOWED: &str = "allowed";
const DENIED: &str = "denied";
