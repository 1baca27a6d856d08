//! Metrics of calls to webhooks, under Kubernetes' names: [`AdmissionWebhooks`] and [`ConversionWebhooks`]. A
//! call counts once, when its answer has arrived, although a request's decision may read the answer several
//! times.

use crate::limits::{METRIC_LABEL_VALUES, METRIC_WEBHOOK_CODES};
use crate::series::{Counter, Family};
use kstore_api::admission::conversion::ConversionFailure;
use kstore_api::admission::review::{CallError, DecodedResponse};
use kstore_api::admission::{FailurePolicy, Operation, Phase, Webhook};
use kstore_metrics_text::{AtomicHistogram, Page};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Histogram buckets of admission webhooks, in seconds, as in Kubernetes.
const ADMISSION: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Histogram buckets of conversions by definition, in seconds.
const CONVERSION: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Histogram buckets of calls to conversion webhooks, in seconds.
const CONVERSION_CALL: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// Label values that clients choose; at most [`METRIC_LABEL_VALUES`] of them.
#[derive(Default)]
pub(super) struct LabelValues(RwLock<BTreeSet<Arc<str>>>);

impl LabelValues {
    /// Returns the value, or `other` if there are too many.
    pub(super) fn bounded(&self, value: &str) -> Arc<str> {
        if let Some(known) = self.0.read().get(value) {
            return known.clone();
        }
        let mut values = self.0.write();
        if values.len() >= METRIC_LABEL_VALUES {
            return "other".into();
        }
        let value: Arc<str> = value.into();
        values.insert(value.clone());
        value
    }
}

/// Status codes that webhooks choose; at most [`METRIC_WEBHOOK_CODES`] of them.
#[derive(Default)]
struct Codes(RwLock<BTreeSet<u16>>);

impl Codes {
    fn bounded(&self, code: u16) -> u16 {
        const OTHER: u16 = 600;
        if self.0.read().contains(&code) {
            return code;
        }
        let mut codes = self.0.write();
        if code > OTHER || codes.len() >= METRIC_WEBHOOK_CODES {
            return OTHER;
        }
        codes.insert(code);
        code
    }
}

/// A webhook's name, the phase of admission, and the operation of the request.
type Hook = (Arc<str>, &'static str, &'static str);

/// Metrics of calls to admission webhooks.
pub struct AdmissionWebhooks {
    names: LabelValues,
    codes: Codes,
    /// Call durations, by whether the request was rejected.
    durations: Family<(Hook, bool), AtomicHistogram>,
    /// Calls, by the status code of the answer and whether the request was rejected.
    requests: Family<(Hook, u16, bool), Counter>,
    /// Rejections, by error type and the status code of the refusal.
    rejections: Family<(Hook, &'static str, u16), Counter>,
    /// Failed calls that were ignored, by webhook and phase.
    fail_open: Family<(Arc<str>, &'static str), Counter>,
}

impl Default for AdmissionWebhooks {
    fn default() -> Self {
        Self {
            names: LabelValues::default(),
            codes: Codes::default(),
            durations: Family::new(|| AtomicHistogram::new(&ADMISSION)),
            requests: Family::new(Counter::default),
            rejections: Family::new(Counter::default),
            fail_open: Family::new(Counter::default),
        }
    }
}

impl AdmissionWebhooks {
    /// Counts a completed call.
    pub fn observe(
        &self,
        hook: &Webhook,
        operation: Operation,
        took: Duration,
        outcome: &Result<DecodedResponse, CallError>,
    ) {
        let step = match hook.phase() {
            Phase::Mutating => "admit",
            Phase::Validating => "validating",
        };
        let key: Hook = (self.names.bounded(&hook.name), step, operation.as_str());
        let is_ignored = outcome.is_err() && hook.failure_policy == FailurePolicy::Ignore;
        let (code, error_type) = match outcome {
            Ok(DecodedResponse { verdict: Ok(_), .. }) => (200, None),
            Ok(DecodedResponse { verdict: Err(refusal), .. }) => (refusal.code, Some("no_error")),
            Err(error) => (error.code, Some("calling_webhook_error")),
        };
        let (code, error_type) = (self.codes.bounded(code), error_type.filter(|_| !is_ignored));
        let is_rejected = error_type.is_some();
        self.durations.get(&(key.clone(), is_rejected)).observe(took.as_secs_f64());
        self.requests.get(&(key.clone(), code, is_rejected)).add(1);
        if is_ignored {
            self.fail_open.get(&(key.0.clone(), step)).add(1);
        }
        if let Some(error_type) = error_type {
            self.rejections.get(&(key, error_type, code)).add(1);
        }
    }

    /// Renders all families.
    pub fn render(&self, page: &mut Page<'_>) {
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        page.head(name, "histogram", "Time that calls to admission webhooks took.");
        for (((hook, step, operation), rejected), histogram) in self.durations.sorted() {
            let labels =
                [("name", &*hook), ("operation", operation), ("rejected", text(rejected)), ("type", step)];
            histogram.render(page, name, &labels);
        }
        let name = "apiserver_admission_webhook_request_total";
        page.head(name, "counter", "Calls to admission webhooks.");
        for (((hook, step, operation), code, rejected), counter) in self.requests.sorted() {
            let code = code.to_string();
            let labels = [
                ("code", &*code),
                ("name", &*hook),
                ("operation", operation),
                ("rejected", text(rejected)),
                ("type", step),
            ];
            page.line(name, &labels, counter.get());
        }
        let name = "apiserver_admission_webhook_rejection_count";
        page.head(name, "counter", "Requests that admission webhooks, or failed calls to them, rejected.");
        for (((hook, step, operation), error_type, code), counter) in self.rejections.sorted() {
            let code = code.to_string();
            let labels = [
                ("error_type", error_type),
                ("name", &*hook),
                ("operation", operation),
                ("rejection_code", &*code),
                ("type", step),
            ];
            page.line(name, &labels, counter.get());
        }
        let name = "apiserver_admission_webhook_fail_open_count";
        page.head(name, "counter", "Failed calls to admission webhooks whose failure policy is Ignore.");
        for ((hook, step), counter) in self.fail_open.sorted() {
            page.line(name, &[("name", &*hook), ("type", step)], counter.get());
        }
    }
}

/// The name of a definition, the version of its objects, and the desired version.
type Conversion = (Arc<str>, Arc<str>, Arc<str>);

/// Metrics of calls to conversion webhooks.
pub struct ConversionWebhooks {
    definitions: LabelValues,
    versions: LabelValues,
    /// Durations of conversions, by whether they succeeded.
    durations: Family<(Conversion, bool), AtomicHistogram>,
    /// Durations of calls, by kind of failure; "" for calls that succeeded.
    calls: Family<&'static str, AtomicHistogram>,
}

impl Default for ConversionWebhooks {
    fn default() -> Self {
        Self {
            definitions: LabelValues::default(),
            versions: LabelValues::default(),
            durations: Family::new(|| AtomicHistogram::new(&CONVERSION)),
            calls: Family::new(|| AtomicHistogram::new(&CONVERSION_CALL)),
        }
    }
}

impl fmt::Debug for ConversionWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConversionWebhooks").finish_non_exhaustive()
    }
}

