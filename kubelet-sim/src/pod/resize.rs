//! In-place resizes of a pod: the resources that its node has allocated while they differ from those in its spec, the conditions that say
//! so, and the texts of kubelet's events. The manager decides when there is room (`manager/admission`). Pure.

use super::step::Step;
use super::{Output, Pod, PodEvent};
use crate::limits::RESIZE_ACTUATION;
use crate::node::admission::Rejection;
use crate::pod_object::{ContainerSpec, PodObject};
use crate::time::api_time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_container_sim::time::later;
use serde::Serialize;
use std::collections::BTreeMap;

/// The type of the condition of a pod whose resize waits or is impossible.
pub const PENDING: &str = "PodResizePending";
/// The type of the condition of a pod whose containers get their new resources.
pub const IN_PROGRESS: &str = "PodResizeInProgress";

/// A resize that is not complete. Resources are by index of the container, without ephemeral containers.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The resources that the node keeps for the pod.
    pub allocated: Vec<ResourceRequirements>,
    /// The resources that are in effect.
    pub actual: Vec<ResourceRequirements>,
    /// Why the resources in the spec are not allocated.
    pub pending: Option<PendingResize>,
    /// The change from `actual` to `allocated`.
    pub in_progress: Option<ResizeInProgress>,
}

/// A resize that waits for room, or that the node can never make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingResize {
    /// `Deferred` or `Infeasible`, with the reason in words.
    pub why: Rejection,
    /// Since when it has this reason.
    pub since: Timestamp,
    /// The generation of the spec.
    pub generation: Option<i64>,
}

/// A resize that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResizeInProgress {
    /// When it began.
    pub since: Timestamp,
    /// When the new resources are in effect.
    pub until: Timestamp,
    /// The generation of the spec.
    pub generation: Option<i64>,
}

/// The resources of the containers that can be resized.
fn wanted(object: &PodObject) -> Vec<ResourceRequirements> {
    let containers = object.spec.init_containers.iter().chain(&object.spec.containers);
    containers.map(|spec| spec.resources.clone()).collect()
}

fn same(object: &PodObject, resources: &[ResourceRequirements]) -> bool {
    let containers = object.spec.init_containers.iter().chain(&object.spec.containers);
    containers.map(|spec| &spec.resources).eq(resources)
}

/// Whether `after` asks for other resources than `before`.
pub fn is_wanted(before: &PodObject, after: &PodObject) -> bool {
    let containers = |of: &'_ PodObject| of.spec.init_containers.len() + of.spec.containers.len();
    let pairs = before.containers().zip(after.containers()).take(containers(after));
    pairs.into_iter().any(|(before, after)| before.resources != after.resources)
}

/// Keeps the resources of `before`, the object whose resources a newer one changes.
pub fn observe(pod: &mut Pod, before: &PodObject) {
    pod.resize.get_or_insert_with(|| Box::new(Resize::from(wanted(before))));
}

/// The resize that an earlier process left: the status shows other resources than the spec.
pub fn restored(object: &PodObject) -> Option<Box<Resize>> {
    let status = &object.status;
    let statuses = || status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let containers = object.spec.init_containers.iter().chain(&object.spec.containers);
    let allocated: Vec<ResourceRequirements> = containers
        .map(|spec| {
            let shown = statuses().find(|one| one.name == spec.name);
            shown.and_then(|one| one.resources.clone()).unwrap_or_else(|| spec.resources.clone())
        })
        .collect();
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == PENDING);
    let pending = condition.map(|condition| PendingResize {
        why: Rejection {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        },
        since: condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        generation: condition.observed_generation,
    });
    let resize = || Box::new(Resize { pending, ..Resize::from(allocated.clone()) });
    (!same(object, &allocated)).then(resize)
}

impl From<Vec<ResourceRequirements>> for Resize {
    fn from(allocated: Vec<ResourceRequirements>) -> Self {
        Self { actual: allocated.clone(), allocated, pending: None, in_progress: None }
    }
}

impl Pod {
    /// The resources that the node keeps for the `index`-th container.
    pub fn allocated<'a>(&'a self, object: &'a PodObject, index: usize) -> Option<&'a ResourceRequirements> {
        let kept = self.resize.as_ref().and_then(|resize| resize.allocated.get(index));
        kept.or_else(|| object.container(index).map(|spec| &spec.resources))
    }

    /// The resources that are in effect for the `index`-th container.
    pub fn actual<'a>(&'a self, object: &'a PodObject, index: usize) -> Option<&'a ResourceRequirements> {
        let actual = self.resize.as_ref().and_then(|resize| resize.actual.get(index));
        actual.or_else(|| object.container(index).map(|spec| &spec.resources))
    }

