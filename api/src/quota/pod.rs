//! Resource use of a pod: the highest need at any moment of its life. Also finds resources that containers
//! must state.
//!
//! Follows `PodUsageFunc`.

use super::usage::{Traits, Used};
use super::{Quantity, quantity};
use crate::object::{int, list, text};
use crate::strategy;
use crate::validate::is_extended_of_quotas;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

const RESOURCES: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// Resources that every container must state if a quota bounds them.
const MUST_BE_STATED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";

/// Amounts by the resource names of containers.
type Needs<'p> = BTreeMap<&'p str, Quantity>;

/// Whether pods can use a quota resource.
pub(super) fn covers(resource: &str) -> bool {
    RESOURCES.contains(&resource)
        || resource.starts_with(HUGE_PAGES)
        || resource.starts_with(REQUESTS_HUGE_PAGES)
        || is_extended_of_quotas(resource)
}

/// Resources used by a pod that has not terminated, by quota name.
pub(super) fn compute(pod: &Value) -> Used {
    let (requests, limits) = (total(pod, "requests"), total(pod, "limits"));
    let one = Quantity::from_units(1, crate::quantity::Format::DecimalSi);
    let mut used: Used = vec![(Cow::Borrowed("pods"), one)];
    used.extend(names(&requests, &limits));
    used
}

/// Maps requests and limits to quota resources.
fn names<'n>(
    requests: &'n Needs<'_>,
    limits: &'n Needs<'_>,
) -> impl Iterator<Item = (Cow<'static, str>, Quantity)> {
    let requested = requests.iter().flat_map(|(name, amount)| {
        let (plain, prefixed) = match *name {
            "cpu" => (Some("cpu".into()), Some("requests.cpu".into())),
            "memory" => (Some("memory".into()), Some("requests.memory".into())),
            "ephemeral-storage" => {
                (Some("ephemeral-storage".into()), Some("requests.ephemeral-storage".into()))
            }
            name if name.starts_with(HUGE_PAGES) => {
                (Some(Cow::Owned(name.to_owned())), Some(Cow::Owned(format!("requests.{name}"))))
            }
            name => {
                let prefixed = format!("requests.{name}");
                (None, is_extended_of_quotas(&prefixed).then_some(Cow::Owned(prefixed)))
            }
        };
        [plain, prefixed].into_iter().flatten().map(|name| (name, *amount)).collect::<Vec<_>>()
    });
    let limited = limits.iter().filter_map(|(name, amount)| {
        let name = match *name {
            "cpu" => "limits.cpu",
            "memory" => "limits.memory",
            "ephemeral-storage" => "limits.ephemeral-storage",
            _ => return None,
        };
        Some((Cow::Borrowed(name), *amount))
    });
    requested.collect::<Vec<_>>().into_iter().chain(limited.collect::<Vec<_>>())
}

/// Total requests or limits of a pod: the sum over containers and sidecars, or the peak during initialization
/// if that is higher. Pod-level amounts replace the sum. Overhead is added; for limits only to resources with
/// a limit.
fn total<'p>(pod: &'p Value, side: &str) -> Needs<'p> {
    let spec = &pod["spec"];
    let is_infeasible = is_resize_infeasible(pod);
    let own = |container: &'p Value, statuses: &str| {
        let mut statuses = list(&pod["status"][statuses]).iter();
        let status = statuses.rfind(|status| status["name"] == container["name"]);
        of_container(container, status, is_infeasible, side)
    };
    let mut running = Needs::new();
    for container in list(&spec["containers"]) {
        add(&mut running, &own(container, "containerStatuses"));
    }
    let (mut sidecars, mut initialising) = (Needs::new(), Needs::new());
    for container in list(&spec["initContainers"]) {
        let mut moment = own(container, "initContainerStatuses");
        if text(&container["restartPolicy"]) == "Always" {
            add(&mut running, &moment);
            add(&mut sidecars, &moment);
            raise(&mut initialising, &sidecars);
        } else {
            add(&mut moment, &sidecars);
            raise(&mut initialising, &moment);
        }
    }
    raise(&mut running, &initialising);
    let whole = amounts(&spec["resources"][side]);
    running
        .extend(whole.filter(|(name, _)| matches!(*name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)));
    for (name, amount) in amounts(&spec["overhead"]) {
        match running.get_mut(name) {
            Some(total) => *total = total.add(amount),
            None if side == "requests" => drop(running.insert(name, amount)),
            None => {}
        }
    }
    running
}

