//! Nodes that other clients create, and that are marked to be simulated. Synchronous.

use super::Manager;
use super::nodes::NodeEntry;
use crate::behavior::ANNOTATION_PREFIX;
use crate::config::Network;
use crate::record::NodeRecord;
use crate::shape::NodeShape;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
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

/// Whether a Node is marked to be simulated.
fn is_marked(record: &NodeRecord) -> bool {
    let own = format!("{ANNOTATION_PREFIX}{MARK}");
    record.annotation(&own).is_some() || record.annotation(KWOK_MARK) == Some("fake")
}

impl Manager {
    /// Takes the state of a Node that this process does not simulate yet; simulates it if it is marked.
    pub(super) fn observe_foreign_node(&mut self, name: &str, record: Arc<NodeRecord>, now: Timestamp) {
        self.others.insert(name.to_owned(), Arc::clone(&record));
        if !self.config.adopts_marked_nodes || !is_marked(&record) {
            return;
        }
        let Some((mut identity, slot)) = self.identity(name) else {
            tracing::error!(name, "the networks are too small for more nodes");
            return;
        };
        if let Some(network) = Network::parse(record.pod_cidr()) {
            identity.network = network;
        }
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
                    self.others.insert(name.to_owned(), record);
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
