//! Number of a budget's pods that may be evicted now. Pure.

use super::scale::{Kind, Workload, Workloads, scale_of};
use crate::action::{Action, Plan};
use crate::claim::controller_of;
use crate::limits::DISRUPTION_TIMEOUT;
use crate::object::Object;
use crate::portion::{Round, portion};
use crate::view::{Pod, elapsed, seconds, subject};
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Input of a plan, at one revision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The budget.
    pub budget: &'a PodDisruptionBudget,
    /// The selected pods.
    pub pods: &'a [Arc<Pod>],
}

/// Expected and required numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequiredPods {
    expected: i32,
    healthy: i32,
    /// Whether some pods have no controller, so that they are not among the expected.
    unmanaged: bool,
}

/// Evicted pods in the budget's status that still exist.
#[derive(Debug, Default)]
struct EvictedPods<'a> {
    /// Pods about to be deleted, not counted as healthy, with their eviction time.
    missed: BTreeMap<String, Time>,
    /// Pods that were not deleted in time: they count again.
    stayed: Vec<&'a Pod>,
}

/// The status update and events if the status is outdated, and when an evicted pod counts again.
///
/// Allowed disruptions are the healthy pods above the required number. A pod is healthy if it is ready, is
/// not being deleted, and was not evicted within the last two minutes. The required number is `minAvailable`,
/// or expected minus `maxUnavailable`. Expected are the existing pods if `minAvailable` is a number,
/// otherwise the sum of their controllers' desired sizes. Percentages refer to the expected number, rounded
/// up. If the expected number is zero or unknown, no disruption is allowed.
pub(crate) fn plan<F: Fn(Kind, &str) -> Option<Workload>>(
    seen: Observed<'_>,
    workloads: &Workloads<'_, F>,
    now: Timestamp,
) -> Plan {
    let needs = match needs(seen, workloads) {
        Ok(needs) => needs,
        Err(why) => return failed(seen.budget, why, now),
    };
    let leaving = leaving(seen, now);
    let healthy = |pod: &Pod| {
        pod.ready() && !pod.metadata.is_deleting() && !leaving.missed.contains_key(&pod.metadata.name)
    };
    let healthy = count(seen.pods.iter().filter(|pod| healthy(pod)).count());
    let spare = healthy.saturating_sub(needs.healthy).max(0);
    let allowed = if needs.expected > 0 { spare } else { 0 };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = seen.budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(seen.budget, status, (reason, String::new()), generation, now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(needs.healthy),
        disrupted_pods: (!leaving.missed.is_empty()).then(|| leaving.missed.clone()),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(needs.expected),
        observed_generation: generation,
    };
    let mut plan = report(seen.budget, status, || notices(seen, needs, &leaving));
    for at in leaving.missed.values() {
        plan.wake_in(DISRUPTION_TIMEOUT.saturating_sub(elapsed(at.0, now)));
    }
    plan
}

/// Whether the budget depends on the desired size of workloads.
pub(crate) fn depends_on_scale(spec: &PodDisruptionBudgetSpec) -> bool {
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

fn needs<F: Fn(Kind, &str) -> Option<Workload>>(
    seen: Observed<'_>,
    workloads: &Workloads<'_, F>,
) -> Result<RequiredPods, String> {
    let spec = seen.budget.spec.as_ref();
    let most_missing = spec.and_then(|s| s.max_unavailable.as_ref());
    let least = spec.and_then(|s| s.min_available.as_ref());
    match (most_missing, least) {
        (Some(missing), _) => {
            let (expected, unmanaged) = wanted(seen.pods, workloads)?;
            let missing = portion(missing, expected, Round::Up);
            Ok(RequiredPods { expected, healthy: expected.saturating_sub(missing).max(0), unmanaged })
        }
        (None, Some(IntOrString::Int(least))) => {
            Ok(RequiredPods { expected: count(seen.pods.len()), healthy: *least, unmanaged: false })
        }
        (None, Some(share)) => {
            let (expected, unmanaged) = wanted(seen.pods, workloads)?;
            Ok(RequiredPods { expected, healthy: portion(share, expected, Round::Up), unmanaged })
        }
        (None, None) => Ok(RequiredPods { expected: 0, healthy: 0, unmanaged: false }),
    }
}

/// The desired total of the pods' controllers, and whether some pods have no controller.
fn wanted<F: Fn(Kind, &str) -> Option<Workload>>(
    pods: &[Arc<Pod>],
    workloads: &Workloads<'_, F>,
) -> Result<(i32, bool), String> {
    let mut unmanaged = false;
    // By the uid of the controller: one lookup per controller.
    let mut owners: BTreeSet<&str> = BTreeSet::new();
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(&pod.metadata.owner_references) else {
            unmanaged = true;
            continue;
        };
        if !owners.insert(&owner.uid) {
            continue;
        }
        let scale = scale_of(owner, workloads)?
            .ok_or_else(|| format!("found no controllers for pod {:?}", pod.metadata.name))?;
        scales.insert(scale.uid, scale.replicas);
    }
    Ok((scales.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas)), unmanaged))
}

