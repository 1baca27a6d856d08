//! Metrics of admission policies, under Kubernetes' names: [`AdmissionPolicies`]. `PolicyCheck` defines a
//! check.

use super::webhooks::LabelValues;
use crate::series::Family;
use kstore_api::admission::policy::PolicyCheck;
use kstore_metrics_text::{AtomicHistogram, Label, Page};
use std::sync::Arc;

/// Histogram buckets of expressions, in seconds, as in Kubernetes.
const EXPRESSION: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// A policy, its binding, and the result of the check.
type Check = (Arc<str>, Arc<str>, &'static str);

/// Metrics of checks of admission policies. A check counts once for each final decision: decisions that were
/// repeated, after the answer of a webhook or for a newer object, count as one.
pub struct AdmissionPolicies {
    policies: LabelValues,
    bindings: LabelValues,
    /// Failed validations, by check and enforcement action.
    validating: Family<(Check, &'static str), AtomicHistogram>,
    mutating: Family<Check, AtomicHistogram>,
}

impl Default for AdmissionPolicies {
    fn default() -> Self {
        Self {
            policies: LabelValues::default(),
            bindings: LabelValues::default(),
            validating: Family::new(|| AtomicHistogram::new(&EXPRESSION)),
            mutating: Family::new(|| AtomicHistogram::new(&EXPRESSION)),
        }
    }
}

impl AdmissionPolicies {
    /// Counts one evaluation of a policy.
    pub fn observe(&self, check: &PolicyCheck) {
        let (policy, binding) = (self.policies.bounded(&check.policy), self.bindings.bounded(&check.binding));
        let key: Check = (policy, binding, check.error.as_str());
        let histogram = match check.enforcement {
            Some(enforcement) => self.validating.get(&(key, enforcement.as_str())),
            None => self.mutating.get(&key),
        };
        histogram.observe(check.took.as_secs_f64());
    }

    /// Renders all families.
    pub fn render(&self, page: &mut Page<'_>) {
        let validating = self.validating.sorted();
        let name = "apiserver_validating_admission_policy_check_total";
        page.head(
            name,
            "counter",
            "Failed validations, by policy, binding, error type and enforcement action.",
        );
        for ((check, action), checks) in &validating {
            page.line(name, &validating_labels(check, action), checks.count());
        }
        let name = "apiserver_validating_admission_policy_check_duration_seconds";
        page.head(name, "histogram", "Time that the expressions of these validations took.");
        for ((check, action), checks) in &validating {
            checks.render(page, name, &validating_labels(check, action));
        }
        let mutating = self.mutating.sorted();
        let name = "apiserver_mutating_admission_policy_check_total";
        page.head(name, "counter", "Mutations, by policy, binding and error.");
        for (check, checks) in &mutating {
            page.line(name, &mutating_labels(check), checks.count());
        }
        let name = "apiserver_mutating_admission_policy_check_duration_seconds";
        page.head(name, "histogram", "Time that mutations took.");
        for (check, checks) in &mutating {
            checks.render(page, name, &mutating_labels(check));
        }
    }
}

fn validating_labels<'c>((policy, binding, error): &'c Check, action: &'static str) -> [Label<'c>; 4] {
    [
        ("enforcement_action", action),
        ("error_type", *error),
        ("policy", &**policy),
        ("policy_binding", &**binding),
    ]
}

fn mutating_labels((policy, binding, error): &Check) -> [Label<'_>; 3] {
    [("error_type", *error), ("policy", &**policy), ("policy_binding", &**binding)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::admission::policy::{CheckError, Enforcement};
    use std::time::Duration;

    #[test]
    fn policy_checks_have_kubernetes_labels_and_buckets() {
        let metrics = AdmissionPolicies::default();
        let check = PolicyCheck {
            policy: "p".into(),
            binding: "b".into(),
            error: CheckError::OutOfBudget,
            enforcement: Some(Enforcement::Warn),
            took: Duration::from_micros(2),
        };
        metrics.observe(&check);
        metrics.observe(&PolicyCheck { error: CheckError::None, enforcement: None, ..check });
        let mut text = String::new();
        metrics.render(&mut Page::new(&mut text));
        let labels = r#"enforcement_action="warn",error_type="out_of_budget",policy="p",policy_binding="b""#;
        let name = "apiserver_validating_admission_policy_check";
        let mutating = "apiserver_mutating_admission_policy_check";
        for line in [
            format!("{name}_total{{{labels}}} 1"),
            format!("{name}_duration_seconds_bucket{{{labels},le=\"5e-07\"}} 0"),
            format!("{name}_duration_seconds_bucket{{{labels},le=\"0.001\"}} 1"),
            format!("{name}_duration_seconds_bucket{{{labels},le=\"1\"}} 1"),
            format!("{name}_duration_seconds_count{{{labels}}} 1"),
            format!(r#"{mutating}_total{{error_type="no_error",policy="p",policy_binding="b"}} 1"#),
            format!(
                r#"{mutating}_duration_seconds_count{{error_type="no_error",policy="p",policy_binding="b"}} 1"#
            ),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
