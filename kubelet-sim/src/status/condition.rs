//! The conditions of a pod, by the kubelet's rules.

use super::phase::initialized;
use super::{OWNED, RESTARTING, is_owned};
use crate::pod::container::Container;
use crate::pod::{Eviction, Pod, RESTART_ALL};
use crate::pod_object::{Kind, PodObject};
use crate::time::api_time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use kstore_api::version::Minor;

/// The type of the condition of a pod that is ended before its time.
const DISRUPTED: &str = "DisruptionTarget";

/// The value of a condition, with reason and message.
struct Finding {
    status: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

impl Finding {
    fn plain(status: bool) -> Self {
        Self { status, reason: None, message: None }
    }

    fn because(status: bool, reason: &'static str) -> Self {
        Self { status, reason: Some(reason), message: None }
    }

    fn no(reason: &'static str, message: String) -> Self {
        Self { status: false, reason: Some(reason), message: Some(message) }
    }
}

/// The conditions of other writers unchanged, then the kubelet's own in its order. A transition time changes
/// only with the status.
pub(super) fn conditions(
    (pod, minor): (&Pod, Minor),
    object: &PodObject,
    phase: &str,
    previous: &PodStatus,
    now: Timestamp,
) -> Vec<PodCondition> {
    let known = previous.conditions.as_deref().unwrap_or_default();
    let containers_ready = containers_ready(pod, object, phase);
    let ready = ready(&containers_ready, object, known);
    let found = [
        ready_to_start(pod, minor),
        all_initialized(pod, object, phase),
        ready,
        containers_ready,
        Finding::plain(true),
    ];
    let foreign = known.iter().filter(|c| !is_owned(&c.type_)).cloned();
    let resize = pod.resize.iter().flat_map(|resize| resize.conditions());
    let restarts = may_restart_all(object).then(|| (RESTARTING, restarting(pod, phase)));
    let own = OWNED.into_iter().zip(found).chain(restarts);
    let own = own.map(|(type_, finding)| {
        let status = if finding.status { "True" } else { "False" };
        let before = known.iter().find(|c| c.type_ == type_);
        let since = before.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: finding.reason.map(str::to_owned),
            message: finding.message,
            last_transition_time: Some(since.unwrap_or_else(|| api_time(now))),
            last_probe_time: None,
            observed_generation: object.metadata.generation,
        }
    });
    foreign.chain(resize).chain(own).collect()
}

/// Adds the condition of a pod that its node ends.
pub(super) fn disrupt(
    conditions: &mut Vec<PodCondition>,
    eviction: &Eviction,
    object: &PodObject,
    now: Timestamp,
) {
    let since = conditions.iter().find(|c| c.type_ == DISRUPTED && c.status == "True");
    let since = since.and_then(|c| c.last_transition_time.clone()).unwrap_or_else(|| api_time(now));
    conditions.retain(|c| c.type_ != DISRUPTED);
    conditions.push(PodCondition {
        type_: DISRUPTED.to_owned(),
        status: "True".to_owned(),
        reason: Some("TerminationByKubelet".to_owned()),
        message: Some(eviction.message.clone()),
        last_transition_time: Some(since),
        last_probe_time: None,
        observed_generation: object.metadata.generation,
    });
}

/// Whether a restart rule of a container restarts all containers of the pod.
fn may_restart_all(object: &PodObject) -> bool {
    let options = object.containers().filter_map(|spec| spec.options.as_ref());
    options.flat_map(|options| &options.restart_rules).any(|rule| rule.action == RESTART_ALL)
}

/// The condition of a pod whose containers may all restart together.
fn restarting(pod: &Pod, phase: &str) -> Finding {
    match phase {
        "Succeeded" => Finding::because(false, "PodCompleted"),
        "Failed" => Finding::because(false, "PodFailed"),
        _ => Finding::plain(pod.restarts_all),
    }
}

/// Whether the pod has its sandbox and network. Since 1.37 the condition says what is missing.
fn ready_to_start(pod: &Pod, minor: Minor) -> Finding {
    let message = (minor >= Minor::V37 && !pod.networked()).then(|| "no pod sandbox exists".to_owned());
    Finding { message, ..Finding::plain(pod.networked()) }
}

fn named(pod: &Pod, object: &PodObject, pick: impl Fn(&Container) -> bool) -> Vec<String> {
    let pairs = object.containers().zip(&pod.containers);
    pairs.filter(|(_, container)| pick(container)).map(|(spec, _)| spec.name.clone()).collect()
}

fn all_initialized(pod: &Pod, object: &PodObject, phase: &str) -> Finding {
    if phase == "Succeeded" {
        return Finding::because(true, "PodCompleted");
    }
    let open = named(pod, object, |c| !initialized(c));
    let begun = pod.containers.iter().any(|c| c.kind == Kind::Regular && c.is_begun());
    if open.is_empty() || begun {
        return Finding::plain(true);
    }
    let message = format!("containers with incomplete status: [{}]", open.join(" "));
    Finding::no("ContainersNotInitialized", message)
}

fn containers_ready(pod: &Pod, object: &PodObject, phase: &str) -> Finding {
    match phase {
        "Succeeded" => return Finding::because(false, "PodCompleted"),
        "Failed" => return Finding::because(false, "PodFailed"),
        _ => {}
    }
    let unready = named(pod, object, |c| matches!(c.kind, Kind::Sidecar | Kind::Regular) && !c.ready());
    if unready.is_empty() {
        return Finding::plain(true);
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    Finding::no("ContainersNotReady", message)
}

fn ready(containers: &Finding, object: &PodObject, known: &[PodCondition]) -> Finding {
    if !containers.status {
        return Finding { status: false, reason: containers.reason, message: containers.message.clone() };
    }
    let missing = object.spec.readiness_gates.iter().filter_map(|gate| {
        let gate = gate.condition_type.as_str();
        match known.iter().find(|c| c.type_ == gate).map(|c| c.status.as_str()) {
            Some("True") => None,
            Some(status) => {
                Some(format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"))
            }
            None => Some(format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")),
        }
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Finding::plain(true);
    }
    Finding::no("ReadinessGatesNotReady", missing.join(", "))
}
