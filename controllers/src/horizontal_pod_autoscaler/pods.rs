//! Pods of a scale target: decoded fields, classification, and requests. Pure.

use super::sample::Samples;
use crate::limits::{CPU_INITIALIZATION, INITIAL_READINESS};
use crate::view::Meta;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::quantity::Quantity;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of a pod that an autoscaler reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

/// Requests of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    /// Pod-level resources.
    pub resources: Resources,
}

/// A container and its requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub name: String,
    pub resources: Resources,
    pub restart_policy: String,
}

/// Requests by resource name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub requests: BTreeMap<String, String>,
}

/// Status fields of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    pub phase: crate::view::Phase,
    pub conditions: Vec<PodCondition>,
    pub start_time: Option<Time>,
}

impl Pod {
    fn ready_condition(&self) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == "Ready")
    }

    /// Whether the pod is running and ready.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = self.ready_condition().is_some_and(|condition| condition.status == "True");
        ready && self.status.phase == crate::view::Phase::Running
    }
}

/// Pods by their meaning for a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Number of pods with a usable sample.
    pub ready: usize,
    /// Pending pods, and pods that were not ready for long enough for a meaningful CPU sample.
    pub unready: BTreeSet<String>,
    /// Pods without a sample.
    pub missing: BTreeSet<String>,
    /// Pods that are failed or being deleted.
    pub ignored: BTreeSet<String>,
}

/// Classifies pods. Unready pods are treated specially only for CPU.
pub(crate) fn group(pods: &[Pod], samples: &Samples, resource: Option<&str>, now: Timestamp) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.metadata.name.clone();
        let phase = pod.status.phase;
        if pod.metadata.is_deleting() || phase == crate::view::Phase::Failed {
            groups.ignored.insert(name);
        } else if phase == crate::view::Phase::Pending {
            groups.unready.insert(name);
        } else if let Some(sample) = samples.get(&name) {
            let window = SignedDuration::try_from(sample.window).unwrap_or_default();
            if resource == Some("cpu") && is_starting(pod, sample.at, window, now) {
                groups.unready.insert(name);
            } else {
                groups.ready += 1;
            }
        } else {
            groups.missing.insert(name);
        }
    }
    groups
}

/// Whether the CPU sample of a pod covers its start. In the first minutes: while it is not ready or the
/// sample covers time before it became ready. Later: only if it was never ready.
fn is_starting(pod: &Pod, at: Timestamp, window: SignedDuration, now: Timestamp) -> bool {
    let (Some(condition), Some(start)) = (pod.ready_condition(), pod.status.start_time.as_ref()) else {
        return true;
    };
    let changed = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let is_unready = condition.status == "False";
    let after_start = |wait| start.0.saturating_add(wait).unwrap_or(Timestamp::MAX);
    if after_start(CPU_INITIALIZATION) > now {
        is_unready || at < changed.saturating_add(window).unwrap_or(Timestamp::MAX)
    } else {
        is_unready && after_start(INITIAL_READINESS) > changed
    }
}

/// Requests of each pod for a resource, in thousandths: the sum over its containers and sidecars, or one
/// named container. A pod-level request replaces the sum.
///
/// # Errors
/// In upstream's words: a container has no request.
pub(crate) fn requests(
    pods: &[Pod],
    resource: &str,
    container: Option<&str>,
) -> Result<BTreeMap<String, i64>, String> {
    pods.iter().map(|pod| Ok((pod.metadata.name.clone(), request(pod, resource, container)?))).collect()
}

fn request(pod: &Pod, resource: &str, container: Option<&str>) -> Result<i64, String> {
    let of = |resources: &Resources| {
        let text = resources.requests.get(resource)?;
        Quantity::parse(text).ok().map(Quantity::milli)
    };
    if container.is_none()
        && let Some(whole) = of(&pod.spec.resources)
    {
        return Ok(whole);
    }
    let sidecars = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
    let counted = pod.spec.containers.iter().chain(sidecars);
    let counted = counted.filter(|one| container.is_none_or(|name| one.name == name));
    let mut sum = 0_i64;
    for one in counted {
        let missing = || {
            let (name, pod) = (&one.name, &pod.metadata.name);
            format!("missing request for {resource} in container {name} of Pod {pod}")
        };
        sum = sum.saturating_add(of(&one.resources).ok_or_else(missing)?);
    }
    Ok(sum)
}
