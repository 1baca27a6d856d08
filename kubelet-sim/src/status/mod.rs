//! A pod's status as the API shows it, as a pure function of its state machine. Decides nothing.

mod condition;
mod container;
mod phase;

use crate::image;
use crate::node::admission::Rejection;
use crate::pod::adopt::REJECTED;
use crate::pod::{Pod, Stage, Why, resize};
use crate::pod_object::PodObject;
use crate::time::NodeClock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, PodCondition, PodIP, PodStatus};
use kstore_api::version::Minor;

/// The types of the conditions that the kubelet owns, in the order in which it writes them.
pub const OWNED: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// The type of the condition of a pod all of whose containers may restart together.
pub(crate) const RESTARTING: &str = "AllContainersRestarting";

/// The types of the conditions that the kubelet owns and that few pods have.
const RARE: [&str; 3] = [resize::PENDING, resize::IN_PROGRESS, RESTARTING];

/// Whether the kubelet owns the conditions of this type.
pub fn is_owned(type_: &str) -> bool {
    OWNED.contains(&type_) || RARE.contains(&type_)
}

/// The statuses of all containers, in their order, as in [`compute`].
pub(crate) fn containers(pod: &Pod, object: &PodObject) -> Vec<ContainerStatus> {
    container::statuses(pod, object, &NodeClock::default())
}

/// What a pod's status says because of its node.
#[derive(Clone, Copy, Debug)]
pub struct KubeletFacts<'a> {
    /// The node's address.
    pub ip: &'a str,
    /// The Kubernetes version of the kubelet, which decides about texts.
    pub minor: Minor,
    /// The clock by which the kubelet and its runtime note times.
    pub clock: &'a NodeClock,
}

/// The status of `pod` at `now`, without fields that the kubelet does not own.
/// Keeps from `previous`, the newest known status of the object, the conditions of other writers and the
/// transition times of unchanged conditions. A terminal phase never changes.
pub fn compute(
    pod: &Pod,
    object: &PodObject,
    node: KubeletFacts<'_>,
    previous: &PodStatus,
    now: Timestamp,
) -> PodStatus {
    let host_ip = node.ip;
    if let Some(rejection) = &pod.rejection {
        return rejected(pod, object, rejection, previous, node.clock);
    }
    let phase = phase::phase(pod, object, previous.phase.as_deref());
    let statuses = container::statuses(pod, object, node.clock);
    let (init, others) = statuses.split_at(object.spec.init_containers.len());
    let (regular, ephemeral) = others.split_at(object.spec.containers.len());
    let deadline = matches!(
        pod.stage,
        Stage::Stopping { why: Why::DeadlineExceeded, .. } | Stage::Ended(Why::DeadlineExceeded)
    );
    let evicted = matches!(pod.stage, Stage::Stopping { why: Why::Evicted, .. } | Stage::Ended(Why::Evicted));
    let eviction = pod.eviction.as_ref().filter(|_| evicted);
    let (reason, message) = if let Some(eviction) = eviction {
        (Some(eviction.reason.to_owned()), Some(eviction.message.clone()))
    } else if deadline {
        let message = "Pod was active on the node longer than the specified deadline";
        (Some("DeadlineExceeded".to_owned()), Some(message.to_owned()))
    } else {
        (previous.reason.clone(), previous.message.clone())
    };
    let mut conditions =
        condition::conditions((pod, node.minor), object, phase, previous, node.clock.show(now));
    if let Some(eviction) = eviction {
        condition::disrupt(&mut conditions, eviction, object, node.clock.show(now));
    }
    let pod_ip = match (object.spec.host_network, pod.ip) {
        (true, _) => pod.networked().then(|| host_ip.to_owned()).or_else(|| previous.pod_ip.clone()),
        (false, ip) => ip.map(|ip| ip.to_string()),
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        reason,
        message,
        conditions: Some(conditions),
        host_ip: Some(host_ip.to_owned()),
        host_ips: Some(vec![HostIP { ip: host_ip.to_owned() }]),
        pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip,
        start_time: Some(node.clock.api_time(pod.started_at)),
        init_container_statuses: some(init),
        container_statuses: some(regular),
        ephemeral_container_statuses: some(ephemeral),
        observed_generation: object.metadata.generation,
        ..PodStatus::default()
    }
}

