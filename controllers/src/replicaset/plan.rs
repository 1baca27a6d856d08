//! Plan of a ReplicaSet or ReplicationController: pods to create, pods to delete, and its status. Pure.

use super::victims::{PodsPerNode, rank};
use crate::action::{Action, Plan, Propagation};
use crate::limits::{LONGEST_REST, REPLICA_BURST, REST_PER_POD};
use crate::object::Object;
use crate::selector;
use crate::set_kind::SetKind;
use crate::view::{Pod, elapsed, seconds};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use std::sync::Arc;
use std::time::Duration;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// Kind of the set.
    pub kind: SetKind,
    /// The set.
    pub set: &'a ReplicaSet,
    /// All claimed pods, including terminating ones.
    pub pods: &'a [Arc<Pod>],
}

/// Pods to create or delete.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// No change.
    None,
    /// Create this many pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
}

impl Change {
    /// Whether the change reaches the bound of one run, so that more may be needed.
    pub(crate) fn is_full_burst(&self) -> bool {
        match self {
            Self::None => false,
            Self::Create(count) => *count >= REPLICA_BURST,
            Self::Delete(victims) => victims.len() >= REPLICA_BURST,
        }
    }
}

/// Failure of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `FailedCreate` or `FailedDelete`.
    pub reason: &'static str,
    /// The first error.
    pub message: String,
}

/// The desired size of a set.
pub(crate) fn wanted(set: &ReplicaSet) -> usize {
    let replicas = set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1);
    usize::try_from(replicas).unwrap_or(0)
}

/// The missing or surplus pods, at most `REPLICA_BURST`. `neighbours` is called only to select pods to
/// delete. A set that is being deleted changes nothing.
pub(crate) fn change(seen: Observed<'_>, now: Timestamp, neighbours: impl FnOnce() -> PodsPerNode) -> Change {
    if seen.set.metadata.deletion_timestamp.is_some() {
        return Change::None;
    }
    let active: Vec<&Arc<Pod>> = seen.pods.iter().filter(|p| p.active()).collect();
    let wanted = wanted(seen.set);
    if active.len() < wanted {
        return Change::Create((wanted - active.len()).min(REPLICA_BURST));
    }
    let excess = (active.len() - wanted).min(REPLICA_BURST);
    if excess == 0 {
        return Change::None;
    }
    if wanted == 0 && excess == active.len() {
        return Change::Delete(active.into_iter().cloned().collect());
    }
    let neighbours = neighbours();
    let mut ranked: Vec<_> = active.into_iter().map(|p| (rank(p, &neighbours, now), p)).collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0));
    Change::Delete(ranked.into_iter().take(excess).map(|(_, p)| Arc::clone(p)).collect())
}

/// The writes of a change.
pub(crate) fn actions(kind: SetKind, set: &ReplicaSet, change: &Change) -> Vec<Action> {
    match change {
        Change::None => vec![],
        // The pods are identical: the server generates their names.
        Change::Create(count) => vec![Action::CreateBatch(vec![Object::of(&pod_of(kind, set)); *count])],
        Change::Delete(victims) => {
            let delete = |p: &Arc<Pod>| Action::Delete {
                target: p.target(),
                propagation: Propagation::Default,
                force: false,
            };
            vec![Action::Together(victims.iter().map(delete).collect())]
        }
    }
}

/// The pod of a set: its template, a generated name, and the set as controller.
pub(crate) fn pod_of(kind: SetKind, set: &ReplicaSet) -> core::Pod {
    let template = set.spec.as_ref().and_then(|s| s.template.clone()).unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    core::Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![kind.reference(&set.metadata)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Remaining delay of a set after its status update at `reported`. A changed spec has no delay.
pub(crate) fn rest(set: &ReplicaSet, reported: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let observed = set.status.as_ref().and_then(|s| s.observed_generation);
    if observed < set.metadata.generation || set.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let pods = u32::try_from(wanted(set)).unwrap_or(u32::MAX);
    let rest = REST_PER_POD.saturating_mul(pods).min(LONGEST_REST);
    rest.checked_sub(elapsed(reported?, now)).filter(|left| !left.is_zero())
}

/// The status update after a run, and the delay until the next. `failure` is the failure of this run's
/// change.
pub(crate) fn report(seen: Observed<'_>, failure: Option<&Failure>, now: Timestamp) -> Plan {
    let (status, available_in) = status(seen, failure, now);
    let status = seen.kind.status(status);
    let mut plan = Plan::nothing();
    plan.wake = available_in;
    if seen.set.status.as_ref() != Some(&status) {
        let set = ReplicaSet { status: Some(status), ..seen.set.clone() };
        plan.actions.push(Action::UpdateStatus(seen.kind.object(&set)));
    }
    plan
}

fn status(
    seen: Observed<'_>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let empty = ReplicaSetSpec::default();
    let spec = seen.set.spec.as_ref().unwrap_or(&empty);
    let labels = spec.template.as_ref().and_then(|t| t.metadata.as_ref()?.labels.clone());
    let full = LabelSelector { match_labels: labels, match_expressions: None };
    let (mut replicas, mut labeled, mut ready, mut available, mut terminating) = (0, 0, 0, 0, 0);
    let mut wake = None;
    for pod in seen.pods {
        terminating += i32::from(pod.terminating());
        if !pod.active() {
            continue;
        }
        replicas += 1;
        labeled += i32::from(selector::matches(&full, &pod.metadata.labels));
        match pod.available_in(spec.min_ready_seconds.unwrap_or(0), now) {
            None => {}
            Some(wait) if wait.is_zero() => {
                ready += 1;
                available += 1;
            }
            Some(wait) => {
                ready += 1;
                wake = Some(wake.map_or(wait, |w: Duration| w.min(wait)));
            }
        }
    }
    let some = |n: i32| (n > 0).then_some(n);
    let status = ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: some(labeled),
        ready_replicas: some(ready),
        available_replicas: some(available),
        terminating_replicas: Some(terminating),
        observed_generation: seen.set.metadata.generation,
        conditions: conditions(seen.set, failure, now),
    };
    (status, wake)
}

fn conditions(
    set: &ReplicaSet,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut all = set.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let current = all.iter().find(|c| c.type_ == REPLICA_FAILURE).and_then(|c| c.reason.clone());
    match failure {
        Some(f) if current.as_deref() == Some(f.reason) => {}
        Some(f) => {
            all.retain(|c| c.type_ != REPLICA_FAILURE);
            all.push(ReplicaSetCondition {
                type_: REPLICA_FAILURE.into(),
                status: "True".into(),
                reason: Some(f.reason.into()),
                message: Some(f.message.clone()),
                last_transition_time: Some(seconds(now)),
            });
        }
        None => all.retain(|c| c.type_ != REPLICA_FAILURE),
    }
    (!all.is_empty()).then_some(all)
}
