//! The pods of a scale target: what an autoscaler reads of them, which of them count, and what they request. Pure.

use super::sample::Samples;
use crate::limits::{CPU_INITIALIZATION, INITIAL_READINESS};
use crate::view::Meta;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::quantity::Quantity;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A pod as an autoscaler reads it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

/// What a pod requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    /// Of the pod as a whole.
    pub resources: Resources,
}

/// A container and what it requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub name: String,
    pub resources: Resources,
    pub restart_policy: String,
}

/// Requests by the name of the resource.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub requests: BTreeMap<String, String>,
}

/// How far a pod has come.
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

    /// Runs and is ready.
    pub(crate) fn is_ready(&self) -> bool {
        let ready = self.ready_condition().is_some_and(|condition| condition.status == "True");
        ready && self.status.phase == crate::view::Phase::Running
    }
}

/// Pods by what they mean for a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    /// How many have a sample that counts.
    pub ready: usize,
    /// Pending, or not ready for long enough for their processor time to mean anything.
    pub unready: BTreeSet<String>,
    /// Without a sample.
    pub missing: BTreeSet<String>,
    /// Failed or being deleted.
    pub ignored: BTreeSet<String>,
}

/// Groups pods. Whether the sample of a pod that is not ready counts is a question for processor time alone.
pub(crate) fn group(pods: &[Pod], samples: &Samples, resource: Option<&str>, now: Timestamp) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let name = pod.metadata.name.clone();
        let phase = pod.status.phase;
        if pod.metadata.deleting() || phase == crate::view::Phase::Failed {
            groups.ignored.insert(name);
        } else if phase == crate::view::Phase::Pending {
            groups.unready.insert(name);
        } else if let Some(sample) = samples.get(&name) {
            let sampled = (sample.at, SignedDuration::try_from(sample.window).unwrap_or_default());
            if resource == Some("cpu") && is_starting(pod, sampled, now) {
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

/// Whether the processor time of a pod is that of its start: in the first minutes while it is not ready or the sample covers time
/// before it became ready, later only if it never was ready.
fn is_starting(pod: &Pod, (at, window): (Timestamp, SignedDuration), now: Timestamp) -> bool {
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

/// What each pod requests of a resource, in thousandths: the sum over its containers and sidecars, or the container of this name. A
/// request of the pod as a whole takes the place of the sum.
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
