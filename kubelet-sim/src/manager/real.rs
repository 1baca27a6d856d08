//! The node whose pods a container runtime runs: its place among the nodes, its state, orders for the runtime and reports of it.
//! Synchronous.

use super::Manager;
use super::nodes::NodeEntry;
use crate::config::CriNode;
use crate::record::{NodeRecord, PodRecord};
use crate::runtime::cri::{CriRuntime, PodOrder};
use crate::shape::NodeShape;
use crate::stream::{Feed, RuntimeReport, RuntimeState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_informer::Object as _;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label of the node, by which pods choose it.
const LABEL: (&str, &str) = ("kubelet-sim.kstore.io/runtime", "cri");
/// What its condition says before its runtime has said anything.
const UNKNOWN: &str = "container runtime status check may not have completed yet";

impl Manager {
    /// Adds the node of the container runtime, if there is one. It is not ready until the runtime says that it is.
    pub(super) fn add_runtime_node(&mut self, existing: &[Arc<NodeRecord>], now: Timestamp) {
        let Some(cri) = self.config.cri.clone() else { return };
        let record = existing.iter().find(|record| record.key().name() == cri.node).cloned();
        let Some((mut identity, slot)) = self.identity(&cri.node, cri.pods, record.as_deref()) else {
            return tracing::error!(
                node = cri.node,
                "the networks are too small for the node of the container runtime"
            );
        };
        identity.ip.clone_from(&cri.machine.ip);
        let mut node =
            NodeEntry::new(identity, slot, Arc::new(shape(&cri, NodeShape::of(&self.config))), record);
        node.runtime_problem = Some(UNKNOWN.to_owned());
        self.add_node(node, now);
    }

    /// The pod with what runs its containers, if that is not the simulation.
    pub(super) fn with_runtime(&self, record: Arc<PodRecord>) -> Arc<PodRecord> {
        let is_real = self.config.cri.as_ref().is_some_and(|cri| cri.node == record.pod.spec.node_name);
        match &self.config.programs {
            _ if is_real => record.as_real(),
            Some(programs) => record.with_programs(programs, self.config.api_server.is_some()),
            None => record,
        }
    }

    /// Takes what a container runtime has done for a pod.
    pub(crate) fn runtime_reported(&mut self, report: RuntimeReport, now: Timestamp) {
        let RuntimeReport { uid, event, at } = report;
        if let Some(real) = &mut self.runtime.real {
            real.report(&uid, event, at.min(now));
        }
    }

    /// Takes the state of the container runtime: what keeps it from running pods.
    pub(crate) fn runtime_state(&mut self, state: RuntimeState, now: Timestamp) {
        let RuntimeState { node: name, version, problem } = state;
        let Some(node) = self.nodes.get_mut(&name) else { return };
        if !version.is_empty() && node.shape.runtime_version != version {
            node.shape = Arc::new(NodeShape { runtime_version: version, ..(*node.shape).clone() });
            node.post_status();
        }
        node.runtime_problem = problem;
        self.refresh_node(&name, now);
        self.touch_node(&name);
    }

    /// The orders for the container runtime since the last call, each with the state of its pod, unless that is gone.
    pub(crate) fn take_runtime_orders(&mut self) -> Vec<(Option<Feed>, PodOrder)> {
        let orders = self.runtime.real.as_mut().map(CriRuntime::take_orders).unwrap_or_default();
        let with_feed = |order: PodOrder| {
            let is_of_pod = self.pods.get(&order.pod).is_some_and(|entry| entry.uid == order.uid);
            (if is_of_pod { self.feed(&order.pod) } else { None }, order)
        };
        orders.into_iter().map(with_feed).collect()
    }
}

/// The shape of a node that is this machine.
fn shape(cri: &CriNode, general: NodeShape) -> NodeShape {
    let machine = &cri.machine;
    let amounts = [
        ("cpu", machine.cpus.to_string()),
        ("memory", machine.memory.to_string()),
        ("ephemeral-storage", machine.disk.to_string()),
        ("pods", cri.pods.to_string()),
    ];
    let amounts: BTreeMap<_, _> = amounts.map(|(name, amount)| (name.to_owned(), Quantity(amount))).into();
    let mut labels = general.labels;
    labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
    NodeShape {
        labels,
        allocatable: amounts.clone(),
        capacity: amounts,
        architecture: machine.architecture.clone(),
        os_image: machine.os_image.clone(),
        kernel_version: machine.kernel_version.clone(),
        // Until it says which it is.
        runtime_version: "cri://unknown".to_owned(),
        ..general
    }
}