    /// Whether the resources in the spec are not allocated.
    pub fn awaits_resize(&self, object: &PodObject) -> bool {
        self.resize.as_ref().is_some_and(|resize| !same(object, &resize.allocated))
    }
}

impl Resize {
    /// Allocates the resources in the spec. They are in effect `RESIZE_ACTUATION` later.
    pub fn allocate(&mut self, object: &PodObject, now: Timestamp) {
        self.allocated = wanted(object);
        self.pending = None;
        let (until, generation) = (later(now, RESIZE_ACTUATION), object.metadata.generation);
        self.in_progress = Some(ResizeInProgress { since: now, until, generation });
    }

    /// Records why the resources in the spec are not allocated. True if this is news: another reason, or another spec.
    pub fn postpone(&mut self, object: &PodObject, why: Rejection, now: Timestamp) -> bool {
        let generation = object.metadata.generation;
        let before = self.pending.take();
        let since = before.as_ref().filter(|before| before.why.reason == why.reason);
        let since = since.map_or(now, |before| before.since);
        let pending = PendingResize { why, since, generation };
        let is_news = before.as_ref() != Some(&pending);
        self.pending = Some(pending);
        is_news
    }

    /// The conditions of the pod about the resize.
    pub fn conditions(&self) -> Vec<PodCondition> {
        let condition = |type_: &str, since: Timestamp, generation| PodCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(api_time(since)),
            observed_generation: generation,
            ..PodCondition::default()
        };
        let pending = self.pending.as_ref().map(|pending| PodCondition {
            reason: Some(pending.why.reason.clone()),
            message: Some(pending.why.message.clone()),
            ..condition(PENDING, pending.since, pending.generation)
        });
        let progress = self.in_progress.as_ref();
        let progress = progress.map(|progress| condition(IN_PROGRESS, progress.since, progress.generation));
        pending.into_iter().chain(progress).collect()
    }
}

impl Step<'_> {
    /// Puts allocated resources into effect once their time has come. Containers restart if their resize policy says so.
    pub(super) fn finish_resize(&mut self) {
        let Some(resize) = &mut self.pod.resize else { return };
        if resize.in_progress.as_ref().is_none_or(|progress| progress.until > self.now) {
            return;
        }
        resize.in_progress = None;
        let before = std::mem::replace(&mut resize.actual, resize.allocated.clone());
        let after = resize.allocated.clone();
        if same(self.object, &after) {
            self.pod.resize = None;
        }
        let message = message("completed", self.object, "");
        let event = PodEvent { warning: false, ..PodEvent::warning("ResizeCompleted", message) };
        self.out.push(Output::Event(event));
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            let Some(spec) = self.object.container(index) else { break };
            let restart = spec.options.iter().flat_map(|options| &options.restart_on_resize);
            if restart.into_iter().any(|resource| amounts(before, resource) != amounts(after, resource)) {
                let message = format!("Container {} resize requires restart", spec.name);
                self.stop(index, message, self.object.grace());
            }
        }
    }
}

/// Request and limit of a resource.
fn amounts<'a>(of: &'a ResourceRequirements, resource: &str) -> [Option<&'a Quantity>; 2] {
    [&of.requests, &of.limits].map(|list| list.as_ref().and_then(|list| list.get(resource)))
}

/// Resources in the order of Go's encoding.
#[derive(Serialize)]
struct Resources<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<&'a BTreeMap<String, Quantity>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<&'a BTreeMap<String, Quantity>>,
}

#[derive(Serialize)]
struct Allocation<'a> {
    name: &'a str,
    resources: Resources<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Allocation<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Allocation<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

/// The message of an event about a resize: `Pod resize WHAT:` and the resources in the spec, as `podResizeMessage` words it.
pub fn message(what: &str, object: &PodObject, error: &str) -> String {
    let summary = Summary {
        init_containers: allocations(&object.spec.init_containers),
        containers: allocations(&object.spec.containers),
        generation: object.metadata.generation.unwrap_or(0),
        error,
    };
    let summary = serde_json::to_string(&summary).unwrap_or_default();
    format!("Pod resize {what}: {summary}")
}

fn allocations(containers: &[ContainerSpec]) -> Vec<Allocation<'_>> {
    let of = |spec| {
        let ContainerSpec { name, resources, .. }: &ContainerSpec = spec;
        let (limits, requests) = (resources.limits.as_ref(), resources.requests.as_ref());
        Allocation { name, resources: Resources { limits, requests } }
    };
    containers.iter().map(of).collect()
}
