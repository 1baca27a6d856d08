//! Nodes that other clients create, and that are marked to be simulated. Synchronous.

use super::Manager;
use super::nodes::NodeEntry;
use crate::behavior::ANNOTATION_PREFIX;
use crate::record::NodeRecord;
use crate::shape::NodeShape;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::Quantity as Amount;
use kstore_informer::Object as _;
use std::sync::Arc;

/// The annotation that marks a Node, after [`ANNOTATION_PREFIX`].
const MARK: &str = "node";
/// KWOK's annotation for the same.
const KWOK_MARK: &str = "kwok.x-k8s.io/node";

/// Capacity of a marked Node that has none.
const CAPACITY: [(&str, &str); 4] =
    [("cpu", "8"), ("memory", "32Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];
/// The same with KWOK's annotation.
const KWOK_CAPACITY: [(&str, &str); 3] = [("cpu", "1k"), ("memory", "1Ti"), ("pods", "1M")];

/// Pods that a marked Node gets addresses for if it does not say how many it takes, or if the network has no more: a kubelet's default.
const USUAL_PODS: u32 = 110;
/// Pods that it gets addresses for at least.
const FEWEST_PODS: u32 = 30;

/// Whether a Node is marked to be simulated.
fn is_marked(record: &NodeRecord) -> bool {
    let own = format!("{ANNOTATION_PREFIX}{MARK}");
    record.annotation(&own).is_some() || record.annotation(KWOK_MARK) == Some("fake")
}

impl Manager {
    /// Takes the state of a Node that this process does not simulate yet; simulates it if it is marked.
    pub(super) fn observe_foreign_node(&mut self, name: &str, record: Arc<NodeRecord>, now: Timestamp) {
        self.note_other_node(name, Arc::clone(&record));
        if !self.config.adopts_marked_nodes || !is_marked(&record) {
            return;
        }
        // A Node may say that it takes more pods than the network has addresses for: its subnet is smaller then.
        let capacity = record.status().capacity.as_ref();
        let pods =
            capacity.and_then(|capacity| capacity.get("pods")).and_then(|pods| Amount::parse(&pods.0).ok());
        let pods = pods.map_or(USUAL_PODS, |pods| u32::try_from(pods.units()).unwrap_or(u32::MAX));
        let sizes = [pods.min(self.config.pods), pods.min(USUAL_PODS), pods.min(FEWEST_PODS)];
        let Some((mut identity, slot)) =
            sizes.iter().find_map(|pods| self.identity(name, *pods, Some(&record)))
        else {
            tracing::error!(
                name,
                "the networks have no addresses for this node; delete Nodes, or mark fewer"
            );
            return;
        };
        if let Some(ip) = record.internal_ip() {
            ip.clone_into(&mut identity.ip);
        }
        let capacity: &[(&str, &str)] =
            if record.annotation(KWOK_MARK).is_some() { &KWOK_CAPACITY } else { &CAPACITY };
        let amounts =
            capacity.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())));
        let capacity: std::collections::BTreeMap<_, _> = amounts.collect();
        let shape = NodeShape { allocatable: capacity.clone(), capacity, ..NodeShape::of(&self.config) };
        let mut node = NodeEntry::new(identity, slot, Arc::new(shape), Some(record));
        node.is_adopted = true;
        self.add_node(node, now);
    }

    /// Ends the simulation of a node that another client created, if its Node is gone or no longer marked. Returns whether it has ended.
    pub(super) fn end_adoption(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(node) = self.nodes.get(name).filter(|node| node.is_adopted) else { return false };
        match node.record.clone() {
            Some(record) if is_marked(&record) => false,
            record => {
                self.remove_node(name, now);
                if let Some(record) = record {
                    self.note_other_node(name, record);
                }
                true
            }
        }
    }

    /// Simulates the marked Nodes that already exist.
    pub(super) fn adopt_existing(&mut self, now: Timestamp) {
        let records: Vec<_> = self.others.values().cloned().collect();
        for record in records {
            let name = record.key().name().to_owned();
            self.observe_foreign_node(&name, record, now);
        }
    }
}
