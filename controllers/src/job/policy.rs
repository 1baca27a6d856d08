//! Policies of a Job: `podFailurePolicy` decides the consequence of a failed pod, `successPolicy` which
//! succeeded indexes suffice. Pure.

use super::indexes::Indexes;
use crate::view::{ContainerStatus, Pod};
use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule, SuccessPolicy,
};

/// Consequence of a failed pod for its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodFailure {
    /// The failure counts towards the limits.
    Count,
    /// The failure does not count, and the pod is replaced.
    Ignore,
    /// The failure counts, and its index fails permanently.
    FailIndex,
    /// The failure counts, and the whole Job fails with this message.
    FailJob(String),
}

impl PodFailure {
    /// Whether the failure counts towards `backoffLimit` and `backoffLimitPerIndex`.
    pub(crate) fn is_counted(&self) -> bool {
        *self != Self::Ignore
    }
}

/// The consequence of a failed pod by the first matching rule. Without a match the failure counts.
pub(crate) fn pod_failure(policy: Option<&PodFailurePolicy>, pod: &Pod) -> PodFailure {
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    for (number, rule) in rules.iter().enumerate() {
        let Some(why) = why_matched(rule, pod) else { continue };
        match rule.action.as_str() {
            "Count" => return PodFailure::Count,
            "Ignore" => return PodFailure::Ignore,
            "FailIndex" => return PodFailure::FailIndex,
            "FailJob" => {
                return PodFailure::FailJob(format!("{why} matching FailJob rule at index {number}"));
            }
            // Validation refuses other actions; those of a newer server are skipped, as upstream.
            _ => {}
        }
    }
    PodFailure::Count
}

/// First half of the Job's failure message, if the rule matches.
fn why_matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    if let Some(wanted) = &rule.on_exit_codes {
        let all = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        let (container, code) = all.filter_map(|status| exit_code(status, wanted)).next()?;
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let patterns = rule.on_pod_conditions.as_deref()?;
    let is_met = |pattern: &PodFailurePolicyOnPodConditionsPattern, type_: &str, status: &str| {
        pattern.type_ == type_ && pattern.status.as_deref().unwrap_or("True") == status
    };
    let met =
        pod.status.conditions.iter().find(|c| patterns.iter().any(|p| is_met(p, &c.type_, &c.status)))?;
    Some(format!("Pod {namespace}/{name} has condition {}", met.type_))
}

/// Name and exit code of a failed container that matches the requirement.
fn exit_code<'a>(
    status: &'a ContainerStatus,
    wanted: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let code = status.state.terminated.as_ref()?.exit_code;
    let is_named = wanted.container_name.as_ref().is_none_or(|name| *name == status.name);
    let is_matched = match wanted.operator.as_str() {
        "In" => wanted.values.contains(&code),
        "NotIn" => !wanted.values.contains(&code),
        _ => false,
    };
    (is_named && code != 0 && is_matched).then_some((status.name.as_str(), code))
}