/// The status of a pod that its node rejected: a kubelet writes no more of it, and drops its own conditions.
fn rejected(
    pod: &Pod,
    object: &PodObject,
    rejection: &Rejection,
    previous: &PodStatus,
    clock: &NodeClock,
) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(rejection.reason.clone()),
        message: Some(format!("{REJECTED}{}", rejection.message)),
        conditions: Some(foreign(previous).cloned().collect()),
        start_time: previous.start_time.clone().or_else(|| Some(clock.api_time(pod.started_at))),
        observed_generation: object.metadata.generation,
        ..PodStatus::default()
    }
}

/// Whether `seen` shows the same as `ours` in the essential fields that the kubelet owns. Other fields are
/// ignored, so that a server that adds or omits fields causes no repeated writes.
pub fn agrees(ours: &PodStatus, seen: &PodStatus) -> bool {
    let conditions = |status: &PodStatus| {
        let all = status.conditions.clone().unwrap_or_default();
        let of = |type_: &str| all.iter().find(|c| c.type_ == type_).map(|c| c.status.clone());
        (OWNED.map(of), RARE.map(of))
    };
    let containers = |status: &PodStatus| -> Vec<(bool, i32, Option<String>)> {
        let all = status.init_container_statuses.iter().chain(&status.container_statuses);
        let all = all.chain(&status.ephemeral_container_statuses).flatten();
        all.map(|c: &ContainerStatus| (c.ready, c.restart_count, c.container_id.clone())).collect()
    };
    ours.phase == seen.phase && conditions(ours) == conditions(seen) && containers(ours) == containers(seen)
}

/// The conditions of `status` that the kubelet does not own.
pub fn foreign(status: &PodStatus) -> impl Iterator<Item = &PodCondition> {
    status.conditions.iter().flatten().filter(|c| !is_owned(&c.type_))
}

/// Whether both statuses are equal in all fields that the kubelet owns, so that writing `b` after `a` changes
/// nothing.
pub fn same(a: &PodStatus, b: &PodStatus) -> bool {
    fn own(status: &PodStatus) -> impl Iterator<Item = &PodCondition> {
        status.conditions.iter().flatten().filter(|c| is_owned(&c.type_))
    }
    (&a.phase, &a.reason, &a.message) == (&b.phase, &b.reason, &b.message)
        && (&a.host_ip, &a.host_ips, &a.pod_ip, &a.pod_ips)
            == (&b.host_ip, &b.host_ips, &b.pod_ip, &b.pod_ips)
        && (&a.start_time, a.observed_generation) == (&b.start_time, b.observed_generation)
        && a.init_container_statuses == b.init_container_statuses
        && a.container_statuses == b.container_statuses
        && a.ephemeral_container_statuses == b.ephemeral_container_statuses
        && own(a).eq(own(b))
}

/// Whether `b` differs from `a` only in the observed generation.
pub fn same_but_generation(a: &PodStatus, b: &PodStatus) -> bool {
    let mut a = a.clone();
    a.observed_generation = b.observed_generation;
    for condition in a.conditions.iter_mut().flatten() {
        if is_owned(&condition.type_) {
            condition.observed_generation = b.observed_generation;
        }
    }
    same(&a, b)
}

fn some(statuses: &[ContainerStatus]) -> Option<Vec<ContainerStatus>> {
    (!statuses.is_empty()).then(|| statuses.to_vec())
}

/// The digest reference of an image as a pull returns it.
fn image_id(reference: &str) -> String {
    image::digest_reference(reference)
}
