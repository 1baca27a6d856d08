//! Hints of endpoints: the zone or node whose clients should prefer an endpoint. Pure.
//!
//! `spec.trafficDistribution` hints each ready endpoint to its own zone, or to its own node as well; this follows
//! upstream's package `trafficdist`. The annotation `service.kubernetes.io/topology-mode: Auto` takes precedence: it
//! shares the endpoints among zones by their CPUs (`topology`).

use super::plan::SliceBuilder;
use super::topology;
use crate::action::Action;
use crate::view::subject;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// The earlier name of the annotation.
const TOPOLOGY_AWARE_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

/// Reason of the events about hints that are not given, or no longer.
const DISABLED: &str = "TopologyAwareHintsDisabled";

/// How a Service distributes traffic over its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// Over all endpoints, without hints.
    Cluster,
    /// To endpoints of the client's zone.
    SameZone,
    /// To endpoints of the client's node, or else of its zone.
    SameNode,
    /// By the CPUs of the zones.
    Auto,
}

impl Distribution {
    /// The distribution that a Service asks for.
    pub(crate) fn of(service: &Service) -> Self {
        let annotation = |name| service.metadata.annotations.as_ref().and_then(|all| all.get(name));
        let mode = annotation(TOPOLOGY_MODE).or_else(|| annotation(TOPOLOGY_AWARE_HINTS));
        if mode.is_some_and(|mode| mode == "Auto" || mode == "auto") {
            return Self::Auto;
        }
        match service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref()) {
            Some("PreferClose" | "PreferSameZone") => Self::SameZone,
            Some("PreferSameNode") => Self::SameNode,
            _ => Self::Cluster,
        }
    }
}

/// Gives the endpoints of one address family their hints, and marks slices that change by it. `is_hinted` says
/// whether the Service has hints by the annotation, before and after. Returns the events about it.
pub(crate) fn reconcile(
    service: &Service,
    family: &str,
    drafts: &mut [SliceBuilder<'_>],
    shares: Option<&topology::Shares>,
    is_hinted: &mut bool,
) -> Vec<Action> {
    let about = || subject("v1", "Service", &service.metadata);
    let text = |text: &str| format!("{text}, addressType: {family}");
    let distribution = Distribution::of(service);
    if distribution != Distribution::Auto {
        match distribution {
            Distribution::SameZone => prefer_close(drafts, false),
            Distribution::SameNode => prefer_close(drafts, true),
            Distribution::Cluster | Distribution::Auto => remove(drafts),
        }
        let was_hinted = std::mem::take(is_hinted);
        let message = text("Topology Aware Hints has been disabled");
        return was_hinted.then(|| Action::warning(about(), DISABLED, message)).into_iter().collect();
    }
    match topology::assign(drafts, shares) {
        Ok(()) => {
            let was_hinted = std::mem::replace(is_hinted, true);
            let message = text("Topology Aware Hints has been enabled");
            let enabled = || Action::normal(about(), "TopologyAwareHintsEnabled", message);
            (!was_hinted).then(enabled).into_iter().collect()
        }
        Err(why) => {
            *is_hinted = false;
            remove(drafts);
            vec![Action::warning(about(), DISABLED, text(&why))]
        }
    }
}

/// Whether clients may use the endpoint; only such endpoints get hints.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().is_some_and(|conditions| conditions.ready == Some(true))
}

/// The hint to one zone.
pub(crate) fn to_zone(zone: &str) -> EndpointHints {
    EndpointHints { for_zones: Some(vec![ForZone { name: zone.to_owned() }]), for_nodes: None }
}

/// Hints each ready endpoint to its zone, and to its node too if `with_nodes`.
fn prefer_close(drafts: &mut [SliceBuilder<'_>], with_nodes: bool) {
    let wanted = |endpoint: &Endpoint| {
        let node = endpoint.node_name.as_ref().filter(|_| with_nodes);
        let for_nodes = node.map(|node| vec![ForNode { name: node.clone() }]);
        let for_zones = endpoint.zone.as_ref().map(|zone| vec![ForZone { name: zone.clone() }]);
        (for_nodes.is_some() || for_zones.is_some()).then_some(EndpointHints { for_nodes, for_zones })
    };
    for draft in drafts {
        let mut ready = draft.endpoints.iter().filter(|endpoint| is_ready(endpoint));
        draft.changed |= ready.any(|endpoint| endpoint.hints != wanted(endpoint));
        if draft.changed {
            for endpoint in draft.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint)) {
                endpoint.hints = wanted(endpoint);
            }
        }
    }
}

/// Removes all hints.
fn remove(drafts: &mut [SliceBuilder<'_>]) {
    for draft in drafts {
        draft.changed |= draft.endpoints.iter().any(|endpoint| endpoint.hints.is_some());
        draft.endpoints.iter_mut().for_each(|endpoint| endpoint.hints = None);
    }
}
