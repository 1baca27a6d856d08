//! Audit annotations for webhook calls, with Kubernetes' keys and values.

use super::review::{AuditAnnotation, Patch};
use super::webhook::{Phase, Webhook};
use serde_json::json;

/// Annotation for a call of a mutating webhook, with whether it changed the object. `round` is
/// [`Reinvocation::round`].
///
/// [`Reinvocation::round`]: super::Reinvocation::round
#[must_use]
pub fn mutation(hook: &Webhook, round: u8, mutated: bool) -> AuditAnnotation {
    let value = json!({"configuration": *hook.configuration, "webhook": *hook.name, "mutated": mutated});
    annotation("mutation.webhook.admission.k8s.io", round, hook.index, value.to_string())
}

/// Annotation with the patch of a mutating webhook, for audit levels that record requests.
#[must_use]
pub fn patch(hook: &Webhook, round: u8, patch: &Patch) -> AuditAnnotation {
    let value = json!({"configuration": *hook.configuration, "webhook": *hook.name,
        "patch": patch.operations(), "patchType": "JSONPatch"});
    annotation("patch.webhook.admission.k8s.io", round, hook.index, value.to_string())
}

/// Annotation for a failed call that the failure policy ignores. For mutating webhooks `index` is
/// [`Webhook::index`]; for validating ones it is the position among the webhooks called for the request.
#[must_use]
pub fn failed_open(hook: &Webhook, round: u8, index: usize) -> AuditAnnotation {
    let prefix = match hook.phase() {
        Phase::Mutating => "failed-open.mutation.webhook.admission.k8s.io",
        Phase::Validating => "failed-open.validating.webhook.admission.k8s.io",
    };
    annotation(prefix, round, index, hook.name.to_string())
}

fn annotation(prefix: &str, round: u8, index: usize, value: String) -> AuditAnnotation {
    AuditAnnotation { key: format!("{prefix}/round_{round}_index_{index}"), value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::tests::hook;
    use serde_json::{Value, json};

    #[test]
    fn audit_annotations_name_round_and_webhook() {
        let hook_of = |phase| hook(phase, &json!({}));
        let annotation = mutation(&hook_of(Phase::Mutating), 1, true);
        assert_eq!(annotation.key, "mutation.webhook.admission.k8s.io/round_1_index_0");
        let value: Value = serde_json::from_str(&annotation.value).unwrap();
        assert_eq!(value, json!({"configuration": "c", "webhook": "h.rec.dev", "mutated": true}));
        let annotation = failed_open(&hook_of(Phase::Validating), 0, 3);
        assert_eq!(annotation.key, "failed-open.validating.webhook.admission.k8s.io/round_0_index_3");
        assert_eq!(annotation.value, "h.rec.dev");
    }
}
