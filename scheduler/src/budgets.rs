//! PodDisruptionBudgets as preemption reads them: whether the eviction of a pod would exceed a budget.

use crate::change::Change;
use crate::pod::PodInfo;
use crate::pod_constraints::LabelSelector;
use crate::storage::{MetaDoc, Record};
use kstore_api::lenient;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The fields of a PodDisruptionBudget that the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The selector for the budget's pods; `None` and the empty selector select no pod.
    pub selector: LabelSelector,
    /// The number of evictions that the budget allows now.
    pub allowed: i64,
    /// The names of the pods whose evictions the API server has admitted already.
    pub disrupted: BTreeSet<String>,
}

impl Budget {
    fn covers(&self, pod: &PodInfo) -> bool {
        self.selector != LabelSelector::default()
            && self.selector.matches(&pod.labels)
            && !self.disrupted.contains(pod.key.name())
    }
}

/// The budgets by namespace and name.
#[derive(Debug, Default)]
pub struct Budgets(BTreeMap<String, BTreeMap<String, Arc<Record<Budget>>>>);

impl Budgets {
    /// Processes a change of a budget.
    pub fn apply(&mut self, change: Change<Record<Budget>>) {
        match change {
            Change::Set(budget) => {
                let namespace = self.0.entry(budget.key.namespace().to_owned()).or_default();
                namespace.insert(budget.key.name().to_owned(), budget);
            }
            Change::Gone(budget) => {
                if let Some(namespace) = self.0.get_mut(budget.key.namespace()) {
                    namespace.remove(budget.key.name());
                    if namespace.is_empty() {
                        self.0.remove(budget.key.namespace());
                    }
                }
            }
        }
    }

    /// For each of `pods` whether its eviction exceeds a budget, if all pods before it are evicted too.
    pub fn violations(&self, pods: &[Arc<PodInfo>]) -> Vec<bool> {
        let mut left: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let violates = pods.iter().map(|pod| {
            let budgets = self.0.get(pod.key.namespace()).filter(|_| !pod.labels.is_empty());
            let mut violates = false;
            for budget in budgets.into_iter().flat_map(BTreeMap::values).filter(|budget| budget.covers(pod)) {
                let key = (budget.key.namespace(), budget.key.name());
                let left = left.entry(key).or_insert(budget.allowed);
                *left -= 1;
                violates |= *left < 0;
            }
            violates
        });
        violates.collect()
    }
}

/// Decodes a PodDisruptionBudget.
///
/// # Errors
///
/// `json` is not a PodDisruptionBudget.
pub fn decode(json: &[u8]) -> Result<Record<Budget>, serde_json::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Doc {
        metadata: MetaDoc,
        spec: SpecDoc,
        status: StatusDoc,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct SpecDoc {
        selector: Option<LabelSelector>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct StatusDoc {
        disruptions_allowed: i64,
        disrupted_pods: Option<BTreeMap<String, serde::de::IgnoredAny>>,
    }
    let doc = lenient::from_slice::<Doc>(json)?;
    Ok(Record::of(
        doc.metadata,
        Budget {
            selector: doc.spec.selector.unwrap_or_default(),
            allowed: doc.status.disruptions_allowed,
            disrupted: doc.status.disrupted_pods.unwrap_or_default().into_keys().collect(),
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cpu_pod, with};
    use serde_json::{Value, json};

    fn budget(name: &str, selector: Value, allowed: i64) -> Change<Record<Budget>> {
        let value = json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "3" },
            "spec": { "selector": selector },
            "status": { "disruptionsAllowed": allowed, "disruptedPods": { "gone": "2026-01-01T00:00:00Z" } },
        });
        crate::testing::set(&value, decode)
    }

    #[test]
    fn a_budget_is_counted_down_and_empty_selectors_and_admitted_evictions_do_not_count() {
        let app =
            |name: &str| with(&cpu_pod(name, "1"), |pod| drop(pod.labels.insert("app".into(), "a".into())));
        let pods = [app("gone"), app("a"), cpu_pod("unlabelled", "1"), app("b"), app("c")];
        let mut budgets = Budgets::default();
        budgets.apply(budget("everything", json!({}), 0));
        budgets.apply(budget("nothing", Value::Null, 0));
        assert_eq!(budgets.violations(&pods), [false; 5]);
        budgets.apply(budget("app", json!({ "matchLabels": { "app": "a" } }), 1));
        assert_eq!(budgets.violations(&pods), [false, false, false, true, true]);
        let elsewhere = with(&pods[1], |pod| pod.key = kstore_informer::Key::new("other", "a"));
        assert_eq!(budgets.violations(&[elsewhere, Arc::clone(&pods[3])]), [false, false]);
        let Change::Set(app) = budget("app", json!({}), 1) else { unreachable!() };
        budgets.apply(Change::Gone(app));
        assert_eq!(budgets.violations(&pods), [false; 5]);
    }
}