/// Message of the first success policy rule that the succeeded indexes meet.
pub(crate) fn success(
    policy: Option<&SuccessPolicy>,
    completions: i32,
    succeeded: &Indexes,
) -> Option<String> {
    let rules = policy?.rules.as_slice();
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |indexes: Option<&str>, count: Option<i32>| match indexes {
        None => count.is_some_and(|count| succeeded.len() >= count),
        Some(text) => {
            let wanted = Indexes::parse(text, completions);
            let have = succeeded.common(&wanted);
            !wanted.is_empty() && (have == wanted.len() || count.is_some_and(|count| have >= count))
        }
    };
    let number =
        rules.iter().position(|rule| is_met(rule.succeeded_indexes.as_deref(), rule.succeeded_count))?;
    Some(format!("Matched rules at index {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

    fn pod(status: Value) -> Pod {
        from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "status": status})).unwrap()
    }

    fn exited(code: i32) -> Value {
        json!({"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]})
    }

    fn evaluated(rules: Value, status: Value) -> PodFailure {
        let policy = from_value(json!({ "rules": rules })).unwrap();
        pod_failure(Some(&policy), &pod(status))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let on_codes = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        let table = [
            (json!([]), PodFailure::Count),
            (json!([on_codes("Ignore", "In", &[3])]), PodFailure::Ignore),
            (json!([on_codes("Ignore", "In", &[4])]), PodFailure::Count),
            (json!([on_codes("Ignore", "NotIn", &[4])]), PodFailure::Ignore),
            (json!([on_codes("Ignore", "NotIn", &[3])]), PodFailure::Count),
            (json!([on_codes("Count", "In", &[3]), on_codes("FailJob", "In", &[3])]), PodFailure::Count),
            (
                json!([on_codes("Other", "In", &[3]), on_codes("FailIndex", "In", &[3])]),
                PodFailure::FailIndex,
            ),
            (
                json!([on_codes("Ignore", "In", &[4]), on_codes("FailJob", "In", &[3])]),
                PodFailure::FailJob(
                    "Container main for pod ns/p failed with exit code 3 matching FailJob rule at index 1"
                        .into(),
                ),
            ),
        ];
        for (rules, expected) in table {
            assert_eq!(evaluated(rules.clone(), exited(3)), expected, "{rules}");
        }
        assert_eq!(pod_failure(None, &pod(exited(3))), PodFailure::Count);
    }

    #[test]
    fn containers_match_by_name_and_only_when_they_ended_badly() {
        let named = |name: &str| json!([{"action": "Ignore", "onExitCodes": {"containerName": name, "operator": "NotIn", "values": [9]}}]);
        assert_eq!(evaluated(named("main"), exited(3)), PodFailure::Ignore);
        assert_eq!(evaluated(named("other"), exited(3)), PodFailure::Count);
        assert_eq!(evaluated(named("main"), exited(0)), PodFailure::Count);
        let running = json!({"containerStatuses": [{"name": "main", "state": {}}]});
        assert_eq!(evaluated(named("main"), running), PodFailure::Count);
        let init =
            json!({"initContainerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]});
        assert_eq!(evaluated(named("main"), init), PodFailure::Ignore);
    }

    #[test]
    fn conditions_match_by_type_and_status() {
        let rule = |action: &str, status: Value| json!([{"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]}]);
        let disrupted =
            |status: &str| json!({"conditions": [{"type": "DisruptionTarget", "status": status}]});
        assert_eq!(evaluated(rule("Ignore", json!("True")), disrupted("True")), PodFailure::Ignore);
        assert_eq!(evaluated(rule("Ignore", Value::Null), disrupted("True")), PodFailure::Ignore);
        assert_eq!(evaluated(rule("Ignore", json!("True")), disrupted("False")), PodFailure::Count);
        let message = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0";
        assert_eq!(
            evaluated(rule("FailJob", json!("False")), disrupted("False")),
            PodFailure::FailJob(message.into())
        );
    }

    #[test]
    fn a_success_policy_matches_indexes_or_their_count() {
        let table = [
            (json!([{"succeededCount": 2}]), "0", None),
            (json!([{"succeededCount": 2}]), "0,4", Some(0)),
            (json!([{"succeededIndexes": "1-3"}]), "1,2", None),
            (json!([{"succeededIndexes": "1-3"}]), "0-3", Some(0)),
            (json!([{"succeededIndexes": "1-3", "succeededCount": 1}]), "0", None),
            (json!([{"succeededIndexes": "1-3", "succeededCount": 1}]), "2", Some(0)),
            (json!([{"succeededIndexes": "7"}, {"succeededCount": 1}]), "2", Some(1)),
            (json!([{"succeededCount": 0}]), "", None),
            (json!([{"succeededIndexes": "x"}]), "2", None),
        ];
        for (rules, succeeded, met) in table {
            let policy = from_value(json!({ "rules": rules })).unwrap();
            let message = success(Some(&policy), 10, &Indexes::parse(succeeded, 10));
            assert_eq!(
                message,
                met.map(|n: i32| format!("Matched rules at index {n}")),
                "{rules} {succeeded}"
            );
        }
        assert_eq!(success(None, 10, &Indexes::parse("0-9", 10)), None);
    }
}