/// Amounts of a container during a resize: the higher of actual and desired amounts, or the actual ones if
/// the resize is infeasible.
fn of_container<'p>(
    container: &'p Value,
    status: Option<&'p Value>,
    is_infeasible: bool,
    side: &str,
) -> Needs<'p> {
    let wanted: Needs<'p> = amounts(&container["resources"][side]).collect();
    let Some(status) = status else { return wanted };
    let mut actual: Needs<'p> = amounts(&status["resources"][side]).collect();
    if side == "requests" {
        raise(&mut actual, &amounts(&status["allocatedResources"]).collect());
    }
    if !is_infeasible || actual.is_empty() {
        raise(&mut actual, &wanted);
    }
    actual
}

fn is_resize_infeasible(pod: &Value) -> bool {
    let mut conditions = list(&pod["status"]["conditions"]).iter();
    conditions.any(|one| text(&one["type"]) == "PodResizePending" && text(&one["reason"]) == "Infeasible")
}

fn amounts(value: &Value) -> impl Iterator<Item = (&str, Quantity)> {
    let members = value.as_object().into_iter().flatten();
    members.filter_map(|(name, amount)| Some((name.as_str(), quantity(amount)?)))
}

fn add<'p>(sum: &mut Needs<'p>, more: &Needs<'p>) {
    for (name, amount) in more {
        sum.entry(name).and_modify(|sum| *sum = sum.add(*amount)).or_insert(*amount);
    }
}

fn raise<'p>(greatest: &mut Needs<'p>, other: &Needs<'p>) {
    for (name, amount) in other {
        greatest.entry(name).and_modify(|own| *own = (*own).max(*amount)).or_insert(*amount);
    }
}

/// Bounded resources that containers do not state, as text: `limits.cpu for: a,b; …`. A pod with pod-level
/// amounts need not state any for its containers.
pub(super) fn unstated<'r>(bounded: impl Iterator<Item = &'r str>, spec: &Value) -> Option<String> {
    let of_pod = ["requests", "limits"].into_iter().flat_map(|side| amounts(&spec["resources"][side]));
    if of_pod.into_iter().any(|(name, _)| matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)) {
        return None;
    }
    let required: BTreeSet<&str> = bounded.filter(|name| MUST_BE_STATED.contains(name)).collect();
    let mut texts = Vec::new();
    for resource in required {
        let (side, name) = resource.split_once('.').unwrap_or(("requests", resource));
        let containers = list(&spec["containers"]).iter().chain(list(&spec["initContainers"]));
        let lacking: BTreeSet<&str> = containers
            .filter(|container| container["resources"][side][name].is_null())
            .map(|container| text(&container["name"]))
            .collect();
        if !lacking.is_empty() {
            let lacking: Vec<&str> = lacking.into_iter().collect();
            texts.push(format!("{resource} for: {}", lacking.join(",")));
        }
    }
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Properties of a pod that scopes match.
pub(super) fn traits(pod: &Value) -> Traits {
    let (spec, class) = (&pod["spec"], text(&pod["status"]["qosClass"]));
    let class = if class.is_empty() { strategy::qos_class(pod) } else { class };
    Traits {
        is_pod: true,
        is_terminating: is_terminating(spec),
        is_best_effort: class == "BestEffort",
        crosses_namespaces: crosses_namespaces(&spec["affinity"]),
        priority_class: text(&spec["priorityClassName"]).to_owned(),
        volume_classes: Vec::new(),
    }
}

/// Whether a pod with this spec ends by itself, as the scope Terminating has it.
pub(super) fn is_terminating(spec: &Value) -> bool {
    spec["activeDeadlineSeconds"].is_number() && int(&spec["activeDeadlineSeconds"]) >= 0
}

fn crosses_namespaces(affinity: &Value) -> bool {
    let foreign =
        |term: &Value| !list(&term["namespaces"]).is_empty() || !term["namespaceSelector"].is_null();
    ["podAffinity", "podAntiAffinity"].into_iter().any(|side| {
        let side = &affinity[side];
        let preferred = list(&side["preferredDuringSchedulingIgnoredDuringExecution"]).iter();
        let required = list(&side["requiredDuringSchedulingIgnoredDuringExecution"]).iter();
        required.chain(preferred.map(|weighted| &weighted["podAffinityTerm"])).any(foreign)
    })
}
