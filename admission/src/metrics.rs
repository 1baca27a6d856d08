//! Admission metrics: durations and refusals, by step and by plugin.

use kstore_api::admission::Operation;
use kstore_metrics_text::{AtomicHistogram, Page};
use kstore_storage::series::Family;
use std::time::Duration;

/// Histogram bounds in seconds; those of Kubernetes.
const BOUNDS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Labels of a series: plugin ("" for the step as a whole), step, operation, whether it refused.
type Key = (&'static str, &'static str, &'static str, bool);

/// The metrics of one admission chain.
pub(super) struct AdmissionMetrics {
    series: Family<Key, AtomicHistogram>,
}

impl Default for AdmissionMetrics {
    fn default() -> Self {
        Self { series: Family::new(|| AtomicHistogram::new(&BOUNDS)) }
    }
}

impl AdmissionMetrics {
    /// Records a plugin, or a whole step.
    pub(super) fn count(
        &self,
        plugin: &'static str,
        step: &'static str,
        operation: Operation,
        refused: bool,
        took: Duration,
    ) {
        let operation = operation.as_str();
        self.series.get(&(plugin, step, operation, refused)).observe(took.as_secs_f64());
    }

    /// Writes both metric families.
    pub(super) fn render(&self, page: &mut Page<'_>) {
        let all = self.series.sorted();
        let name = "apiserver_admission_controller_admission_duration_seconds";
        page.head(name, "histogram", "Time that an admission plugin took.");
        for ((plugin, step, operation, refused), histogram) in
            all.iter().filter(|((plugin, ..), _)| !plugin.is_empty())
        {
            let rejected = if *refused { "true" } else { "false" };
            let labels =
                [("name", *plugin), ("type", step), ("operation", operation), ("rejected", rejected)];
            histogram.render(page, name, &labels);
        }
        let name = "apiserver_admission_step_admission_duration_seconds";
        page.head(name, "histogram", "Time that a step of admission took.");
        for ((_, step, operation, refused), histogram) in
            all.iter().filter(|((plugin, ..), _)| plugin.is_empty())
        {
            let rejected = if *refused { "true" } else { "false" };
            histogram.render(page, name, &[("type", step), ("operation", operation), ("rejected", rejected)]);
        }
    }
}