/// Classifies the pods that evictions have recorded in the budget's status. Deleted and terminating pods need
/// no entry.
fn leaving<'a>(seen: Observed<'a>, now: Timestamp) -> EvictedPods<'a> {
    let books = seen.budget.status.as_ref().and_then(|s| s.disrupted_pods.as_ref());
    let Some(books) = books else { return EvictedPods::default() };
    let mut leaving = EvictedPods::default();
    for pod in seen.pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
        let name = &pod.metadata.name;
        match books.get(name) {
            Some(at) if elapsed(at.0, now) < DISRUPTION_TIMEOUT => {
                leaving.missed.insert(name.clone(), at.clone());
            }
            Some(_) => leaving.stayed.push(pod),
            None => {}
        }
    }
    leaving
}

/// Allows no disruption while the required number is unknown. The counts stay unchanged.
fn failed(budget: &PodDisruptionBudget, why: String, now: Timestamp) -> Plan {
    let text = format!("Failed to calculate the number of expected pods: {why}");
    let mut status = budget.status.clone().unwrap_or_default();
    status.disruptions_allowed = Some(0);
    for never_counted in [&mut status.current_healthy, &mut status.desired_healthy, &mut status.expected_pods]
    {
        never_counted.get_or_insert(0);
    }
    let observed = status.observed_generation;
    status.conditions = Some(conditions(budget, "False", ("SyncFailed", why), observed, now));
    report(budget, status, || vec![Action::warning(about(budget), "CalculateExpectedPodCountFailed", text)])
}

/// The budget's conditions with DisruptionAllowed. The transition time changes only with the status.
fn conditions(
    budget: &PodDisruptionBudget,
    status: &str,
    (reason, message): (&str, String),
    observed: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut all = budget.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let position = all.iter().position(|c| c.type_ == DISRUPTION_ALLOWED);
    let since = position.map(|at| &all[at]).filter(|c| c.status == status);
    let condition = Condition {
        type_: DISRUPTION_ALLOWED.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: observed,
        last_transition_time: since.map_or_else(|| seconds(now), |c| c.last_transition_time.clone()),
    };
    match position {
        Some(at) => all[at] = condition,
        None => all.push(condition),
    }
    all
}

/// The update of a changed status, then its events. The budget's resourceVersion is a precondition, so that a
/// concurrent eviction is not lost.
fn report(
    budget: &PodDisruptionBudget,
    status: PodDisruptionBudgetStatus,
    notices: impl FnOnce() -> Vec<Action>,
) -> Plan {
    let mut old = budget.status.clone().unwrap_or_default();
    old.disrupted_pods = old.disrupted_pods.filter(|pods| !pods.is_empty());
    if old == status {
        return Plan::nothing();
    }
    let next = PodDisruptionBudget { status: Some(status), ..budget.clone() };
    let mut actions = vec![Action::UpdateStatus(Object::of(&next))];
    actions.extend(notices());
    Plan::of(actions)
}

fn notices(seen: Observed<'_>, needs: RequiredPods, leaving: &EvictedPods<'_>) -> Vec<Action> {
    let mut all = vec![];
    if seen.pods.is_empty() {
        all.push(Action::normal(about(seen.budget), "NoPods", "No matching pods found".into()));
    }
    if needs.unmanaged {
        let selector = seen.budget.spec.as_ref().and_then(|s| s.selector.as_ref());
        let text = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of \
             the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
             please set \".spec.minAvailable\" field of the PDB to an integer value.",
            selector.map(described).unwrap_or_default()
        );
        all.push(Action::warning(about(seen.budget), "UnmanagedPods", text));
    }
    let meta = &seen.budget.metadata;
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    for pod in &leaving.stayed {
        let budget = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
        let text = format!("Pod was expected by PDB {budget} to be deleted but it wasn't");
        all.push(Action::warning(pod.subject(), "NotDeleted", text));
    }
    all
}

/// A selector formatted like Kubernetes' components do.
fn described(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|r| {
        let values = r.values.as_deref().unwrap_or_default().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", r.key, r.operator)
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn about(budget: &PodDisruptionBudget) -> kstore_informer::Reference {
    subject("policy/v1", "PodDisruptionBudget", &budget.metadata)
}

fn count(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}