impl ConversionWebhooks {
    /// Counts a completed call. `versions` are the version of its first object and the desired version.
    pub fn observe(
        &self,
        definition: &str,
        versions: (&str, &str),
        took: Duration,
        failure: Option<ConversionFailure>,
    ) {
        let [from, to] = [versions.0, versions.1].map(|version| self.versions.bounded(version));
        let conversion = (self.definitions.bounded(definition), from, to);
        self.durations.get(&(conversion, failure.is_none())).observe(took.as_secs_f64());
        self.calls.get(&failure.map_or("", ConversionFailure::as_str)).observe(took.as_secs_f64());
    }

    /// Renders all families.
    pub fn render(&self, page: &mut Page<'_>) {
        let name = "apiserver_crd_conversion_webhook_duration_seconds";
        page.head(name, "histogram", "Time that conversions by webhooks took, by definition and versions.");
        for (((definition, from, to), succeeded), histogram) in self.durations.sorted() {
            let labels = [
                ("crd_name", &*definition),
                ("from_version", &*from),
                ("succeeded", text(succeeded)),
                ("to_version", &*to),
            ];
            histogram.render(page, name, &labels);
        }
        let calls = self.calls.sorted();
        let result = |failure: &str| if failure.is_empty() { "success" } else { "failure" };
        let name = "apiserver_conversion_webhook_duration_seconds";
        page.head(name, "histogram", "Time that calls to conversion webhooks took.");
        for (failure, histogram) in &calls {
            histogram.render(page, name, &[("failure_type", failure), ("result", result(failure))]);
        }
        let name = "apiserver_conversion_webhook_request_total";
        page.head(name, "counter", "Calls to conversion webhooks.");
        for (failure, histogram) in &calls {
            page.line(name, &[("failure_type", failure), ("result", result(failure))], histogram.count());
        }
    }
}

fn text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_that_clients_choose_are_bounded() {
        let (names, codes) = (LabelValues::default(), Codes::default());
        for n in 0..METRIC_LABEL_VALUES {
            assert_eq!(&*names.bounded(&n.to_string()), n.to_string());
        }
        assert_eq!((&*names.bounded("one more"), &*names.bounded("7")), ("other", "7"));
        for code in 0..100 {
            let wanted = if usize::from(code) < METRIC_WEBHOOK_CODES { code } else { 600 };
            assert_eq!(codes.bounded(code), wanted);
        }
        assert_eq!((codes.bounded(3), codes.bounded(601)), (3, 600));
    }
}
