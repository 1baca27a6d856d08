//! Pod CIDRs of a node: from each cluster network the first part that overlaps no other node's. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::networks::PodNetworks;
use crate::view::subject;
use k8s_openapi::api::core::v1::Node;
use kstore_api::cidr::Cidr;
use serde_json::json;
use std::collections::BTreeSet;

/// The pod CIDRs of a node.
pub(crate) fn networks(node: &Node) -> Vec<Cidr> {
    let Some(spec) = &node.spec else { return vec![] };
    let all = spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr);
    all.filter_map(|text| text.parse().ok()).collect()
}

/// The CIDRs for a node without any, and the write; or an event, if a cluster network has no free part.
pub(crate) fn plan(node: &Node, networks: &PodNetworks, taken: &[Cidr]) -> (Vec<Cidr>, Action) {
    let chosen: Option<Vec<Cidr>> =
        networks.parts().map(|(network, bits)| first_free(network, bits, taken)).collect();
    let Some(chosen) = chosen else {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let message = format!("Node {name} status is now: CIDRNotAvailable");
        let about = subject("v1", "Node", &node.metadata);
        return (vec![], Action::normal(about, "CIDRNotAvailable", message));
    };
    let texts: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    let patch = json!({"spec": {"podCIDR": texts.first(), "podCIDRs": texts}});
    let target = Target { resource_version: None, ..Target::of(node) };
    (chosen, Action::Patch { target, status: false, kind: PatchKind::Strategic, patch })
}

/// The first part of `network` with prefix length `bits` that overlaps none of `taken`.
fn first_free(network: Cidr, bits: u8, taken: &[Cidr]) -> Option<Cidr> {
    let relevant: Vec<Cidr> = taken.iter().copied().filter(|other| other.overlaps(network)).collect();
    let exact: BTreeSet<Cidr> = relevant.iter().copied().filter(|other| other.bits() == bits).collect();
    let odd: Vec<Cidr> = relevant.into_iter().filter(|other| other.bits() != bits).collect();
    let parts = (0_u128..).map_while(|index| network.part(bits, index));
    let is_free = |part: &Cidr| !exact.contains(part) && !odd.iter().any(|other| other.overlaps(*part));
    parts.into_iter().find(is_free)
}
